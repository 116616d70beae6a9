//! Kernels that race on purpose: the result is one of the values that an invocation wrote, and nothing else happens.
//!
//! `scripts/tsan` runs this under ThreadSanitizer, which sees data races in Rust's sense. There must be none: threads
//! share buffers by relaxed atomics, or have slices of their own.

use crate::harness::run_on;

/// Large enough to be cut among threads.
const ITEMS: u32 = 1 << 14;

#[test]
fn invocations_that_write_one_place_leave_the_word_of_one_of_them() {
    let source = "
        @group(0) @binding(0) var<storage, read_write> out: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            // All write the first word and one of seven others, and read what others write.
            out[0] = id.x | 0x10000u;
            out[1u + id.x % 7u] = id.x;
            let seen = out[(id.x * 7919u) % arrayLength(&out)];
            out[8u + id.x] = select(id.x, seen, seen == 0xffffffffu);
        }";
    let mut buffers = [vec![0; 8 + ITEMS as usize]];
    run_on(4, source, [ITEMS / 64, 1, 1], &mut buffers);
    let out = &buffers[0];
    assert!(out[0] >> 16 == 1 && out[0] & 0xffff < ITEMS, "{:x}", out[0]);
    assert!((0..7).all(|at| out[1 + at as usize] % 7 == at));
    assert!((0..ITEMS).all(|at| out[8 + at as usize] == at));
}

#[test]
fn halves_of_one_word_that_two_threads_write_are_both_there() {
    let source = "
        enable f16;
        @group(0) @binding(0) var<storage, read_write> out: array<f16>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            // Neighbours are far apart, on two threads.
            let at = (id.x % 2u) * (arrayLength(&out) / 2u) + id.x / 2u;
            out[(at * 2u) % arrayLength(&out) + at * 2u / arrayLength(&out)] = f16(id.x % 1000u);
        }";
    let mut buffers = [vec![0; ITEMS as usize / 2]];
    run_on(4, source, [ITEMS / 64, 1, 1], &mut buffers);
    let half = |index: usize| (buffers[0][index / 2] >> (index % 2 * 16)) as u16;
    for id in 0..ITEMS {
        let at = (id % 2) * (ITEMS / 2) + id / 2;
        let index = (at * 2) % ITEMS + at * 2 / ITEMS;
        let expected = half::f16::from_f32((id % 1000) as f32).to_bits();
        assert_eq!(half(index as usize), expected, "invocation {id}");
    }
}

#[test]
fn atomics_of_all_threads_add_up() {
    let source = "
        @group(0) @binding(0) var<storage, read_write> counts: array<atomic<u32>>;
        @group(0) @binding(1) var<storage, read_write> plain: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            let before = atomicAdd(&counts[id.x % 5u], 1u);
            atomicMax(&counts[5], id.x);
            plain[before % arrayLength(&plain)] = before;
            if atomicLoad(&counts[6]) == 0u { atomicStore(&counts[6], 1u); }
        }";
    let mut buffers = [vec![0; 7], vec![0; 64]];
    run_on(4, source, [ITEMS / 64, 1, 1], &mut buffers);
    let expected: Vec<u32> = (0..5).map(|at| (0..ITEMS).filter(|id| id % 5 == at).count() as u32).collect();
    assert_eq!((&buffers[0][..5], buffers[0][5], buffers[0][6]), (&expected[..], ITEMS - 1, 1));
}

#[test]
fn elements_of_ones_own_go_to_slices_of_the_threads() {
    let source = "
        @group(0) @binding(0) var<storage, read> input: array<u32>;
        @group(0) @binding(1) var<storage, read_write> out: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x >= arrayLength(&out) { return; }
            out[id.x] = out[id.x] + input[id.x] * 2u;
        }";
    let items = ITEMS - 5;
    let mut buffers = [(0..items).collect(), vec![1; items as usize]];
    run_on(4, source, [ITEMS / 64, 1, 1], &mut buffers);
    assert!((0..items).all(|at| buffers[1][at as usize] == 1 + at * 2));
}
