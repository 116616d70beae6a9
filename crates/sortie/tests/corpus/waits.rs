//! Workgroups that wait for others: a chain, scans that look back, a lock.
//!
//! What devices promise differs, and what a case needs says how:
//! - The built-in CPU runs all of them.
//! - SwiftShader deals workgroups out to 16 tasks, each of which runs every sixteenth, and runs as many tasks at once as there are cores. So a
//!   workgroup may wait for any that has started, but workgroup 16 starts before workgroup 15 has: in order there are at most 16.
//! - lavapipe ends every loop after 65,535 iterations, and says nothing: what waits for a workgroup on another thread, which may not have the
//!   processor, goes on too early. With `LP_NUM_THREADS=0` it runs one workgroup after the other, and none has to wait.

use std::process::Command;

use crate::{
    case::{Case, Need},
    dice::words,
    drivers,
};

const KERNELS: &str = include_str!("kernels/waits.wgsl");
const GROUPS: u32 = 200;

fn case(name: &'static str, entry: &'static str, size: u32, groups: u32) -> Case {
    Case::new(name, KERNELS)
        .entry(entry)
        .constant("size", size.into())
        .groups([groups, 1, 1])
        .needs(Need::Waiting)
        .needs(Need::Invocations(size))
}

fn chain(name: &'static str, size: u32, groups: u32) -> Case {
    let states: Vec<u32> = (0..groups)
        .scan(0_u32, |before, group| {
            *before = before.wrapping_mul(3).wrapping_add(group) | 1;
            Some(*before)
        })
        .collect();
    let seen: Vec<u32> = states.iter().flat_map(|state| (0..size).map(|local| state.wrapping_add(local))).collect();
    case(name, "chain", size, groups).needs(Need::InOrder(groups)).output(states).output(seen)
}

/// The input of a scan, the states that it leaves and its output. No sum reaches the bits above.
fn scanned(size: u32) -> [Vec<u32>; 3] {
    let a: Vec<u32> = words(7, (GROUPS * size) as usize).iter().map(|word| word % 1000).collect();
    let sums: Vec<u32> = a
        .iter()
        .scan(0, |sum, a| {
            *sum += a;
            Some(*sum)
        })
        .collect();
    let states = sums.iter().skip(size as usize - 1).step_by(size as usize).map(|sum| 0x8000_0000 | sum).collect();
    [a, states, sums]
}

fn look_back_scan(name: &'static str, size: u32) -> Case {
    let [a, states, sums] = scanned(size);
    let case = case(name, "look_back_scan", size, GROUPS).needs(Need::InOrder(GROUPS));
    case.input(&a).output(states).output(sums)
}

fn numbered_look_back_scan(name: &'static str, size: u32) -> Case {
    let [a, mut states, sums] = scanned(size);
    states.push(GROUPS);
    case(name, "numbered_look_back_scan", size, GROUPS).input(&a).output(states).output(sums)
}

fn ticket_lock(name: &'static str, size: u32) -> Case {
    let rounds = (0..GROUPS).fold(0_u32, |rounds, _| rounds.wrapping_mul(3).wrapping_add(1));
    let states = [GROUPS, GROUPS, GROUPS * (GROUPS + 1) / 2, rounds];
    case(name, "ticket_lock", size, GROUPS).output(states)
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        chain("chain_1", 1, GROUPS),
        chain("chain_64", 64, GROUPS),
        chain("chain_128", 128, GROUPS),
        chain("chain_256", 256, GROUPS),
        chain("chain_512", 512, GROUPS),
        chain("chain_1024", 1024, GROUPS),
        chain("short_chain_1", 1, 16),
        chain("short_chain_64", 64, 16),
        chain("short_chain_128", 128, 16),
        chain("short_chain_256", 256, 16),
        look_back_scan("look_back_scan_64", 64),
        look_back_scan("look_back_scan_256", 256),
        look_back_scan("look_back_scan_1024", 1024),
        numbered_look_back_scan("numbered_look_back_scan_64", 64),
        numbered_look_back_scan("numbered_look_back_scan_256", 256),
        ticket_lock("ticket_lock_1", 1),
        ticket_lock("ticket_lock_64", 64),
        ticket_lock("ticket_lock_256", 256),
    ]
}

#[test]
fn lavapipe_runs_workgroups_that_wait_one_after_the_other_when_it_has_no_threads() {
    if drivers::find("llvmpipe").is_none() {
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program);
    child.args(["--exact", "every_device_agrees_with_the_reference::waits", "--nocapture"]).env("LP_NUM_THREADS", "0");
    let output = child.output().expect("the child runs");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    assert!(!said.contains("SKIPPED on llvmpipe"), "{said}");
}

#[test]
fn the_built_in_cpu_runs_them_on_any_number_of_threads() {
    for threads in [1, 2, 3, 8] {
        let options = drivers::uncut().with_threads(threads);
        let device = sortie::Device::cpu_with(options).expect("the built-in CPU opens anywhere");
        crate::run::run_on(&device, &cases());
    }
}
