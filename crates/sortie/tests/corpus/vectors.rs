//! Vectors: swizzles, components, constructors, operators by component, booleans, padding in memory.

use crate::{
    case::Case,
    dice::{below, floats, words},
    word::{Word, Words},
};

const KERNELS: &str = include_str!("kernels/vectors.wgsl");
const LEN: u32 = 203;

/// A kernel of one vector of words and its index.
fn each<W: Into<Word>>(name: &'static str, w: &[u32], reference: impl Fn([u32; 4], usize) -> Vec<W>) -> Case {
    let vectors = w.chunks(4).map(|w| [w[0], w[1], w[2], w[3]]);
    let expected: Vec<Word> =
        vectors.enumerate().flat_map(|(index, vector)| reference(vector, index)).map(Into::into).collect();
    Case::new(name, KERNELS).items([LEN, 1, 1]).input(&w.to_vec()).output(expected)
}

fn wide(seed: u64) -> Vec<u32> {
    words(seed, 4 * LEN as usize)
}

fn components(a: [u32; 4], index: usize) -> Vec<u32> {
    let before = a;
    let mut a = a;
    a[0] = before[3];
    a[1] = a[1].wrapping_add(before[0]);
    a[2] = a[2].wrapping_mul(3);
    a[index % 4] ^= 0xff;
    a[3] = a[3].wrapping_add(1);
    let mut b = [a[0], a[1]];
    b[index & 1] = 7;
    b[1] = b[1].wrapping_sub(1);
    let mut c = [b[0], b[1], a[(index + 1) % 4]];
    c[2] = c[index % 3].wrapping_add(before[3]);
    [a.as_slice(), &c, &[before[index * 7 % 4]]].concat()
}

fn constructors(a: [u32; 4]) -> Vec<u32> {
    let sum = |parts: [u32; 4]| parts.iter().fold(0_u32, |sum, part| sum.wrapping_add(*part));
    let mixed = [
        sum([a[0], a[0], a[1], a[2]]),
        sum([a[1], a[1], a[1], a[3]]),
        sum([a[2], a[2], a[1], a[3]]),
        sum([1, 2, a[3], a[2]]),
    ];
    let nested = [a[0], a[1], 0, 5];
    (0..4).map(|at| mixed[at] ^ a[at].wrapping_sub(a[0]).wrapping_mul(3) ^ nested[at]).collect()
}

fn operators(a: [u32; 4]) -> Vec<u32> {
    let b = [a[1], a[2], a[3], a[0]];
    let by = [3, 7, 11, a[0]];
    let divisors = [1000, 77, -13, 5];
    let others = [b[0], b[0], b[1], b[1]];
    (0..4)
        .map(|at| {
            let (a, b) = (a[at], b[at]);
            let mut r = a.wrapping_add(b.wrapping_mul(3)).wrapping_sub(a.wrapping_mul(5));
            r ^= a & b;
            r |= b.wrapping_shr(by[at]);
            r = r.wrapping_sub((a << (b % 32)) / (b | 1));
            r = r.wrapping_add(a.cast_signed().wrapping_neg().wrapping_rem(divisors[at]).cast_unsigned());
            r.min(!a).wrapping_add(a.max(others[at])).wrapping_sub(r.clamp(5, 500_000))
        })
        .collect()
}

fn booleans(a: [u32; 4], index: usize) -> Vec<u32> {
    let less: [bool; 4] = std::array::from_fn(|at| a[at] < a[(at + 1) % 4]);
    let even = a.map(|a| a % 2 == 0);
    let all = |of: &dyn Fn(usize) -> bool| (0..4).all(of);
    let bits = [
        all(&|at| less[at] || !even[at]),
        (0..4).any(|at| less[at] && even[at]),
        all(&|at| less[at] == even[at]),
        less[0] || less[1],
        a[0] > 5,
    ];
    let bits = bits.iter().enumerate().map(|(bit, set)| u32::from(*set) << bit).sum();
    let chosen: [u32; 4] = std::array::from_fn(|at| if less[at] { a[3 - at] } else { a[at] });
    let scalar = if even[2] { a[1] } else { a[0] };
    let whole = if even[3] { [a[2], a[3]] } else { [a[0], a[1]] };
    let last = whole[1] ^ u32::from(less[index % 4]);
    [&[bits], chosen.as_slice(), &[scalar, whole[0], last]].concat()
}

fn padded(a: [u32; 4], index: usize) -> Vec<Word> {
    let mut v = [a[2], a[3].wrapping_add(a[2]), a[0]];
    v[index % 3] = v[index % 3].wrapping_add(1);
    // The padding is not written by a store of a vec3.
    v.into_iter().map(Word::from).chain([Word::Any]).collect()
}

/// Every swizzle of vectors of every width, in one long kernel.
fn all_swizzles() -> Case {
    let letters = [["x", "y", "z", "w"], ["r", "g", "b", "a"]];
    let mut source = String::from(
        "@group(0) @binding(0) var<storage, read> w: array<vec4<u32>>;
        @group(0) @binding(1) var<storage, read_write> o: array<u32>;
        @compute @workgroup_size(20) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x >= arrayLength(&w) { return; }
        let v4 = w[id.x]; let v3 = v4.xyz; let v2 = v4.xy; var h = 0u;\n",
    );
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for from in 2..5_usize {
        for to in 2..5_u32 {
            for code in 0..from.pow(to) {
                let picked: Vec<usize> = (0..to).map(|place| code / from.pow(place) % from).collect();
                let name: String = picked.iter().map(|at| letters[code % 2][*at]).collect();
                let weights = ["vec2(3u, 5u)", "vec3(3u, 5u, 7u)", "vec4(3u, 5u, 7u, 11u)"][to as usize - 2];
                source += &format!("h = h * 31u + dot(v{from}.{name}, {weights});\n");
                parts.push(picked);
            }
        }
    }
    source += "o[id.x] = h; }";
    let w = wide(56);
    let expected = w.chunks(4).map(|v| {
        parts.iter().fold(0_u32, |hash, picked| {
            let dot = picked.iter().zip([3, 5, 7, 11]).fold(0_u32, |sum, (at, by)| sum.wrapping_add(v[*at].wrapping_mul(by)));
            hash.wrapping_mul(31).wrapping_add(dot)
        })
    });
    let expected: Vec<u32> = expected.collect();
    Case::new("all_swizzles", source).entry("main").items([LEN, 1, 1]).input(&w).output(expected)
}

pub(crate) fn cases() -> Vec<Case> {
    let x = floats(50, 4 * LEN as usize, -9.0, 9.0);
    vec![
        each("swizzles", &x.words(), |a, _| {
            let [x, y, z, w] = a.map(f32::from_bits);
            // a.wzyx = b; c = a.xxyy + b.zwzw.
            vec![w, y + y, y + x, z, x, y, w, z]
        }),
        all_swizzles(),
        each("components", &wide(51), components),
        each("constructors", &wide(52), |a, _| constructors(a)),
        each("vector_operators", &wide(53), |a, _| operators(a)),
        each("vector_booleans", &below(54, 4 * LEN as usize, 12), booleans),
        each("padded_vectors", &wide(55), padded),
    ]
}
