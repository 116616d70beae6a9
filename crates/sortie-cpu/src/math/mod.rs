//! Scalar WGSL built-ins written so that a loop over lanes vectorises, with the same bits in every build.
//!
//! Rules of this file: straight-line code (selects on values already computed), no tables, no calls into libm, no fused
//! multiply-add (so baseline x86-64 and AVX2+FMA builds agree bit for bit), wrapping integer
//! arithmetic, no `unsafe`. `f64` appears only where 24 bits cannot carry the result: the argument reduction of
//! `sin`/`cos`/`tan`, the logarithm inside `pow`, and 32-bit integer division.
//!
//! Polynomials are Remez fits made for this file; the errors quoted are the largest ones measured by the
//! tests (every 13th bit pattern, against `f64`; a normal run tries every 97th).
#![expect(clippy::cast_possible_truncation, reason = "low words of magic-number sums, f64 results known to fit")]
#![expect(clippy::inline_always, reason = "the code must land in the caller's target-feature context")]
#![expect(clippy::excessive_precision, reason = "coefficients are printed with nine digits, which name one f32")]

/// 1.5 * 2^23: adding it rounds to an integer (ties to even), left in the low mantissa bits, for |x| < 2^22.
const MAGIC: f32 = 12_582_912.0;
/// 1.5 * 2^52: the same for f64 and |x| < 2^51; its low 32 bits are zero.
const MAGIC64: f64 = 6_755_399_441_055_744.0;
const TWO23: f32 = 8_388_608.0;
const SIGN: u32 = 0x8000_0000;
const INF: f32 = f32::INFINITY;
/// ln 2 in two parts; the high one has 9 bits, so that `n * LN2_HI` is exact.
const LN2_HI: f32 = 0.693_359_375;
const LN2_LO: f32 = -2.121_944_42e-4;
/// Bits of sqrt(1/2), the lower end of the interval of reduced mantissas.
const SQRT_HALF: u32 = 0x3f35_04f3;
const PIO2_HI: f32 = 1.570_796_37;
const PIO2_LO: f32 = -4.371_139e-8;

// ---------------------------------------------------------------------------------------------------------------------
// Helpers
// ---------------------------------------------------------------------------------------------------------------------

/// 2^k for -126 <= k <= 127 (k = -127 gives 0).
#[inline(always)]
fn pow2(k: i32) -> f32 {
    f32::from_bits(k.wrapping_add(127).cast_unsigned() << 23)
}

/// p * 2^k for p near 1 and -152 <= k <= 130, rounded once: two exact powers of two.
#[inline(always)]
fn scale(p: f32, k: i32) -> f32 {
    let half = k >> 1;
    p * pow2(half) * pow2(k.wrapping_sub(half))
}

/// The nearest integer of |x| < 2^22 as f32 and i32.
#[inline(always)]
fn nearest(x: f32) -> (f32, i32) {
    let t = x + MAGIC;
    (t - MAGIC, t.to_bits().wrapping_sub(MAGIC.to_bits()).cast_signed())
}

/// `magnitude` with its sign flipped where bit 31 of `sign` is set.
#[inline(always)]
fn flip(magnitude: f32, sign: u32) -> f32 {
    f32::from_bits(magnitude.to_bits() ^ (sign & SIGN))
}

/// Upper bound that lets NaN through (one `minps`).
#[inline(always)]
fn at_most(x: f32, hi: f32) -> f32 {
    if hi < x { hi } else { x }
}

/// Lower bound that lets NaN through (one `maxps`).
#[inline(always)]
fn at_least(x: f32, lo: f32) -> f32 {
    if lo > x { lo } else { x }
}

/// e^x = (1 + p) * 2^k for |x| < 1e6: Cody–Waite in two parts, p = r + r^2 q(r), degree 6, 2^-25.8 relative to p.
#[inline(always)]
fn exp_parts(x: f32) -> (f32, i32) {
    let (n, k) = nearest(x * std::f32::consts::LOG2_E);
    let r = (x - n * LN2_HI) - n * LN2_LO;
    let r2 = r * r;
    let q = (0.041_667_204_4 + r * 0.008_366_647_18) + r2 * 0.001_388_249_57;
    (r + r2 * ((0.499_999_97 + r * 0.166_665_42) + r2 * q), k)
}

/// 2^r for |r| <= 1/2, degree 6, 2^-25.9; exactly 1 at 0.
#[inline(always)]
fn exp2_unit(r: f32) -> f32 {
    let r2 = r * r;
    let low = 0.693_147_182 + r * 0.240_226_477;
    let high = (0.055_503_323_7 + r * 0.009_618_436_92) + r2 * (0.001_339_887_5 + r * 1.535_336_2e-4);
    1.0 + r * (low + r2 * high)
}

/// x = m * 2^k with sqrt(1/2) <= m < sqrt(2), as (m, k), for positive finite x, subnormals included.
#[inline(always)]
fn log_parts(x: f32) -> (f32, i32) {
    let tiny = x < f32::MIN_POSITIVE;
    let bits = (x * if tiny { TWO23 } else { 1.0 }).to_bits().wrapping_sub(SQRT_HALF);
    let k = (bits.cast_signed() >> 23).wrapping_sub(if tiny { 23 } else { 0 });
    (f32::from_bits((bits & 0x007f_ffff).wrapping_add(SQRT_HALF)), k)
}

/// ln(1 + f) - f for sqrt(1/2) <= 1 + f <= sqrt(2): -f^2/2 + f^3 p(f), degree 10, 2^-27.1 relative to ln(1 + f).
#[inline(always)]
fn log_tail(f: f32) -> f32 {
    let f2 = f * f;
    let f4 = f2 * f2;
    let low = (0.333_333_313 - 0.250_008_225 * f) + f2 * (0.200_012_282 - 0.166_233_361 * f);
    let high = (0.142_017_186 - 0.131_603_643 * f) + f2 * (0.127_619_609 - 0.076_344_855_1 * f);
    f2 * (f * (low + f4 * high) - 0.5)
}

/// ln(v + c) + e ln 2 for 1 <= v < 2^127 and a correction c below an ulp of v.
#[inline(always)]
fn log_sum(v: f32, c: f32, e: i32) -> f32 {
    let bits = v.to_bits().wrapping_sub(SQRT_HALF);
    let k = bits.cast_signed() >> 23;
    let m = f32::from_bits((bits & 0x007f_ffff).wrapping_add(SQRT_HALF));
    let f = (m - 1.0) + c * pow2(k.wrapping_neg());
    let n = k.wrapping_add(e) as f32;
    ((log_tail(f) + n * LN2_LO) + f) + n * LN2_HI
}

/// The values of a logarithm outside (0, inf): -inf at 0, NaN below, inf and NaN to themselves.
#[inline(always)]
fn log_edges(x: f32, inside: f32) -> f32 {
    let upper = if x < INF { inside } else { x };
    let lower = if x == 0.0 { -INF } else { f32::NAN };
    if x <= 0.0 { lower } else { upper }
}

/// x = (n + bias) * period + r as (r, n mod 2): f64 Cody–Waite in two parts, exact to f32 for |x| < 2^26 / periods.
/// Beyond, r degrades and is clamped to half a period: results stay in range.
#[inline(always)]
fn trig_parts(x: f32, periods: f64, bias: f64) -> (f32, u32) {
    const PI_HI: f64 = 3.141_592_651_605_606;
    const PI_LO: f64 = 1.984_187_159_361_081e-9;
    let x = f64::from(x);
    let t = (x * (periods * std::f64::consts::FRAC_1_PI) - bias) + MAGIC64;
    let n = (t - MAGIC64) + bias;
    let r = ((x - n * (PI_HI / periods)) - n * (PI_LO / periods)) as f32;
    let half = (std::f64::consts::FRAC_PI_2 / periods) as f32;
    (at_least(at_most(r, half), -half), t.to_bits() as u32)
}

/// sin r for |r| <= pi/2, degree 9, 2^-27.3 relative.
#[inline(always)]
fn sin_unit(r: f32) -> f32 {
    let z = r * r;
    let q = 0.008_333_069_27 + z * (-1.980_977_69e-4 + z * 2.606_095_68e-6);
    r + r * (z * (-0.166_666_597 + z * q))
}

/// atan q for 0 <= q <= 1, degree 17, 2^-25 relative.
#[inline(always)]
fn atan_unit(q: f32) -> f32 {
    let z = q * q;
    let z2 = z * z;
    let low = (-0.333_331_525 + 0.199_937_731 * z) + z2 * (-0.142_110_556 + 0.106_660_061 * z);
    let high = (-0.075_522_162 + 0.043_211_884_8 * z) + z2 * (-0.016_367_942_1 + 0.002_920_695_81 * z);
    q + q * (z * (low + z2 * z2 * high))
}

/// asin s for s^2 = z <= 1/4, degree 11, 2^-27.2 relative.
#[inline(always)]
fn asin_unit(s: f32, z: f32) -> f32 {
    let q = 0.045_471_604_9 + z * (0.024_172_958 + z * 0.042_178_221);
    s + s * (z * (0.166_667_521 + z * (0.074_952_885_5 + z * q)))
}

// ---------------------------------------------------------------------------------------------------------------------
// Exponentials and logarithms
// ---------------------------------------------------------------------------------------------------------------------

/// 2^x, gradual underflow included: x = n + r, degree-6 minimax; 1.5 ulp.
#[inline(always)]
pub(crate) fn exp2(x: f32) -> f32 {
    let x = at_least(at_most(x, 129.0), -152.0);
    let (n, k) = nearest(x);
    scale(exp2_unit(x - n), k)
}

/// e^x, gradual underflow included: Cody–Waite in two parts, degree-6 minimax; 1.1 ulp.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let (p, k) = exp_parts(at_least(at_most(x, 89.0), -105.0));
    scale(1.0 + p, k)
}

/// Natural logarithm, subnormals included: m in [sqrt(1/2), sqrt(2)), degree 10; 0.9 ulp.
#[inline(always)]
pub(crate) fn log(x: f32) -> f32 {
    let (m, k) = log_parts(x);
    let (f, n) = (m - 1.0, k as f32);
    log_edges(x, ((log_tail(f) + n * LN2_LO) + f) + n * LN2_HI)
}

/// Base-2 logarithm, subnormals included, exact at powers of two: as `log`, log2(e) split as 1 + 0.4427; 1.5 ulp.
#[inline(always)]
pub(crate) fn log2(x: f32) -> f32 {
    const LOG2_E_M1: f32 = 0.442_695_051;
    let (m, k) = log_parts(x);
    let f = m - 1.0;
    let y = log_tail(f);
    log_edges(x, (((y * LOG2_E_M1 + f * LOG2_E_M1) + y) + f) + k as f32)
}

/// x^y = exp2(y * log2 x), NaN for x < 0 (but x^0 = 1): logarithm in f64 to 2^-36 (atanh series); 1.5 ulp.
#[inline(always)]
pub(crate) fn pow(x: f32, y: f32) -> f32 {
    let (m, k) = log_parts(x);
    let m = f64::from(m);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let low = 2.885_390_081_790_092_6 + z * 0.961_796_673_333_302_3;
    let high = (0.577_083_586_683_340_5 + z * 0.411_672_610_507_431_7) + z * z * 0.340_732_207_314_731_25;
    let l = (s * low + f64::from(log_edges(x, k as f32))) + s * (z * z) * high;
    let e = f64::from(y) * l;
    let e = if 130.0 < e { 130.0 } else { e };
    let e = if -152.0 > e { -152.0 } else { e };
    let t = e + MAGIC64;
    let r = scale(exp2_unit((e - (t - MAGIC64)) as f32), (t.to_bits() as u32).cast_signed());
    if (y == 0.0) | (x == 1.0) { 1.0 } else { r }
}

// ---------------------------------------------------------------------------------------------------------------------
// Trigonometry
// ---------------------------------------------------------------------------------------------------------------------

/// Sine, for |x| < 2^26; in [-1, 1] beyond: f64 Cody–Waite reduction by pi, degree-9 minimax; 2.1 ulp.
#[inline(always)]
pub(crate) fn sin(x: f32) -> f32 {
    let (r, n) = trig_parts(x.abs(), 1.0, 0.0);
    flip(sin_unit(r), (n << 31) ^ x.to_bits())
}

/// Cosine, for |x| < 2^26; in [-1, 1] beyond: f64 reduction to odd multiples of pi/2, degree-9 minimax; 2.1 ulp.
#[inline(always)]
pub(crate) fn cos(x: f32) -> f32 {
    let (r, n) = trig_parts(x, 1.0, 0.5);
    flip(sin_unit(r), !(n << 31))
}

/// Tangent, for |x| < 2^25: f64 reduction by pi/2, quotient of degree-7 sine and degree-8 cosine; 3.5 ulp.
#[inline(always)]
pub(crate) fn tan(x: f32) -> f32 {
    let (r, n) = trig_parts(x.abs(), 2.0, 0.0);
    let z = r * r;
    let s = r + r * (z * (-0.166_666_552 + z * (0.008_332_189_17 - z * 1.951_828_45e-4)));
    let c = 1.0 - z * (0.5 - z * (0.041_666_645_6 - z * (0.001_388_730_95 - z * 2.443_232_73e-5)));
    let odd = n & 1 != 0;
    let (num, den) = (if odd { c } else { s }, if odd { s } else { c });
    flip(num / den, (n << 31) ^ x.to_bits())
}

/// Arc sine, NaN outside [-1, 1]: degree 11 below 1/2, half-angle identity above; 1.9 ulp.
#[inline(always)]
pub(crate) fn asin(x: f32) -> f32 {
    let a = x.abs();
    let big = a > 0.5;
    let z = if big { (1.0 - a) * 0.5 } else { a * a };
    let root = z.sqrt();
    let p = asin_unit(if big { root } else { a }, z);
    let upper = (PIO2_HI - 2.0 * p) + PIO2_LO;
    flip(if big { upper } else { p }, x.to_bits())
}

/// Arc cosine, NaN outside [-1, 1]: as `asin`; 1.3 ulp.
#[inline(always)]
pub(crate) fn acos(x: f32) -> f32 {
    let a = x.abs();
    let big = a > 0.5;
    let z = if big { (1.0 - a) * 0.5 } else { a * a };
    let root = z.sqrt();
    let p = asin_unit(if big { root } else { a }, z);
    let middle = (PIO2_HI - flip(p, x.to_bits())) + PIO2_LO;
    let twice = 2.0 * p;
    let left = (2.0 * PIO2_HI - twice) + 2.0 * PIO2_LO;
    let outer = if x < 0.0 { left } else { twice };
    if big { outer } else { middle }
}

/// Arc tangent: 1/x above 1, degree 17; 1.8 ulp.
#[inline(always)]
pub(crate) fn atan(x: f32) -> f32 {
    let a = x.abs();
    let big = a > 1.0;
    let inverse = 1.0 / a;
    let p = atan_unit(if big { inverse } else { a });
    let upper = (PIO2_HI - p) + PIO2_LO;
    flip(if big { upper } else { p }, x.to_bits())
}

/// Angle of (x, y), all quadrants, signed zeros and infinities as IEEE: quotient at most 1, degree 17; 1.8 ulp.
#[inline(always)]
pub(crate) fn atan2(y: f32, x: f32) -> f32 {
    let (ax, ay) = (x.abs(), y.abs());
    let steep = ay > ax;
    let (num, den) = (if steep { ax } else { ay }, if steep { ay } else { ax });
    let q = num / den;
    let q = if num == den { 1.0 } else { q };
    let q = if den == 0.0 { num } else { q };
    let swap = if steep { SIGN } else { 0 };
    let p = flip(atan_unit(q), x.to_bits() ^ swap);
    let flat = f32::from_bits((2.0 * PIO2_HI).to_bits() & ((x.to_bits().cast_signed() >> 31).cast_unsigned()));
    let c = if steep { PIO2_HI } else { flat };
    flip((p + c * (PIO2_LO / PIO2_HI)) + c, y.to_bits())
}

// ---------------------------------------------------------------------------------------------------------------------
// Hyperbolic functions
// ---------------------------------------------------------------------------------------------------------------------

/// Hyperbolic sine: (t + t / (t + 1)) / 2 with t = 2h = e^|x| - 1; 2.3 ulp.
#[inline(always)]
pub(crate) fn sinh(x: f32) -> f32 {
    let a = x.abs();
    let (p, k) = exp_parts(at_most(a, 89.5));
    let s = pow2(k.wrapping_sub(2));
    let h = 2.0 * (s * p + (s - 0.25));
    let t = at_most(h, 1.0e9);
    let r = h + t / (2.0 * t + 1.0);
    flip(if a < 2.0e-4 { a } else { r }, x.to_bits())
}

/// Hyperbolic cosine: h + 1 / (4 h) with h = e^|x| / 2; 1.5 ulp.
#[inline(always)]
pub(crate) fn cosh(x: f32) -> f32 {
    let (p, k) = exp_parts(at_most(x.abs(), 89.5));
    let h = 2.0 * (pow2(k.wrapping_sub(2)) * (1.0 + p));
    h + 0.25 / h
}

/// Hyperbolic tangent: t / (t + 2) with t = e^(2|x|) - 1; exactly 1 from 9.02 on; 2.6 ulp.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let (p, k) = exp_parts(2.0 * at_most(x.abs(), 10.0));
    let s = pow2(k);
    let t = s * p + (s - 1.0);
    flip(t / (t + 2.0), x.to_bits())
}

/// Inverse hyperbolic sine: log1p(a + a^2 / (1 + sqrt(a^2 + 1))); log(2a) above 4096; 1.9 ulp.
#[inline(always)]
pub(crate) fn asinh(x: f32) -> f32 {
    let a = x.abs();
    let a2 = a * a;
    let u = a + a2 / (1.0 + (a2 + 1.0).sqrt());
    flip(log1p_or_twice(a, u), x.to_bits())
}

/// Inverse hyperbolic cosine, NaN below 1: log1p(t + sqrt(t^2 + 2t)) with t = x - 1; log(2x) above 4096; 2.4 ulp.
#[inline(always)]
pub(crate) fn acosh(x: f32) -> f32 {
    let t = x - 1.0;
    let r = log1p_or_twice(x, t + (t * (t + 2.0)).sqrt());
    if x < 1.0 { f32::NAN } else { r }
}

/// Inverse hyperbolic tangent, inf at 1, NaN beyond: log1p(2a / (1 - a)) / 2; 2.1 ulp.
#[inline(always)]
pub(crate) fn atanh(x: f32) -> f32 {
    let a = x.abs();
    let u = (a + a) / (1.0 - a);
    let v = 1.0 + u;
    let r = 0.5 * log_sum(v, u - (v - 1.0), 0);
    let edge = if a == 1.0 { INF } else { f32::NAN };
    flip(if a < 1.0 { r } else { edge }, x.to_bits())
}

/// log(1 + u), or log(2a) above 4096; inf and NaN to themselves.
#[inline(always)]
fn log1p_or_twice(a: f32, u: f32) -> f32 {
    let big = a > 4096.0;
    let v = 1.0 + u;
    let c = u - (v - 1.0);
    let quarter = 0.25 * a;
    let r = log_sum(if big { quarter } else { v }, if big { 0.0 } else { c }, if big { 3 } else { 0 });
    if a < INF { r } else { a }
}

// ---------------------------------------------------------------------------------------------------------------------
// Rounding and simple functions
// ---------------------------------------------------------------------------------------------------------------------

/// Nearest integer, ties to even, exact: |x| + 2^23 - 2^23.
#[inline(always)]
pub(crate) fn round_even(x: f32) -> f32 {
    let a = x.abs();
    let r = (a + TWO23) - TWO23;
    flip(if a < TWO23 { r } else { a }, x.to_bits())
}

/// Largest integer not above x, exact.
#[inline(always)]
pub(crate) fn floor(x: f32) -> f32 {
    let r = round_even(x);
    r - if r > x { 1.0 } else { 0.0 }
}

/// Smallest integer not below x, exact (-0 for -1 < x < 0).
#[inline(always)]
pub(crate) fn ceil(x: f32) -> f32 {
    -floor(-x)
}

/// Integer part, exact, sign kept.
#[inline(always)]
pub(crate) fn trunc(x: f32) -> f32 {
    let a = x.abs();
    let r = (a + TWO23) - TWO23;
    let r = r - if r > a { 1.0 } else { 0.0 };
    flip(if a < TWO23 { r } else { a }, x.to_bits())
}

/// x - floor(x), as WGSL defines it.
#[inline(always)]
pub(crate) fn fract(x: f32) -> f32 {
    x - floor(x)
}

/// WGSL `x % y`: x - y * trunc(x / y), three roundings.
#[inline(always)]
pub(crate) fn fmod(x: f32, y: f32) -> f32 {
    x - y * trunc(x / y)
}

/// -1, 0 or 1; zero and NaN to themselves.
#[inline(always)]
pub(crate) fn sign(x: f32) -> f32 {
    let one = f32::from_bits(1.0_f32.to_bits() | (x.to_bits() & SIGN));
    if (x < 0.0) | (x > 0.0) { one } else { x }
}

/// 1 where edge <= x, else 0.
#[inline(always)]
pub(crate) fn step(edge: f32, x: f32) -> f32 {
    if edge <= x { 1.0 } else { 0.0 }
}

/// Smaller operand; the other one where one is NaN; b for zeros of either sign.
#[inline(always)]
pub(crate) fn min(a: f32, b: f32) -> f32 {
    let m = if a < b { a } else { b };
    if b.is_nan() { a } else { m }
}

/// Larger operand; the other one where one is NaN; b for zeros of either sign.
#[inline(always)]
pub(crate) fn max(a: f32, b: f32) -> f32 {
    let m = if a > b { a } else { b };
    if b.is_nan() { a } else { m }
}

/// Clamp to constants; NaN to `lo` (a `maxps` and a `minps`).
#[inline(always)]
fn between(x: f32, lo: f32, hi: f32) -> f32 {
    let x = if x > lo { x } else { lo };
    if x < hi { x } else { hi }
}

/// x * 2^e rounded once, for every e: three power-of-two factors, the one that may round last.
#[inline(always)]
pub(crate) fn ldexp(x: f32, e: i32) -> f32 {
    let e = e.clamp(-300, 300);
    let last = e.clamp(-126, 127);
    let rest = e.wrapping_sub(last);
    let second = rest.clamp(-126, 127);
    x * pow2(rest.wrapping_sub(second)) * pow2(second) * pow2(last)
}

/// (f, e) with x = f * 2^e and 1/2 <= |f| < 1, subnormals included; (x, 0) for zero, inf and NaN.
#[inline(always)]
pub(crate) fn frexp(x: f32) -> (f32, i32) {
    let tiny = x.abs() < f32::MIN_POSITIVE;
    let bits = (x * if tiny { 16_777_216.0 } else { 1.0 }).to_bits();
    let e = (bits >> 23 & 0xff).cast_signed().wrapping_sub(if tiny { 150 } else { 126 });
    let f = f32::from_bits((bits & 0x807f_ffff) | 0x3f00_0000);
    let plain = (x * 0.0 == 0.0) & (x != 0.0);
    (if plain { f } else { x }, if plain { e } else { 0 })
}

// ---------------------------------------------------------------------------------------------------------------------
// f16 and normalised formats
// ---------------------------------------------------------------------------------------------------------------------

/// The nearest f16 (ties to even; inf from 65520; subnormals) as f32: |x| + m - m with m 13 binades up, at least 1/2.
#[inline(always)]
pub(crate) fn quantize_to_f16(x: f32) -> f32 {
    let a = x.abs();
    let m = (a.to_bits() & 0x7f80_0000).wrapping_add(13 << 23).cast_signed().max(0.5_f32.to_bits().cast_signed());
    let m = f32::from_bits(m.cast_unsigned());
    let r = (a + m) - m;
    flip(if a >= 65520.0 { INF } else { r }, x.to_bits())
}

/// f32 to the bits of the nearest f16 (ties to even; inf from 65520; subnormals; NaN to 0x7e00).
#[inline(always)]
pub(crate) fn f32_to_f16_bits(x: f32) -> u32 {
    let a = x.abs();
    let bits = a.to_bits();
    let normal = bits.wrapping_add(0xc800_0fff).wrapping_add(bits >> 13 & 1) >> 13;
    let subnormal = (a + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
    let r = if a < 6.103_515_625e-5 { subnormal } else { normal };
    let r = if a >= 65520.0 { 0x7c00 } else { r };
    let r = if a.is_nan() { 0x7e00 } else { r };
    r | (x.to_bits() >> 16 & 0x8000)
}

/// The low 16 bits, an f16, to f32; exact. Exponent rebias; subnormals by subtracting 2^-14, no f32 subnormals met.
#[inline(always)]
pub(crate) fn f16_bits_to_f32(h: u32) -> f32 {
    let a = h & 0x7fff;
    let shifted = a << 13;
    let normal = shifted.wrapping_add(112 << 23);
    let subnormal = (f32::from_bits(shifted.wrapping_add(113 << 23)) - 6.103_515_625e-5).to_bits();
    let special = shifted.wrapping_add(224 << 23);
    let r = if a.cast_signed() < 0x400 { subnormal } else { normal };
    let r = if a.cast_signed() > 0x7bff { special } else { r };
    f32::from_bits(r | (h & 0x8000) << 16)
}

/// floor(v) as the low bits of the result, for |v| < 2^22.
#[inline(always)]
fn floor_bits(v: f32) -> u32 {
    let t = v + MAGIC;
    t.to_bits().wrapping_add(if t - MAGIC > v { !0 } else { 0 })
}

/// One element of pack4x8snorm, in the low 8 bits: floor(0.5 + 127 clamp(x, -1, 1)).
#[inline(always)]
pub(crate) fn pack_snorm8(x: f32) -> u32 {
    floor_bits(0.5 + 127.0 * between(x, -1.0, 1.0)) & 0xff
}

/// One element of pack4x8unorm, in the low 8 bits: floor(0.5 + 255 clamp(x, 0, 1)).
#[inline(always)]
pub(crate) fn pack_unorm8(x: f32) -> u32 {
    floor_bits(0.5 + 255.0 * between(x, 0.0, 1.0)) & 0xff
}

/// One element of pack2x16snorm, in the low 16 bits: floor(0.5 + 32767 clamp(x, -1, 1)).
#[inline(always)]
pub(crate) fn pack_snorm16(x: f32) -> u32 {
    floor_bits(0.5 + 32767.0 * between(x, -1.0, 1.0)) & 0xffff
}

/// One element of pack2x16unorm, in the low 16 bits: floor(0.5 + 65535 clamp(x, 0, 1)).
#[inline(always)]
pub(crate) fn pack_unorm16(x: f32) -> u32 {
    floor_bits(0.5 + 65535.0 * between(x, 0.0, 1.0)) & 0xffff
}

/// One element of unpack4x8snorm, from the low 8 bits: max(v / 127, -1), correctly rounded.
#[inline(always)]
pub(crate) fn unpack_snorm8(v: u32) -> f32 {
    at_least(((v << 24).cast_signed() >> 24) as f32 / 127.0, -1.0)
}

/// One element of unpack4x8unorm, from the low 8 bits: v / 255, correctly rounded.
#[inline(always)]
pub(crate) fn unpack_unorm8(v: u32) -> f32 {
    (v & 0xff).cast_signed() as f32 / 255.0
}

/// One element of unpack2x16snorm, from the low 16 bits: max(v / 32767, -1), correctly rounded.
#[inline(always)]
pub(crate) fn unpack_snorm16(v: u32) -> f32 {
    at_least(((v << 16).cast_signed() >> 16) as f32 / 32767.0, -1.0)
}

/// One element of unpack2x16unorm, from the low 16 bits: v / 65535, correctly rounded.
#[inline(always)]
pub(crate) fn unpack_unorm16(v: u32) -> f32 {
    (v & 0xffff).cast_signed() as f32 / 65535.0
}

// ---------------------------------------------------------------------------------------------------------------------
// Conversions and integers
// ---------------------------------------------------------------------------------------------------------------------

/// floor(a) modulo 2^32 for 0 <= a <= 2^32: a = 2^16 h + l with h rounded, both exact and within reach of `MAGIC`.
#[inline(always)]
fn integer_bits(a: f32) -> u32 {
    let t = a * (1.0 / 65536.0) + MAGIC;
    let l = a - (t - MAGIC) * 65536.0;
    (t.to_bits() << 16).wrapping_add(floor_bits(l)).wrapping_sub(MAGIC.to_bits())
}

/// f32 to i32: truncated, saturated, NaN to 0.
#[inline(always)]
pub(crate) fn f32_to_i32(x: f32) -> i32 {
    let a = x.abs();
    let s = x.to_bits().cast_signed() >> 31;
    let r = integer_bits(a).cast_signed();
    let r = if a >= 2_147_483_648.0 { i32::MAX ^ s } else { (r ^ s).wrapping_sub(s) };
    if x.is_nan() { 0 } else { r }
}

/// f32 to u32: truncated, saturated, NaN to 0.
#[inline(always)]
pub(crate) fn f32_to_u32(x: f32) -> u32 {
    let a = if x > 0.0 { x } else { 0.0 };
    let r = integer_bits(a);
    if a >= 4_294_967_296.0 { u32::MAX } else { r }
}

/// i32 to f32, correctly rounded.
#[inline(always)]
pub(crate) fn i32_to_f32(x: i32) -> f32 {
    x as f32
}

/// u32 to f32, correctly rounded.
#[inline(always)]
pub(crate) fn u32_to_f32(x: u32) -> f32 {
    x as f32
}

/// floor(|a / b|) modulo 2^32 through f64, for 32-bit integers a and b != 0.
///
/// Exact: both operands convert exactly. If b divides a, the quotient is an integer of at most 32 bits, hence exact.
/// Otherwise it lies at least 1/|b| from every integer; with 2^j <= |a/b| < 2^(j+1) and |a| < 2^32, 1/|b| > 2^(j-32),
/// while the rounding error of the division is at most 2^(j-53): it cannot reach an integer, and the floor is right.
/// `MAGIC64` then rounds to nearest; where that went up, one is taken off.
#[inline(always)]
fn quotient(a: f64, b: f64) -> u32 {
    let q = (a / b).abs();
    let t = q + MAGIC64;
    (t.to_bits() as u32).wrapping_sub(if t - MAGIC64 > q { 1 } else { 0 })
}

/// WGSL u32 division: a / 0 = a.
#[inline(always)]
pub(crate) fn udiv(a: u32, b: u32) -> u32 {
    quotient(f64::from(a), f64::from(if b == 0 { 1 } else { b }))
}

/// WGSL u32 remainder: a % 0 = 0.
#[inline(always)]
pub(crate) fn urem(a: u32, b: u32) -> u32 {
    let b = if b == 0 { 1 } else { b };
    a.wrapping_sub(udiv(a, b).wrapping_mul(b))
}

/// WGSL i32 division: a / 0 = a, MIN / -1 = MIN (2^31 modulo 2^32).
#[inline(always)]
pub(crate) fn idiv(a: i32, b: i32) -> i32 {
    let b = if b == 0 { 1 } else { b };
    let s = (a ^ b) >> 31;
    (quotient(f64::from(a), f64::from(b)).cast_signed() ^ s).wrapping_sub(s)
}

/// WGSL i32 remainder, the sign of a: a % 0 = 0, MIN % -1 = 0.
#[inline(always)]
pub(crate) fn irem(a: i32, b: i32) -> i32 {
    let b = if b == 0 { 1 } else { b };
    a.wrapping_sub(idiv(a, b).wrapping_mul(b))
}

/// Biased exponent of x converted to f32, 0 for 0: 127 + the index of its highest bit (158 where i32 is negative).
#[inline(always)]
fn exponent_of(x: u32) -> i32 {
    ((x.cast_signed() as f32).to_bits() >> 23).cast_signed().min(158)
}

/// Number of zeros above the highest one bit; 32 for 0.
#[inline(always)]
pub(crate) fn count_leading_zeros(x: u32) -> u32 {
    31_u32.wrapping_sub(first_leading_bit_u32(x))
}

/// Number of zeros below the lowest one bit; 32 for 0.
#[inline(always)]
pub(crate) fn count_trailing_zeros(x: u32) -> u32 {
    exponent_of(x & x.wrapping_neg()).wrapping_sub(127).cast_unsigned().min(32)
}

/// Index of the highest one bit; !0 for 0. Exponent of a conversion that cannot round up: the next bit is cleared.
#[inline(always)]
pub(crate) fn first_leading_bit_u32(x: u32) -> u32 {
    exponent_of(x & !(x >> 1)).wrapping_sub(127).max(-1).cast_unsigned()
}

/// Index of the highest bit that differs from the sign; -1 for 0 and -1.
#[inline(always)]
pub(crate) fn first_leading_bit_i32(x: i32) -> i32 {
    first_leading_bit_u32((x ^ (x >> 31)).cast_unsigned()).cast_signed()
}

/// Index of the lowest one bit; !0 for 0.
#[inline(always)]
pub(crate) fn first_trailing_bit(x: u32) -> u32 {
    exponent_of(x & x.wrapping_neg()).wrapping_sub(127).max(-1).cast_unsigned()
}

/// WGSL extractBits of u32: bits offset .. offset + count, both clamped to 32.
#[inline(always)]
pub(crate) fn extract_bits_u32(e: u32, offset: u32, count: u32) -> u32 {
    let o = offset.min(32);
    let c = count.min(32_u32.wrapping_sub(o));
    let r = e.wrapping_shl(32_u32.wrapping_sub(o).wrapping_sub(c)).wrapping_shr(32_u32.wrapping_sub(c));
    if c == 0 { 0 } else { r }
}

/// WGSL extractBits of i32: as u32, sign-extended.
#[inline(always)]
pub(crate) fn extract_bits_i32(e: i32, offset: u32, count: u32) -> i32 {
    let o = offset.min(32);
    let c = count.min(32_u32.wrapping_sub(o));
    let r = e.wrapping_shl(32_u32.wrapping_sub(o).wrapping_sub(c)).wrapping_shr(32_u32.wrapping_sub(c));
    if c == 0 { 0 } else { r }
}

#[cfg(test)]
mod tests;
