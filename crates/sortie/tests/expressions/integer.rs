//! Integer expressions: everything wraps, so the whole range may come.

use crate::{
    family::Family,
    scope::Scope,
    types::{Kind, Type},
};

impl Scope<'_> {
    pub(crate) fn integer(&mut self, ty: Type, depth: usize) -> String {
        let unsigned = ty.with(Kind::U32);
        match self.tape.pick(16) {
            0..=2 => {
                let operator = ["+", "-", "*", "&", "|", "^"][self.tape.pick(6)];
                format!("({} {operator} {})", self.expression(ty, depth), self.operand(ty, depth))
            }
            3 => {
                // A literal zero is refused; a zero of run time is not.
                let operator = ["/", "%"][self.tape.pick(2)];
                format!("({} {operator} {})", self.expression(ty, depth), self.expression(ty, depth))
            }
            4 => {
                let operator = ["<<", ">>"][self.tape.pick(2)];
                format!("({} {operator} {})", self.expression(ty, depth), self.expression(unsigned, depth))
            }
            5 if ty.width > 1 => {
                let (vector, scalar) = (self.expression(ty, depth), self.expression(Type::scalar(ty.kind), depth));
                let operator = ["+", "-", "*", "/", "%"][self.tape.pick(5)];
                let (a, b) = if self.tape.pick(2) == 0 { (vector, scalar) } else { (scalar, vector) };
                format!("({a} {operator} {b})")
            }
            6 => {
                let operator = if ty.kind == Kind::I32 { ["-", "~"][self.tape.pick(2)] } else { "~" };
                format!("({operator}{})", self.expression(ty, depth))
            }
            7 => {
                let name = ["min", "max"][self.tape.pick(2)];
                format!("{name}({}, {})", self.expression(ty, depth), self.operand(ty, depth))
            }
            8 => {
                // Bounds the wrong way round have no meaning.
                let (low, high) = (self.expression(ty, 0), self.expression(ty, 0));
                format!("clamp({}, min({low}, {high}), max({low}, {high}))", self.expression(ty, depth))
            }
            9 | 10 => {
                const NAMES: [&str; 8] = [
                    "abs",
                    "countOneBits",
                    "reverseBits",
                    "countLeadingZeros",
                    "countTrailingZeros",
                    "firstLeadingBit",
                    "firstTrailingBit",
                    "sign",
                ];
                let names = if ty.kind == Kind::I32 { &NAMES[..] } else { &NAMES[..7] };
                format!("{}({})", names[self.tape.pick(names.len())], self.expression(ty, depth))
            }
            11 => {
                let (offset, count) =
                    (self.expression(Type::scalar(Kind::U32), 1), self.expression(Type::scalar(Kind::U32), 1));
                let value = self.expression(ty, depth);
                if self.tape.pick(2) == 0 {
                    format!("extractBits({value}, {offset} % 33u, {count} % 33u)")
                } else {
                    format!("insertBits({value}, {}, {offset} % 33u, {count} % 33u)", self.expression(ty, depth))
                }
            }
            12 => {
                let other = ty.with(if ty.kind == Kind::I32 { Kind::U32 } else { Kind::I32 });
                let value = self.expression(other, depth);
                if self.tape.pick(2) == 0 { format!("{ty}({value})") } else { format!("bitcast<{ty}>({value})") }
            }
            13 => format!("{ty}({})", self.expression(ty.with(Kind::Bool), depth)),
            14 if ty.width == 1 => {
                let from = Type { width: 2 + self.tape.pick(3), ..ty };
                format!("dot({}, {})", self.expression(from, depth), self.expression(from, depth))
            }
            15 if self.family == Family::Exact => self.of_float(ty, depth),
            _ => {
                let parts: Vec<_> = (0..ty.width).map(|_| self.expression(Type::scalar(ty.kind), depth)).collect();
                format!("{ty}({})", parts.join(", "))
            }
        }
    }

    /// Floats stay far below what an integer can hold.
    fn of_float(&mut self, ty: Type, depth: usize) -> String {
        let value = self.exact_expression(ty.with(Kind::F32), depth).text;
        if ty.kind == Kind::I32 { format!("{ty}({value})") } else { format!("{ty}(abs({value}))") }
    }
}
