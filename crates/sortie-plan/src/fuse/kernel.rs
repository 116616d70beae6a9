//! Programs as WGSL kernels: elementwise, reductions, rows.

use std::fmt::Write as _;

use super::{
    product,
    program::{Body, Expr, Head, Program, Reduce},
    wgsl::{NameTable, Printer, register},
};
use crate::{Caps, ElementType, Norm, Reduction};

/// The source of a kernel, and its grid and parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSource {
    /// WGSL with one entry point.
    pub text: String,
    /// Workgroups.
    pub grid: [u32; 3],
    /// The words of its parameters before the scalars.
    pub words: Vec<u32>,
}

/// Invocations of a workgroup; every device supports this many.
pub(super) const GROUP: u32 = 64;

/// Elements that one invocation reduces alone; more are reduced by a workgroup. Also far below lavapipe's loop limit.
const ALONE: u32 = 128;

/// Elements that one workgroup may reduce: lavapipe silently ends an invocation's loops after 65,535 iterations in
/// total.
pub const MAX_FOLDED: u32 = GROUP * 16_000;

impl Program {
    /// The kernel that computes it on a device with these caps.
    #[must_use]
    pub fn source(&self, caps: &Caps) -> KernelSource {
        match &self.head {
            Head::None => map(self, caps.software),
            Head::Product(of) => product::product(self, of, caps.product),
            Head::Reduce(fold, body) => folded(self, fold, body),
            Head::Rows { f, row, scalar, body } => rows(self, *f, *row, *scalar, body),
        }
    }

    /// Elements that an invocation should compute at a time.
    fn width(&self) -> u32 {
        let ports = || self.inputs.iter().chain(&self.outputs);
        match self.len() {
            _ if ports().any(|port| port.element == ElementType::F16) => 2,
            len if len.is_multiple_of(4) => 4,
            _ => 1,
        }
    }
}

/// Rows that one invocation computes if some of its loads are the same for all of them.
const SHARING: u32 = 4;
/// Minimum invocations that remain then: a software driver has few cores to keep busy, and loads dominate its cost.
const LEFT: [u32; 2] = [1 << 16, 1 << 12];

fn map(program: &Program, software: bool) -> KernelSource {
    let width = program.width();
    let mut printer = Printer::new(program, &[&program.tail], width);
    let vector =
        |at: usize| if is_whole(program, width) && program.outputs[at].element != ElementType::F16 { width } else { 1 };
    let items = program.len().div_ceil(width);
    let least = LEFT[usize::from(software)].saturating_mul(SHARING);
    let row = if items >= least { period(program, width) } else { None };
    let mut body = String::new();
    let names = NameTable { item: "i", first: "e", step: "v", head: "" };
    let times = |name: &str| if width == 1 { name.into() } else { format!("{name} * {width}u") };
    let (words, invocations) = if let Some(row) = row {
        let each = row / width;
        let shared = shared(&program.tail, row);
        let mut known = vec![String::new(); shared.len()];
        let mut tail = program.tail.clone();
        for (step, _) in tail.steps.iter_mut().zip(&shared).filter(|(_, shared)| **shared) {
            if let Expr::Load { at, .. } = step {
                *at = at.within(row);
            }
        }
        let _ = writeln!(body, "    let c = id.x % {each}u;\n    let d = {};", times("c"));
        let of_row = NameTable { item: "c", first: "d", ..names };
        printer.some_steps(&tail, |step| shared[step], of_row, "    ", &mut body, &mut known);
        let _ = write!(
            body,
            "    let first = id.x / {each}u * {SHARING}u;\n    for (var r = first; r < min(first + {SHARING}u, p.rows); r++) {{\n        let i = r * {each}u + c;\n        let e = {};\n",
            times("i"),
        );
        printer.some_steps(&tail, |step| !shared[step], names, "        ", &mut body, &mut known);
        store(program, &known, width, "        ", &mut body);
        body += "    }\n";
        let rows = program.len() / row;
        (vec![("rows", rows)], rows.div_ceil(SHARING) * each)
    } else {
        let _ = writeln!(body, "    let i = id.x;\n    if i >= p.items {{ return; }}\n    let e = {};", times("i"));
        let known = printer.steps(&program.tail, names, "    ", &mut body);
        store(program, &known, width, "    ", &mut body);
        // Only of a last item with fewer elements: a parameter, so that one kernel serves every length.
        let len = (!is_whole(program, width)).then_some(("len", program.len()));
        ([("items", items)].into_iter().chain(len).collect(), items)
    };
    let (words, values): (Vec<&str>, Vec<u32>) = words.into_iter().unzip();
    let text = format!(
        "{}{}\n{}@compute @workgroup_size({GROUP})\nfn map(@builtin(global_invocation_id) id: vec3<u32>) {{\n{body}}}\n",
        printer.params(&words),
        printer.bindings(vector),
        printer.helpers(),
    );
    KernelSource { text, grid: [invocations.div_ceil(GROUP), 1, 1], words: values }
}

/// Elements of a row such that some loads are the same for every row: the longest period with enough rows.
fn period(program: &Program, width: u32) -> Option<u32> {
    let periods = program.tail.steps.iter().filter_map(|step| match step {
        // A load that is the same for all elements is cheap anyway.
        Expr::Load { at, .. } => at.period().filter(|period| *period > 1),
        _ => None,
    });
    periods.filter(|period| period.is_multiple_of(width) && program.len() / period >= SHARING).max()
}

/// Which steps are the same in all rows of `row` elements.
fn shared(body: &Body, row: u32) -> Vec<bool> {
    let mut shared: Vec<bool> = Vec::with_capacity(body.steps.len());
    for step in &body.steps {
        shared.push(match step {
            Expr::Load { at, .. } => at.period().is_some_and(|period| row.is_multiple_of(period)),
            Expr::Apply { args, .. } => !args.is_empty() && args.iter().all(|arg| shared[*arg]),
            Expr::Number { .. } => true,
            Expr::Head(_) | Expr::Gather { .. } | Expr::Join { .. } => false,
        });
    }
    shared
}

fn is_whole(program: &Program, width: u32) -> bool {
    program.len().is_multiple_of(width)
}

/// Stores the outputs of item `i`, whose first element is `e`.
fn store(program: &Program, known: &[String], width: u32, indent: &str, text: &mut String) {
    for (at, (port, step)) in program.outputs.iter().zip(&program.tail.stores).enumerate() {
        let value = &known[*step];
        match (port.element, width) {
            (ElementType::F16, 2) => {
                let _ = writeln!(text, "{indent}out{at}[i] = pack2x16float({value});");
            }
            (_, width) if is_whole(program, width) => {
                let _ = writeln!(text, "{indent}out{at}[i] = {value};");
            }
            (_, width) => {
                for lane in 0..width {
                    let condition = if lane == 0 { String::new() } else { format!("if e + {lane}u < p.len ") };
                    let _ = writeln!(text, "{indent}{condition}{{ out{at}[e + {lane}u] = {value}[{lane}]; }}");
                }
            }
        }
    }
}

/// A reduction: its neutral element, and how two values are combined.
struct Together {
    neutral: &'static str,
    both: fn(&str, &str) -> String,
}

fn together(f: Reduction, element: ElementType) -> Together {
    let float = element.is_float();
    match f {
        Reduction::Sum | Reduction::Mean => Together { neutral: "0", both: |a, b| format!("{a} + {b}") },
        Reduction::Max if float => Together {
            neutral: "bitcast<f32>(p.low)",
            both: |a, b| format!("select(select({a} + {b}, {b}, {b} >= {a}), {a}, {a} > {b})"),
        },
        Reduction::Min if float => Together {
            neutral: "bitcast<f32>(p.high)",
            both: |a, b| format!("select(select({a} + {b}, {b}, {b} <= {a}), {a}, {a} < {b})"),
        },
        Reduction::Max | Reduction::ArgMax => Together {
            neutral: if element == ElementType::I32 { "-2147483647 - 1" } else { "0" },
            both: |a, b| format!("max({a}, {b})"),
        },
        Reduction::Min => Together {
            neutral: if element == ElementType::I32 { "2147483647" } else { "4294967295u" },
            both: |a, b| format!("min({a}, {b})"),
        },
    }
}

/// Whether the second of two candidates for the maximum replaces the first: greater, or NaN while the first is not, or
/// equal and earlier.
fn beats(element: ElementType) -> String {
    let ty = register(element, 1);
    let greater = if element.is_float() { "(b > a) || (b != b && a == a)" } else { "b > a" };
    let same = if element.is_float() { "(a == b || (a != a && b != b))" } else { "a == b" };
    format!("fn beats(a: {ty}, i: u32, b: {ty}, j: u32) -> bool {{\n    return ({greater}) || ({same} && j < i);\n}}\n")
}

/// The index in the input of element `r` of set `s`. A set makes one output element, or its parts.
fn whole_index(fold: &Reduce) -> String {
    let mut terms = Vec::new();
    let (mut stride, mut inner) = (1_u64, [1_u64; 2]);
    for (number, (length, reduced)) in fold.dims.iter().enumerate().rev() {
        let own = usize::from(*reduced);
        let name = ["s", "r"][own];
        let outermost = !fold.dims[..number].iter().any(|(_, other)| other == reduced);
        let mut term = if inner[own] == 1 { name.to_owned() } else { format!("{name} / {}u", inner[own]) };
        if !outermost {
            term = format!("{term} % {length}u");
        }
        if stride != 1 {
            term = if term.contains(' ') { format!("({term}) * {stride}u") } else { format!("{term} * {stride}u") };
        }
        terms.push(term);
        inner[own] *= u64::from(*length);
        stride *= u64::from(*length);
    }
    terms.reverse();
    if terms.is_empty() { "0u".into() } else { terms.join(" + ") }
}

fn folded(program: &Program, fold: &Reduce, body: &Body) -> KernelSource {
    let mut printer = Printer::new(program, &[body, &program.tail], 1);
    let part = fold.part();
    // Not by the number of results: the order of additions, and so a row's sum, is the same in any batch.
    let columns = fold.dims.last().map_or(1, |(length, reduced)| if *reduced { 1 } else { *length });
    let alone = part <= ALONE || (columns >= GROUP && part <= 1 << 12);
    let ty = register(fold.element, 1);
    let picks = fold.f == Reduction::ArgMax;
    let Together { neutral, both } = together(fold.f, fold.element);
    let neutral = if picks && fold.element.is_float() { "bitcast<f32>(p.low)" } else { neutral };

    let indent = "        ";
    let mut inner = String::new();
    let names = NameTable { item: "e", first: "e", step: "u", head: "" };
    let known = printer.steps(body, names, indent, &mut inner);
    let value = &known[body.stores[0]];
    let take = |value: &str, at: &str| match picks {
        true => format!("if beats(best, at, {value}, {at}) {{ best = {value}; at = {at}; }}"),
        false => format!("best = {};", both("best", value)),
    };
    let mut tail = String::new();
    let names = NameTable { item: "o", first: "o", step: "v", head: "result" };
    let known_tail = printer.steps(&program.tail, names, "    ", &mut tail);
    for (at, step) in program.tail.stores.iter().enumerate() {
        let _ = writeln!(tail, "    out{at}[o] = {};", known_tail[*step]);
    }
    let result = match fold.f {
        Reduction::Mean => "best / f32(p.each)",
        Reduction::ArgMax => "at",
        _ => "best",
    };
    let start = if picks { "    var at = 4294967295u;\n" } else { "" };
    let index = whole_index(fold);
    // The set and its elements: all of them, or a part.
    let (of, from, end) = match fold.parts {
        0..=1 => ("o".to_owned(), "0u".to_owned(), "p.each".to_owned()),
        parts => (format!("o / {parts}u"), format!("o % {parts}u * {part}u"), format!("min(start + {part}u, p.each)")),
    };
    let range = format!("    let s = {of};\n    let start = {from};\n    let end = {end};\n");
    let mut text = printer.params(&["outputs", "each", "low", "high"]);
    text += &printer.bindings(|_| 1);
    text += "\n";
    text += &printer.helpers();
    if picks {
        text += &beats(fold.element);
    }
    let loop_of = |from: &str, by: &str| {
        format!(
            "{range}    var best: {ty} = {neutral};\n{start}    for (var r = {from}; r < end; r += {by}) {{\n        let e = {index};\n{inner}        {}\n    }}\n",
            take(value, "r")
        )
    };
    let grid = if alone {
        let _ = write!(
            text,
            "@compute @workgroup_size({GROUP})\nfn fold(@builtin(global_invocation_id) id: vec3<u32>) {{\n    let o = id.x;\n    if o >= p.outputs {{ return; }}\n{}    let result = {result};\n{tail}}}\n",
            loop_of("start", "1u")
        );
        [program.len().div_ceil(GROUP), 1, 1]
    } else {
        let _ = writeln!(text, "var<workgroup> part: array<{ty}, {GROUP}>;");
        if picks {
            let _ = writeln!(text, "var<workgroup> place: array<u32, {GROUP}>;");
        }
        let keep = if picks { "    place[l] = at;\n" } else { "" };
        let join = match picks {
            true => {
                "if beats(part[l], place[l], part[l + half], place[l + half]) { part[l] = part[l + half]; place[l] = place[l + half]; }"
                    .to_owned()
            }
            false => format!("part[l] = {};", both("part[l]", "part[l + half]")),
        };
        let last = if picks { "    let at = place[0];\n" } else { "    let best = part[0];\n" };
        let _ = write!(
            text,
            "@compute @workgroup_size({GROUP})\nfn fold(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) l: u32) {{\n    let o = group.x;\n    {{\n{}    part[l] = best;\n{keep}    }}\n    workgroupBarrier();\n    for (var half = {}u; half > 0u; half /= 2u) {{\n        if l < half {{ {join} }}\n        workgroupBarrier();\n    }}\n    if l > 0u {{ return; }}\n{last}    let result = {result};\n{tail}}}\n",
            loop_of("start + l", &format!("{GROUP}u")),
            GROUP / 2,
        );
        [program.len(), 1, 1]
    };
    let words = vec![program.len(), fold.each(), f32::NEG_INFINITY.to_bits(), f32::INFINITY.to_bits()];
    KernelSource { text, grid, words }
}

/// One workgroup per row, or one invocation per short row. Between the passes the output stores the values of the row,
/// each accessed only by the invocation that wrote it.
fn rows(program: &Program, f: Norm, row: u32, scalar: usize, body: &Body) -> KernelSource {
    let mut printer = Printer::new(program, &[body, &program.tail], 1);
    let mut first = String::new();
    let names = NameTable { item: "e", first: "e", step: "u", head: "" };
    let known = printer.steps(body, names, "        ", &mut first);
    let value = known[body.stores[0]].clone();
    let mut tail = String::new();
    let names = NameTable { item: "e", first: "e", step: "v", head: "x" };
    let known_tail = printer.steps(&program.tail, names, "        ", &mut tail);
    for (at, step) in program.tail.stores.iter().enumerate() {
        let _ = writeln!(tail, "        out{at}[e] = {};", known_tail[*step]);
    }
    let alone = row <= ALONE;
    let each = match alone {
        true => "for (var c = 0u; c < p.row; c++) {".to_owned(),
        false => format!("for (var c = l; c < p.row; c += {GROUP}u) {{"),
    };
    let share = |name: &str, from: &str, both: &str| match alone {
        true => format!("    let {name} = {from};\n"),
        false => format!(
            "    part[l] = {from};\n    workgroupBarrier();\n    for (var half = {}u; half > 0u; half /= 2u) {{\n        if l < half {{ part[l] = {both}; }}\n        workgroupBarrier();\n    }}\n    let {name} = part[0];\n    workgroupBarrier();\n",
            GROUP / 2
        ),
    };
    let sum = "part[l] + part[l + half]";
    let at = if alone { "        let e = id.x * p.row + c;\n" } else { "        let e = group.x * p.row + c;\n" };
    let passes = match f {
        Norm::Softmax => {
            let max_of = together(Reduction::Max, ElementType::F32).both;
            format!(
                "    var most = bitcast<f32>(p.low);\n    {each}\n{at}{first}        out0[e] = {value};\n        most = {};\n    }}\n{}    var sum = 0.0;\n    {each}\n{at}        let x = exp(out0[e] - top);\n        out0[e] = x;\n        sum += x;\n    }}\n{}    {each}\n{at}        let x = out0[e] / all;\n{tail}    }}\n",
                max_of("most", &value),
                share("top", "most", &max_of("part[l]", "part[l + half]")),
                share("all", "sum", sum),
            )
        }
        Norm::Layer => format!(
            "    var sum = 0.0;\n    {each}\n{at}{first}        out0[e] = {value};\n        sum += {value};\n    }}\n{}    let mean = all / f32(p.row);\n    var squares = 0.0;\n    {each}\n{at}        let d = out0[e] - mean;\n        squares += d * d;\n    }}\n{}    let by = inverseSqrt(spread / f32(p.row) + bitcast<f32>(p.s{scalar}));\n    {each}\n{at}        let x = (out0[e] - mean) * by;\n{tail}    }}\n",
            share("all", "sum", sum),
            share("spread", "squares", sum),
        ),
        Norm::RootMeanSquare => format!(
            "    var squares = 0.0;\n    {each}\n{at}{first}        out0[e] = {value};\n        squares += {value} * {value};\n    }}\n{}    let by = inverseSqrt(all / f32(p.row) + bitcast<f32>(p.s{scalar}));\n    {each}\n{at}        let x = out0[e] * by;\n{tail}    }}\n",
            share("all", "squares", sum),
        ),
    };
    let count = program.len().checked_div(row).unwrap_or(0);
    let (before, entry, groups) = match alone {
        true => (
            String::new(),
            "fn rows(@builtin(global_invocation_id) id: vec3<u32>) {\n    if id.x >= p.rows { return; }\n",
            count.div_ceil(GROUP),
        ),
        false => (
            format!("var<workgroup> part: array<f32, {GROUP}>;\n"),
            "fn rows(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) l: u32) {\n",
            count,
        ),
    };
    let text = format!(
        "{}{}\n{}{before}@compute @workgroup_size({GROUP})\n{entry}{passes}}}\n",
        printer.params(&["row", "low", "rows"]),
        printer.bindings(|_| 1),
        printer.helpers(),
    );
    KernelSource { text, grid: [groups, 1, 1], words: vec![row, f32::NEG_INFINITY.to_bits(), count] }
}
