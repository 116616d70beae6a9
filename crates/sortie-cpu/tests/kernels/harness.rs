//! Runs WGSL on plain vectors.

use std::sync::atomic::AtomicBool;

use naga::valid::{Capabilities, ValidationFlags, Validator};
use sortie_cpu::{Bound, Finding, Program, Run, Stop, Threads};

pub(crate) fn program(source: &str) -> Program {
    let module =
        naga::front::wgsl::parse_str(source).unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
    let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).expect("valid");
    Program::new(&module, &info, &module.entry_points[0].name).expect("supported")
}

/// Runs a kernel whose bindings are all in group 0, in order.
pub(crate) fn run(source: &str, groups: [u32; 3], buffers: &mut [Vec<u32>]) {
    let program = program(source);
    let threads = Threads::new(Some(2)).expect("threads");
    let canceled = AtomicBool::new(false);
    let mut bound: Vec<Bound<'_>> = buffers
        .iter_mut()
        .zip(program.slots())
        .map(|(words, slot)| if slot.writes { Bound::Write(words) } else { Bound::Read(words) })
        .collect();
    let run = Run { groups, bound: &mut bound, immediates: &[] };
    program.run(run, &threads, Stop { canceled: &canceled, deadline: None }).expect("not stopped");
}

pub(crate) fn check(source: &str, groups: [u32; 3], buffers: &mut [Vec<u32>]) -> Vec<Finding> {
    let program = program(source);
    let canceled = AtomicBool::new(false);
    let mut bound: Vec<Bound<'_>> = buffers
        .iter_mut()
        .zip(program.slots())
        .map(|(words, slot)| if slot.writes { Bound::Write(words) } else { Bound::Read(words) })
        .collect();
    let run = Run { groups, bound: &mut bound, immediates: &[] };
    program.check(run, Stop { canceled: &canceled, deadline: None }).expect("not stopped")
}
