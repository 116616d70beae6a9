//! Dense sweeps of every function against `f64` or exact references, in blocks of 16 lanes through the AVX2+FMA build,
//! whose bits must equal those of the baseline build.
use crate::math as m;
use pulp::{NullaryFnOnce, x86::V3};
use std::hint::black_box;

/// How far apart the bit patterns are that the sweeps try: a prime, in full runs every 97th of them.
fn stride() -> usize {
    if full() { 97 } else { 9_973 }
}

/// How many pairs the sweeps of two operands try.
fn pairs_tried() -> usize {
    if full() { 5_000_000 } else { 100_000 }
}

fn full() -> bool {
    std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full")
}

const N: usize = 1024;
type Block = [u32; N];

struct Loop<'a, F> {
    f: F,
    a: &'a Block,
    b: &'a Block,
    out: &'a mut Block,
}
impl<F: Fn(u32, u32) -> u32> NullaryFnOnce for Loop<'_, F> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let (a, b) = (self.a.as_chunks::<16>().0, self.b.as_chunks::<16>().0);
        for ((a, b), out) in a.iter().zip(b).zip(self.out.as_chunks_mut::<16>().0) {
            black_box(());
            *out = std::array::from_fn(|i| (self.f)(a[i], b[i]));
        }
    }
}

#[inline(never)]
fn baseline(f: impl Fn(u32, u32) -> u32, a: &Block, b: &Block, out: &mut Block) {
    Loop { f, a, b, out }.call();
}

#[inline(never)]
fn fast(f: impl Fn(u32, u32) -> u32, a: &Block, b: &Block, out: &mut Block) {
    match V3::try_new() {
        Some(simd) => simd.vectorize(Loop { f, a, b, out }),
        None => Loop { f, a, b, out }.call(),
    }
}

/// Runs `f` over `a` and `b`, checks (if `compare`) that both builds agree bit for bit, NaNs included.
fn run(f: impl Fn(u32, u32) -> u32 + Copy, a: &Block, b: &Block, compare: bool) -> Block {
    let mut out = [0; N];
    fast(f, a, b, &mut out);
    if compare {
        let mut other = [0; N];
        baseline(f, a, b, &mut other);
        for i in 0..N {
            assert_eq!(out[i], other[i], "builds differ at {:#x} {:#x}", a[i], b[i]);
        }
    }
    out
}

/// Calls `f` with blocks of every `stride()`th bit pattern.
fn patterns(mut f: impl FnMut(usize, &Block)) {
    let stride = stride();
    const SPECIAL: [u32; 12] = [
        0,
        1,
        0x7f_ffff,
        0x80_0000,
        0x3f80_0000,
        0x7f7f_ffff,
        0x7f80_0000,
        0x7fc0_0000,
        0x3f7f_ffff,
        0x3f80_0001,
        0x4b00_0000,
        0x4f00_0000,
    ];
    f(0, &std::array::from_fn(|i| SPECIAL[i % 12] ^ if i / 12 % 2 == 1 { 1 << 31 } else { 0 }));
    for k in 0..(1_usize << 32) / (stride * N) {
        f(k + 1, &std::array::from_fn(|i| ((k * N + i) * stride) as u32));
    }
}

struct Random(u64);
impl Random {
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }
    /// Uniform in [0, 1).
    fn unit(&mut self) -> f64 {
        f64::from(self.bits()) / 4_294_967_296.0
    }
}

/// |got - want| in units in the last place of an f32 of the size of `want`.
fn ulps(got: f32, want: f64) -> f64 {
    if want.is_nan() || got.is_nan() || want.is_infinite() {
        return if got.is_nan() == want.is_nan() && (want.is_nan() || f64::from(got) == want) {
            0.0
        } else {
            f64::INFINITY
        };
    }
    let e = (((want.to_bits() >> 52) & 0x7ff).cast_signed() - 1023).clamp(-126, 127);
    let got = if got.is_infinite() { f64::from(got.signum()) * 2_f64.powi(128) } else { f64::from(got) };
    let want = want.clamp(-(2_f64.powi(128)), 2_f64.powi(128));
    (got - want).abs() * f64::from_bits((23 - e + 1023).cast_unsigned() << 52)
}

struct Worst(f64, f32, f32, f32);
impl Worst {
    fn new() -> Self {
        Worst(0.0, 0.0, 0.0, 0.0)
    }
    fn see(&mut self, err: f64, x: f32, y: f32, got: f32) {
        if err > self.0 {
            *self = Worst(err, x, y, got);
        }
    }
    fn check(&self, name: &str, bound: f64) {
        assert!(self.0 <= bound, "{name}: {} ulp at {:e} {:e} -> {:e}", self.0, self.1, self.2, self.3);
    }
}

/// A unary function against f64 over every `stride()`th pattern that `domain` accepts.
fn sweep(
    name: &str,
    f: impl Fn(f32) -> f32 + Copy,
    reference: impl Fn(f64) -> f64,
    bound: f64,
    domain: impl Fn(f32) -> bool,
) {
    let mut worst = Worst::new();
    patterns(|k, a| {
        let out = run(|a, _| f(f32::from_bits(a)).to_bits(), a, a, k % 16 == 0);
        for (&x, &r) in a.iter().zip(&out) {
            let (x, r) = (f32::from_bits(x), f32::from_bits(r));
            if domain(x) {
                worst.see(ulps(r, reference(f64::from(x))), x, 0.0, r);
            }
        }
    });
    worst.check(name, bound);
}

macro_rules! sweeps {
    ($($test:ident: $name:ident, $bound:expr, $reference:expr, $domain:expr;)*) => {
        $(#[test]
        fn $test() {
            sweep(stringify!($name), m::$name, $reference, $bound, $domain);
        })*
    };
}
sweeps! {
    exp2: exp2, 1.5, f64::exp2, |_| true;
    exp: exp, 1.5, f64::exp, |_| true;
    log2: log2, 2.5, f64::log2, |_| true;
    log: log, 1.5, f64::ln, |_| true;
    sin: sin, 2.5, f64::sin, |x| x.abs() < 6.7e7;
    cos: cos, 2.5, f64::cos, |x| x.abs() < 6.7e7;
    tan: tan, 3.8, f64::tan, |x| x.abs() < 3.3e7;
    asin: asin, 3.0, f64::asin, |_| true;
    acos: acos, 3.0, f64::acos, |_| true;
    atan: atan, 3.0, f64::atan, |_| true;
    sinh: sinh, 3.0, f64::sinh, |_| true;
    cosh: cosh, 3.0, f64::cosh, |_| true;
    tanh: tanh, 3.0, f64::tanh, |_| true;
    asinh: asinh, 3.5, f64::asinh, |_| true;
    acosh: acosh, 3.5, f64::acosh, |_| true;
    atanh: atanh, 3.5, f64::atanh, |_| true;
}

fn pairs(
    name: &str,
    f: impl Fn(f32, f32) -> f32 + Copy,
    reference: impl Fn(f64, f64) -> f64,
    bound: f64,
    make: impl Fn(&mut Random) -> (f32, f32),
) {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        0.5,
        3.0,
        f32::INFINITY,
        -f32::INFINITY,
        f32::NAN,
        1e-40,
        -1e-40,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e30,
        -2.5,
    ];
    let mut random = Random(7);
    let mut worst = Worst::new();
    for k in 0..pairs_tried() / N {
        let (mut a, mut b) = ([0; N], [0; N]);
        for i in 0..N {
            let (x, y) = if k == 0 { (special[i % 16], special[i / 16 % 16]) } else { make(&mut random) };
            (a[i], b[i]) = (x.to_bits(), y.to_bits());
        }
        let out = run(|a, b| f(f32::from_bits(a), f32::from_bits(b)).to_bits(), &a, &b, k % 8 == 0);
        for i in 0..N {
            let (x, y, r) = (f32::from_bits(a[i]), f32::from_bits(b[i]), f32::from_bits(out[i]));
            worst.see(ulps(r, reference(f64::from(x), f64::from(y))), x, y, r);
        }
    }
    worst.check(name, bound);
}

/// pow as WGSL leaves it: NaN for x < 0 except x^0, zero of either sign alike.
fn pow_reference(x: f64, y: f64) -> f64 {
    if y == 0.0 || x == 1.0 {
        1.0
    } else if x < 0.0 || y.is_nan() {
        f64::NAN
    } else {
        x.abs().powf(y)
    }
}

#[test]
fn pow() {
    let f = m::pow;
    pairs("pow any", f, pow_reference, 1.5, |r| (f32::from_bits(r.bits()), f32::from_bits(r.bits())));
    pairs("pow in range", f, pow_reference, 1.5, |r| {
        let x = f32::from_bits(r.bits() & 0x7fff_ffff);
        (x, ((r.unit() * 280.0 - 150.0) / f64::from(x).log2()) as f32)
    });
    pairs("pow near 1", f, pow_reference, 1.5, |r| {
        let x = (1.0 + (r.unit() - 0.5) * 2_f64.powi(-(r.bits() % 24).cast_signed())) as f32;
        (x, ((r.unit() * 280.0 - 150.0) / f64::from(x).log2()) as f32)
    });
}

#[test]
fn atan2() {
    let f = m::atan2;
    pairs("atan2 any", f, f64::atan2, 3.0, |r| (f32::from_bits(r.bits()), f32::from_bits(r.bits())));
    pairs("atan2 near", f, f64::atan2, 3.0, |r| ((r.unit() * 2.0 - 1.0) as f32, (r.unit() * 2.0 - 1.0) as f32));
    for (y, x) in
        [(0.0, 1.0), (-0.0, 1.0), (0.0, -1.0), (-0.0, -1.0), (0.0, 0.0), (-0.0, 0.0), (0.0, -0.0), (-0.0, -0.0)]
    {
        assert_eq!(m::atan2(y, x).to_bits(), f32::atan2(y, x).to_bits(), "{y} {x}");
    }
}

#[test]
fn exact_points() {
    for k in -126..=127 {
        let p = 2_f32.powi(k);
        assert_eq!((m::exp2(k as f32), m::log2(p), m::pow(2.0, k as f32)), (p, k as f32, p));
    }
    for k in -149..-126 {
        assert_eq!((m::exp2(k as f32), m::log2(m::exp2(k as f32))), (2_f64.powi(k) as f32, k as f32));
    }
    assert_eq!(
        (m::exp(0.0), m::log(1.0), m::cos(0.0), m::cosh(0.0), m::acos(1.0), m::acosh(1.0)),
        (1.0, 0.0, 1.0, 1.0, 0.0, 0.0)
    );
    assert_eq!((m::exp(-f32::INFINITY), m::exp(f32::INFINITY)), (0.0, f32::INFINITY));
    assert_eq!((m::tanh(20.0), m::tanh(-f32::INFINITY)), (1.0, -1.0));
    for f in [m::sin, m::tan, m::asin, m::atan, m::sinh, m::tanh, m::asinh, m::atanh] {
        assert_eq!((f(0.0).to_bits(), f(-0.0).to_bits()), (0, 1 << 31));
    }
    for y in [0.0, 1.0, -3.5, 1e30, f32::INFINITY, f32::NAN] {
        assert_eq!((m::pow(1.0, y), m::pow(y, 0.0)), (1.0, 1.0));
    }
    assert_eq!((m::pow(0.0, 2.5), m::pow(0.0, -1.0), m::pow(f32::INFINITY, -1.0)), (0.0, f32::INFINITY, 0.0));
    assert!(m::sin(f32::INFINITY).is_nan() && m::cos(f32::NAN).is_nan());
    assert_eq!(
        (m::min(f32::NAN, 1.0), m::min(1.0, f32::NAN), m::max(f32::NAN, 1.0), m::max(1.0, f32::NAN)),
        (1.0, 1.0, 1.0, 1.0)
    );
    assert_eq!(
        (m::sign(-3.0), m::sign(0.0), m::sign(1e-45), m::step(1.0, 1.0), m::step(1.0, 0.5)),
        (-1.0, 0.0, 1.0, 1.0, 0.0)
    );
    assert_eq!((m::fmod(5.5, 2.0), m::fmod(-5.5, 2.0), m::fmod(5.5, -2.0), m::fract(-0.25)), (1.5, -1.5, 1.5, 0.75));
}

/// Sine and cosine stay in [-1, 1] for every finite argument.
#[test]
fn trig_range() {
    patterns(|_, a| {
        for f in [m::sin as fn(f32) -> f32, m::cos] {
            for &x in a.iter().step_by(8) {
                let r = f(f32::from_bits(x));
                assert!(r.abs() <= 1.0 || !f32::from_bits(x).is_finite(), "{x:#x} {r}");
            }
        }
    });
}

/// A function that must give the very bits of a reference (any NaN for any NaN if `float`).
fn same(name: &str, float: bool, f: impl Fn(u32) -> u32 + Copy, reference: impl Fn(u32) -> u32) {
    patterns(|k, a| {
        let out = run(|a, _| f(a), a, a, k % 16 == 0);
        for (&x, &r) in a.iter().zip(&out) {
            let want = reference(x);
            let nans = float && f32::from_bits(r).is_nan() && f32::from_bits(want).is_nan();
            assert!(r == want || nans, "{name}({x:#x}) = {r:#x}, not {want:#x}");
        }
    });
}

macro_rules! same {
    ($float:expr, $name:expr, |$x:ident| $ours:expr, $reference:expr) => {
        same(
            $name,
            $float,
            #[inline(always)]
            |$x| $ours,
            |$x| $reference,
        )
    };
}

#[test]
fn rounding() {
    let x = f32::from_bits;
    same!(true, "round_even", |a| m::round_even(x(a)).to_bits(), x(a).round_ties_even().to_bits());
    same!(true, "floor", |a| m::floor(x(a)).to_bits(), x(a).floor().to_bits());
    same!(true, "ceil", |a| m::ceil(x(a)).to_bits(), x(a).ceil().to_bits());
    same!(true, "trunc", |a| m::trunc(x(a)).to_bits(), x(a).trunc().to_bits());
    for i in -4000..4000 {
        let v = i as f32 / 8.0;
        assert_eq!(m::round_even(v).to_bits(), v.round_ties_even().to_bits());
        assert_eq!((m::floor(v).to_bits(), m::ceil(v).to_bits()), (v.floor().to_bits(), v.ceil().to_bits()));
    }
}

#[test]
fn conversions() {
    let x = f32::from_bits;
    same!(false, "f32_to_i32", |a| m::f32_to_i32(x(a)).cast_unsigned(), (x(a) as i32).cast_unsigned());
    same!(false, "f32_to_u32", |a| m::f32_to_u32(x(a)), x(a) as u32);
    same!(true, "i32_to_f32", |a| m::i32_to_f32(a.cast_signed()).to_bits(), (a.cast_signed() as f32).to_bits());
    same!(true, "u32_to_f32", |a| m::u32_to_f32(a).to_bits(), (a as f32).to_bits());
    for v in [
        0.5,
        0.999_999_94,
        1.0,
        1.999_999_9,
        65535.99,
        65536.0,
        8_388_607.5,
        2_147_483_520.0,
        4_294_967_040.0,
        4_294_967_296.0_f32,
    ] {
        for v in [v, -v] {
            assert_eq!((m::f32_to_i32(v), m::f32_to_u32(v)), (v as i32, v as u32), "{v}");
        }
    }
}

/// The value of f16 bits, by definition.
fn half(h: u32) -> f64 {
    let (e, f) = ((h >> 10 & 31).cast_signed(), f64::from(h & 0x3ff));
    let a = match e {
        0 => f * 2_f64.powi(-24),
        31 if f == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + f / 1024.0) * 2_f64.powi(e - 15),
    };
    if h & 0x8000 != 0 { -a } else { a }
}

/// Nearest f16 by definition: scale to units of the f16's last place, round to even.
fn nearest_half(x: f32) -> f32 {
    let v = f64::from(x);
    let e = (((v.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(-14);
    let unit = f64::from_bits(((e - 10 + 1023) as u64) << 52);
    if v.abs() >= 65520.0 { f32::INFINITY.copysign(x) } else { ((v / unit).round_ties_even() * unit) as f32 }
}

#[test]
fn halves() {
    let x = f32::from_bits;
    same!(true, "quantize_to_f16", |a| m::quantize_to_f16(x(a)).to_bits(), nearest_half(x(a)).to_bits());
    same!(
        true,
        "f16 round trip",
        |a| m::f16_bits_to_f32(m::f32_to_f16_bits(x(a))).to_bits(),
        nearest_half(x(a)).to_bits()
    );
    for h in 0..65536 {
        let v = m::f16_bits_to_f32(h);
        assert!(f64::from(v) == half(h) || v.is_nan() && half(h).is_nan(), "{h:#x}");
        assert!(m::f32_to_f16_bits(v) == h || v.is_nan());
        // Ties and their neighbours between h and the next f16.
        if h & 0x7fff < 0x7bff {
            let middle = ((half(h) + half(h + 1)) / 2.0) as f32;
            for v in [middle.next_down(), middle, middle.next_up()] {
                assert_eq!(m::quantize_to_f16(v).to_bits(), nearest_half(v).to_bits());
                assert_eq!(m::f16_bits_to_f32(m::f32_to_f16_bits(v)).to_bits(), nearest_half(v).to_bits());
            }
        }
    }
}

#[test]
fn exponents() {
    let mut random = Random(3);
    for k in 0..4000 {
        let a: Block = std::array::from_fn(|i| if i % 4 == 0 { random.bits() & 0x807f_ffff } else { random.bits() });
        let b: Block = std::array::from_fn(|_| ((random.bits() % 700).cast_signed() - 350).cast_unsigned());
        let out = run(|a, b| m::ldexp(f32::from_bits(a), b.cast_signed()).to_bits(), &a, &b, k % 8 == 0);
        let f = run(|a, _| m::frexp(f32::from_bits(a)).0.to_bits(), &a, &b, k % 8 == 0);
        let e = run(|a, _| m::frexp(f32::from_bits(a)).1.cast_unsigned(), &a, &b, k % 8 == 0);
        for i in 0..N {
            let (x, n) = (f32::from_bits(a[i]), b[i].cast_signed());
            let want = (f64::from(x) * 2_f64.powi(n)) as f32;
            assert!(out[i] == want.to_bits() || x.is_nan(), "ldexp({x:e}, {n}) = {:e}", f32::from_bits(out[i]));
            let (f, e) = (f32::from_bits(f[i]), e[i].cast_signed());
            if x != 0.0 && x.is_finite() {
                assert!((0.5..1.0).contains(&f.abs()) && f64::from(f) * 2_f64.powi(e) == f64::from(x), "frexp({x:e})");
            }
        }
    }
}

fn integers(name: &str, f: impl Fn(u32, u32) -> u32 + Copy, reference: impl Fn(u32, u32) -> u32) {
    let special = [
        0,
        1,
        2,
        3,
        7,
        31,
        32,
        33,
        0x7fff_ffff,
        0x8000_0000,
        0x8000_0001,
        0xffff_ffff,
        0xffff_fffe,
        0x1_0000,
        0xffff,
        0x5555_5555,
    ];
    let mut random = Random(11);
    for k in 0..pairs_tried() / N {
        let (mut a, mut b) = ([0; N], [0; N]);
        for i in 0..N {
            (a[i], b[i]) = (random.bits() >> (random.bits() & 31), random.bits() >> (random.bits() & 31));
            // Multiples and their neighbours, negatives.
            if i % 4 == 1 {
                a[i] = b[i].wrapping_mul(random.bits() >> (random.bits() & 31)).wrapping_sub(random.bits() & 1);
            }
            if i % 8 > 4 {
                (a[i], b[i]) = (a[i].wrapping_neg(), if i % 2 == 0 { b[i] } else { b[i].wrapping_neg() });
            }
            if k == 0 {
                (a[i], b[i]) = (special[i % 16], special[i / 16 % 16]);
            }
        }
        let out = run(f, &a, &b, k % 8 == 0);
        for i in 0..N {
            let want = reference(a[i], b[i]);
            assert_eq!(out[i], want, "{name}({:#x}, {:#x})", a[i], b[i]);
        }
    }
}

#[test]
fn division() {
    let signed = u32::cast_signed;
    integers("udiv", m::udiv, |a, b| a.checked_div(b).unwrap_or(a));
    integers("urem", m::urem, |a, b| a.checked_rem(b).unwrap_or(0));
    integers(
        "idiv",
        |a, b| m::idiv(a.cast_signed(), b.cast_signed()).cast_unsigned(),
        |a, b| if b == 0 { a } else { signed(a).wrapping_div(signed(b)).cast_unsigned() },
    );
    integers(
        "irem",
        |a, b| m::irem(a.cast_signed(), b.cast_signed()).cast_unsigned(),
        |a, b| if b == 0 { 0 } else { signed(a).wrapping_rem(signed(b)).cast_unsigned() },
    );
}

#[test]
fn bits() {
    integers("clz", |a, _| m::count_leading_zeros(a), |a, _| a.leading_zeros());
    integers("ctz", |a, _| m::count_trailing_zeros(a), |a, _| a.trailing_zeros());
    same!(false, "clz", |a| m::count_leading_zeros(a), a.leading_zeros());
    same!(false, "ctz", |a| m::count_trailing_zeros(a), a.trailing_zeros());
    same!(false, "flb", |a| m::first_leading_bit_u32(a), 31_u32.wrapping_sub(a.leading_zeros()));
    same!(
        false,
        "flb i32",
        |a| m::first_leading_bit_i32(a.cast_signed()).cast_unsigned(),
        31_u32.wrapping_sub(if a.cast_signed() < 0 { (!a).leading_zeros() } else { a.leading_zeros() })
    );
    same!(false, "ftb", |a| m::first_trailing_bit(a), if a == 0 { !0 } else { a.trailing_zeros() });
    let field = |o: u32, c: u32| {
        let o = o.min(32);
        (o, c.min(32 - o))
    };
    let args = |b: u32| (b & 63, b >> 6 & 63);
    integers(
        "extract u32",
        |a, b| {
            let (o, c) = (b & 63, b >> 6 & 63);
            m::extract_bits_u32(a, o, c)
        },
        |a, b| {
            let (o, c) = field(args(b).0, args(b).1);
            ((u64::from(a) >> o) & ((1 << c) - 1)) as u32
        },
    );
    integers(
        "extract i32",
        |a, b| {
            let (o, c) = (b & 63, b >> 6 & 63);
            m::extract_bits_i32(a.cast_signed(), o, c).cast_unsigned()
        },
        |a, b| {
            let (o, c) = field(args(b).0, args(b).1);
            let v = (u64::from(a) >> o) & ((1 << c) - 1);
            if c > 0 && v >> (c - 1) & 1 == 1 { (v | !0 << c) as u32 } else { v as u32 }
        },
    );
}

#[test]
fn normalised() {
    let x = f32::from_bits;
    let pack = |v: f32, lo: f32, s: f32| (0.5 + s * v.max(lo).min(1.0)).floor() as i32;
    let number = |a: u32| if f32::from_bits(a).is_nan() { 0 } else { a };
    same!(false, "snorm8", |a| m::pack_snorm8(x(number(a))), pack(x(number(a)), -1.0, 127.0).cast_unsigned() & 0xff);
    same!(false, "unorm8", |a| m::pack_unorm8(x(a)), pack(x(a), 0.0, 255.0).cast_unsigned() & 0xff);
    same!(
        false,
        "snorm16",
        |a| m::pack_snorm16(x(number(a))),
        pack(x(number(a)), -1.0, 32767.0).cast_unsigned() & 0xffff
    );
    same!(false, "unorm16", |a| m::pack_unorm16(x(a)), pack(x(a), 0.0, 65535.0).cast_unsigned() & 0xffff);
    for v in 0..65536_u32 {
        assert_eq!(m::unpack_snorm16(v), (f32::from((v as u16).cast_signed()) / 32767.0).max(-1.0));
        assert_eq!(m::unpack_unorm16(v | 0x1_0000), f32::from(v as u16) / 65535.0);
        assert_eq!(m::unpack_snorm8(v), (f32::from((v as u8).cast_signed()) / 127.0).max(-1.0));
        assert_eq!(m::unpack_unorm8(v), f32::from(v as u8) / 255.0);
        assert_eq!(
            (m::pack_snorm16(m::unpack_snorm16(v)), m::pack_unorm16(m::unpack_unorm16(v))),
            (if v == 0x8000 { 0x8001 } else { v }, v)
        );
    }
}

/// The simple functions without a sweep of their own: both builds agree, specials in every combination included.
#[test]
fn builds_agree() {
    const SPECIAL: [u32; 16] = [
        0,
        1 << 31,
        1,
        0x3f80_0000,
        0xbf80_0000,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0xffc0_0001,
        0x7fc1_2345,
        0x7f7f_ffff,
        0x80_0000,
        0x4b00_0001,
        0xcb00_0001,
        0x3f00_0000,
        0x4049_0fdb,
    ];
    let x = f32::from_bits;
    let mut random = Random(5);
    for k in 0..200 {
        let mut pick = |i: usize| if k == 0 { SPECIAL[i % 16] } else { random.bits() };
        let (a, b): (Block, Block) = (std::array::from_fn(&mut pick), std::array::from_fn(|i| pick(i / 16)));
        run(|a, b| m::min(x(a), x(b)).to_bits(), &a, &b, true);
        run(|a, b| m::max(x(a), x(b)).to_bits(), &a, &b, true);
        run(|a, b| m::fmod(x(a), x(b)).to_bits(), &a, &b, true);
        run(|a, b| m::step(x(a), x(b)).to_bits(), &a, &b, true);
        run(|a, _| m::sign(x(a)).to_bits(), &a, &b, true);
        run(|a, _| m::fract(x(a)).to_bits(), &a, &b, true);
        run(|a, _| m::unpack_snorm8(a).to_bits(), &a, &b, true);
        run(|a, _| m::unpack_unorm16(a).to_bits(), &a, &b, true);
    }
}
