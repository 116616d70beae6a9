//! Short loops that are unrolled, arrays that only their counters index, and guarded loads that become selects.

use crate::harness::{check, run, run_sharing};

/// Runs a body once for each of 40 invocations, with `x[i] = i · 3`; gives what it wrote.
fn results(functions: &str, body: &str) -> Vec<u32> {
    let mut buffers = [(0..40).map(|i| i * 3).collect(), vec![0; 40]];
    run(&kernel(functions, body), [5, 1, 1], &mut buffers);
    buffers[1].clone()
}

fn kernel(functions: &str, body: &str) -> String {
    format!(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @group(0) @binding(1) var<storage, read_write> y: array<u32>;
        {functions}
        @compute @workgroup_size(8) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
            let i = id.x; {body}
        }}"
    )
}

fn expected(of: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..40).map(of).collect()
}

#[test]
fn arrays_indexed_by_counters_have_what_was_stored() {
    let body = "var a: array<vec4<u32>, 4>; var sums: array<u32, 4>;
        for (var n = 0u; n < x[i] % 3u + 1u; n++) {
            for (var k = 0u; k < 4u; k++) { a[k] = vec4<u32>(k, k + n, x[i], 1u); }
            for (var k = 0; k < 4; k++) { sums[k] += a[3 - k].x + a[k].y + a[k].z; }
        }
        var all = 0u; for (var k = 0u; k < 4u; k += 1u) { all = all * 7u + sums[k]; }
        y[i] = all;";
    let of = |i: u32| {
        let mut sums = [0; 4];
        for n in 0..=i * 3 % 3 {
            (0..4).for_each(|k| sums[k as usize] += 3 - k + k + n + i * 3);
        }
        sums.iter().fold(0, |all, sum| all * 7 + sum)
    };
    assert_eq!(results("", body), expected(of));
}

#[test]
fn an_index_out_of_bounds_or_known_only_at_run_time_reads_memory() {
    let body = "var a = array<u32, 4>(1u, 2u, 3u, 4u); var sum = 0u;
        for (var k = 0u; k < 4u; k++) { sum = sum * 10u + a[k + 1u]; }
        y[i] = sum * 10u + a[i % 4u];";
    assert_eq!(results("", body), expected(|i| 23_400 + i % 4 + 1));
}

#[test]
fn counters_keep_their_values_in_nested_loops_calls_and_after_the_loop() {
    let functions = "fn add(p: ptr<function, u32>, k: i32) { if k < 0 { return; } *p += u32(k); }";
    let body = "var sum = 0u; var last = 9;
        for (var k = -2; k <= 2; k++) {
            for (var l = 4; l > k; l -= 2) { add(&sum, k + l); last = l; }
            if i % 2u == 0u { sum += 1u; }
        }
        var turns = 0u; while turns < i % 5u { turns++; }
        y[i] = sum * 100u + turns * 10u + u32(last);";
    let of = |i: u32| {
        let (mut sum, mut last) = (0, 9);
        for k in -2_i32..=2 {
            let mut l = 4;
            while l > k {
                sum += (k + l).max(0).cast_unsigned();
                last = l;
                l -= 2;
            }
            sum += u32::from(i.is_multiple_of(2));
        }
        sum * 100 + i % 5 * 10 + last.cast_unsigned()
    };
    assert_eq!(results(functions, body), expected(of));
}

#[test]
fn a_return_in_an_unrolled_loop_ends_the_function() {
    let functions = "fn first(limit: u32) -> u32 {
        for (var k = 0u; k < 8u; k++) { if k * k >= limit { return k; } }
        return 99u;
    }";
    let of = |i: u32| (0..8).find(|k| k * k >= i * 3).unwrap_or(99);
    assert_eq!(results(functions, "y[i] = first(x[i]);"), expected(of));
}

#[test]
fn guarded_loads_are_in_bounds_for_the_checker_and_others_are_not() {
    let guarded = "var v = 7u; if i > 0u && i < 39u { v = x[i - 1u] + x[i + 1u]; } y[i] = v;";
    let of = |i: u32| if (1..39).contains(&i) { i * 6 } else { 7 };
    assert_eq!(results("", guarded), expected(of));
    let found = |body: &str| check(&kernel("", body), [5, 1, 1], &mut [vec![0; 40], vec![0; 40]]);
    assert_eq!(found(guarded).len(), 0);
    let planted = "var v = 7u; if i > 0u { v = x[i + 1u]; } else { v = x[i]; } y[i] = v;";
    assert!(found(planted).iter().any(|finding| finding.message.contains("past the end")));
}

#[test]
fn a_constant_that_a_shared_function_changes_in_a_loop_is_not_one_afterwards() {
    let source = "@group(0) @binding(0) var<storage, read_write> y: array<u32>;
        var<private> turns: u32 = 0u;
        fn turn() { turns += 2u; }
        @compute @workgroup_size(8) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            turns = 0u;
            for (var k = 0u; k < id.x; k++) { turn(); }
            y[id.x] = turns;
        }";
    let mut buffers = [vec![0; 8]];
    run_sharing(source, [1, 1, 1], &mut buffers);
    assert_eq!(buffers[0], [0, 2, 4, 6, 8, 10, 12, 14]);
}
