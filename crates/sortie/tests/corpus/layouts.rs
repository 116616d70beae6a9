//! Structs, arrays and matrices in memory: nested, aligned, padded, in uniforms and immediates, before a runtime-sized array.

use crate::{
    case::Case,
    dice::{floats, words},
    tolerance::abs,
    word::{Word, Words},
};

const KERNELS: &str = include_str!("kernels/layouts.wgsl");
const LEN: usize = 31;
/// Words of `Outer`: first, padding to 4, Inner (a, pad 3, v at 4, b at 7, 8 words), pair at 12, list at 14, last at 17, padded to 20.
const OUTER: usize = 20;

fn case(name: &'static str) -> Case {
    Case::new(name, KERNELS).items([LEN as u32, 1, 1])
}

fn nested() -> Case {
    let w = words(70, OUTER * LEN);
    let expected = w.chunks(OUTER).enumerate().map(|(index, s)| {
        let inner = &s[4..12];
        let parts = [
            s[0],
            inner[0].wrapping_mul(3),
            inner[5].wrapping_mul(5),
            inner[7].wrapping_mul(7),
            s[12].wrapping_mul(11),
            s[14 + index % 3].wrapping_mul(13),
            s[17].wrapping_mul(17),
            inner[4 + index % 3].wrapping_mul(19),
            s[13].wrapping_mul(23),
        ];
        parts.iter().fold(0_u32, |sum, part| sum.wrapping_add(*part))
    });
    let expected: Vec<u32> = expected.collect();
    case("nested").input(&w).output(expected)
}

fn written_structs() -> Case {
    let w = words(71, OUTER * LEN);
    let expected = w.chunks(OUTER).enumerate().flat_map(|(index, s)| {
        let mut list = [s[14], s[15], s[16]];
        list[index % 3] = list[index % 3].wrapping_add(s[17]);
        list[1] ^= 0xf0;
        let mut after = vec![Word::Any; OUTER];
        after[0] = s[0].into();
        after[4] = s[4].wrapping_mul(2).into();
        for at in 0..3 {
            after[8 + at] = s[10 - at].wrapping_add(1).into();
            after[14 + at] = list[at].into();
        }
        after[11] = 9_u32.into();
        after[12] = s[13].into();
        after[13] = s[12].into();
        after[17] = s[17].into();
        after
    });
    let expected: Vec<Word> = expected.collect();
    case("written_structs").input(&w).output(expected)
}

/// a at 0, b at 8, c at 10 (20 bytes), d at 16; aligned to 32 bytes, so 24 words.
fn aligned() -> Case {
    let w = words(72, 24 * LEN);
    let expected = w.chunks(24).map(|s| {
        let parts = [(s[0], 1), (s[8], 3), (s[10], 5), (s[11], 7), (s[16], 11)];
        parts.iter().fold(0_u32, |sum, (word, factor)| sum.wrapping_add(word.wrapping_mul(*factor)))
    });
    let expected: Vec<u32> = expected.collect();
    case("aligned").input(&w).output(expected)
}

fn runtime_tail() -> Case {
    // count, pad 3, scale (3), then vec2s from word 8 on (7 rounds up to 8): 12 of them and a count of 10.
    let mut before = words(73, 8 + 24);
    before[0] = 10;
    let mut after = before.clone();
    for at in 0..10 {
        for half in 0..2 {
            after[8 + 2 * at + half] = before[8 + 2 * at + 1 - half].wrapping_mul(before[6]).wrapping_add(12);
        }
    }
    case("runtime_tail").change(&before, after)
}

fn uniforms() -> Case {
    let x = floats(74, 4 + 12 + 8, -5.0, 5.0);
    let table: Vec<u32> = words(75, 12).iter().map(|w| w % 100).collect();
    let mut data = x.words();
    data.extend(&table);
    data.extend([7, 0, 0, 0]);
    let at = |index: usize| f64::from(x[index]);
    let expected: Vec<f64> = (0..LEN)
        .map(|index| {
            let v = [index as f64, 1.0, -1.0];
            let row = index % 3;
            let m: f64 = (0..3).map(|column| at(4 + 4 * column + row) * v[column]).sum();
            let thin: f64 = (0..2).map(|column| at(16 + 4 * column + row) * v[column]).sum();
            let r = m + at(row) * at(3) + thin;
            let entry = f64::from(table[4 * (index % 3) + index % 4]);
            r + entry + at(4 + 4 * (index % 3) + 1) + at(16 + 4 * (index % 2) + index % 3) + 7.0
        })
        .collect();
    case("uniforms").input(&data).output(expected).within(abs(3e-4, "ten rounded terms below 500 in any order"))
}

fn immediates() -> Case {
    // n, pad, offset, k, w at word 8, 12 words in all.
    let mut small = words(76, 12);
    small[0] = 20;
    let expected: Vec<u32> = (0..LEN as u32)
        .map(|index| {
            let at = index as usize;
            let value = small[4 + at % 4].wrapping_mul(index.wrapping_add(small[3]));
            if index < 20 { value.wrapping_add(small[2 + at % 2]).wrapping_add(small[10]) } else { 0 }
        })
        .collect();
    case("immediates").immediates(&small).output(expected)
}

fn arrays_of_arrays() -> Case {
    let w = words(77, 15 * LEN);
    let expected = w.chunks(15).enumerate().map(|(index, row)| {
        (0..5).fold(0_u32, |sum, i| {
            let sum = sum.wrapping_mul(31).wrapping_add(row[3 * i + (i + index) % 3]);
            sum.wrapping_add(row[3 * (i * 2 % 5) + i % 3]).wrapping_add(row[3 * (4 - i)])
        })
    });
    let expected: Vec<u32> = expected.collect();
    case("arrays_of_arrays").input(&w).output(expected)
}

fn matrices_in_structs() -> Case {
    // m at 0 (4), t at 4 (6), k at 10, padded to 12.
    let x = floats(78, 12 * LEN, -3.0, 3.0);
    let expected = x.chunks(12).enumerate().map(|(index, s)| {
        let terms = [
            (1.0, s[0]),
            (2.0, s[3]),
            (4.0, s[8]),
            (8.0, s[5 + 2 * (index % 3)]),
            (16.0, s[10]),
            (32.0, s[2 * (index % 2)]),
        ];
        terms.iter().map(|(factor, x)| factor * f64::from(*x)).sum::<f64>()
    });
    let expected: Vec<f64> = expected.collect();
    case("matrices_in_structs").input(&x).output(expected).within(abs(1e-4, "six rounded terms below 100 in any order"))
}

fn scattered_bindings() -> Case {
    let (far, single) = (words(79, LEN), [3_u32, 5, 7, 11]);
    let expected: Vec<u32> =
        far.iter().enumerate().map(|(index, far)| far.wrapping_mul(7).wrapping_add(single[index % 4])).collect();
    // The order of bindings is that of groups: the output comes first.
    case("scattered_bindings").output(expected).input(&far).input(&single)
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        nested(),
        written_structs(),
        aligned(),
        runtime_tail(),
        uniforms(),
        immediates(),
        arrays_of_arrays(),
        matrices_in_structs(),
        scattered_bindings(),
    ]
}
