//! Random numbers, checksums, long integers, searches.

use crate::{
    case::{Case, Need},
    dice::words,
};

const KERNELS: &str = include_str!("kernels/numbers.wgsl");
const LEN: usize = 111;

/// Each chunk of the input gives some words of output.
fn chunks(name: &'static str, a: &[u32], size: usize, reference: impl Fn(&[u32], u32) -> Vec<u32>) -> Case {
    let expected: Vec<u32> = a.chunks(size).zip(0..).flat_map(|(a, index)| reference(a, index)).collect();
    Case::new(name, KERNELS).items([(a.len() / size) as u32, 1, 1]).input(&a.to_vec()).output(expected)
}

fn xorshift(a: &[u32], _: u32) -> Vec<u32> {
    let mut s = a[0] | 1;
    let mut next = || {
        s ^= s << 13;
        s ^= s >> 17;
        s ^= s << 5;
        s
    };
    (0..4).map(|_| next()).collect()
}

fn pcg(a: &[u32], _: u32) -> Vec<u32> {
    let mut state = a[0];
    let mut next = || {
        let old = state;
        state = old.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let word = ((old >> ((old >> 28) + 4)) ^ old).wrapping_mul(277_803_737);
        (word >> 22) ^ word
    };
    (0..4).map(|_| next()).collect()
}

fn philox(a: &[u32], index: u32) -> Vec<u32> {
    let mut c = [index, 0, 7, a[0]];
    let mut key = [a[0], 0xdead_beef_u32];
    for _ in 0..10 {
        let p = 0xd251_1f53_u64 * u64::from(c[0]);
        let q = 0xcd9e_8d57_u64 * u64::from(c[2]);
        let high = |product: u64| (product >> 32) as u32;
        c = [high(q) ^ c[1] ^ key[0], q as u32, high(p) ^ c[3] ^ key[1], p as u32];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    c.to_vec()
}

fn crc32(a: &[u32], _: u32) -> Vec<u32> {
    let bytes = a.iter().flat_map(|a| a.to_le_bytes());
    let crc = bytes.fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    });
    vec![!crc]
}

/// The first 32 bits behind the point of a root of each of the first primes.
fn root_bits(count: usize, root: impl Fn(f64) -> f64) -> Vec<u32> {
    let primes = (2_u32..).filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0));
    primes.take(count).map(|prime| (root(f64::from(prime)).fract() * 2_f64.powi(32)) as u32).collect()
}

/// With its constants made from their definition, so that a digit mistyped in the kernel shows.
fn sha256(a: &[u32], _: u32) -> Vec<u32> {
    let (start, rounds) = (root_bits(8, f64::sqrt), root_bits(64, f64::cbrt));
    let mut w = a.to_vec();
    w.extend([0x8000_0000, 0, 0, 0, 0, 0, 0, 256]);
    for i in 16..64 {
        let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ w[i - 15] >> 3;
        let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ w[i - 2] >> 10;
        w.push(w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1));
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = std::array::from_fn(|at| start[at]);
    for i in 0..64 {
        let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let t1 = [s1, choice, rounds[i], w[i]].iter().fold(h, |sum: u32, part| sum.wrapping_add(*part));
        let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let t2 = s0.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(t1), c, b, a, t1.wrapping_add(t2));
    }
    [a, b, c, d, e, f, g, h].iter().zip(start).map(|(part, start)| part.wrapping_add(start)).collect()
}

fn fibonacci(a: &[u32], _: u32) -> Vec<u32> {
    let (mut one, mut two) = (0_u32, 1_u32);
    for _ in 0..a[0] {
        (one, two) = (two, one.wrapping_add(two));
    }
    vec![one]
}

fn long_integers(a: &[u32], _: u32) -> Vec<u32> {
    let mut out = Vec::new();
    let mut carry = 0_u64;
    for (x, y) in a[..4].iter().zip(&a[4..]) {
        carry += u64::from(*x) + u64::from(*y);
        out.push(carry as u32);
        carry >>= 32;
    }
    out.push(carry as u32);
    let mut product = [0_u32; 8];
    for i in 0..4 {
        let mut carry = 0_u64;
        for j in 0..4 {
            carry += u64::from(a[i]) * u64::from(a[4 + j]) + u64::from(product[i + j]);
            product[i + j] = carry as u32;
            carry >>= 32;
        }
        product[i + 4] = carry as u32;
    }
    out.extend(product);
    out
}

fn long_reduction() -> Case {
    let mut a = words(199, 17);
    // Past the 65,535 iterations after which lavapipe stops.
    a[0] = 200_003;
    let sum = (0..a[0]).fold(0_u32, |sum, i| sum.wrapping_mul(3).wrapping_add(i ^ a[i as usize % 17]));
    Case::new("long_reduction", KERNELS).input(&a).output([sum]).needs(Need::LongLoops)
}

pub(crate) fn cases() -> Vec<Case> {
    // The numbers of solutions are known.
    let boards: Vec<u32> = (0..41).map(|index| 1 + index % 7).collect();
    let solutions = [1, 0, 0, 2, 10, 4, 40];
    let few: Vec<u32> = words(194, LEN).iter().map(|n| n % 1000).collect();
    vec![
        chunks("xorshift", &words(190, LEN), 1, xorshift),
        chunks("pcg_numbers", &words(191, LEN), 1, pcg),
        chunks("philox", &words(192, LEN), 1, philox),
        chunks("crc32", &words(193, 8 * LEN), 8, crc32),
        chunks("sha256", &words(195, 8 * LEN), 8, sha256),
        chunks("fibonacci", &few, 1, fibonacci),
        chunks("long_integers", &words(196, 8 * LEN), 8, long_integers),
        chunks("queens", &boards, 1, |a, _| vec![solutions[a[0] as usize - 1]]),
        long_reduction(),
    ]
}
