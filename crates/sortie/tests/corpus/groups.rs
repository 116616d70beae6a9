//! Workgroups: barriers in uniform loops, uniform loads, overrides in sizes and expressions.

use crate::{
    case::Case,
    dice::words,
};

const KERNELS: &str = include_str!("kernels/groups.wgsl");

fn overrides(name: &'static str, width: u32, flag: bool, given: bool) -> Case {
    let (factor, bias, scale) = if given { (5, 11, 10.25) } else { (3, -4_i32, 1.5) };
    let a = words(120, width as usize * 7);
    let half = width / 2;
    let expected = a.chunks(width as usize).flat_map(|a| {
        let a = a.to_vec();
        (0..width).map(move |l| {
            let near = (l * 2 + 3) % (2 * width);
            let doubled = if near % 2 == 0 { a[near as usize / 2] } else { near / 2 };
            let r = a[((l + half) % width) as usize].wrapping_mul(factor).wrapping_add(doubled);
            let r = r.wrapping_add(bias.cast_unsigned());
            (if flag { r ^ 0xffff } else { r }).wrapping_add((scale * 2.0) as u32)
        })
    });
    let expected: Vec<u32> = expected.collect();
    let mut case = Case::new(name, KERNELS).entry("overrides").constant("width", f64::from(width));
    if given {
        case = case.constant("factor", 5.0).constant("7", 11.0).constant("scale", 10.25);
        case = case.constant("flag", f64::from(u8::from(flag)));
    }
    case.groups([7, 1, 1]).input(&a).output(expected)
}

fn reduction() -> Case {
    let a = words(121, 1000);
    let expected: Vec<u32> =
        a.chunks(64).map(|a| a.iter().fold(0_u32, |sum, a| sum.wrapping_add(*a))).collect();
    Case::new("reduction", KERNELS).items([1000, 1, 1]).input(&a).output(expected)
}

fn uniform_loads() -> Case {
    let a = words(122, 30);
    let expected = a.iter().zip(0_u32..).flat_map(|(a, g)| {
        let c = a % 7;
        let (mut chosen, mut r) = (c, c);
        for i in 0..c {
            chosen += (i * 5) % 40;
            r = r * 2 + chosen;
        }
        r += u32::from(c == 3);
        vec![r + g * 1000 + a % 3 * 10_000; 40]
    });
    let expected: Vec<u32> = expected.collect();
    Case::new("uniform_loads", KERNELS).groups([30, 1, 1]).input(&a).output(expected)
}

fn storage_barriers() -> Case {
    let a = words(123, 24 * 9);
    let expected = a.chunks(24).flat_map(|a| {
        let mut o = a.to_vec();
        for _ in 0..6 {
            o = (0..24).map(|l: usize| o[(l + 1) % 24].wrapping_mul(3).wrapping_add(l as u32)).collect();
        }
        o
    });
    let expected: Vec<u32> = expected.collect();
    Case::new("storage_barriers", KERNELS).groups([9, 1, 1]).input(&a).output(expected)
}

fn barriers_after_uniform_return() -> Case {
    let a = words(124, 15);
    let expected = a.iter().flat_map(|a| {
        let lane = |l: u32| l.wrapping_mul(*a);
        let sum = |l: u32| (0..=l).fold(0_u32, |sum, k| sum.wrapping_add(lane(k)));
        let value = |l: u32| if (59 - l) % 2 == 0 { sum(59 - l) } else { 0 };
        (0..60).map(|l| if a % 3 == 0 { 0 } else { value(l).wrapping_add(1) }).collect::<Vec<_>>()
    });
    let expected: Vec<u32> = expected.collect();
    Case::new("barriers_after_uniform_return", KERNELS).groups([5, 3, 1]).input(&a).output(expected)
}

fn one_works_for_all() -> Case {
    let a = words(125, 50 * 8);
    let expected = a.chunks(50).flat_map(|a| {
        a.iter().scan(0, |sum, a| {
            *sum += a % 100;
            Some(*sum)
        })
    });
    let expected: Vec<u32> = expected.collect();
    Case::new("one_works_for_all", KERNELS).groups([8, 1, 1]).input(&a).output(expected)
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        overrides("overrides_by_default", 16, false, false),
        overrides("overrides_given", 11, true, true),
        overrides("overrides_given_but_off", 96, false, true),
        reduction(),
        uniform_loads(),
        storage_barriers(),
        barriers_after_uniform_return(),
        one_works_for_all(),
    ]
}
