//! Float expressions whose every result is a number that `f32` holds exactly.
//!
//! Each is a multiple of 2^-fraction and at most 2^magnitude, and both together stay within the 24 bits of a float. Then nothing is ever
//! rounded, and a driver that fuses, reorders or factors out gets the same bits, as it may and does: lavapipe makes `b` of `(a + b) - a`.
//! Zeros may differ in sign.

use crate::{
    scope::Scope,
    types::{Kind, Type},
};

/// An expression with its bounds.
pub(crate) struct Exact {
    pub(crate) text: String,
    magnitude: u32,
    fraction: u32,
}

/// What variables, inputs and literals hold: multiples of a quarter up to 16.
const VARIABLE: (u32, u32) = (4, 2);
/// One bit below what a float holds, because a driver may factor `a * b + a * c` into a sum that is larger than each product.
const BITS: u32 = 22;

impl Scope<'_> {
    pub(crate) fn exact_expression(&mut self, ty: Type, depth: usize) -> Exact {
        let room = self.tape.spend();
        if depth == 0 || !room || self.tape.pick(5) == 0 {
            return of(self.leaf(ty), VARIABLE);
        }
        self.exact(ty, depth - 1)
    }

    pub(crate) fn exact(&mut self, ty: Type, depth: usize) -> Exact {
        match self.tape.pick(14) {
            0 | 1 => {
                let (a, b) = (self.exact_expression(ty, depth), self.exact_operand(ty, depth));
                let bounds = (a.magnitude.max(b.magnitude) + 1, a.fraction.max(b.fraction));
                let operator = ["+", "-"][self.tape.pick(2)];
                self.bounded(ty, of(format!("({} {operator} {})", a.text, b.text), bounds))
            }
            2 | 3 => {
                let (a, b) = (self.exact_expression(ty, depth), self.exact_operand(ty, depth));
                let (a, b) = (self.small(ty, a), self.small(ty, b));
                self.bounded(ty, product(&a, &b, format!("({} * {})", a.text, b.text)))
            }
            4 if ty.width > 1 => {
                let (a, b) = (self.exact_expression(ty, depth), self.exact_expression(Type::scalar(Kind::F32), depth));
                let (a, b) = (self.small(ty, a), self.small(Type::scalar(Kind::F32), b));
                let text = if self.tape.pick(2) == 0 {
                    format!("({} * {})", a.text, b.text)
                } else {
                    format!("({} * {})", b.text, a.text)
                };
                self.bounded(ty, product(&a, &b, text))
            }
            5 => {
                let a = self.exact_expression(ty, depth);
                let name = ["-", "abs", "floor", "ceil", "trunc", "round"][self.tape.pick(6)];
                // Rounding up may reach the next power.
                of(format!("{name}({})", a.text), (a.magnitude + 1, a.fraction)).within(self, ty)
            }
            6 => {
                let a = self.exact_expression(ty, depth);
                let name = ["sign", "saturate", "fract"][self.tape.pick(3)];
                of(format!("{name}({})", a.text), (1, a.fraction)).within(self, ty)
            }
            7 => {
                let (a, b) = (self.exact_expression(ty, depth), self.exact_operand(ty, depth));
                let name = ["min", "max"][self.tape.pick(2)];
                let bounds = (a.magnitude.max(b.magnitude), a.fraction.max(b.fraction));
                of(format!("{name}({}, {})", a.text, b.text), bounds).within(self, ty)
            }
            8 => {
                let a = self.exact_expression(ty, depth);
                let low = -i32::from(self.tape.byte() % 8);
                of(format!("clamp({}, {ty}({low}.0), {ty}({}.0))", a.text, self.tape.pick(9)), (4, a.fraction))
                    .within(self, ty)
            }
            9 => {
                let from = self.expression(ty.with(Kind::I32), depth);
                of(format!("{ty}({from} % {}({}))", ty.with(Kind::I32), 1 + self.tape.pick(15)), (4, 0))
            }
            10 => of(format!("{ty}({})", self.expression(ty.with(Kind::Bool), depth)), (0, 0)),
            11 => {
                let parts = [(); 3].map(|()| self.exact_expression(ty, depth));
                let [a, b, c] = parts.map(|part| self.small(ty, part));
                let text = format!("fma({}, {}, {})", a.text, b.text, c.text);
                let mut result = product(&a, &b, text);
                result.magnitude = result.magnitude.max(c.magnitude) + 1;
                result.fraction = result.fraction.max(c.fraction);
                self.bounded(ty, result)
            }
            12 if ty.width == 1 => {
                let from = Type { width: 2 + self.tape.pick(3), ..ty };
                let (a, b) = (self.exact_expression(from, depth), self.exact_expression(from, depth));
                let (a, b) = (self.small(from, a), self.small(from, b));
                let mut result = product(&a, &b, format!("dot({}, {})", a.text, b.text));
                result.magnitude += 2;
                self.bounded(ty, result)
            }
            12 => {
                // A matrix with as many rows as the vector has components.
                let columns = 2 + self.tape.pick(3);
                let parts = (0..columns).map(|_| self.exact_expression(ty, depth.min(1))).collect::<Vec<_>>();
                let parts: Vec<_> = parts.into_iter().map(|part| self.small(ty, part).text).collect();
                let by = Type { width: columns, ..ty };
                let vector = self.exact_expression(by, depth.min(1));
                let vector = self.small(by, vector).text;
                let text = format!("(mat{columns}x{}<f32>({}) * {vector})", ty.width, parts.join(", "));
                of(text, (2 * VARIABLE.0 + 2, 2 * VARIABLE.1)).within(self, ty)
            }
            _ => {
                let parts: Vec<_> =
                    (0..ty.width).map(|_| self.exact_expression(Type::scalar(Kind::F32), depth)).collect();
                let bounds = parts.iter().fold((0, 0), |(m, f), part| (part.magnitude.max(m), part.fraction.max(f)));
                let parts: Vec<_> = parts.into_iter().map(|part| part.text).collect();
                of(format!("{ty}({})", parts.join(", ")), bounds).within(self, ty)
            }
        }
    }

    fn exact_operand(&mut self, ty: Type, depth: usize) -> Exact {
        if self.tape.chance(4) { of(self.literal(ty), VARIABLE) } else { self.exact_expression(ty, depth) }
    }

    /// As a variable holds it.
    pub(crate) fn settled(&mut self, ty: Type, value: Exact) -> String {
        if value.magnitude <= VARIABLE.0 && value.fraction <= VARIABLE.1 {
            return value.text;
        }
        format!("clamp(floor({}), {ty}(-16.0), {ty}(16.0))", value.text)
    }

    fn small(&mut self, ty: Type, value: Exact) -> Exact {
        of(self.settled(ty, value), VARIABLE)
    }

    fn bounded(&mut self, ty: Type, value: Exact) -> Exact {
        if value.magnitude + value.fraction <= BITS { value } else { self.small(ty, value) }
    }
}

fn of(text: String, (magnitude, fraction): (u32, u32)) -> Exact {
    Exact { text, magnitude, fraction }
}

fn product(a: &Exact, b: &Exact, text: String) -> Exact {
    of(text, (a.magnitude + b.magnitude, a.fraction + b.fraction))
}

impl Exact {
    fn within(self, scope: &mut Scope<'_>, ty: Type) -> Self {
        scope.bounded(ty, self)
    }
}
