//! Kernels whose workgroups wait for each other: they are found, they end, and others keep their speed.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use sortie_cpu::{BoundMemory, DispatchArgs, Halted, Stop, Threads};

use crate::harness::{program, run_on};

/// Around the body of a kernel.
fn kernel(size: &str, body: &str) -> String {
    format!(
        "@group(0) @binding(0) var<storage, read_write> flags: array<atomic<u32>>;
        @group(0) @binding(1) var<storage, read_write> out: array<u32>;
        @group(0) @binding(2) var<storage, read> limit: array<u32>;
        var<workgroup> seen: u32;
        var<workgroup> counts: array<atomic<u32>, 8>;
        fn previous(group: u32) -> u32 {{ return atomicLoad(&flags[group - 1u]); }}
        fn add_float(at: u32, by: f32) -> f32 {{
            loop {{
                let old = atomicLoad(&flags[at]);
                let next = bitcast<u32>(bitcast<f32>(old) + by);
                if atomicCompareExchangeWeak(&flags[at], old, next).exchanged {{ return bitcast<f32>(old); }}
            }}
            return 0.0;
        }}
        @compute @workgroup_size({size}) fn main(
            @builtin(global_invocation_id) id: vec3<u32>, @builtin(workgroup_id) workgroup: vec3<u32>,
            @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) local: u32,
        ) {{
            let group = (workgroup.z * groups.y + workgroup.y) * groups.x + workgroup.x;
            {body}
        }}"
    )
}

/// Group n leaves the sum of the numbers up to n + 1 in `flags[n]`, which it can only know from the one before: every
/// way to wait for it.
const CHAINS: [(&str, &str); 9] = [
    (
        "one invocation asks for a flag",
        "if local == 0u {
            var before = 0u;
            if group > 0u { loop { before = atomicLoad(&flags[group - 1u]); if before != 0u { break; } } }
            atomicStore(&flags[group], before + group + 1u);
        }",
    ),
    (
        "all invocations ask",
        "var before = 0u;
        while group > 0u && before == 0u { before = atomicLoad(&flags[group - 1u]); }
        if local == 0u { atomicStore(&flags[group], before + group + 1u); }",
    ),
    (
        "through a function",
        "if local == 0u {
            var before = 0u;
            if group > 0u { while before == 0u { before = previous(group); } }
            atomicStore(&flags[group], before + group + 1u);
        }",
    ),
    (
        "by adding nothing",
        "if local == 0u {
            var before = 0u;
            for (var rounds = 0u; group > 0u; rounds++) {
                before = atomicAdd(&flags[group - 1u], 0u);
                if before == 0u { continue; }
                break;
            }
            atomicStore(&flags[group], before + group + 1u);
        }",
    ),
    (
        "by exchanging with a value that says nothing of the word",
        "if local == 0u {
            var before = 0u;
            if group > 0u {
                loop {
                    let r = atomicCompareExchangeWeak(&flags[group - 1u], 0u, 0u);
                    if !r.exchanged { before = r.old_value; break; }
                }
            }
            atomicStore(&flags[group], before + group + 1u);
        }",
    ),
    (
        "what all learn through workgroup memory",
        "var done = group == 0u;
        loop {
            if workgroupUniformLoad(&seen) != 0u || group == 0u { break; }
            if local == 0u { seen = atomicLoad(&flags[group - 1u]); }
        }
        if local == 0u { atomicStore(&flags[group], seen + group + 1u); }",
    ),
    (
        "a switch decides",
        "if local == 0u {
            var before = 0u;
            loop {
                if group == 0u { break; }
                let found = atomicLoad(&flags[group - 1u]);
                var again = true;
                switch found { case 0u: { again = true; } default: { before = found; again = false; } }
                if !again { break; }
            }
            atomicStore(&flags[group], before + group + 1u);
        }",
    ),
    (
        "an exchange that is tried only when the flag is set",
        "if local == 0u {
            loop {
                let found = select(0u, atomicLoad(&flags[max(group, 1u) - 1u]), group > 0u);
                if group > 0u && found == 0u { continue; }
                let own = atomicLoad(&flags[group]);
                if atomicCompareExchangeWeak(&flags[group], own, found + group + 1u).exchanged { break; }
            }
        }",
    ),
    (
        "in an array of its own",
        "if local == 0u {
            var held = array<u32, 4>();
            loop {
                if group == 0u { break; }
                held[group % 4u] = atomicLoad(&flags[group - 1u]);
                if held[group % 4u] > 0u { break; }
            }
            atomicStore(&flags[group], held[group % 4u] + group + 1u);
        }",
    ),
];

const GROUPS: u32 = 200;

fn sums() -> Vec<u32> {
    (1..=GROUPS).map(|count| count * (count + 1) / 2).collect()
}

#[test]
fn every_way_to_wait_for_an_earlier_workgroup_is_found_and_ends() {
    for (how, body) in CHAINS {
        for size in ["1", "64", "8, 8", "128", "256"] {
            let source = kernel(size, body);
            assert!(program(&source).waits(), "{how}, {size}");
            for threads in [1, 2, 5] {
                let mut buffers = [vec![0; GROUPS as usize], vec![0], vec![0]];
                run_on(threads, &source, [GROUPS, 1, 1], &mut buffers);
                assert_eq!(buffers[0], sums(), "{how}, workgroups of {size}, {threads} threads");
            }
        }
    }
}

#[test]
fn workgroups_start_in_order_along_all_axes() {
    let source = kernel("16, 2", CHAINS[0].1);
    for threads in [1, 3] {
        let mut buffers = [vec![0; GROUPS as usize], vec![0], vec![0]];
        run_on(threads, &source, [5, 8, 5], &mut buffers);
        assert_eq!(buffers[0], sums(), "{threads} threads");
    }
}

#[test]
fn a_lock_that_one_invocation_of_each_workgroup_takes_guards_plain_memory() {
    let lock = "if local == 0u {
            loop { if atomicExchange(&flags[0], 1u) == 0u { break; } }
            out[0] += group + 1u;
            out[1] = max(out[1], out[0]);
            atomicStore(&flags[0], 0u);
        }";
    let tickets = "if local == 0u {
            let own = atomicAdd(&flags[0], 1u);
            while atomicLoad(&flags[1]) != own {}
            out[0] += group + 1u;
            out[1] = max(out[1], out[0]);
            atomicStore(&flags[1], own + 1u);
        }";
    for body in [lock, tickets] {
        for (size, threads) in [("1", 1), ("1", 4), ("64", 1), ("64", 2), ("64", 4), ("256", 3)] {
            let source = kernel(size, body);
            assert!(program(&source).waits());
            let mut buffers = [vec![0; 2], vec![0; 2], vec![0]];
            run_on(threads, &source, [GROUPS, 1, 1], &mut buffers);
            let sum = GROUPS * (GROUPS + 1) / 2;
            assert_eq!(buffers[1], [sum, sum], "workgroups of {size}, {threads} threads");
        }
    }
}

/// Kernels that depend on atomics and do not wait.
const OTHERS: [(&str, &str); 12] = [
    ("a histogram", "for (var i = 0u; i < limit[0]; i++) { atomicAdd(&flags[i % 8u], 1u); }"),
    ("places in a list", "for (var i = 0u; i < limit[0]; i++) { out[atomicAdd(&flags[0], 1u) % 64u] = i; }"),
    (
        "a length that was read before the loop",
        "let n = atomicLoad(&flags[0]); for (var i = 0u; i < n; i++) { out[i] = i; }",
    ),
    ("skipping", "for (var i = 0u; i < limit[0]; i++) { if atomicLoad(&flags[i]) == 0u { continue; } out[i] = i; }"),
    ("atomics of its own workgroup", "while atomicAdd(&counts[0], 1u) < 64u { out[local] += 1u; }"),
    (
        "a sum of floats that is loaded in each round",
        "for (var i = 0u; i < limit[0]; i++) { out[i] = bitcast<u32>(add_float(i % 8u, 1.5)); }",
    ),
    (
        "a sum of floats that starts with a load",
        "var old = atomicLoad(&flags[id.x % 8u]);
        loop {
            let r = atomicCompareExchangeWeak(&flags[id.x % 8u], old, bitcast<u32>(bitcast<f32>(old) + 1.0));
            if r.exchanged { break; }
            old = r.old_value;
        }",
    ),
    (
        "the other way round",
        "var old = 0u;
        loop {
            let r = atomicCompareExchangeWeak(&flags[local % 8u], old, old + 3u);
            if !r.exchanged { old = r.old_value; } else { break; }
        }",
    ),
    (
        "the greatest float, with a second way out",
        "let own = f32(id.x);
        loop {
            let old = atomicLoad(&flags[0]);
            if bitcast<f32>(old) >= own { break; }
            if atomicCompareExchangeWeak(&flags[0], old, bitcast<u32>(own)).exchanged { break; }
        }",
    ),
    (
        "until it is done",
        "var done = false;
        while !done {
            let old = atomicLoad(&flags[1]);
            done = atomicCompareExchangeWeak(&flags[1], old, old * 3u + 1u).exchanged;
        }",
    ),
    (
        "by comparing what was there",
        "loop {
            let old = atomicLoad(&flags[1]);
            let r = atomicCompareExchangeWeak(&flags[1], old, old ^ id.x);
            if r.old_value == old { break; }
        }",
    ),
    (
        "in the condition of the loop",
        "var old = atomicLoad(&flags[2]);
        loop {
            let r = atomicCompareExchangeWeak(&flags[2], old, max(old, id.x));
            old = r.old_value;
            continuing { break if r.exchanged; }
        }",
    ),
];

#[test]
fn loops_that_only_try_again_and_other_uses_of_atomics_are_no_waiting() {
    for (what, body) in OTHERS {
        assert!(!program(&kernel("64", body)).waits(), "{what}");
    }
}

/// What looks like trying again and waits.
const DISGUISED: [(&str, &str); 6] = [
    ("a lock", "loop { if atomicCompareExchangeWeak(&flags[0], 0u, 1u).exchanged { break; } }"),
    (
        "a lock whose free value is set in each round",
        "var free = atomicLoad(&flags[0]);
        loop { if atomicCompareExchangeWeak(&flags[0], free, 1u).exchanged { break; } free = 0u; }",
    ),
    (
        "a lock that is looked at first",
        "loop {
            let old = atomicLoad(&flags[0]);
            if old == 0u { if atomicCompareExchangeWeak(&flags[0], old, 1u).exchanged { break; } }
        }",
    ),
    (
        "an exchange that succeeds and is not enough",
        "loop {
            let old = atomicLoad(&flags[0]);
            let r = atomicCompareExchangeWeak(&flags[0], old, old | 1u);
            if r.exchanged && old == 0u { break; }
        }",
    ),
    (
        "the value of another word",
        "loop {
            let old = atomicLoad(&flags[1]);
            if atomicCompareExchangeWeak(&flags[0], old, old + 1u).exchanged { break; }
        }",
    ),
    (
        "a value that is only sometimes fresh",
        "var old = atomicLoad(&flags[0]);
        loop {
            let r = atomicCompareExchangeWeak(&flags[0], old, old + 1u);
            if r.exchanged { break; }
            if r.old_value > 5u { old = r.old_value; }
        }",
    ),
];

#[test]
fn waiting_that_looks_like_trying_again_is_found() {
    for (what, body) in DISGUISED {
        assert!(program(&kernel("64", body)).waits(), "{what}");
    }
}

/// Says that it has begun, and waits for the host.
const FOR_EVER: &str = "if local == 0u {
        atomicAdd(&flags[0], 1u);
        while atomicLoad(&flags[1]) == 0u {}
    }";

fn wait_for_the_host(threads: usize, answer: impl Fn(&[AtomicU32], &AtomicBool) + Sync) -> Result<(), Halted> {
    let program = program(&kernel("64", FOR_EVER));
    let threads = Threads::new(Some(threads)).expect("threads");
    let flags: [AtomicU32; 2] = Default::default();
    let canceled = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while flags[0].load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            answer(&flags, &canceled);
        });
        let run = DispatchArgs { groups: [GROUPS, 1, 1], bound: &mut [BoundMemory::Shared(&flags)], immediates: &[] };
        program.run(run, &threads, Stop { canceled: &canceled, deadline: None })
    })
}

#[test]
fn a_kernel_that_waits_for_ever_is_canceled_on_any_number_of_threads() {
    for threads in [1, 2, 4] {
        let halted = wait_for_the_host(threads, |_, canceled| canceled.store(true, Ordering::Relaxed));
        assert_eq!(halted, Err(Halted::Canceled), "{threads} threads");
        let ended = wait_for_the_host(threads, |flags, _| flags[1].store(1, Ordering::Relaxed));
        assert_eq!(ended, Ok(()), "{threads} threads");
    }
}

#[test]
fn functions_that_are_shared_are_looked_into() {
    let source = kernel("64", CHAINS[2].1);
    let module = naga::front::wgsl::parse_str(&source).expect("parses");
    let mut validator =
        naga::valid::Validator::new(naga::valid::ValidationFlags::all(), naga::valid::Capabilities::all());
    let info = validator.validate(&module).expect("valid");
    let tuning = sortie_cpu::LoweringOptions { min_shared_callee_size: 0, pack_always: false };
    assert!(sortie_cpu::Program::with_options(&module, &info, "main", tuning).expect("supported").waits());
}
