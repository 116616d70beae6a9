//! Matrix products as WGSL.
//!
//! Usually each invocation keeps a block of the product in registers and nothing in workgroup memory. Sides are then
//! read four elements at a time along their contiguous axis, if its length is a multiple of four; else one at a time.
//! Indices past an edge are clamped, and their results are not stored. [`MatmulKernel::Tiles`] is in [`tiles`].

use std::fmt::Write as _;

use super::{
    kernel::KernelSource,
    program::{Product, Program},
    tiles,
    wgsl::{NameTable, Printer},
};
use crate::MatmulKernel;

/// How a side is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// Four at a time along the summed axis: columns of the left side, or rows of the right one.
    Along,
    /// Four at a time along the other axis.
    Across,
    Single,
}

/// Rows that an invocation computes, vectors of four columns, and invocations of a workgroup by column and row.
struct Tile {
    rows: u32,
    vectors: u32,
    group: [u32; 2],
}

impl Tile {
    /// As large as registers hold, or larger if `wide`.
    fn new(of: &Product, wide: bool) -> Self {
        match of.m {
            0..=1 => Self { rows: 1, vectors: 1, group: [64, 1] },
            2..=3 => Self { rows: 2, vectors: 1, group: [64, 1] },
            4..=15 => Self { rows: 4, vectors: 1, group: [16, 4] },
            _ if of.n <= 16 => Self { rows: 4, vectors: 1, group: [4, 16] },
            _ if of.m * of.n < 64 * 64 => Self { rows: 4, vectors: 1, group: [8, 8] },
            64.. if wide && of.n >= 256 => Self { rows: 16, vectors: 8, group: [8, 2] },
            64.. if wide && of.n >= 128 => Self { rows: 16, vectors: 4, group: [8, 2] },
            _ => Self { rows: 8, vectors: 2, group: [8, 8] },
        }
    }
}

pub(super) fn product(program: &Program, of: &Product, way: MatmulKernel) -> KernelSource {
    if way == MatmulKernel::Tiles && tiles::suit(of) {
        return tiles::product(program, of);
    }
    let Product { m, k, n, batch, transposed, shared, sides, .. } = *of;

    // A side without elements has one word.
    let fours = |length: u32| length.is_multiple_of(4) && k > 0;
    // Other ways to read make large blocks slow to compile.
    let plain = transposed == [false; 2] && fours(k) && fours(n);
    let tile = Tile::new(of, way == MatmulKernel::Wide && plain);
    let left = match transposed[0] {
        false if fours(k) => Reads::Along,
        true if fours(m) && fours(tile.rows) => Reads::Across,
        _ => Reads::Single,
    };
    let right = match transposed[1] {
        false if fours(n) => Reads::Across,
        true if fours(k) => Reads::Along,
        _ => Reads::Single,
    };
    let width = if fours(n) { 4 } else { 1 };
    let mut printer = Printer::new(program, &[&program.tail], width);
    for (side, reads) in sides.into_iter().zip([left, right]) {
        if reads == Reads::Single { printer.narrow(side) } else { printer.widen(side) }
    }

    let mut text = preface(program, printer, width);
    let _ = write!(
        text,
        "@compute @workgroup_size({}, {})\nfn product(@builtin(global_invocation_id) id: vec3<u32>) {{\n    let row = id.y * {}u;\n    let column = id.x * {}u;\n    if row >= p.m || column >= p.n {{ return; }}\n",
        tile.group[0],
        tile.group[1],
        tile.rows,
        tile.vectors * 4,
    );
    let offset = |side: usize, size: &str| if shared[side] { "0u".to_owned() } else { format!("id.z * {size}") };
    let _ = writeln!(text, "    let left = {};", offset(0, "(p.m * p.k)"));
    let _ = writeln!(text, "    let right = {};", offset(1, "(p.k * p.n)"));
    // Values that are constant over the steps of the sum.
    for row in 0..tile.rows {
        let at = format!("min(row + {row}u, p.m - 1u)");
        let _ = match left {
            Reads::Along => writeln!(text, "    let r{row} = (left + {at} * p.k) / 4u;"),
            Reads::Across if row % 4 == 0 => {
                writeln!(text, "    let r{row} = (left + min(row + {row}u, p.m - 4u)) / 4u;")
            }
            Reads::Across => Ok(()),
            Reads::Single if transposed[0] => writeln!(text, "    let r{row} = left + {at};"),
            Reads::Single => writeln!(text, "    let r{row} = left + {at} * p.k;"),
        };
        for vector in 0..tile.vectors {
            let _ = writeln!(text, "    var sum{row}_{vector} = vec4<f32>();");
        }
    }
    for column in 0..tile.vectors * 4 {
        let at = format!("min(column + {column}u, p.n - 1u)");
        let _ = match right {
            Reads::Across if column % 4 == 0 => {
                writeln!(text, "    let c{column} = (right + min(column + {column}u, p.n - 4u)) / 4u;")
            }
            Reads::Across => Ok(()),
            Reads::Along => writeln!(text, "    let c{column} = (right + {at} * p.k) / 4u;"),
            Reads::Single if transposed[1] => writeln!(text, "    let c{column} = right + {at} * p.k;"),
            Reads::Single => writeln!(text, "    let c{column} = right + {at};"),
        };
    }
    text += "    let across_left = p.m / 4u;\n    let across_right = p.n / 4u;\n";
    let _ = writeln!(text, "    for (var k = 0u; k < p.k; k += 4u) {{");
    let mut lines = String::new();
    let a = read_left(left, of, &tile, sides[0], &mut lines);
    let b = read_right(right, of, &tile, sides[1], &mut lines);
    for step in 0..4 {
        for vector in 0..tile.vectors {
            // Both sides: 0 times infinity is NaN.
            let value = past_the_end(&b(step, vector), step, fours(k), "vec4<f32>()");
            let _ = writeln!(lines, "let b{step}_{vector} = {value};");
        }
        for row in 0..tile.rows {
            for vector in 0..tile.vectors {
                let _ = writeln!(lines, "sum{row}_{vector} += {} * b{step}_{vector};", a(row, step));
            }
        }
    }
    lines.lines().for_each(|line| {
        let _ = writeln!(text, "        {line}");
    });
    text += "    }\n";
    for row in 0..tile.rows {
        let _ = writeln!(text, "    if row + {row}u < p.m {{");
        let _ = writeln!(text, "        let e = (id.z * p.m + row + {row}u) * p.n + column;");
        for vector in 0..tile.vectors {
            if width == 4 {
                let guard = if vector == 0 { String::new() } else { format!("if column + {}u < p.n ", vector * 4) };
                let _ = writeln!(text, "        {guard}{{ finish(e + {}u, sum{row}_{vector}); }}", vector * 4);
                continue;
            }
            for lane in 0..4 {
                let at = vector * 4 + lane;
                let guard = if at == 0 { String::new() } else { format!("if column + {at}u < p.n ") };
                let _ = writeln!(text, "        {guard}{{ finish(e + {at}u, sum{row}_{vector}[{lane}]); }}");
            }
        }
        text += "    }\n";
    }
    text += "}\n";
    let grid = [n.div_ceil(tile.vectors * 4 * tile.group[0]), m.div_ceil(tile.rows * tile.group[1]), batch];
    KernelSource { text, grid, words: vec![m, k, n] }
}

/// The code before the entry point: parameters, bindings, and a function `finish` that computes the tail and stores it,
/// `width` elements at a time.
pub(super) fn preface(program: &Program, mut printer: Printer<'_>, width: u32) -> String {
    let mut finish = String::new();
    let names = NameTable { item: "i", first: "e", step: "v", head: "x" };
    let known = printer.steps(&program.tail, names, "    ", &mut finish);
    for (at, step) in program.tail.stores.iter().enumerate() {
        let _ = writeln!(finish, "    out{at}[i] = {};", known[*step]);
    }
    let item = if width == 4 { "    let i = e / 4u;\n" } else { "    let i = e;\n" };
    let ty = if width == 4 { "vec4<f32>" } else { "f32" };
    let mut text = printer.params(&["m", "k", "n"]);
    text += &printer.bindings(|_| width);
    text += "\n";
    text += &printer.helpers();
    let _ = write!(text, "fn finish(e: u32, x: {ty}) {{\n{item}{finish}}}\n\n");
    text
}

/// Prints the loads of the left side for four steps of the sum. Returns the name of the element of a row and a step.
fn read_left(
    reads: Reads,
    of: &Product,
    tile: &Tile,
    side: usize,
    lines: &mut String,
) -> impl Fn(u32, u32) -> String + use<> {
    let whole = of.k.is_multiple_of(4);
    match reads {
        Reads::Along => {
            for row in 0..tile.rows {
                let _ = writeln!(lines, "let a{row} = in{side}[r{row} + k / 4u];");
            }
        }
        Reads::Across => {
            for step in 0..4 {
                let at = step_at(step, whole);
                for four in 0..tile.rows / 4 {
                    let value = format!("in{side}[r{} + {at} * across_left]", four * 4);
                    let value = past_the_end(&value, step, whole, "vec4<f32>()");
                    let _ = writeln!(lines, "let a{four}_{step} = {value};");
                }
            }
        }
        Reads::Single => {
            for row in 0..tile.rows {
                for step in 0..4 {
                    let at = step_at(step, whole);
                    let index = match of.transposed[0] {
                        false => format!("r{row} + {at}"),
                        true => format!("r{row} + {at} * p.m"),
                    };
                    let value = past_the_end(&format!("in{side}[{index}]"), step, whole, "0.0");
                    let _ = writeln!(lines, "let a{row}_{step} = {value};");
                }
            }
        }
    }
    move |row, step| match reads {
        Reads::Along => format!("a{row}[{step}]"),
        Reads::Across => format!("a{}_{step}[{}]", row / 4, row % 4),
        Reads::Single => format!("a{row}_{step}"),
    }
}

/// As [`read_left`], for the right side. Returns the four columns of a step and a vector.
fn read_right(
    reads: Reads,
    of: &Product,
    tile: &Tile,
    side: usize,
    lines: &mut String,
) -> impl Fn(u32, u32) -> String + use<> {
    let whole = of.k.is_multiple_of(4);
    let transposed = of.transposed[1];
    if reads == Reads::Along {
        for column in 0..tile.vectors * 4 {
            let _ = writeln!(lines, "let d{column} = in{side}[c{column} + k / 4u];");
        }
    }
    move |step, vector| {
        let at = step_at(step, whole);
        match reads {
            Reads::Across => {
                format!("in{side}[c{} + {at} * across_right]", vector * 4)
            }
            Reads::Along => {
                let columns: Vec<String> = (0..4).map(|lane| format!("d{}[{step}]", vector * 4 + lane)).collect();
                format!("vec4<f32>({})", columns.join(", "))
            }
            Reads::Single => {
                let columns: Vec<String> = (0..4)
                    .map(|lane| {
                        let column = vector * 4 + lane;
                        match transposed {
                            false => format!("in{side}[c{column} + {at} * p.n]"),
                            true => format!("in{side}[c{column} + {at}]"),
                        }
                    })
                    .collect();
                format!("vec4<f32>({})", columns.join(", "))
            }
        }
    }
}

fn step_at(step: u32, whole: bool) -> String {
    match (step, whole) {
        (0, _) => "k".into(),
        (step, true) => format!("(k + {step}u)"),
        (step, false) => format!("min(k + {step}u, p.k - 1u)"),
    }
}

/// Zero past the end of the sum.
fn past_the_end(value: &str, step: u32, whole: bool, zero: &str) -> String {
    if whole || step == 0 { value.to_owned() } else { format!("select({zero}, {value}, k + {step}u < p.k)") }
}
