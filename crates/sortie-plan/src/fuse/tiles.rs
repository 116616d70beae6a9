//! Matrix products by tiles in workgroup memory.
//!
//! A workgroup of 16 × 16 computes 64 × 64 elements, 4 × 4 each, and goes along the sums in steps of 16: all
//! invocations load a tile of each side, wait, and add up its products. Sums are taken in the same order as without
//! tiles. Elements past an edge are loaded as zero.

use std::fmt::Write as _;

use super::{
    kernel::KernelSource,
    product::preface,
    program::{Product, Program},
    wgsl::Printer,
};

/// Rows and columns of the product that a workgroup computes.
const SIDE: u32 = 64;
/// Elements of the sums per step.
const DEPTH: u32 = 16;
/// Invocations.
const GROUP: u32 = 256;

/// Whether a product fills its tiles, and its sums are within the loop limit of a software driver.
pub(super) fn suit(of: &Product) -> bool {
    of.m >= SIDE && of.n >= SIDE && (1..=32_768).contains(&of.k)
}

pub(super) fn product(program: &Program, of: &Product) -> KernelSource {
    let Product { m, k, n, batch, transposed, shared, sides, .. } = *of;
    let width = if n.is_multiple_of(4) { 4 } else { 1 };
    let mut printer = Printer::new(program, &[&program.tail], width);
    sides.into_iter().for_each(|side| printer.narrow(side));
    let mut text = preface(program, printer, width);
    let size = SIDE * DEPTH;
    let _ = write!(
        text,
        "var<workgroup> left_tile: array<f32, {size}>;\nvar<workgroup> right_tile: array<f32, {size}>;\n\n@compute @workgroup_size(16, 16)\nfn product(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) own: vec3<u32>, @builtin(local_invocation_index) l: u32) {{\n    let row = group.y * {SIDE}u;\n    let column = group.x * {SIDE}u;\n",
    );
    let offset = |side: usize, size: &str| if shared[side] { "0u".to_owned() } else { format!("group.z * {size}") };
    let _ = writeln!(text, "    let left = {};", offset(0, "(p.m * p.k)"));
    let _ = writeln!(text, "    let right = {};", offset(1, "(p.k * p.n)"));
    for row in 0..4 {
        let _ = writeln!(text, "    var sum{row} = vec4<f32>();");
    }
    let _ = writeln!(text, "    for (var k = 0u; k < p.k; k += {DEPTH}u) {{");
    // Neighbouring invocations load neighbouring memory.
    let _ = writeln!(text, "        for (var at = l; at < {size}u; at += {GROUP}u) {{");
    let (row, step, index) = match transposed[0] {
        false => {
            (format!("at / {DEPTH}u"), format!("at % {DEPTH}u"), "min(row + r, p.m - 1u) * p.k + min(k + s, p.k - 1u)")
        }
        true => {
            (format!("at % {SIDE}u"), format!("at / {SIDE}u"), "min(k + s, p.k - 1u) * p.m + min(row + r, p.m - 1u)")
        }
    };
    let _ = write!(
        text,
        "            let r = {row};\n            let s = {step};\n            left_tile[s * {SIDE}u + r] = select(0.0, in{}[left + {index}], k + s < p.k);\n        }}\n",
        sides[0]
    );
    let _ = writeln!(text, "        for (var at = l; at < {size}u; at += {GROUP}u) {{");
    let (column, step, index) = match transposed[1] {
        false => {
            (format!("at % {SIDE}u"), format!("at / {SIDE}u"), "min(k + s, p.k - 1u) * p.n + min(column + c, p.n - 1u)")
        }
        true => (
            format!("at / {DEPTH}u"),
            format!("at % {DEPTH}u"),
            "min(column + c, p.n - 1u) * p.k + min(k + s, p.k - 1u)",
        ),
    };
    let _ = write!(
        text,
        "            let c = {column};\n            let s = {step};\n            right_tile[s * {SIDE}u + c] = select(0.0, in{}[right + {index}], k + s < p.k);\n        }}\n        workgroupBarrier();\n",
        sides[1]
    );
    let _ =
        writeln!(text, "        for (var s = 0u; s < {DEPTH}u; s++) {{\n            let c = s * {SIDE}u + own.x * 4u;");
    text +=
        "            let b = vec4<f32>(right_tile[c], right_tile[c + 1u], right_tile[c + 2u], right_tile[c + 3u]);\n";
    for row in 0..4 {
        let _ = writeln!(text, "            sum{row} += left_tile[s * {SIDE}u + own.y * 4u + {row}u] * b;");
    }
    text += "        }\n        workgroupBarrier();\n    }\n    let first = column + own.x * 4u;\n    if first >= p.n { return; }\n";
    for row in 0..4 {
        let _ = write!(
            text,
            "    let r{row} = row + own.y * 4u + {row}u;\n    if r{row} < p.m {{\n        let e = (group.z * p.m + r{row}) * p.n + first;\n"
        );
        if width == 4 {
            let _ = writeln!(text, "        finish(e, sum{row});");
        } else {
            for lane in 0..4 {
                let _ = writeln!(text, "        if first + {lane}u < p.n {{ finish(e + {lane}u, sum{row}[{lane}]); }}");
            }
        }
        text += "    }\n";
    }
    text += "}\n";
    KernelSource { text, grid: [n.div_ceil(SIDE), m.div_ceil(SIDE), batch], words: vec![m, k, n] }
}
