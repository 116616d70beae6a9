//! Kernels as WGSL.

use std::fmt::Write as _;

use crate::tree::{
    Block, Call, Cond, Expr, Function, GLOBAL_ARRAY, IDS, INPUT, Kernel, OWN, Operator, Pointee, ROW, ROWS, Row,
    Statement, Target, Top,
};

pub(crate) fn print(kernel: &Kernel) -> String {
    let [x, y, z] = kernel.size;
    let lanes = x * y * z;
    let mut text = String::from(
        "@group(0) @binding(0) var<storage, read> params: array<u32, 4>;
@group(0) @binding(1) var<storage, read> input: array<u32>;
@group(0) @binding(2) var<storage, read_write> own: array<u32>;
@group(0) @binding(3) var<storage, read_write> counts: array<atomic<u32>>;
var<private> g0: u32;
var<private> g1: u32 = 7u;
",
    );
    let _ = writeln!(text, "var<private> ga: array<u32, {GLOBAL_ARRAY}>;");
    if kernel.tile {
        let _ = writeln!(text, "var<workgroup> tile: array<u32, {lanes}>;\nvar<workgroup> flag: u32;");
    }
    for (number, function) in kernel.functions.iter().enumerate() {
        text += &one(number, function);
    }
    let _ = writeln!(
        text,
        "@compute @workgroup_size({x}, {y}, {z}) fn main(@builtin(global_invocation_id) gid: vec3<u32>, \
         @builtin(local_invocation_id) lid: vec3<u32>, @builtin(workgroup_id) wid: vec3<u32>, \
         @builtin(local_invocation_index) li: u32, @builtin(num_workgroups) n: vec3<u32>) {{"
    );
    let _ = writeln!(text, "let base = (((wid.z * n.y + wid.y) * n.x + wid.x) * {lanes}u + li) * {OWN}u;");
    let _ = writeln!(text, "var array_: array<array<u32, {ROW}>, {ROWS}>;");
    tops(&kernel.main, lanes, &mut text);
    text += "own[base] ^= g0 + g1;\n";
    for var in visible(&kernel.main) {
        let _ = writeln!(text, "own[base + 1u] = own[base + 1u] * 31u + v{var};");
    }
    text += "}\n";
    text
}

/// The variables that are still visible at the end of the entry point.
pub(crate) fn visible(main: &[Top]) -> Vec<usize> {
    let mut all = Vec::new();
    for top in main {
        if let Top::Code(block) = top {
            for statement in block {
                if let Statement::Declare(var, _) | Statement::Let(var, _) = statement {
                    all.push(*var);
                }
            }
        }
    }
    all
}

fn tops(main: &[Top], lanes: u32, text: &mut String) {
    for top in main {
        match top {
            Top::Code(code) => block(code, text),
            Top::Exchange(var, by) => {
                let _ = writeln!(
                    text,
                    "tile[li] = v{var}; workgroupBarrier(); v{var} = tile[(li * {by}u + 1u) % {lanes}u]; workgroupBarrier();"
                );
            }
            Top::Share(var) => {
                let _ = writeln!(
                    text,
                    "if li == 0u {{ flag = v{var}; }} v{var} = workgroupUniformLoad(&flag); workgroupBarrier();"
                );
            }
            Top::Repeat(param, body) => {
                let _ = writeln!(text, "for (var r = 0u; r < params[{param}] % 4u; r++) {{");
                tops(body, lanes, text);
                *text += "}\n";
            }
        }
    }
}

fn one(number: usize, function: &Function) -> String {
    let mut text = format!("fn f{number}(a0: u32, a1: u32");
    if function.pointee {
        text += ", p: ptr<function, u32>";
    }
    if function.row {
        let _ = write!(text, ", q: ptr<function, array<u32, {ROW}>>");
    }
    let _ = writeln!(text, ") -> u32 {{\nvar array_: array<array<u32, {ROW}>, {ROWS}>;");
    block(&function.body, &mut text);
    text += "}\n";
    text
}

fn block(block: &Block, text: &mut String) {
    block.iter().for_each(|one| statement(one, text));
}

fn statement(statement: &Statement, text: &mut String) {
    let _ = match statement {
        Statement::Declare(var, None) => writeln!(text, "var v{var}: u32;"),
        Statement::Declare(var, Some(value)) => writeln!(text, "var v{var} = {};", expr(value)),
        Statement::Let(var, value) => writeln!(text, "let v{var} = {};", runtime(value, 0)),
        Statement::Set(to, value) => writeln!(text, "{} = {};", target(to), expr(value)),
        Statement::Atomic(to, index, value) => {
            writeln!(text, "v{to} = atomicAdd(&counts[base + ({}) % {OWN}u], {});", expr(index), expr(value))
        }
        Statement::If(cond, accept, reject) => {
            let _ = writeln!(text, "if {} {{", condition(cond));
            block(accept, text);
            if !reject.is_empty() {
                text.push_str("} else {\n");
                block(reject, text);
            }
            writeln!(text, "}}")
        }
        Statement::For(var, limit, body) => {
            let _ = writeln!(text, "for (var v{var} = 0u; v{var} < ({}) % 7u; v{var}++) {{", expr(limit));
            block(body, text);
            writeln!(text, "}}")
        }
        Statement::While(var, most, cond, body) => {
            let _ = writeln!(text, "var v{var} = 0u;\nwhile v{var} < {most}u && ({}) {{\nv{var}++;", condition(cond));
            block(body, text);
            writeln!(text, "}}")
        }
        Statement::Loop(var, most, body, continuing, until) => {
            let _ = writeln!(text, "var v{var} = 0u;\nloop {{\nif v{var} >= {most}u {{ break; }}\nv{var}++;");
            block(body, text);
            text.push_str("continuing {\n");
            block(continuing, text);
            if let Some(until) = until {
                let _ = writeln!(text, "break if {};", condition(until));
            }
            writeln!(text, "}}\n}}")
        }
        Statement::Switch(selector, cases) => {
            let _ = writeln!(text, "switch {} {{", expr(selector));
            for (selectors, default, body) in cases {
                let mut all: Vec<String> = selectors.iter().map(|value| format!("{value}u")).collect();
                if *default {
                    all.push("default".into());
                }
                let _ = writeln!(text, "case {}: {{", all.join(", "));
                block(body, text);
                text.push_str("}\n");
            }
            writeln!(text, "}}")
        }
        Statement::Call(one) => writeln!(text, "{}", call(one)),
        Statement::Break => writeln!(text, "break;"),
        Statement::Continue => writeln!(text, "continue;"),
        Statement::Return(None) => writeln!(text, "return;"),
        Statement::Return(Some(value)) => writeln!(text, "return {};", expr(value)),
    };
}

fn call(call: &Call) -> String {
    let [a, b] = &call.arguments;
    let mut text = format!("v{} = f{}({}, {}", call.to, call.function, expr(a), expr(b));
    match &call.pointee {
        None => {}
        Some(Pointee::Var(var)) => drop(write!(text, ", &v{var}")),
        Some(Pointee::Element(row, index)) => {
            let _ = write!(text, ", &array_[{}][{}]", runtime(row, ROWS), runtime(index, ROW));
        }
        Some(Pointee::Same) => text += ", p",
    }
    match &call.row {
        None => {}
        Some(Row::Of(row)) => drop(write!(text, ", &array_[{}]", runtime(row, ROWS))),
        Some(Row::Same) => text += ", q",
    }
    text + ");"
}

fn target(target: &Target) -> String {
    match target {
        Target::Var(var) => format!("v{var}"),
        Target::Global(number) => format!("g{number}"),
        Target::GlobalArray(index) => format!("ga[{}]", runtime(index, GLOBAL_ARRAY)),
        Target::Array(row, index) => format!("array_[{}][{}]", runtime(row, ROWS), runtime(index, ROW)),
        Target::Pointee => "*p".into(),
        Target::Row(index) => format!("(*q)[{}]", runtime(index, ROW)),
        Target::Own(index) => format!("own[base + ({}) % {OWN}u]", expr(index)),
        Target::Nowhere(index) => format!("own[0x{:x}u | ({})]", 0x4000_0000, expr(index)),
    }
}

/// An index that naga does not refuse for being out of bounds.
fn runtime(index: &Expr, len: usize) -> String {
    match index {
        Expr::Const(value) if *value as usize >= len => format!("params[0] - params[0] + {value}u"),
        index => expr(index),
    }
}

fn expr(expr_: &Expr) -> String {
    match expr_ {
        Expr::Const(value) => format!("{value}u"),
        Expr::Var(var) => format!("v{var}"),
        Expr::Id(number) => IDS[*number].into(),
        Expr::Param(number) => format!("params[{number}]"),
        Expr::Input(index) => format!("input[({}) % {INPUT}u]", expr(index)),
        Expr::Argument(number) => format!("a{number}"),
        Expr::Global(number) => format!("g{number}"),
        Expr::GlobalArray(index) => format!("ga[{}]", runtime(index, GLOBAL_ARRAY)),
        Expr::Array(row, index) => format!("array_[{}][{}]", runtime(row, ROWS), runtime(index, ROW)),
        Expr::Pointee => "(*p)".into(),
        Expr::Row(index) => format!("(*q)[{}]", runtime(index, ROW)),
        Expr::Own(index) => format!("own[base + ({}) % {OWN}u]", expr(index)),
        Expr::Select(cond, accept, reject) => {
            format!("select({}, {}, {})", expr(reject), runtime(accept, 0), condition(cond))
        }
        Expr::Binary(operator, left, right) => {
            // Never two constants, and never a constant zero to divide by: naga would say so.
            let left = if left.is_constant() && right.is_constant() {
                format!("(params[0] - params[0] + {})", expr(left))
            } else {
                expr(left)
            };
            let right = match (operator, &**right) {
                (Operator::Div | Operator::Rem, Expr::Const(0)) => "(params[0] - params[0])".into(),
                (Operator::Shl | Operator::Shr, right) => format!("({} & 31u)", expr(right)),
                (_, right) => expr(right),
            };
            let symbol = match operator {
                Operator::Min => return format!("min({left}, {right})"),
                Operator::Add => "+",
                Operator::Sub => "-",
                Operator::Mul => "*",
                Operator::Xor => "^",
                Operator::And => "&",
                Operator::Or => "|",
                Operator::Div => "/",
                Operator::Rem => "%",
                Operator::Shl => "<<",
                Operator::Shr => ">>",
            };
            format!("({left} {symbol} {right})")
        }
    }
}

fn condition(cond: &Cond) -> String {
    match cond {
        Cond::Equal(left, right) => format!("({} == {})", expr(left), expr(right)),
        Cond::Less(left, right) => format!("({} < {})", expr(left), expr(right)),
        Cond::Not(cond) => format!("!{}", condition(cond)),
        Cond::Both(left, right) => format!("({} && {})", condition(left), condition(right)),
        Cond::Either(left, right) => format!("({} || {})", condition(left), condition(right)),
    }
}

impl Expr {
    fn is_constant(&self) -> bool {
        matches!(self, Self::Const(_))
    }
}
