//! A whole kernel: its source, and how its outputs are to be compared.

use std::fmt::Write;

use crate::{
    family::Family,
    scope::{Array, Scope},
    tape::{Tape, Tapes},
    types::{Kind, Type},
};

/// Words of the integer input for each invocation, and floats.
pub(crate) const WORDS: usize = 4;
pub(crate) const FLOATS: usize = 6;

/// A generated kernel.
pub(crate) struct Kernel {
    pub(crate) family: Family,
    pub(crate) source: String,
    /// One for each word that an invocation writes.
    pub(crate) outputs: Vec<Output>,
}

/// How a word of two devices is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Output {
    /// Bit for bit.
    Word,
    /// Bit for bit, but for the sign of zero.
    Float,
    /// As near as this, relative to the larger one.
    Relative(f64),
    /// As near as this.
    Absolute(f64),
}

const HEAD: &str = "@group(0) @binding(0) var<storage, read> words: array<u32>;
@group(0) @binding(1) var<storage, read> floats: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;
";

impl Kernel {
    pub(crate) fn read(family: Family, tapes: &Tapes) -> Self {
        let mut scope = Scope::new(family);
        let mut source = String::from(HEAD);
        let mut body = String::new();
        let outputs = match family {
            Family::Integers | Family::Exact => scope.program(&mut source, &mut body, tapes),
            Family::Rounded | Family::Transcendental => scope.straight_line(&mut body, tapes),
        };
        write!(
            source,
            "@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
    let at = id.x * {WORDS}u;
    if at >= arrayLength(&words) {{ return; }}
    let from_ = id.x * {FLOATS}u;
{body}}}
"
        )
        .expect("a string takes all");
        Self { family, source, outputs }
    }
}

impl<'a> Scope<'a> {
    /// Functions, then statements, then outputs of any type and one word of all that was declared.
    fn program(&mut self, module: &mut String, body: &mut String, tapes: &'a Tapes) -> Vec<Output> {
        let write = |out: &mut String, text: &str| writeln!(out, "{text}").expect("a string takes all");
        for tape in &tapes.arrays {
            self.tape = Tape::new(tape);
            let (ty, len) = (Type::read(&mut self.tape, self.family), 2 + self.tape.pick(6));
            let name = self.fresh("m");
            write(module, &format!("var<private> {name}: array<{ty}, {len}>;"));
            self.arrays.push(Array { name, ty, len });
        }
        for tape in &tapes.functions {
            self.tape = Tape::new(tape);
            self.function(module);
        }
        write(body, "    let u0 = words[at];\n    let u1 = words[at + 1u];");
        write(body, "    let i0 = bitcast<i32>(words[at + 2u]);\n    let i1 = bitcast<i32>(words[at + 3u]);");
        write(body, "    let b0 = (u0 & 1u) == 1u;\n    let b1 = i0 < 0;");
        write(body, "    let x0 = floats[from_];\n    let x1 = floats[from_ + 1u];\n    let x2 = floats[from_ + 2u];");
        for (name, kind) in [
            ("u0", Kind::U32),
            ("u1", Kind::U32),
            ("i0", Kind::I32),
            ("i1", Kind::I32),
            ("b0", Kind::Bool),
            ("b1", Kind::Bool),
            ("x0", Kind::F32),
            ("x1", Kind::F32),
            ("x2", Kind::F32),
        ] {
            self.declare(name, Type::scalar(kind), false);
        }
        let inputs = self.variables.len();
        for tape in &tapes.statements {
            self.tape = Tape::new(tape);
            self.statement(body, 1);
        }
        let mut outputs = Vec::new();
        let mut stores = String::new();
        for tape in &tapes.results {
            self.tape = Tape::new(tape);
            let ty = Type::read(&mut self.tape, self.family);
            let value = match ty.kind {
                Kind::F32 => self.exact_expression(ty, 4).text,
                _ => self.expression(ty, 4),
            };
            store(&mut stores, ty, &value, outputs.len());
            let output = if ty.kind == Kind::F32 { Output::Float } else { Output::Word };
            outputs.extend(vec![output; ty.width]);
        }
        let declared = self.declared(inputs);
        // Without results, there must be something to compare.
        if !declared.is_empty() || outputs.is_empty() {
            write(&mut stores, "    var all = 0u;");
            for (value, ty) in declared {
                write(&mut stores, &format!("    all = all * 31u + {};", word_of(&value, ty)));
            }
            write(&mut stores, &format!("    out[to + {}u] = all;", outputs.len()));
            outputs.push(Output::Word);
        }
        finish(body, &stores, outputs.len());
        outputs
    }

    /// Every scalar in the variables after the inputs and in the arrays.
    fn declared(&self, inputs: usize) -> Vec<(String, Kind)> {
        let variables = self.variables[inputs..].iter().map(|variable| (variable.name.clone(), variable.ty));
        let elements = self
            .arrays
            .iter()
            .flat_map(|array| (0..array.len).map(|index| (format!("{}[{index}]", array.name), array.ty)));
        let scalars = variables.chain(elements).flat_map(|(name, ty)| {
            let parts =
                (0..ty.width).map(move |part| if ty.width == 1 { name.clone() } else { format!("{name}[{part}]") });
            parts.map(move |part| (part, ty.kind))
        });
        scalars.collect()
    }

    /// Outputs of rounded floats, each from the inputs alone.
    fn straight_line(&mut self, body: &mut String, tapes: &'a Tapes) -> Vec<Output> {
        for float in 0..FLOATS {
            writeln!(body, "    let x{float} = floats[from_ + {float}u];").expect("a string takes all");
        }
        let mut outputs = Vec::new();
        let mut stores = String::new();
        for tape in &tapes.results {
            self.tape = Tape::new(tape);
            let ty = Type::read(&mut self.tape, self.family);
            let (value, output) = if self.family == Family::Rounded {
                let value = self.rounded(ty.width, 5);
                (value.text, Output::Relative(2.0 * value.error / 8_388_608.0))
            } else {
                let (text, apart) = self.transcendental(ty.width);
                (text, Output::Absolute(apart))
            };
            store(&mut stores, ty, &value, outputs.len());
            outputs.extend(vec![output; ty.width]);
        }
        finish(body, &stores, outputs.len());
        outputs
    }
}

/// Puts a value into words of the output from `first` on.
fn store(out: &mut String, ty: Type, value: &str, first: usize) {
    writeln!(out, "    let r{first}: {ty} = {value};").expect("a string takes all");
    for component in 0..ty.width {
        let part = if ty.width == 1 { format!("r{first}") } else { format!("r{first}[{component}]") };
        let word = match ty.kind {
            Kind::U32 => part,
            Kind::I32 | Kind::F32 => format!("bitcast<u32>({part})"),
            Kind::Bool => format!("u32({part})"),
        };
        writeln!(out, "    out[to + {}u] = {word};", first + component).expect("a string takes all");
    }
}

/// A value that a variable holds, as a word in which no zero has a sign.
fn word_of(value: &str, kind: Kind) -> String {
    match kind {
        Kind::U32 => value.into(),
        Kind::I32 => format!("bitcast<u32>({value})"),
        Kind::Bool => format!("u32({value})"),
        // A multiple of a quarter.
        Kind::F32 => format!("bitcast<u32>(i32({value} * 4.0))"),
    }
}

fn finish(body: &mut String, stores: &str, width: usize) {
    writeln!(body, "    let to = id.x * {width}u;\n{}", stores.trim_end()).expect("a string takes all");
}
