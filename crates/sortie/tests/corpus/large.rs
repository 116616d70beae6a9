//! Enough work for all threads of a device at once.

use crate::{case::Case, dice::words};

const KERNELS: &str = include_str!("kernels/large.wgsl");
const LEN: usize = 150_007;

fn each(name: &'static str, seed: u64, reference: impl Fn(u32, u32) -> u32) -> Case {
    let a = words(seed, LEN);
    let expected: Vec<u32> = a.iter().zip(0..).map(|(a, index)| reference(*a, index)).collect();
    Case::new(name, KERNELS).items([LEN as u32, 1, 1]).input(&a).output(expected)
}

fn many_atomics() -> Case {
    let a = words(232, LEN);
    let mut counts = [0_u32; 14];
    for (index, a) in a.iter().enumerate() {
        counts[*a as usize % 11] += 1;
        counts[11 + index % 2] = counts[11 + index % 2].max(*a);
        counts[13] ^= a;
    }
    Case::new("many_atomics", KERNELS).items([LEN as u32, 1, 1]).input(&a).output(counts)
}

fn many_groups_with_barriers() -> Case {
    let a = words(233, LEN);
    let expected = a.chunks(128).map(|a| {
        let mut part = a.to_vec();
        part.resize(128, 0);
        while part.len() > 1 {
            let (low, high) = part.split_at(part.len() / 2);
            part = low.iter().zip(high).map(|(low, high)| low.wrapping_mul(31).wrapping_add(*high)).collect();
        }
        part[0]
    });
    let expected: Vec<u32> = expected.collect();
    Case::new("many_groups_with_barriers", KERNELS).items([LEN as u32, 1, 1]).input(&a).output(expected)
}

fn large_plane() -> Case {
    let (width, height) = (333, 301);
    let a = words(234, width * height);
    let expected = (0..width * height).map(|place| {
        let (x, y) = (place % width, place / width);
        let (up, right) = (a[(y + height - 1) % height * width + x], a[y * width + (x + 1) % width]);
        up.wrapping_mul(3).wrapping_add(right).wrapping_add(y as u32 * 1000)
    });
    let expected: Vec<u32> = expected.collect();
    Case::new("large_plane", KERNELS).items([width as u32, height as u32, 1]).input(&a).output(expected)
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        each("many_items", 230, |x, index| (x ^ x >> 16).wrapping_mul(0x45d_9f3b).wrapping_add(index)),
        each("many_uneven_items", 231, |x, _| {
            (0..x % 37).fold(x, |x, _| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
        }),
        many_atomics(),
        many_groups_with_barriers(),
        large_plane(),
    ]
}
