//! Runs WGSL on plain vectors.

use std::sync::atomic::AtomicBool;

use naga::valid::{Capabilities, ValidationFlags, Validator};
use sortie_cpu::{BoundMemory, Checks, DispatchArgs, LoweringOptions, Program, RaceReport, Stop, Threads};

pub(crate) fn program(source: &str) -> Program {
    program_with(source, LoweringOptions::default())
}

fn program_with(source: &str, tuning: LoweringOptions) -> Program {
    let module =
        naga::front::wgsl::parse_str(source).unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
    let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).expect("valid");
    Program::with_options(&module, &info, &module.entry_points[0].name, tuning).expect("supported")
}

/// Runs a kernel whose bindings are all in group 0. Buffers that it does not use are left out.
pub(crate) fn run(source: &str, groups: [u32; 3], buffers: &mut [Vec<u32>]) {
    run_on(2, source, groups, buffers);
}

pub(crate) fn run_on(threads: usize, source: &str, groups: [u32; 3], buffers: &mut [Vec<u32>]) {
    run_program(threads, &program(source), groups, buffers);
}

/// As [`run`], with functions that all calls share.
pub(crate) fn run_sharing(source: &str, groups: [u32; 3], buffers: &mut [Vec<u32>]) {
    let tuning = LoweringOptions { min_shared_callee_size: 0, pack_always: false };
    run_program(2, &program_with(source, tuning), groups, buffers);
}

fn run_program(threads: usize, program: &Program, groups: [u32; 3], buffers: &mut [Vec<u32>]) {
    let threads = Threads::new(Some(threads)).expect("threads");
    let canceled = AtomicBool::new(false);
    let mut bound = bind(program, buffers);
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
