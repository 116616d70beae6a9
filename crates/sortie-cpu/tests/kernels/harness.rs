//! Runs WGSL on plain vectors.

use std::sync::atomic::AtomicBool;

use naga::valid::{Capabilities, ValidationFlags, Validator};
use sortie_cpu::{BoundMemory, Checks, DispatchArgs, Program, RaceReport, Stop, Threads};

pub(crate) fn program(source: &str) -> Program {
    let module =
        naga::front::wgsl::parse_str(source).unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
    let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).expect("valid");
    Program::new(&module, &info, &module.entry_points[0].name).expect("supported")
}

/// Runs a kernel whose bindings are all in group 0. Buffers that it does not use are left out.
pub(crate) fn run(source: &str, groups: [u32; 3], buffers: &mut [Vec<u32>]) {
    run_on(2, source, groups, buffers);
}

pub(crate) fn run_on(threads: usize, source: &str, groups: [u32; 3], buffers: &mut [Vec<u32>]) {
    let program = program(source);
    let threads = Threads::new(Some(threads)).expect("threads");
    let canceled = AtomicBool::new(false);
    let mut bound = bind(&program, buffers);
    let run = DispatchArgs { groups, bound: &mut bound, immediates: &[] };
    program.run(run, &threads, Stop { canceled: &canceled, deadline: None }).expect("not stopped");
}

fn bind<'a>(program: &Program, buffers: &'a mut [Vec<u32>]) -> Vec<BoundMemory<'a>> {
    let slot_of = |binding| program.bindings().iter().find(|slot| slot.binding == binding);
    let bound = (0..).zip(buffers).filter_map(|(binding, words)| match slot_of(binding)?.writes {
        true => Some(BoundMemory::Write(words)),
        false => Some(BoundMemory::Read(words)),
    });
    bound.collect()
}

pub(crate) fn check(source: &str, groups: [u32; 3], buffers: &mut [Vec<u32>]) -> Vec<RaceReport> {
    let program = program(source);
    let canceled = AtomicBool::new(false);
    let mut bound = bind(&program, buffers);
    let run = DispatchArgs { groups, bound: &mut bound, immediates: &[] };
    program.check(run, Checks { unwritten: true }, Stop { canceled: &canceled, deadline: None }).expect("not stopped")
}
