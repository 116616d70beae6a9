//! Random control flow, compared with an interpreter of trees that runs one invocation at a time.
//!
//! Kernels compute with integers, so every bit is known. They have loops of all forms with `break`, `continue` and
//! `return` anywhere, `switch`, functions with pointers, arrays that are indexed out of bounds, and workgroups of many
//! shapes with and without workgroup memory. Each runs as it is, with functions shared between calls, with lanes packed
//! in loops, on one thread and on several, and under the checker.
//!
//! The seed is fixed, so a run is the same every time. `SORTIE_CASES=full` runs ten times as many cases, `SORTIE_SEED`
//! others.

mod generate;
mod interpret;
mod print;
mod tree;

use std::sync::atomic::AtomicBool;

use naga::valid::{Capabilities, ValidationFlags, Validator};
use proptest::{collection::vec, prelude::*, test_runner::RngSeed};
use sortie_cpu::{BoundMemory, Checks, DispatchArgs, LoweringOptions, Program, Stop, Threads};

use crate::{generate::Tapes, interpret::Memory, tree::Kernel};

fn config(full: u32, seed: u64) -> ProptestConfig {
    let all = std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full");
    let other: u64 = std::env::var("SORTIE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    ProptestConfig {
        cases: if all { full } else { full.div_ceil(10) },
        rng_seed: RngSeed::Fixed(0x5027_1e00 + seed + (other << 32)),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    }
}

fn tapes() -> impl Strategy<Value = Tapes> {
    let tape = |bytes: usize| vec(any::<u8>(), 0..bytes);
    (tape(12), vec(tape(200), 0..4), vec(tape(160), 1..7)).prop_map(|(shape, functions, main)| Tapes {
        shape,
        functions,
        main,
    })
}

fn input() -> Vec<u32> {
    (0..tree::INPUT as u32).map(|index| index.wrapping_mul(0x9e37_79b9).rotate_left(index) >> (index % 29)).collect()
}

/// Runs a kernel one way or another.
fn run(
    kernel: &Kernel,
    program: &Program,
    go: impl FnOnce(&Program, DispatchArgs<'_, '_>, Stop<'_>) -> Result<(), TestCaseError>,
) -> Result<Memory, TestCaseError> {
    let words = kernel.invocations() as usize * tree::OWN;
    let (mut own, mut counts) = (vec![0; words], vec![0; words]);
    let input = input();
    {
        let mut all = [
            BoundMemory::Read(&kernel.params),
            BoundMemory::Read(&input),
            BoundMemory::Write(&mut own),
            BoundMemory::Write(&mut counts),
        ];
        let mut all: Vec<Option<BoundMemory<'_>>> =
            all.iter_mut().map(|bound| Some(std::mem::replace(bound, BoundMemory::Read(&[])))).collect();
        let mut bound: Vec<BoundMemory<'_>> =
            program.bindings().iter().filter_map(|slot| all[slot.binding as usize].take()).collect();
        let canceled = AtomicBool::new(false);
        let run = DispatchArgs { groups: kernel.groups, bound: &mut bound, immediates: &[] };
        go(program, run, Stop { canceled: &canceled, deadline: None })?;
    }
    Ok(Memory { own, counts })
}

fn agree(tapes: &Tapes) -> Result<(), TestCaseError> {
    let kernel = generate::kernel(tapes);
    let Some(expected) = interpret::interpret(&kernel, &input()) else { return Ok(()) };
    let source = print::print(&kernel);
    let fail = |what: &str| {
        TestCaseError::fail(format!("{what}\ngroups {:?}, params {:?}\n{source}", kernel.groups, kernel.params))
    };
    let module = naga::front::wgsl::parse_str(&source).map_err(|error| fail(&error.emit_to_string(&source)))?;
    let flags = ValidationFlags::all() & !ValidationFlags::CONTROL_FLOW_UNIFORMITY;
    let info = Validator::new(flags, Capabilities::all())
        .validate(&module)
        .map_err(|error| fail(&format!("{:?}", error.into_inner())))?;
    let compare = |what: &str, found: &Memory| {
        for (name, expected, found) in [("own", &expected.own, &found.own), ("counts", &expected.counts, &found.counts)]
        {
            let wrong: Vec<usize> = (0..expected.len()).filter(|at| expected[*at] != found[*at]).collect();
            if let Some(at) = wrong.first() {
                return Err(fail(&format!(
                    "{what}: {} of {} words of {name} differ, {name}[{at}] is {} instead of {}",
                    wrong.len(),
                    expected.len(),
                    found[*at],
                    expected[*at]
                )));
            }
        }
        Ok(())
    };
    for (min_shared_callee_size, pack_always) in [(usize::MAX, false), (usize::MAX, true), (0, false), (60, true)] {
        let tuning = LoweringOptions { min_shared_callee_size, pack_always };
        let program =
            Program::with_options(&module, &info, "main", tuning).map_err(|error| fail(&format!("{error:?}")))?;
        for count in [1, 3] {
            let threads = Threads::new(Some(count)).map_err(|error| fail(&error.to_string()))?;
            let found = run(&kernel, &program, |program, run, stop| {
                program.run(run, &threads, stop).map_err(|halt| fail(&format!("{halt:?}")))
            })?;
            compare(&format!("{count} threads, {tuning:?}"), &found)?;
        }
        let found = run(&kernel, &program, |program, run, stop| {
            let findings =
                program.check(run, Checks { unwritten: true }, stop).map_err(|halt| fail(&format!("{halt:?}")))?;
            let wrong = findings.iter().find(|finding| {
                finding.message.contains("barrier") || finding.message.contains("no invocation has written")
            });
            wrong.map_or(Ok(()), |finding| Err(fail(&format!("checked, {tuning:?}: {}", finding.message))))
        })?;
        compare(&format!("checked, {tuning:?}"), &found)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(3_000, 1))]
    #[test]
    fn lanes_in_lockstep_do_what_each_invocation_would_do_alone(tapes in tapes()) {
        let outcome = std::panic::catch_unwind(|| agree(&tapes));
        let kernel = || print::print(&generate::kernel(&tapes));
        outcome.unwrap_or_else(|_| Err(TestCaseError::fail(format!("it panicked\n{}", kernel()))))?;
    }
}
