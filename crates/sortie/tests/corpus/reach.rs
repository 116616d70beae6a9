//! Entry points whose module has others that the device cannot run: only what an entry point reaches counts.

use crate::{case::Case, dice::words};

const KERNELS: &str = include_str!("kernels/reach.wgsl");
const LEN: usize = 100;

/// The kernels, beside one that has more storage buffers than any device.
fn source() -> String {
    let declared = (0..300).map(|index| format!("@group(3) @binding({index}) var<storage, read_write> m{index}: array<u32>;\n"));
    let used: String = (0..300).map(|index| format!("m{index}[0] = 1u; ")).collect();
    let many = format!("@compute @workgroup_size(1) fn with_many_buffers() {{ {used} }}\n");
    [KERNELS.to_owned()].into_iter().chain(declared).chain([many]).collect()
}

fn case(name: &'static str) -> Case {
    Case::new(name, source()).items([LEN as u32, 1, 1])
}

/// The exponent that `frexp` gives for a whole number.
fn exponent(x: u32) -> u32 {
    32 - x.leading_zeros()
}

pub(crate) fn cases() -> Vec<Case> {
    let a = words(51, LEN);
    let index = || 0..LEN as u32;
    let scaled = |x: u32| x.wrapping_mul(7).wrapping_add(3);
    vec![
        case("reached").input(&a).output(a.iter().map(|a| a.wrapping_mul(2).wrapping_add(1))),
        case("reached_through_calls").output(index().map(|x| scaled(scaled(x)))).input(&vec![0_u32, 7, 0, 3]),
        case("reached_with_immediates")
            .immediates(&vec![3_u32])
            .input(&a)
            .output(a.iter().zip(index()).map(|(a, x)| (a << 3).wrapping_add(exponent(x + 1)))),
        case("reached_by_name").output(index()).input(&vec![5_u32; 4]),
    ]
}
