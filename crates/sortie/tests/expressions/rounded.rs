//! Float expressions that are rounded, with a bound on how far two devices can be apart.
//!
//! All components of a value have one sign and are nowhere near zero, and nothing is ever subtracted from its like: then no operation
//! magnifies a relative error, and errors add up. Signs, sizes and errors are known while the expression is made.

use crate::{
    scope::Scope,
    types::{Kind, Type},
};

/// An expression with what is known of its values.
#[derive(Clone, Debug)]
pub(crate) struct Rounded {
    pub(crate) text: String,
    pub(crate) negative: bool,
    /// Its size is between 2^low and 2^high.
    low: i32,
    high: i32,
    /// Relative error on one device, in units of 2^-23.
    pub(crate) error: f64,
}

/// Beyond these a value is clamped, so that nothing overflows or becomes denormal.
const LOW: i32 = -20;
const HIGH: i32 = 20;

impl Scope<'_> {
    /// A value made of the inputs `x0` to `x5`, which lie between a half and four.
    pub(crate) fn rounded(&mut self, width: usize, depth: usize) -> Rounded {
        let room = self.tape.spend();
        if depth == 0 || !room || self.tape.pick(6) == 0 {
            return self.rounded_leaf(width);
        }
        let depth = depth - 1;
        let value = match self.tape.pick(12) {
            0 | 1 => self.sum(width, depth),
            2 | 3 => {
                let (a, b) = (self.rounded(width, depth), self.rounded(width, depth));
                let text = format!("({} * {})", a.text, b.text);
                made(text, a.negative != b.negative, (a.low + b.low, a.high + b.high), a.error + b.error + 1.0)
            }
            4 => {
                let (a, b) = (self.rounded(width, depth), self.rounded(width, depth));
                let text = format!("({} / {})", a.text, b.text);
                // WGSL allows a quotient 2.5 ulp.
                made(text, a.negative != b.negative, (a.low - b.high, a.high - b.low), a.error + b.error + 3.0)
            }
            5 => {
                let a = self.rounded(width, depth);
                // WGSL inherits it from 1 / inverseSqrt: 2 ulp and 2.5.
                made(
                    format!("sqrt(abs({}))", a.text),
                    false,
                    (a.low.div_euclid(2), a.high / 2 + 1),
                    a.error / 2.0 + 5.0,
                )
            }
            6 => {
                let a = self.rounded(width, depth);
                let bounds = (-(a.high / 2) - 1, -a.low.div_euclid(2) + 1);
                made(format!("inverseSqrt(abs({}))", a.text), false, bounds, a.error / 2.0 + 3.0)
            }
            7 => {
                let a = self.rounded(width, depth);
                made(format!("(-{})", a.text), !a.negative, (a.low, a.high), a.error)
            }
            8 => {
                let (a, b) = (self.rounded(width, depth), self.rounded(width, depth));
                let name = ["min", "max"][self.tape.pick(2)];
                let text = format!("{name}(abs({}), abs({}))", a.text, b.text);
                made(text, false, (a.low.min(b.low), a.high.max(b.high)), a.error.max(b.error))
            }
            9 if width == 1 => {
                let from = 2 + self.tape.pick(3);
                let (a, b) = (self.rounded(from, depth), self.rounded(from, depth));
                let text = format!("dot({}, {})", a.text, b.text);
                made(text, a.negative != b.negative, (a.low + b.low, a.high + b.high + 2), a.error + b.error + 5.0)
            }
            10 if width == 1 => {
                let from = 2 + self.tape.pick(3);
                let a = self.rounded(from, depth);
                made(format!("length({})", a.text), false, (a.low, a.high + 1), a.error + 12.0)
            }
            11 => {
                let (a, b) = (self.rounded(width, depth), self.rounded(width, depth));
                let share = 0.25 + 0.125 * f64::from(self.tape.byte() % 5);
                let text = format!("mix(abs({}), abs({}), {share:?})", a.text, b.text);
                // It may be a + (b - a) t: what a difference loses is an error of the larger one.
                let spread = 2_f64.powi((a.high - a.low).max(b.high - b.low).max(a.high - b.low).max(b.high - a.low));
                made(
                    text,
                    false,
                    (a.low.min(b.low) - 2, a.high.max(b.high)),
                    (a.error.max(b.error) + 2.0) * spread.min(64.0) * 4.0,
                )
            }
            _ => {
                let parts: Vec<_> = (0..width).map(|_| self.rounded(1, depth)).collect();
                let texts: Vec<_> = parts.iter().map(|part| format!("abs({})", part.text)).collect();
                let low = parts.iter().map(|part| part.low).min().unwrap_or(0);
                let high = parts.iter().map(|part| part.high).max().unwrap_or(0);
                let error = parts.iter().map(|part| part.error).fold(0.0, f64::max);
                made(format!("{}({})", vector(width), texts.join(", ")), false, (low, high), error)
            }
        };
        self.tamed(width, value)
    }

    fn rounded_leaf(&mut self, width: usize) -> Rounded {
        let parts: Vec<_> = (0..width).map(|_| format!("x{}", self.tape.pick(6))).collect();
        let text = if width == 1 { parts[0].clone() } else { format!("{}({})", vector(width), parts.join(", ")) };
        made(text, false, (-1, 2), 0.0)
    }

    /// A sum of values of one sign, or a difference of values of two.
    fn sum(&mut self, width: usize, depth: usize) -> Rounded {
        let (a, b) = (self.rounded(width, depth), self.rounded(width, depth));
        let operator = if a.negative == b.negative { "+" } else { "-" };
        let text = format!("({} {operator} {})", a.text, b.text);
        made(text, a.negative, (a.low.min(b.low), a.high.max(b.high) + 1), a.error.max(b.error) + 1.0)
    }

    fn tamed(&mut self, width: usize, value: Rounded) -> Rounded {
        if value.low >= LOW && value.high <= HIGH {
            return value;
        }
        let text = format!("clamp(abs({}), {ty}(0.25), {ty}(8.0))", value.text, ty = vector(width));
        made(text, false, (-2, 3), value.error)
    }

    /// A transcendental function of a value that lies where WGSL says how good it is, and how far two devices may be apart.
    pub(crate) fn transcendental(&mut self, width: usize) -> (String, f64) {
        struct Row(&'static str, f64, f64, f64, f64);
        // Name, least and largest size of the argument, steepest slope there, what WGSL allows there.
        const ULP: f64 = 1.0 / 8_388_608.0;
        const ROWS: [Row; 17] = [
            Row("sin", 0.1, 3.0, 1.0, 4.9e-4),
            Row("cos", 0.1, 3.0, 1.0, 4.9e-4),
            Row("tan", 0.1, 1.2, 8.0, 2e-3),
            Row("asin", 0.1, 0.9, 2.3, 5e-4),
            Row("acos", 0.1, 0.9, 2.3, 5e-4),
            Row("atan", 0.1, 50.0, 1.0, 4096.0 * 1.6 * ULP),
            Row("sinh", 0.1, 4.0, 28.0, 64.0 * 28.0 * ULP),
            Row("cosh", 0.1, 4.0, 28.0, 64.0 * 28.0 * ULP),
            Row("tanh", 0.1, 6.0, 1.0, 1e-5),
            Row("asinh", 0.1, 20.0, 1.0, 1e-4),
            Row("acosh", 1.1, 40.0, 2.3, 1e-3),
            Row("atanh", 0.1, 0.9, 5.3, 2e-5),
            Row("exp", 0.1, 5.0, 149.0, 13.0 * 149.0 * ULP),
            Row("exp2", 0.1, 5.0, 23.0, 13.0 * 32.0 * ULP),
            Row("log", 0.1, 100.0, 10.0, 2e-6),
            Row("log2", 0.1, 100.0, 15.0, 4e-6),
            Row("pow", 0.5, 4.0, 22.0, 300.0 * 16.0 * ULP),
        ];
        let Row(name, least, largest, slope, allowed) = ROWS[self.tape.pick(ROWS.len())];
        let value = self.rounded(width, 2);
        let ty = vector(width);
        let argument = format!("clamp(abs({}), {ty}({least:?}), {ty}({largest:?}))", value.text);
        let positive = matches!(name, "acosh" | "log" | "log2" | "pow");
        let sign = if !positive && self.tape.pick(2) == 1 { "-" } else { "" };
        let text = if name == "pow" {
            let exponent = f64::from(self.tape.byte().cast_signed()) / 64.0;
            format!("pow({argument}, {ty}({exponent:?}))")
        } else {
            format!("{name}({sign}{argument})")
        };
        (text, 2.0 * (allowed + slope * value.error * ULP * largest))
    }
}

fn made(text: String, negative: bool, (low, high): (i32, i32), error: f64) -> Rounded {
    Rounded { text, negative, low, high, error }
}

fn vector(width: usize) -> Type {
    Type { kind: Kind::F32, width }
}
