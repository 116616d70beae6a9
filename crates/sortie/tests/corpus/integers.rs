//! Integer arithmetic over the whole range: wrapping, division by zero, shifts, bits, fields, dot products.

use crate::{case::Case, dice::words};

const KERNELS: &str = include_str!("kernels/integers.wgsl");
/// No multiple of any workgroup's size.
const LEN: usize = 997;

/// A kernel of two words, and `N` words that come of each pair.
fn pairs<const N: usize>(name: &'static str, seed: u64, reference: impl Fn(u32, u32) -> [u32; N]) -> Case {
    let (a, b) = (words(seed, LEN), words(seed + 1000, LEN));
    let expected: Vec<u32> = a.iter().zip(&b).flat_map(|(a, b)| reference(*a, *b)).collect();
    Case::new(name, KERNELS).items([LEN as u32, 1, 1]).input(&a).input(&b).output(expected)
}

fn signed(reference: impl Fn(i32, i32) -> i32) -> impl Fn(u32, u32) -> u32 {
    move |a, b| reference(a.cast_signed(), b.cast_signed()).cast_unsigned()
}

/// WGSL: x / 0 = x, and MIN / -1 = MIN.
fn div(a: i32, b: i32) -> i32 {
    if b == 0 { a } else { a.wrapping_div(b) }
}

/// WGSL: x % 0 = 0, and MIN % -1 = 0.
fn rem(a: i32, b: i32) -> i32 {
    if b == 0 { 0 } else { a.wrapping_rem(b) }
}

fn bytes(word: u32) -> [u32; 4] {
    word.to_le_bytes().map(u32::from)
}

/// The bits `offset..offset + count` of a word, both cut to what there is.
fn field(offset: u32, count: u32) -> (u32, u32, u32) {
    let offset = offset.min(32);
    let count = count.min(32 - offset);
    (offset, count, (((1_u64 << count) - 1) << offset) as u32)
}

fn extract(x: u32, offset: u32, count: u32) -> u32 {
    let (offset, _, mask) = field(offset, count);
    (u64::from(x & mask) >> offset) as u32
}

fn extract_signed(x: u32, offset: u32, count: u32) -> u32 {
    let (_, cut, _) = field(offset, count);
    if cut == 0 {
        return 0;
    }
    ((extract(x, offset, count) << (32 - cut)).cast_signed() >> (32 - cut)).cast_unsigned()
}

fn insert(x: u32, new: u32, offset: u32, count: u32) -> u32 {
    let (offset, _, mask) = field(offset, count);
    (x & !mask) | ((u64::from(new) << offset) as u32 & mask)
}

/// The highest bit that differs from the sign; -1 when there is none.
fn first_leading(x: i32) -> i32 {
    let x = if x < 0 { !x } else { x };
    31 - x.leading_zeros().cast_signed()
}

fn leading(x: u32) -> u32 {
    31_u32.wrapping_sub(x.leading_zeros())
}

fn trailing(x: u32) -> u32 {
    if x == 0 { u32::MAX } else { x.trailing_zeros() }
}

fn compound(a: u32, y: u32) -> u32 {
    let mut v = a.wrapping_add(y).wrapping_mul(3).wrapping_sub(7);
    v = ((v ^ y) | 0x11) & !0x80;
    v = (v << (y % 5)) >> (y % 3);
    v = v.wrapping_add(1);
    v = v / (y | 1) % ((y >> 1) | 1);
    let o = (v.wrapping_add(1) ^ y).wrapping_sub(1);
    let s = y.cast_signed().wrapping_add(5).wrapping_mul(-3).wrapping_sub(11) / 7 % 1000;
    o.wrapping_add(((s >> 1) << 2).cast_unsigned())
}

fn bits(x: u32, y: u32) -> [u32; 8] {
    let i = x.cast_signed();
    let mixed = y.reverse_bits() ^ x.count_ones() ^ leading(y) ^ trailing(x) ^ y.leading_zeros();
    let signed = [
        trailing(x).cast_signed(),
        x.count_ones().cast_signed() * 64,
        x.leading_zeros().cast_signed() * 4096,
        x.trailing_zeros().cast_signed() * 262_144,
    ];
    [
        x.count_ones(),
        x.leading_zeros(),
        x.trailing_zeros(),
        x.reverse_bits() ^ mixed,
        leading(x),
        trailing(x),
        first_leading(i).cast_unsigned(),
        signed.iter().sum::<i32>().cast_unsigned(),
    ]
}

fn extremes(x: u32, y: u32) -> [u32; 8] {
    let (i, j) = (x.cast_signed(), y.cast_signed());
    [
        x.min(y),
        x.max(y),
        i.min(j).cast_unsigned(),
        i.max(j).cast_unsigned(),
        i.wrapping_abs().cast_unsigned(),
        i.signum().cast_unsigned(),
        x.clamp(y.min(1000), y.max(1000)),
        i.clamp(j.min(-5), j.max(-5)).cast_unsigned(),
    ]
}

fn comparisons(x: u32, y: u32) -> [u32; 1] {
    let (i, j) = (x.cast_signed(), y.cast_signed());
    let six = |less: bool, equal: bool| {
        let all = [less, less || equal, !less && !equal, !less, equal, !equal];
        all.iter().enumerate().map(|(bit, set)| u32::from(*set) << bit).sum::<u32>()
    };
    [six(x < y, x == y) | (six(i < j, i == j) << 8)]
}

fn vector_dots(x: u32, y: u32) -> [u32; 3] {
    let mul = u32::wrapping_mul;
    let add = u32::wrapping_add;
    let three = add(add(mul(x, 7), mul(y, 9_u32.wrapping_neg())), mul(add(x, y), 11));
    [add(mul(x, y), mul(y, 3)), three, add(add(mul(x, y), mul(y, x)), add(mul(x ^ y, 5), x))]
}

fn division_of_vectors() -> Case {
    let len = 333 * 3;
    let (a, b) = (words(7, len), words(8, len));
    let expected = a.chunks(3).zip(b.chunks(3)).flat_map(|(a, b)| {
        let (x, y) = (|at: usize| a[at].cast_signed(), |at: usize| b[at].cast_signed());
        std::array::from_fn::<i32, 3, _>(|at| {
            let sum = div(x(at), y(at)).wrapping_add(rem(x(at), y(at)));
            sum.wrapping_add(div(x(at), y(0))).wrapping_add(rem(y(2), x(at)))
        })
    });
    let expected: Vec<i32> = expected.collect();
    Case::new("division_of_vectors", KERNELS).items([333, 1, 1]).input(&a).input(&b).output(expected)
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        pairs("wrapping_u32", 1, |x, y| {
            let last = x.wrapping_mul(3).wrapping_add(y.wrapping_mul(5));
            let last = last.wrapping_sub(x.wrapping_add(7).wrapping_mul(y.wrapping_sub(9)));
            [x.wrapping_add(y), x.wrapping_sub(y), x.wrapping_mul(y), last]
        }),
        pairs("wrapping_i32", 2, |x, y| {
            let (add, sub) = (signed(i32::wrapping_add)(x, y), signed(i32::wrapping_sub)(x, y));
            [add, sub, signed(i32::wrapping_mul)(x, y), x.wrapping_neg()]
        }),
        pairs("division_u32", 3, |x, y| [x.checked_div(y).unwrap_or(x), x.checked_rem(y).unwrap_or(0)]),
        pairs("division_i32", 4, |x, y| [signed(div)(x, y), signed(rem)(x, y)]),
        division_of_vectors(),
        pairs("shifts", 5, |x, by| {
            let i = x.cast_signed();
            let signed = [i.wrapping_shr(by), i.wrapping_shl(by.wrapping_add(3))].map(i32::cast_unsigned);
            [x.wrapping_shl(by), x.wrapping_shr(by), signed[0], signed[1]]
        }),
        pairs("bitwise", 6, |x, y| [x & y, x | y, x ^ y, (!x ^ (y & !x)) | (!x & !y)]),
        pairs("comparisons", 9, comparisons),
        pairs("compound", 10, |x, y| [compound(x, y)]),
        pairs("extremes", 11, extremes),
        pairs("bits", 12, bits),
        pairs("fields", 13, |x, y| {
            let (offset, count) = (y % 40, y / 64 % 40);
            let insertions = [insert(x, y, offset, count), insert(y, x, offset, count)];
            [extract(x, offset, count), extract_signed(x, offset, count), insertions[0], insertions[1]]
        }),
        pairs("packed_dots", 14, |x, y| {
            let unsigned = bytes(x).iter().zip(bytes(y)).map(|(a, b)| a * b).sum();
            let signed = x.to_le_bytes().into_iter().zip(y.to_le_bytes());
            let signed: i32 = signed.map(|(a, b)| i32::from(a.cast_signed()) * i32::from(b.cast_signed())).sum();
            [unsigned, signed.cast_unsigned()]
        }),
        pairs("vector_dots", 15, vector_dots),
    ]
}
