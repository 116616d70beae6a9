//! How far a float may be from its reference, and why.

use std::fmt;

/// The distance that is allowed; a float passes when either bound holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    ulp: f64,
    abs: f64,
    /// Why it is allowed.
    cause: &'static str,
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "allowed are {} ulp or {:e}: {}", self.ulp, self.abs, self.cause)
    }
}

/// The nearest float and no other; both zeros are one.
pub(crate) const EXACT: Tolerance = Tolerance { ulp: 0.0, abs: 0.0, cause: "exact" };

/// Units in the last place of the reference.
pub(crate) const fn ulp(ulp: f64, cause: &'static str) -> Tolerance {
    Tolerance { ulp, abs: 0.0, cause }
}

/// A distance.
pub(crate) const fn abs(abs: f64, cause: &'static str) -> Tolerance {
    Tolerance { ulp: 0.0, abs, cause }
}

impl Tolerance {
    /// A distance that is allowed too, for results near zero.
    pub(crate) const fn or_abs(self, abs: f64) -> Self {
        Self { abs, ..self }
    }

    /// Whether `found` may stand for `expected` in a format.
    pub(crate) fn allows(&self, found: f64, expected: f64, format: Format) -> bool {
        let nearest = format.round(expected);
        if found.is_nan() || expected.is_nan() {
            return found.is_nan() && expected.is_nan();
        }
        if found == nearest {
            return true;
        }
        if found.is_infinite() || nearest.is_infinite() {
            return false;
        }
        let distance = (found - expected).abs();
        distance <= self.abs || distance <= self.ulp * format.ulp(expected)
    }
}

/// A floating-point format.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    F32,
    F16,
}

impl Format {
    /// The nearest value of the format.
    fn round(self, value: f64) -> f64 {
        match self {
            Self::F32 => f64::from(value as f32),
            Self::F16 => half::f16::from_f64(value).to_f64(),
        }
    }

    /// The distance between neighbours at `value`.
    fn ulp(self, value: f64) -> f64 {
        let (digits, least) = match self {
            Self::F32 => (23, -126),
            Self::F16 => (10, -14),
        };
        let exponent = if value == 0.0 { least } else { (value.abs().log2().floor() as i32).max(least) };
        2_f64.powi(exponent - digits)
    }
}
