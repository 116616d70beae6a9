//! Lanes that part, meet and leave.

use crate::harness::{check, run};

fn over(source: &str, items: u32, group: u32) -> Vec<u32> {
    let mut buffers = [vec![0; items as usize]];
    run(source, [items.div_ceil(group), 1, 1], &mut buffers);
    let [out] = buffers;
    out
}

#[test]
fn collatz() {
    let source = "
        @group(0) @binding(0) var<storage, read_write> out: array<u32>;
        fn steps(start: u32) -> u32 {
            var n = start; var i = 0u;
            loop { if n <= 1u { break; } if n % 2u == 0u { n = n / 2u; } else { n = 3u * n + 1u; } i++; }
            return i;
        }
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x >= arrayLength(&out) { return; }
            out[id.x] = steps(id.x + 1u);
        }";
    let expected: Vec<u32> = (1..=1000_u32)
        .map(|start| {
            let (mut n, mut i) = (start, 0);
            while n > 1 {
                n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
                i += 1;
            }
            i
        })
        .collect();
    assert_eq!(over(source, 1000, 64), expected);
}

#[test]
fn loops_with_everything() {
    let source = "
        @group(0) @binding(0) var<storage, read_write> out: array<u32>;
        fn f(x: u32) -> u32 {
            var sum = 0u;
            for (var i = 0u; i < 20u; i++) {
                if i == x { continue; }
                var seen: u32;
                seen += 1u;
                if (i + x) % 7u == 3u { continue; }
                var j = 0u;
                loop {
                    if j > x % 5u { break; }
                    if j * i > 40u { return sum + 1000u; }
                    sum += j + seen;
                    continuing { j++; break if j > 6u; }
                }
                switch (i + x) % 4u {
                    case 0u: { sum += 1u; }
                    case 1u, 2u: { if x % 3u == 0u { break; } sum += 10u; }
                    default: { if i > 15u { continue; } sum += 100u; }
                }
                if sum > 2000u { break; }
            }
            return sum;
        }
        @compute @workgroup_size(48) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            out[id.x] = f(id.x);
        }";
    let f = |x: u32| {
        let mut sum = 0_u32;
        for i in 0..20 {
            if i == x {
                continue;
            }
            if (i + x) % 7 == 3 {
                continue;
            }
            let mut j = 0;
            loop {
                if j > x % 5 {
                    break;
                }
                if j * i > 40 {
                    return sum + 1000;
                }
                sum += j + 1;
                j += 1;
                if j > 6 {
                    break;
                }
            }
            match (i + x) % 4 {
                0 => sum += 1,
                1 | 2 => {
                    if !x.is_multiple_of(3) {
                        sum += 10;
                    }
                }
                _ => {
                    if i > 15 {
                        continue;
                    }
                    sum += 100;
                }
            }
            if sum > 2000 {
                break;
            }
        }
        sum
    };
    assert_eq!(over(source, 480, 48), (0..480).map(f).collect::<Vec<_>>());
}

#[test]
fn scan_in_workgroup_memory() {
    let source = "
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        var<workgroup> tile: array<u32, 128>;
        @compute @workgroup_size(128) fn main(@builtin(local_invocation_index) i: u32, @builtin(global_invocation_id) id: vec3<u32>) {
            tile[i] = x[id.x];
            workgroupBarrier();
            for (var s = 1u; s < 128u; s *= 2u) {
                var t = 0u;
                if i >= s { t = tile[i - s]; }
                workgroupBarrier();
                tile[i] += t;
                workgroupBarrier();
            }
            x[id.x] = tile[i];
        }";
    let mut buffers = [(0..1280).collect::<Vec<u32>>()];
    run(source, [10, 1, 1], &mut buffers);
    let mut expected = Vec::new();
    for group in 0..10 {
        let mut sum = 0;
        for i in 0..128 {
            sum += group * 128 + i;
            expected.push(sum);
        }
    }
    assert_eq!(buffers[0], expected);
    let mut buffers = [(0..1280).collect::<Vec<u32>>()];
    let findings = check(source, [10, 1, 1], &mut buffers);
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(buffers[0], expected);
}

#[test]
fn naive_matmul() {
    let source = "
        @group(0) @binding(0) var<storage, read> a: array<f32>;
        @group(0) @binding(1) var<storage, read> b: array<f32>;
        @group(0) @binding(2) var<storage, read_write> c: array<f32>;
        @compute @workgroup_size(16, 16) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x >= 40u || id.y >= 40u { return; }
            var acc = 0.0;
            for (var k = 0u; k < 40u; k++) { acc += a[id.y * 40u + k] * b[k * 40u + id.x]; }
            c[id.y * 40u + id.x] = acc;
        }";
    let float = |n: usize, m: u32| (0..n as u32).map(|i| ((i * 7 % m) as f32).to_bits()).collect::<Vec<_>>();
    let mut buffers = [float(1600, 13), float(1600, 11), vec![0; 1600]];
    run(source, [3, 3, 1], &mut buffers);
    for y in 0..40 {
        for x in 0..40 {
            let sum: f32 =
                (0..40).map(|k| f32::from_bits(buffers[0][y * 40 + k]) * f32::from_bits(buffers[1][k * 40 + x])).sum();
            assert_eq!(f32::from_bits(buffers[2][y * 40 + x]), sum, "{x} {y}");
        }
    }
}

#[test]
fn a_condition_by_row_inside_one_by_column_reaches_only_its_own_lanes() {
    let source = "
        @group(0) @binding(0) var<storage, read> input: array<u32>;
        @group(0) @binding(1) var<storage, read_write> out: array<u32>;
        @compute @workgroup_size(17, 3) fn main(
            @builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) li: u32,
        ) {
            var sum = 0u;
            if id.x != 0u {
                var t = 0u;
                if (id.y & 1u) == 0u { t = input[0]; }
                sum = t;
            }
            out[li] = sum;
        }";
    let mut buffers = [vec![5], vec![9; 51]];
    run(source, [1, 1, 1], &mut buffers);
    let expected: Vec<u32> = (0..51).map(|li| if li % 17 != 0 && li / 17 % 2 == 0 { 5 } else { 0 }).collect();
    assert_eq!(buffers[1], expected);
}

#[test]
fn a_condition_by_lane_inside_one_by_workgroup_reaches_only_its_own_lanes() {
    let source = "
        var<workgroup> some: u32;
        @group(0) @binding(0) var<storage, read> input: array<u32>;
        @group(0) @binding(1) var<storage, read_write> out: array<u32>;
        @compute @workgroup_size(32) fn main(
            @builtin(global_invocation_id) id: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>,
            @builtin(local_invocation_index) li: u32,
        ) {
            if li == 0u { some = 1u; }
            var sum = 0u;
            if (group.x & 1u) == 1u {
                var t = 0u;
                if li > 20u { t = input[0]; }
                sum = t;
            }
            out[id.x] = sum;
        }";
    let mut buffers = [vec![5], vec![9; 160]];
    run(source, [5, 1, 1], &mut buffers);
    let expected: Vec<u32> = (0..160).map(|id| if id / 32 % 2 == 1 && id % 32 > 20 { 5 } else { 0 }).collect();
    assert_eq!(buffers[1], expected);
}

#[test]
fn no_lane_continues_after_an_if_that_all_lanes_leave() {
    let source = "
        @group(0) @binding(0) var<storage, read_write> out: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            var sum = 0u;
            var i = 0u;
            loop {
                i++;
                if i > id.x % 9u {
                    sum += 100u;
                    break;
                } else {
                    sum += i;
                    continue;
                }
            }
            for (var j = 0u; j < id.x % 4u; j++) {
                if (id.x & 1u) == 0u { break; } else { break; }
            }
            out[id.x] = sum;
        }";
    let expected: Vec<u32> = (0..200).map(|id| 100 + (1..=id % 9).sum::<u32>()).collect();
    assert_eq!(over(source, 200, 64), expected);
}
