//! Expressions of any type.
//!
//! Everything but a literal contains a value of run time: naga evaluates what is constant while it compiles, and refuses what overflows
//! there or divides by zero, so that two literals never meet.

use crate::{
    family::Family,
    function::Function,
    scope::Scope,
    types::{Kind, Type},
};

impl Scope<'_> {
    /// A value of a type, known only at run time.
    pub(crate) fn expression(&mut self, ty: Type, depth: usize) -> String {
        let room = self.tape.spend();
        if depth == 0 || !room || self.tape.pick(5) == 0 {
            return self.leaf(ty);
        }
        if self.tape.chance(5)
            && let Some(text) = self.any_kind(ty, depth - 1)
        {
            return text;
        }
        match ty.kind {
            Kind::U32 | Kind::I32 => self.integer(ty, depth - 1),
            Kind::Bool => self.boolean(ty, depth - 1),
            Kind::F32 => self.exact(ty, depth - 1).text,
        }
    }

    /// As an operand beside a value of run time: a literal, too.
    pub(crate) fn operand(&mut self, ty: Type, depth: usize) -> String {
        if self.tape.chance(4) { self.literal(ty) } else { self.expression(ty, depth) }
    }

    /// A variable, or a vector made of some.
    pub(crate) fn leaf(&mut self, ty: Type) -> String {
        if let Some(variable) = self.variable(|variable| variable.ty == ty) {
            return variable.name;
        }
        // There is an input of every scalar type.
        let parts: Vec<_> = (0..ty.width).map(|_| self.leaf(Type::scalar(ty.kind))).collect();
        format!("{ty}({})", parts.join(", "))
    }

    pub(crate) fn literal(&mut self, ty: Type) -> String {
        if ty.width > 1 {
            let parts: Vec<_> = (0..ty.width).map(|_| self.literal(Type::scalar(ty.kind))).collect();
            return format!("{ty}({})", parts.join(", "));
        }
        match ty.kind {
            Kind::U32 => format!("{}u", self.tape.word()),
            Kind::I32 => format!("i32({})", self.tape.word().cast_signed()),
            Kind::Bool => ["false", "true"][self.tape.pick(2)].into(),
            // A multiple of a quarter below 16.
            Kind::F32 => format!("{:?}f", f64::from(self.tape.byte().cast_signed() / 2) / 4.0),
        }
    }

    /// What there is for every type: choice, parts of vectors, elements of arrays, calls.
    fn any_kind(&mut self, ty: Type, depth: usize) -> Option<String> {
        Some(match self.tape.pick(6) {
            0 => {
                let (a, b) = (self.expression(ty, depth), self.operand(ty, depth));
                let condition = self.expression(Type::scalar(Kind::Bool), depth);
                format!("select({a}, {b}, {condition})")
            }
            1 => {
                let (a, b) = (self.expression(ty, depth), self.operand(ty, depth));
                let condition = self.expression(ty.with(Kind::Bool), depth);
                format!("select({a}, {b}, {condition})")
            }
            2 => {
                let from = Type { width: 2 + self.tape.pick(3), ..ty };
                let vector = self.expression(from, depth);
                let letters: String = (0..ty.width).map(|_| ['x', 'y', 'z', 'w'][self.tape.pick(from.width)]).collect();
                format!("({vector}).{letters}")
            }
            3 if ty.width == 1 => {
                let from = Type { width: 2 + self.tape.pick(3), ..ty };
                let vector = self.expression(from, depth);
                let index = self.expression(Type::scalar(Kind::U32), depth);
                format!("({vector})[{index} % {}u]", from.width)
            }
            4 => {
                let fit: Vec<_> = self.arrays.iter().filter(|array| array.ty == ty).cloned().collect();
                if fit.is_empty() {
                    return None;
                }
                let array = fit[self.tape.pick(fit.len())].clone();
                let index = self.expression(Type::scalar(Kind::U32), depth);
                format!("{}[{index} % {}u]", array.name, array.len)
            }
            5 => {
                let fit: Vec<_> = self
                    .functions
                    .iter()
                    .filter(|function| function.returns == ty && function.pointer.is_none())
                    .cloned()
                    .collect();
                if fit.is_empty() {
                    return None;
                }
                let function = fit[self.tape.pick(fit.len())].clone();
                self.call(&function, None, depth)
            }
            _ => return None,
        })
    }

    /// A value that a variable may hold.
    pub(crate) fn value(&mut self, ty: Type, depth: usize) -> String {
        match ty.kind {
            Kind::F32 => {
                let value = self.exact_expression(ty, depth);
                self.settled(ty, value)
            }
            _ => self.expression(ty, depth),
        }
    }

    /// A call; `pointee` is the variable for its pointer, if it takes one.
    pub(crate) fn call(&mut self, function: &Function, pointee: Option<&str>, depth: usize) -> String {
        let values = function.takes.iter().map(|ty| self.value(*ty, depth.min(2)));
        let mut arguments: Vec<_> = values.collect();
        arguments.extend(pointee.map(|name| format!("&{name}")));
        format!("{}({})", function.name, arguments.join(", "))
    }

    fn boolean(&mut self, ty: Type, depth: usize) -> String {
        let compared = match self.family {
            Family::Integers => [Kind::U32, Kind::I32, Kind::U32][self.tape.pick(3)],
            _ => [Kind::U32, Kind::F32, Kind::I32][self.tape.pick(3)],
        };
        match self.tape.pick(10) {
            0..=2 => {
                let (a, b) = (self.expression(ty.with(compared), depth), self.operand(ty.with(compared), depth));
                let operator = ["<", "==", "!=", "<=", ">", ">="][self.tape.pick(6)];
                format!("({a} {operator} {b})")
            }
            3 => format!("(!{})", self.expression(ty, depth)),
            4 | 8 | 9 => {
                let (a, b) = (self.expression(ty, depth), self.operand(ty, depth));
                let operator = if ty.width == 1 {
                    ["&", "|", "&&", "||", "==", "!="][self.tape.pick(6)]
                } else {
                    ["&", "|"][self.tape.pick(2)]
                };
                format!("({a} {operator} {b})")
            }
            5 if ty.width == 1 => {
                let from = Type { kind: Kind::Bool, width: 2 + self.tape.pick(3) };
                format!("{}({})", ["any", "all"][self.tape.pick(2)], self.expression(from, depth))
            }
            6 => {
                let from = ty.with([Kind::U32, Kind::I32][self.tape.pick(2)]);
                format!("{ty}({})", self.expression(from, depth))
            }
            _ => {
                let a = self.expression(ty.with(Kind::I32), depth);
                format!("({a} == {})", self.expression(ty.with(Kind::I32), depth))
            }
        }
    }
}
