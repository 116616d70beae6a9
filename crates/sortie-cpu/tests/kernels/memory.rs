//! Accesses beyond the end, and memory cut up between threads.

use crate::harness::run;

/// Runs an entry point body with one lane for each index, over 64 guarded words; gives what it wrote.
fn at_indices(declarations: &str, body: &str, size: usize) -> Vec<u32> {
    let indices =
        [0_u32, 3, 4, 5, 6, 63, 64, 0x4000_0001, 0x3fff_ffff, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];
    let source = format!(
        "@group(0) @binding(0) var<storage, read> indices: array<u32>;
        @group(0) @binding(1) var<storage, read_write> out: array<u32>;
        {declarations}
        @compute @workgroup_size(1) fn main(@builtin(workgroup_id) group: vec3<u32>) {{
            let i = indices[group.x];
            let at = group.x;
            {body}
        }}"
    );
    let mut buffers = [indices.to_vec(), vec![0; size]];
    run(&source, [indices.len() as u32, 1, 1], &mut buffers);
    buffers[1].clone()
}

#[test]
fn arrays_of_ones_own_read_zero_and_drop_writes_out_of_bounds() {
    for (declarations, make) in [
        ("", "var a = array<u32, 5>(1u, 1u, 1u, 1u, 1u);"),
        ("var<private> a: array<u32, 5> = array<u32, 5>(1u, 1u, 1u, 1u, 1u);", ""),
        ("var<workgroup> a: array<u32, 5>;", "for (var k = 0u; k < 5u; k++) { a[k] = 1u; }"),
        ("", "var a = vec4<u32>(1u);"),
        ("var<private> a: vec4<u32> = vec4<u32>(1u);", ""),
        ("var<workgroup> a: vec4<u32>;", "a = vec4<u32>(1u);"),
    ] {
        let len = if make.contains("vec4") || declarations.contains("vec4") { 4 } else { 5 };
        let body = format!(
            "var before = 7u; {make} var after = 9u;
            let old = a[i]; a[i] = 100u; a[i32(i)] += 1u; let now = a[i];
            var sum = 0u; for (var k = 0u; k < {len}u; k++) {{ sum += a[k]; }}
            out[at * 4u] = old; out[at * 4u + 1u] = now; out[at * 4u + 2u] = sum; out[at * 4u + 3u] = before + after;"
        );
        let found = at_indices(declarations, &body, 52);
        for (number, found) in found.chunks(4).enumerate() {
            let inside = number < 2 || (number == 2 && len == 5);
            let expected = if inside { [1, 101, len + 100, 16] } else { [0, 0, len, 16] };
            assert_eq!(found, expected, "index {number} of {declarations} {make}");
        }
    }
}

#[test]
fn nested_indices_are_checked_one_by_one() {
    // The second row's first element is not the first row's fifth.
    let declarations = "struct S { a: array<vec3<f32>, 5>, m: mat2x4<f32>, tail: u32 }
        var<private> p: array<array<u32, 5>, 5>; var<workgroup> w: array<array<u32, 5>, 5>; var<private> s: S;";
    let body = "p[0][i] = 1u; p[1][i] = 1u; w[1][i] = 1u; p[i][2] = 1u;
        var sum = 0u;
        for (var k = 0u; k < 5u; k++) { for (var l = 0u; l < 5u; l++) { sum += p[k][l] + w[k][l]; } }
        s.m[i] = vec4<f32>(1.0); s.m[1][i] = 1.0; s.a[i][1] = 1.0; s.a[2][i] = 1.0; s.tail += u32(s.m[i][0] + s.m[0][i]);
        for (var k = 0u; k < 5u; k++) { sum += u32(s.a[k].x + s.a[k].y + s.a[k].z) * 100u; }
        out[at] = sum * 1000u + s.tail;";
    let found = at_indices(declarations, body, 13);
    // Within: three rows, one column more; two components of vectors, or one; the matrix.
    assert_eq!(found[0], 204_002);
    assert_eq!(found[1], 104_000);
    assert_eq!(found[2], 104_000);
    assert_eq!(found[3..], [0; 10]);
}

#[test]
fn buffers_shorter_than_their_type_read_zero_and_keep_their_end() {
    let source = "
        struct Head { a: array<u32, 8>, b: vec4<u32>, rest: array<vec3<u32>> }
        @group(0) @binding(0) var<storage, read_write> head: Head;
        @group(0) @binding(1) var<storage, read_write> out: array<u32>;
        @compute @workgroup_size(1) fn main() {
            out[0] = arrayLength(&head.rest);
            out[1] = head.a[7] + head.b.w + head.rest[0].y;
            head.a[7] = 1u; head.b = vec4<u32>(2u); head.rest[0] = vec3<u32>(3u); head.rest[1].z = 4u;
        }";
    for len in 0..24_usize {
        let mut buffers = [vec![5; len], vec![0; 2]];
        run(source, [1, 1, 1], &mut buffers);
        let elements = len.saturating_sub(12) / 4;
        assert_eq!(buffers[1][0] as usize, elements, "{len} words");
        let reads = usize::from(len > 7) + usize::from(len > 11) + usize::from(elements > 0);
        assert_eq!(buffers[1][1] as usize, reads * 5, "{len} words");
        let expected: Vec<u32> = (0..len)
            .map(|at| match at {
                7 => 1,
                8..12 => 2,
                12..15 if elements > 0 => 3,
                18 if elements > 1 => 4,
                _ => 5,
            })
            .collect();
        assert_eq!(buffers[0], expected, "{len} words");
    }
}

#[test]
fn lanes_that_do_not_take_part_do_no_harm() {
    let source = "
        @group(0) @binding(0) var<storage, read> input: array<i32>;
        @group(0) @binding(1) var<storage, read_write> out: array<i32>;
        @compute @workgroup_size(7) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x % 5u != 0u { return; }
            let x = input[id.x]; let y = input[id.x + 1u];
            var local = array<i32, 3>(1, 2, 3);
            out[id.x] = x / y + x % y + (x << u32(y)) + (x >> u32(y)) + local[x] + out[x * y] * 0;
        }";
    let extremes = [i32::MIN, -1, 0, 1, i32::MAX, 31, 32, -33];
    let input: Vec<u32> = (0..50_usize).map(|at| extremes[at * at % 8].cast_unsigned()).collect();
    let mut buffers = [input.clone(), vec![0; 47]];
    run(source, [7, 1, 1], &mut buffers);
    for id in 0..47_usize {
        let (x, y) = (input[id].cast_signed(), input[id + 1].cast_signed());
        let quotient = if y == 0 { x } else { x.wrapping_div(y) };
        let rest = if y == 0 { 0 } else { x.wrapping_rem(y) };
        let shift = y.cast_unsigned() & 31;
        let local = usize::try_from(x).ok().and_then(|x| [1, 2, 3].get(x)).copied().unwrap_or(0);
        let sum = [rest, x << shift, x >> shift, local].into_iter().fold(quotient, i32::wrapping_add);
        let expected = if id % 5 == 0 { sum } else { 0 };
        assert_eq!(buffers[1][id].cast_signed(), expected, "{id}: {x} and {y}");
    }
}

#[test]
fn half_words_where_the_work_is_cut_belong_to_one_thread() {
    // An odd number of invocations in each piece: the cut would go through the middle of a word.
    for size in [1, 3, 5, 7, 37] {
        let source = format!(
            "enable f16;
            @group(0) @binding(0) var<storage, read_write> x: array<f16>;
            @compute @workgroup_size({size}) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
                var sum = x[id.x];
                for (var i = 0u; i < 8u; i++) {{ sum += f16(i); }}
                x[id.x] = sum + f16(id.x % 100u);
            }}"
        );
        let count = 60_001_u32;
        let mut buffers = [vec![0; count.div_ceil(2) as usize]];
        run(&source, [count.div_ceil(size), 1, 1], &mut buffers);
        let wrong = (0..count).find(|id| {
            let bits = buffers[0][(id / 2) as usize] >> (id % 2 * 16);
            f32::from(half::f16::from_bits((bits & 0xffff) as u16)) != 28.0 + (id % 100) as f32
        });
        assert_eq!(wrong, None, "workgroups of {size}");
    }
}
