//! Helper functions.

use std::fmt::Write;

use crate::{
    scope::Scope,
    types::{Kind, Type},
};

/// What a caller must know of one.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) takes: Vec<Type>,
    /// What its last parameter points to, if it is a pointer.
    pub(crate) pointer: Option<Type>,
    pub(crate) returns: Type,
}

impl Scope<'_> {
    /// A function that sees the module's arrays, its own parameters and the functions before it.
    pub(crate) fn function(&mut self, out: &mut String) {
        let (name, returns) = (self.fresh("f"), Type::read(&mut self.tape, self.family));
        let mut takes = vec![Type::scalar(Kind::U32)];
        let mut parameters = String::from("u: u32");
        // The leaves that every expression needs: a scalar of each type.
        for (stem, kind) in [("i", Kind::I32), ("b", Kind::Bool), ("x", Kind::F32)] {
            takes.push(Type::scalar(kind));
            write!(parameters, ", {stem}: {kind}").expect("a string takes all");
        }
        for _ in 0..self.tape.pick(3) {
            let ty = Type::read(&mut self.tape, self.family);
            write!(parameters, ", p{}: {ty}", takes.len()).expect("a string takes all");
            takes.push(ty);
        }
        let pointer = if self.tape.pick(2) == 1 { Some(Type::read(&mut self.tape, self.family)) } else { None };
        if let Some(ty) = pointer {
            write!(parameters, ", q: ptr<function, {ty}>").expect("a string takes all");
            self.declare("(*q)", ty, true);
        }
        for (index, ty) in takes.iter().enumerate() {
            let name = ["u", "i", "b", "x"].get(index).map_or_else(|| format!("p{index}"), |name| (*name).into());
            self.declare(&name, *ty, false);
        }
        let arrays = self.arrays.len();
        self.returns = Some(returns);
        writeln!(out, "fn {name}({parameters}) -> {returns} {{").expect("a string takes all");
        self.statements(out, 1, 3);
        if self.tape.pick(2) == 1 {
            let (condition, value) = (self.expression(Type::scalar(Kind::Bool), 2), self.value(returns, 2));
            writeln!(out, "    if {condition} {{ return {value}; }}").expect("a string takes all");
            self.statements(out, 1, 2);
        }
        let value = self.value(returns, 3);
        writeln!(out, "    return {value};\n}}").expect("a string takes all");
        self.variables.clear();
        self.arrays.truncate(arrays);
        self.returns = None;
        self.functions.push(Function { name, takes, pointer, returns });
    }
}
