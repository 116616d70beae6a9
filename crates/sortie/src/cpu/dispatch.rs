//! One dispatch on the host.

use std::sync::atomic::AtomicBool;

use smallvec::SmallVec;
use sortie_cpu::{Finding, Halt, Run, Stop};
use sortie_plan::{Access, Op};

use super::{
    memory::{Loan, Memory},
    workers::Workers,
};
use crate::{
    error::{Error, ErrorKind, Result},
    kernel::{Kernel, Ready, Take},
};

/// Runs a kernel over the memory that its accesses name.
pub(super) fn dispatch(
    op: &Op,
    accesses: &[Access],
    kernel: &Kernel,
    immediates: &[u8],
    memory: &mut Memory<'_>,
    workers: &Workers,
    canceled: &AtomicBool,
) -> Result<()> {
    let ready = kernel.ready();
    let groups = match accesses.last().filter(|_| op.indirect) {
        Some(counts) => read_groups(memory, counts),
        None => op.grid,
    };
    if groups.contains(&0) {
        return Ok(());
    }
    let loan =
        |(slot, take): (usize, &Take)| Loan { place: memory.place(&accesses[take.binding]), writes: take.writes, slot };
    let mut loans: SmallVec<[Loan; 8]> = ready.slots.iter().enumerate().map(loan).collect();
    let mut bound = memory.lend(&mut loans);
    let aligned;
    let immediates = match bytemuck::try_cast_slice(immediates) {
        Ok(words) => words,
        // Bytes may lie anywhere, though allocators are kinder than that.
        Err(_) => {
            aligned = bytemuck::pod_collect_to_vec::<u8, u32>(immediates);
            &aligned
        }
    };
    let run = Run { groups, bound: &mut bound, immediates };
    let stop = Stop { canceled, deadline: workers.deadline() };
    let outcome = if workers.check {
        match ready.program.check(run, stop) {
            Ok(findings) if !findings.is_empty() => return Err(race(kernel, ready, &findings)),
            outcome => outcome.map(drop),
        }
    } else {
        ready.program.run(run, &workers.threads, stop)
    };
    outcome.map_err(|halt| match halt {
        Halt::Canceled => canceled_here(),
        Halt::OverBudget => {
            let message = format!("kernel {:?} ran longer than its budget of {:?}", kernel.entry(), workers.budget());
            Error::new(ErrorKind::Timeout, message)
        }
    })
}

pub(super) fn canceled_here() -> Error {
    Error::new(ErrorKind::Canceled, "the batch was canceled while it ran")
}

fn read_groups(memory: &mut Memory<'_>, counts: &Access) -> [u32; 3] {
    let place = memory.place(counts);
    match *memory.words(place) {
        [x, y, z] => [x, y, z],
        _ => unreachable!("an indirect grid is three words"),
    }
}

fn race(kernel: &Kernel, ready: &Ready, findings: &[Finding]) -> Error {
    let lines = findings.iter().map(|finding| format!("kernel {:?}: {}", kernel.entry(), ready.describe(finding)));
    Error::new(ErrorKind::Race, lines.collect::<Vec<_>>().join("\n"))
}
