//! Bodies as WGSL: one `let` per step.

use std::fmt::Write as _;

use super::program::{Body, Expr, Indexing, Program};
use crate::{ElementType, Function};

/// Prints the parts that all kernels share.
pub(super) struct Printer<'a> {
    pub(super) program: &'a Program,
    /// Neighbouring elements that one invocation computes at a time.
    pub(super) width: u32,
    /// Elements per binding element of each input: 1, or more for vectors.
    by: Vec<u32>,
    /// Helper functions, in the order of their first call.
    helpers: Vec<String>,
}

/// The names of a body's indices.
#[derive(Clone, Copy)]
pub(super) struct NameTable<'a> {
    /// The item: `width` elements.
    pub(super) item: &'a str,
    /// Its first element.
    pub(super) first: &'a str,
    /// Prefix of the steps' names.
    pub(super) step: &'a str,
    /// The result of the head.
    pub(super) head: &'a str,
}

/// The scalar with the rows of a table, and elements of a row.
#[derive(Clone, Copy)]
struct TableShape {
    rows: usize,
    row: u32,
}

impl<'a> Printer<'a> {
    pub(super) fn new(program: &'a Program, bodies: &[&Body], width: u32) -> Self {
        let loads = |input: usize| {
            bodies.iter().flat_map(|body| &body.steps).filter_map(move |step| match step {
                Expr::Load { input: of, at } if *of == input => Some(Some(at)),
                Expr::Gather { input: of, .. } if *of == input => Some(None),
                Expr::Join { inputs, .. } if inputs.contains(&input) => Some(None),
                _ => None,
            })
        };
        let by = (0..program.inputs.len()).map(|input| {
            let port = program.inputs[input];
            let side_by_side = |at: Option<&Indexing>| at.is_some_and(|at| at.is_wide(width) && !at.is_splat());
            let whole = port.len > 0 && port.len.is_multiple_of(width) && port.element != ElementType::F16;
            if whole && loads(input).all(side_by_side) { width } else { 1 }
        });
        Self { program, width, by: by.collect(), helpers: Vec::new() }
    }

    /// Marks an input that the kernel itself reads one element at a time.
    pub(super) fn narrow(&mut self, input: usize) {
        self.by[input] = 1;
    }

    /// Marks an input that the kernel itself reads four elements at a time.
    pub(super) fn widen(&mut self, input: usize) {
        self.by[input] = 4;
    }

    /// The parameters: named words, then the scalars of the program.
    pub(super) fn params(&self, words: &[&str]) -> String {
        let words = words.iter().map(|word| format!("{word}: u32"));
        let scalars = (0..self.program.scalars).map(|at| format!("s{at}: u32"));
        let all: Vec<String> = words.chain(scalars).collect();
        if all.is_empty() {
            String::new()
        } else {
            format!("struct Params {{ {} }}\nvar<immediate> p: Params;\n", all.join(", "))
        }
    }

    /// The bindings; `stores` gives the width of each output.
    pub(super) fn bindings(&self, stores: impl Fn(usize) -> u32) -> String {
        let mut text = String::new();
        let inputs = self.program.inputs.iter().enumerate();
        for (at, port) in inputs {
            let ty = memory(port.element, self.by[at]);
            let _ = writeln!(text, "@group(0) @binding({at}) var<storage, read> in{at}: array<{ty}>;");
        }
        for (at, port) in self.program.outputs.iter().enumerate() {
            let (binding, ty) = (self.program.inputs.len() + at, memory(port.element, stores(at)));
            let _ = writeln!(text, "@group(0) @binding({binding}) var<storage, read_write> out{at}: array<{ty}>;");
        }
        text
    }

    /// The helper functions that the steps printed so far call.
    pub(super) fn helpers(&self) -> String {
        self.helpers.concat()
    }

    /// Prints all steps of a body, indented. Returns the name of each.
    pub(super) fn steps(&mut self, body: &Body, names: NameTable<'_>, indent: &str, text: &mut String) -> Vec<String> {
        let mut known = vec![String::new(); body.steps.len()];
        self.some_steps(body, |_| true, names, indent, text, &mut known);
        known
    }

    /// Prints some steps of a body, indented; their arguments are already known.
    pub(super) fn some_steps(
        &mut self,
        body: &Body,
        wanted: impl Fn(usize) -> bool,
        names: NameTable<'_>,
        indent: &str,
        text: &mut String,
        known: &mut [String],
    ) {
        for (number, step) in body.steps.iter().enumerate().filter(|(number, _)| wanted(*number)) {
            let value = match step {
                Expr::Head(_) => {
                    names.head.clone_into(&mut known[number]);
                    continue;
                }
                Expr::Load { input, at } => self.load(*input, at, names),
                Expr::Gather { input, index, rows, row } => {
                    let table = TableShape { rows: *rows, row: *row };
                    self.gather(*input, &known[*index], table, names)
                }
                Expr::Join { inputs, pieces } => self.join(*inputs, *pieces, names),
                Expr::Number { scalar, element } => self.number(*scalar, *element),
                Expr::Apply { f, args, element } => {
                    let of = args.first().map_or(*element, |arg| self.program.element(body, *arg));
                    let args: Vec<&str> = args.iter().map(|arg| known[*arg].as_str()).collect();
                    self.apply(*f, &args, of, *element)
                }
            };
            known[number] = format!("{}{number}", names.step);
            let _ = writeln!(text, "{indent}let {} = {value};", known[number]);
        }
    }

    /// `width` elements, each by an expression of its index.
    fn each(&self, element: ElementType, names: NameTable<'_>, value: impl Fn(&str) -> String) -> String {
        if self.width == 1 {
            return value(names.first);
        }
        let ragged = !self.program.len().is_multiple_of(self.width);
        let index = |lane: u32| match lane {
            0 => names.first.to_owned(),
            lane if ragged => format!("min({} + {lane}u, p.len - 1u)", names.first),
            lane => format!("({} + {lane}u)", names.first),
        };
        let lanes: Vec<String> = (0..self.width).map(|lane| value(&index(lane))).collect();
        format!("{}({})", register(element, self.width), lanes.join(", "))
    }

    fn load(&self, input: usize, at: &Indexing, names: NameTable<'_>) -> String {
        let element = self.program.inputs[input].element;
        let width = self.width;
        let is_vector = at.is_wide(width) && !at.is_splat();
        if width > 1 && self.by[input] == width && is_vector {
            return match at {
                Indexing::Same => format!("in{input}[{}]", names.item),
                at => format!("in{input}[({}) / {width}u]", index(at, names.first)),
            };
        }
        if element == ElementType::F16 && width == 2 && *at == Indexing::Same {
            return format!("unpack2x16float(in{input}[{}])", names.item);
        }
        if width > 1 && at.is_splat() && at.is_wide(width) {
            let one = self.single(input, element, &index(at, names.first));
            return format!("{}({one})", register(element, width));
        }
        self.each(element, names, |e| self.single(input, element, &index(at, e)))
    }

    /// An element of an input, which may be bound as vectors because the kernel itself reads it so.
    fn single(&self, input: usize, element: ElementType, index: &str) -> String {
        match self.by[input] {
            by if by > 1 && element != ElementType::F16 => format!("in{input}[({index}) / {by}u][({index}) % {by}u]"),
            _ => single(input, element, index),
        }
    }

    /// Elements of the chosen rows of a table; zero for a row that does not exist.
    fn gather(&self, input: usize, chosen: &str, table: TableShape, names: NameTable<'_>) -> String {
        let TableShape { rows, row } = table;
        let element = self.program.inputs[input].element;
        let value = |chosen: &str, e: &str| {
            let at = format!("min({chosen}, max(p.s{rows}, 1u) - 1u) * {row}u + {e} % {row}u");
            format!("select({}(0), {}, {chosen} < p.s{rows})", register(element, 1), self.single(input, element, &at))
        };
        if self.width == 1 {
            return value(chosen, names.first);
        }
        let lane = |lane: u32| value(&format!("{chosen}[{lane}]"), &format!("({} + {lane}u)", names.first));
        let lanes: Vec<String> = (0..self.width).map(lane).collect();
        format!("{}({})", register(element, self.width), lanes.join(", "))
    }

    fn join(&self, inputs: [usize; 2], pieces: [Option<usize>; 2], names: NameTable<'_>) -> String {
        let element = self.program.inputs[inputs[0]].element;
        self.each(element, names, |e| match pieces {
            [Some(first), Some(second)] => {
                let (first, second) = (format!("p.s{first}"), format!("p.s{second}"));
                let both = format!("({first} + {second})");
                let one = format!("{e} / {both} * {first} + min({e} % {both}, {first} - 1u)");
                let other = format!("{e} / {both} * {second} + max({e} % {both}, {first}) - {first}");
                format!(
                    "select({}, {}, {e} % {both} < {first})",
                    self.single(inputs[1], element, &other),
                    self.single(inputs[0], element, &one)
                )
            }
            // A copy of the side that has elements.
            [_, None] => self.single(inputs[0], element, e),
            [None, _] => self.single(inputs[1], element, e),
        })
    }

    /// A scalar of the kernel, in every lane.
    fn number(&self, scalar: usize, element: ElementType) -> String {
        let ty = register(element, self.width);
        match element {
            ElementType::F32 | ElementType::F16 => format!("{ty}(bitcast<f32>(p.s{scalar}))"),
            ElementType::U32 => format!("{ty}(p.s{scalar})"),
            ElementType::I32 => format!("{ty}(bitcast<i32>(p.s{scalar}))"),
        }
    }

    /// A function of steps of one element type.
    fn apply(&mut self, f: Function, args: &[&str], of: ElementType, to: ElementType) -> String {
        let ty = register(of, self.width);
        let truth = |condition: String| {
            let word = register(ElementType::U32, self.width);
            format!("select({word}(0u), {word}(1u), {condition})")
        };
        let value = match (f, args) {
            (Function::Neg, [x]) => format!("-{x}"),
            (Function::Abs, [x]) => format!("abs({x})"),
            (Function::Exp, [x]) => format!("exp({x})"),
            (Function::Log, [x]) => format!("log({x})"),
            (Function::Sqrt, [x]) => format!("sqrt({x})"),
            (Function::Rsqrt, [x]) => format!("inverseSqrt({x})"),
            (Function::Sin, [x]) => format!("sin({x})"),
            (Function::Cos, [x]) => format!("cos({x})"),
            (Function::Tanh, [x]) => self.call("tanh_", x),
            (Function::Sigmoid, [x]) => format!("1.0 / (1.0 + exp(-{x}))"),
            // NaN stays NaN.
            (Function::Relu, [x]) => format!("select({x}, {ty}(0), {x} < {ty}(0))"),
            (Function::Swish, [x]) => format!("{x} / (1.0 + exp(-{x}))"),
            (Function::Gelu, [x]) => self.call("gelu", x),
            (Function::GeluTanh, [x]) => self.call("gelu_tanh", x),
            (Function::Clamp, [x, low, high]) => {
                format!("select(select({x}, {high}, {x} > {high}), {low}, {x} < {low})")
            }
            (Function::Add, [a, b]) => format!("{a} + {b}"),
            (Function::Sub, [a, b]) => format!("{a} - {b}"),
            (Function::Mul, [a, b]) => format!("{a} * {b}"),
            (Function::Div, [a, b]) => format!("{a} / {b}"),
            (Function::Pow, [a, b]) => self.call("pow_", &format!("{a}, {b}")),
            (Function::Minimum, [a, b]) if !of.is_float() => format!("min({a}, {b})"),
            (Function::Maximum, [a, b]) if !of.is_float() => format!("max({a}, {b})"),
            // A sum is NaN if one of its terms is.
            (Function::Minimum, [a, b]) => format!("select(select({a} + {b}, {b}, {b} <= {a}), {a}, {a} < {b})"),
            (Function::Maximum, [a, b]) => format!("select(select({a} + {b}, {b}, {b} >= {a}), {a}, {a} > {b})"),
            (Function::Equal, [a, b]) => truth(format!("{a} == {b}")),
            (Function::NotEqual, [a, b]) => truth(format!("{a} != {b}")),
            (Function::Less, [a, b]) => truth(format!("{a} < {b}")),
            (Function::LessEqual, [a, b]) => truth(format!("{a} <= {b}")),
            (Function::Greater, [a, b]) => truth(format!("{a} > {b}")),
            (Function::GreaterEqual, [a, b]) => truth(format!("{a} >= {b}")),
            (Function::Select, [c, a, b]) => {
                format!("select({b}, {a}, {c} != {}(0u))", register(ElementType::U32, self.width))
            }
            (Function::Cast, [x]) if register(of, 1) == register(to, 1) => (*x).to_owned(),
            (Function::Cast, [x]) => format!("{}({x})", register(to, self.width)),
            (f, args) => unreachable!("{f:?} of {}", args.len()),
        };
        if to == ElementType::F16 { format!("quantizeToF16({value})") } else { value }
    }

    /// A call of a helper function.
    pub(super) fn call(&mut self, name: &str, args: &str) -> String {
        for needed in needs(name) {
            let text = helper(needed, &register(ElementType::F32, self.width));
            if !self.helpers.contains(&text) {
                self.helpers.push(text);
            }
        }
        format!("{name}({args})")
    }
}

/// The element at an index.
pub(super) fn single(input: usize, element: ElementType, index: &str) -> String {
    match element {
        ElementType::F16 => format!("unpack2x16float(in{input}[({index}) / 2u])[({index}) % 2u]"),
        _ => format!("in{input}[{index}]"),
    }
}

/// The index of the element for output element `e`.
pub(super) fn index(at: &Indexing, e: &str) -> String {
    let Indexing::Strided { offset, dims } = at else { return e.to_owned() };
    let mut inner = 1_u64;
    let mut terms = Vec::new();
    for (number, (length, stride)) in dims.iter().enumerate().rev() {
        if *stride != 0 {
            let mut term = if inner == 1 { e.to_owned() } else { format!("{e} / {inner}u") };
            if number > 0 {
                term = format!("{term} % {length}u");
            }
            if *stride != 1 {
                term = if inner == 1 && number == 0 {
                    format!("{term} * {stride}u")
                } else {
                    format!("({term}) * {stride}u")
                };
            }
            terms.push(term);
        }
        inner *= u64::from(*length);
    }
    match offset {
        Some(offset) => terms.push(format!("p.s{}", offset.scalar)),
        None if terms.is_empty() => terms.push("0u".into()),
        None => {}
    }
    terms.reverse();
    terms.join(" + ")
}

/// The type of an element in memory, `width` at a time.
pub(super) fn memory(element: ElementType, width: u32) -> String {
    match element {
        // Two per word.
        ElementType::F16 => "u32".into(),
        element => register(element, width),
    }
}

/// Its type in a register.
pub(super) fn register(element: ElementType, width: u32) -> String {
    let scalar = match element {
        ElementType::F32 | ElementType::F16 => "f32",
        ElementType::U32 => "u32",
        ElementType::I32 => "i32",
    };
    if width == 1 { scalar.into() } else { format!("vec{width}<{scalar}>") }
}

/// A function and the functions it calls, these first.
fn needs(name: &str) -> Vec<&str> {
    match name {
        "gelu" => vec!["erf", "gelu"],
        "gelu_tanh" => vec!["tanh_", "gelu_tanh"],
        name => vec![name],
    }
}

/// Functions that WGSL does not have, or on whose limits drivers disagree.
fn helper(name: &str, ty: &str) -> String {
    let text = match name {
        // Some drivers divide exponentials, which overflow. `clamp` may lose NaN; comparisons do not.
        "tanh_" => {
            "fn tanh_(x: T) -> T {\n    return tanh(select(select(x, T(15.0), x > T(15.0)), T(-15.0), x < T(-15.0)));\n}\n"
        }
        // A rational function of x², as in Eigen: within 3 units of the last place.
        "erf" => {
            "fn erf(x: T) -> T {
    let c = select(select(x, T(4.0), x > T(4.0)), T(-4.0), x < T(-4.0));
    let s = c * c;
    var p = s * -2.72614225801306e-10 + 2.77068142495902e-08;
    p = p * s + -2.10102402082508e-06;
    p = p * s + -5.69250639462346e-05;
    p = p * s + -7.34990630326855e-04;
    p = p * s + -2.95459980854025e-03;
    p = p * s + -1.60960333262415e-02;
    var q = s * -1.45660718464996e-05 + -2.13374055278905e-04;
    q = q * s + -1.68282697438203e-03;
    q = q * s + -7.37332916720468e-03;
    q = q * s + -1.42647390514189e-02;
    return c * p / q;
}
"
        }
        "gelu" => "fn gelu(x: T) -> T {\n    return 0.5 * x * (1.0 + erf(x * 0.7071067811865476));\n}\n",
        "gelu_tanh" => {
            "fn gelu_tanh(x: T) -> T {\n    return 0.5 * x * (1.0 + tanh_(0.7978845608028654 * (x + 0.044715 * x * x * x)));\n}\n"
        }
        // A negative base needs a whole exponent.
        "pow_" => {
            "fn pow_(x: T, y: T) -> T {
    let size = select(pow(abs(x), y), T(1.0), y == T(0.0));
    let odd = abs(y - 2.0 * floor(0.5 * y)) == T(1.0);
    let whole = select(size, select(size, -size, odd), x < T(0.0));
    let nothing = (x - x) / (x - x);
    return select(whole, nothing, (x < T(0.0)) & (floor(y) != y));
}
"
        }
        name => unreachable!("no function {name}"),
    };
    text.replace(": T", &format!(": {ty}")).replace("-> T", &format!("-> {ty}")).replace(" T(", &format!(" {ty}("))
}
