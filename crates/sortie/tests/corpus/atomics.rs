//! Atomics of every kind; results that do not depend on the order, or say what any order must give.

use crate::{
    case::Case,
    dice::words,
    word::Word,
};

const KERNELS: &str = include_str!("kernels/atomics.wgsl");
const LEN: u32 = 500;

fn case(name: &'static str, a: &[u32]) -> Case {
    Case::new(name, KERNELS).items([LEN, 1, 1]).input(&a.to_vec())
}

fn sum(a: &[u32]) -> u32 {
    a.iter().fold(0, |sum, a| sum.wrapping_add(*a))
}

fn storage_atomics() -> Case {
    let a = words(110, LEN as usize);
    let before = vec![7_u32, 7, u32::MAX, 0, u32::MAX, 0, 0x55, 0, 0, 1000];
    let even = a.iter().filter(|a| *a % 2 == 0).count() as u32;
    // The last exchange leaves its number behind, so what was taken is the sum of all but that one.
    let all: u32 = (0..LEN).sum();
    let after = [
        Word::from(sum(&a).wrapping_add(7)),
        Word::from(7_u32.wrapping_sub(sum(&a))),
        Word::from(*a.iter().min().expect("some")),
        Word::from(*a.iter().max().expect("some")),
        Word::from(a.iter().fold(u32::MAX, |all, a| all & (a | 0xff00_00ff))),
        Word::from(a.iter().fold(0, |all, a| all | (a & 0x00ff_ff00))),
        Word::from(a.iter().fold(0x55, |all, a| all ^ a)),
        Word::Among(0, LEN - 1),
        Word::Among(all - (LEN - 1), all),
        Word::from(1000 + 2 * even - LEN),
    ];
    case("storage_atomics", &a).change(&before, after)
}

fn signed_atomics() -> Case {
    let a = words(111, LEN as usize);
    let i = || a.iter().map(|a| a.cast_signed());
    let before = vec![-5_i32, -5, 0, 0, -1, 0, 3];
    let after = [
        sum(&a).cast_signed().wrapping_sub(5),
        (-5_i32).wrapping_sub(sum(&a).cast_signed()),
        i().min().expect("some").min(0),
        i().max().expect("some").max(0),
        i().fold(-1, |all, a| all & (a | 0xff)),
        i().fold(0, |all, a| all | (a & 0xff)),
        i().fold(3, |all, a| all ^ a),
    ];
    case("signed_atomics", &a).change(&before, after)
}

fn tickets() -> Case {
    let a = words(112, LEN as usize);
    let count = a.iter().filter(|a| *a % 3 != 0).count() as u32;
    let expected: Vec<u32> = (0..LEN).map(|at| u32::from(at < count)).collect();
    case("tickets", &a).output([count, 0]).output(expected)
}

fn compare_exchange() -> Case {
    let a = words(113, LEN as usize);
    let after = (0..3).map(|cell| {
        let own = a.iter().skip(cell).step_by(3);
        own.fold(1_u32, |product, a| product.wrapping_mul(a | 1))
    });
    let after: Vec<u32> = after.collect();
    case("compare_exchange", &a).change(&[1_u32; 3], after)
}

fn workgroup_atomics() -> Case {
    let a = words(114, LEN as usize);
    let expected = a.chunks(37).flat_map(|a| {
        let mut out: Vec<u32> = (0..5)
            .flat_map(|bin| {
                let own = || a.iter().filter(move |a| *a % 5 == bin);
                let small = own().map(|a| -((a % 1000).cast_signed())).min().unwrap_or(0).min(0);
                let large = own().map(|a| (a % 1000).cast_signed()).max().unwrap_or(-1_000_000);
                let mixed = own().fold(0, |all, a| all ^ a);
                [own().count() as u32, bin + 1, small.cast_unsigned(), large.cast_unsigned(), mixed]
            })
            .collect();
        out.push(a.iter().fold(0, |all, a| all | 1 << (a % 32)));
        out
    });
    let expected: Vec<u32> = expected.collect();
    // The kernel does not use the second binding.
    case("workgroup_atomics", &a).output(expected)
}

fn workgroup_exchanges() -> Case {
    let a = words(116, 37 * 8);
    let expected = a.chunks(37).flat_map(|a| {
        [
            0xffff_fff0_u32.wrapping_sub(sum(a)),
            a.iter().fold(0xffff_fff1, |all, a| all & (a | 0xff)),
            a.iter().fold(0xffff_fff2, |product: u32, a| product.wrapping_mul(a | 1)),
            a.iter().fold(0xffff_fff3, |all, a| all ^ a),
        ]
    });
    let expected: Vec<u32> = expected.collect();
    case("workgroup_exchanges", &a).groups([8, 1, 1]).output(expected)
}

fn atomics_in_structs() -> Case {
    let a = words(115, LEN as usize);
    let mut after = vec![9_u32; 1 + 4 + 6];
    for a in &a {
        after[1 + *a as usize % 4] += 1;
        let cell = &mut after[5 + *a as usize % 6];
        *cell = cell.wrapping_add(*a);
    }
    case("atomics_in_structs", &a).change(&[9_u32; 11], after)
}

fn race() -> Case {
    let after = [Word::from(3_u32), Word::Among(1000, 1000 + 37 * 14 - 1), Word::from(3_u32)];
    Case::new("race", KERNELS).mistake("with no barrier between at line 123").items([LEN, 1, 1]).change(&[3_u32; 3], after)
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        storage_atomics(),
        signed_atomics(),
        tickets(),
        compare_exchange(),
        workgroup_atomics(),
        workgroup_exchanges(),
        atomics_in_structs(),
        race(),
    ]
}
