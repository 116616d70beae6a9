//! One dispatch on the host.

use smallvec::SmallVec;
use sortie_cpu::{DispatchArgs, Halted, RaceReport, Stop};
use sortie_plan::{Access, Dispatch, Groups};

use super::{
    CpuKernel, CpuProgram, HostMemory, host_memory,
    locked_memory::{BindingRange, LockedMemory},
    runner::Runner,
    threads::CpuThreads,
};
use crate::{
    error::{Error, ErrorKind, Result},
    kernel::Kernel,
};

impl Runner<'_> {
    /// Runs a kernel over the memory that it binds.
    pub(super) fn dispatch(&mut self, dispatch: &Dispatch) -> Result<()> {
        let (resources, threads) = (self.placed.resources, &self.batch.threads);
        let accesses = &self.placed.planned.recording.accesses[dispatch.bindings.range()];
        let compiled = self.kernels[dispatch.kernel.0 as usize];
        let groups = match dispatch.groups {
            Groups::Direct(groups) | Groups::Wrapped(groups) => groups,
            Groups::Indirect(id) => {
                read_groups(&mut self.memory, &self.placed.planned.recording.accesses[id.0 as usize])
            }
        };
        let over = |groups: [u32; 3]| groups.iter().any(|count| *count > threads.max_groups);
        let is_indirect = matches!(dispatch.groups, Groups::Indirect(_));
        if groups.contains(&0) || (is_indirect && over(groups)) {
            return Ok(());
        }
        let slots = compiled.slots().iter().enumerate();
        let mut loans: SmallVec<[BindingRange; 8]> = slots
            .map(|(slot, take)| {
                let place = self.memory.place(&accesses[take.binding]);
                BindingRange { place, writes: take.writes, slot }
            })
            .collect();
        let bytes = &resources.immediates[dispatch.immediates.range()];
        let aligned;
        let immediates = match bytemuck::try_cast_slice(bytes) {
            Ok(words) => words,
            // The bytes may be unaligned, though allocators rarely do that.
            Err(_) => {
                aligned = bytemuck::pod_collect_to_vec::<u8, u32>(bytes);
                &aligned
            }
        };
        let packed = match compiled {
            CpuKernel::Native(native) => native.panels(immediates).and_then(|(input, key)| {
                let place = self.memory.place(&accesses[native.slots()[input].binding]);
                self.memory.packed(place, key, &self.batch.panels, &threads.threads)
            }),
            CpuKernel::Program(_) => None,
        };
        let panels = packed.as_deref().map(host_memory).transpose()?.map(HostMemory::lock);
        let mut bound = self.memory.lend(&mut loans);
        let stop = Stop { canceled: self.canceled, deadline: threads.deadline() };
        let kernel = &resources.kernels[dispatch.kernel.0 as usize];
        let program = match compiled {
            CpuKernel::Program(program) => program,
            CpuKernel::Native(native) => {
                let outcome = native.run(
                    &mut bound,
                    panels.as_ref().map(|panels| &panels[..]),
                    immediates,
                    &threads.threads,
                    stop,
                );
                return outcome.map_err(|halt| halted(halt, "of a tensor operation", threads));
            }
        };
        let run = DispatchArgs { groups, bound: &mut bound, immediates };
        let outcome = match threads.checks {
            Some(checks) => match program.program.check(run, checks, stop) {
                Ok(findings) if !findings.is_empty() => return Err(race(kernel, program, &findings)),
                outcome => outcome.map(drop),
            },
            None => program.program.run(run, &threads.threads, stop),
        };
        outcome.map_err(|halt| halted(halt, &format!("{:?}", kernel.entry()), threads))
    }
}

/// The error of a kernel that ended early.
fn halted(halt: Halted, name: &str, threads: &CpuThreads) -> Error {
    match halt {
        Halted::Canceled => canceled_here(),
        Halted::OverBudget => {
            let budget = threads.budget();
            Error::new(ErrorKind::Timeout, format!("kernel {name} ran longer than its budget of {budget:?}"))
        }
    }
}

pub(super) fn canceled_here() -> Error {
    Error::new(ErrorKind::Canceled, "the batch was canceled while it ran")
}

fn read_groups(memory: &mut LockedMemory<'_>, counts: &Access) -> [u32; 3] {
    let place = memory.place(counts);
    match *memory.read(place) {
        [x, y, z] => [x, y, z],
        _ => unreachable!("an indirect grid is three words"),
    }
}

fn race(kernel: &Kernel, program: &CpuProgram, findings: &[RaceReport]) -> Error {
    let lines = findings.iter().map(|finding| format!("kernel {:?}: {}", kernel.entry(), program.describe(finding)));
    Error::new(ErrorKind::Race, lines.collect::<Vec<_>>().join("\n"))
}
