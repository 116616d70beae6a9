//! Loops that lanes leave at very different times: those that stay are moved together, and back.

use crate::harness::run;

/// How long an invocation stays.
fn rounds(index: u32) -> u32 {
    index.wrapping_mul(2_654_435_761) >> 24
}

const HEAD: &str = "
    @group(0) @binding(0) var<storage, read> data: array<u32>;
    @group(0) @binding(1) var<storage, read_write> out: array<u32>;
    @group(0) @binding(2) var<storage, read_write> log: array<u32>;
    @group(0) @binding(3) var<storage, read_write> hits: array<atomic<u32>>;
    fn rounds(index: u32) -> u32 { return (index * 2654435761u) >> 24u; }
";

fn data() -> Vec<u32> {
    (0..5000_u32).map(|index| index.wrapping_mul(747_796_405).rotate_left(7)).collect()
}

#[test]
fn what_lanes_read_write_and_count_in_the_loop_is_their_own() {
    let source = format!(
        "{HEAD}
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
            let i = id.x;
            var n = rounds(i);
            var sum = i;
            var last = 77u;
            while n > 0u {{
                n--;
                sum += data[(i + n) % arrayLength(&data)];
                if sum % 3u == 0u {{ last = n; continue; }}
                log[i] = sum;
                atomicAdd(&hits[n % 16u], 1u);
            }}
            out[i * 2u] = sum;
            out[i * 2u + 1u] = last + i;
        }}"
    );
    let (items, data) = (3000_u32, data());
    let mut buffers = [data.clone(), vec![0; 6016], vec![0; 3008], vec![0; 16]];
    run(&source, [items.div_ceil(64), 1, 1], &mut buffers);
    let (mut out, mut log, mut hits) = (vec![0; 6016], vec![0; 3008], vec![0; 16]);
    for i in 0..items.next_multiple_of(64) {
        let (mut n, mut sum, mut last) = (rounds(i), i, 77);
        while n > 0 {
            n -= 1;
            sum = sum.wrapping_add(data[(i + n) as usize % data.len()]);
            if sum % 3 == 0 {
                last = n;
                continue;
            }
            log[i as usize] = sum;
            hits[n as usize % 16] += 1;
        }
        out[i as usize * 2] = sum;
        out[i as usize * 2 + 1] = last + i;
    }
    assert_eq!(buffers[1..], [out, log, hits]);
}

#[test]
fn rows_and_columns_of_a_picture_find_back() {
    let source = format!(
        "{HEAD}
        @compute @workgroup_size(20, 3) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
            let at = id.y * 100u + id.x;
            var n = rounds(at);
            var sum = 0u;
            loop {{
                if n == 0u {{ break; }}
                // One value by column, one by row.
                sum = sum * 5u + id.x * 3u + id.y;
                n--;
                continuing {{ break if sum % 101u == 0u; }}
            }}
            out[at] = sum + id.x + id.y;
        }}"
    );
    let mut buffers = [vec![0; 1], vec![0; 100 * 60], vec![0; 1], vec![0; 1]];
    run(&source, [5, 20, 1], &mut buffers[..]);
    for y in 0..60 {
        for x in 0..100 {
            let at = y * 100 + x;
            let (mut n, mut sum) = (rounds(at), 0_u32);
            while n != 0 {
                sum = sum.wrapping_mul(5).wrapping_add(x * 3 + y);
                n -= 1;
                if sum % 101 == 0 {
                    break;
                }
            }
            assert_eq!(buffers[1][at as usize], sum.wrapping_add(x + y), "{x} {y}");
        }
    }
}

#[test]
fn loops_in_loops_are_packed_within_each_other() {
    let source = format!(
        "{HEAD}
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
            var a = rounds(id.x) / 8u;
            var sum = 0u;
            while a > 0u {{
                var b = rounds(id.x + a) / 4u;
                while b > 0u {{ sum = sum * 3u + b; b--; }}
                sum ^= a;
                a--;
            }}
            out[id.x] = sum;
        }}"
    );
    let mut buffers = [vec![0; 1], vec![0; 2048], vec![0; 1], vec![0; 1]];
    run(&source, [32, 1, 1], &mut buffers[..]);
    for i in 0..2048 {
        let mut sum = 0_u32;
        for a in (1..=rounds(i) / 8).rev() {
            for b in (1..=rounds(i + a) / 4).rev() {
                sum = sum.wrapping_mul(3).wrapping_add(b);
            }
            sum ^= a;
        }
        assert_eq!(buffers[1][i as usize], sum, "{i}");
    }
}

#[test]
fn lanes_that_do_not_exist_keep_no_loop_going() {
    // Of a row of 17, lanes 17 to 31 would go round four thousand million times.
    let source = "
        @group(0) @binding(0) var<storage, read_write> out: array<u32>;
        var<workgroup> nothing: u32;
        @compute @workgroup_size(17, 3) fn main(
            @builtin(local_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32,
        ) {
            var n = id.x;
            if id.y > 0u { while n != 16u { n++; } }
            out[i] = n + nothing;
        }";
    let mut buffers = [vec![0; 51]];
    run(source, [1, 1, 1], &mut buffers);
    let expected: Vec<u32> = (0..51).map(|i| if i < 17 { i } else { 16 }).collect();
    assert_eq!(buffers[0], expected);
}
