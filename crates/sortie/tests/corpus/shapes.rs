//! What a device that runs invocations side by side could get wrong: indices and bounds of every shape, memory that changes between two
//! reads, lanes that sit out, neighbours that must not be disturbed.

use crate::{
    case::Case,
    dice::{Dice, words},
};

const KERNELS: &str = include_str!("kernels/shapes.wgsl");

fn sum(parts: impl IntoIterator<Item = u32>) -> u32 {
    parts.into_iter().fold(0, u32::wrapping_add)
}

fn index_shapes() -> Case {
    let n = 611_usize;
    let a = words(220, n);
    let mut expected = vec![0_u32; n];
    for id in 0..n {
        let wrapped = |factor: u64, add: u64| ((id as u64 * factor + add) as u32) as usize % n;
        let mut terms = vec![
            (n - 1 - id, 1),
            (id / 3, 3),
            (id * 7 % n, 5),
            (id & 15, 7),
            (id / 28, 11),
            (id % 28, 13),
            (5, 17),
            ((id ^ 1) % n, 23),
            (wrapped(0x8000_0001, 0), 29),
            (wrapped(1, 0xffff_fff0), 31),
            ((id * 2).min(n - 1), 37),
            (id.max(20) - 20, 41),
            (if id % 2 == 0 { id } else { 0 }, 43),
        ];
        if id >= 10 {
            terms.push((id - 10, 19));
        }
        expected[n - 1 - id] = sum(terms.into_iter().map(|(at, factor)| a[at].wrapping_mul(factor)));
    }
    Case::new("index_shapes", KERNELS).items([n as u32, 1, 1]).input(&a).output(expected)
}

fn bounds_by_row_and_column() -> Case {
    let (groups, a) = ([5_u32, 6, 1], words(221, 64));
    let (width, height) = (8 * groups[0], 4 * groups[1]);
    let at = |index: u32| a[index as usize];
    let expected = (0..width * height).map(|place| {
        let (x, y) = (place % width, place / width);
        let (gx, gy) = (x / 8, y / 4);
        let mut r = sum((0..y).map(|k| at(k).wrapping_mul(x)));
        for k in 0..x % 5 {
            r ^= at(k + y).wrapping_add(k);
        }
        r = r.wrapping_add(sum((gx..gx + 3).map(|k| at(k * gy))));
        for k in 0..4 {
            if k == y % 3 {
                continue;
            }
            r = r.wrapping_mul(3).wrapping_add(k);
            if k > x {
                break;
            }
        }
        r.wrapping_add(sum((0..4).map(|k| at(k) >> k)))
    });
    let expected: Vec<u32> = expected.collect();
    Case::new("bounds_by_row_and_column", KERNELS).groups(groups).input(&a).output(expected)
}

fn reads_and_writes() -> Case {
    let before = words(222, 4 * 119);
    let after = before.chunks(4).flat_map(|words| {
        let mut o = [words[0], words[1], words[2], words[3]];
        let old = o[0];
        let now = old.wrapping_add(1);
        o[0] = now;
        o.swap(1, 2);
        for i in 0..5 {
            let before = o[3];
            o[3] = before.wrapping_mul(3).wrapping_add(old);
            o[i & 1] = o[i & 1].wrapping_add(o[3].wrapping_sub(before));
            if o[0] % 2 == 0 {
                o[2] ^= now;
            }
        }
        o[1] = o[1].wrapping_add(old.wrapping_mul(100)).wrapping_add(now);
        o
    });
    let after: Vec<u32> = after.collect();
    Case::new("reads_and_writes", KERNELS).items([119, 1, 1]).change(&before, after)
}

fn changed_by_others() -> Case {
    let (groups, a) = (13_u32, words(223, 101));
    let expected = (0..groups).flat_map(|g| {
        let (mut board, mut r) = ([0_u32; 4], 0_u32);
        for i in 0..9_usize {
            let writer = (i as u32 * 3 + g) % 28 + g * 28;
            let before = board[i % 4];
            board[i % 4] = before.wrapping_add(a[writer as usize % 101]);
            r = r.wrapping_mul(3).wrapping_add(board[i % 4]).wrapping_add(before);
        }
        vec![r; 28]
    });
    let expected: Vec<u32> = expected.collect();
    Case::new("changed_by_others", KERNELS).mistake("no invocation has written at line 58").groups([groups, 1, 1]).input(&a).output(expected)
}

fn lanes_that_sit_out() -> Case {
    let mut dice = Dice::new(224);
    // Small ones, so that some take part, among words of every size.
    let a: Vec<u32> =
        words(225, 700).iter().map(|word| if dice.below(2) == 0 { dice.below(40) } else { *word }).collect();
    let n = a.len() as u32;
    let reference = |x: u32| {
        let d = (x % 3).cast_signed() - 1;
        let mut list = [1_u32, 2, 3, 4];
        let mut parts = Vec::new();
        if d != 0 && !(x == 0x8000_0000 && d == -1) {
            parts.extend([x.cast_signed() / d, x.cast_signed() % d].map(i32::cast_unsigned));
        }
        if x < n {
            parts.push(a[x as usize]);
        }
        let far = x.wrapping_mul(1_000_003);
        if far < n {
            parts.push(a[far as usize]);
        }
        if x < 4 {
            list[x as usize] = 100;
            parts.push(100);
        }
        if x % 5 == 2 {
            parts.extend([list[0], list[1]]);
        }
        if x < 0x7f00_0000 {
            parts.push(f32::from_bits(x & 0x4bff_ffff) as u32 % 1000);
        }
        if x < 32 {
            parts.push(1 << x);
        }
        sum(parts)
    };
    let expected: Vec<u32> = a.iter().map(|x| reference(*x)).collect();
    Case::new("lanes_that_sit_out", KERNELS).items([n, 1, 1]).input(&a).output(expected)
}

fn interleaved_stores() -> Case {
    let before = words(226, 550);
    let mut after = before.clone();
    for (at, word) in after.iter_mut().enumerate() {
        let (l, k) = (at / 4 % 28, at / 4 / 28);
        if k < 5 && (l + k) % 3 == 0 {
            *word = at as u32 * 7 + 1;
        }
    }
    Case::new("interleaved_stores", KERNELS).groups([4, 1, 1]).change(&before, after)
}

fn beside_vectors() -> Case {
    let expected = (0..77_u32).flat_map(|i| [i * 3, i * 3 + 3, i * 3 + 6, i * 5 + 1]);
    Case::new("beside_vectors", KERNELS).items([154, 1, 1]).output(expected)
}

fn two_outputs() -> Case {
    let (a, second) = (words(227, 333), words(228, 333));
    let both = a.iter().zip(&second).map(|(a, second)| {
        let o = a.wrapping_add(*second);
        let second = o.wrapping_mul(2).wrapping_sub(*a);
        (o.wrapping_add(second), second)
    });
    let (o, after): (Vec<u32>, Vec<u32>) = both.unzip();
    Case::new("two_outputs", KERNELS).items([333, 1, 1]).input(&a).output(o).change(&second, after)
}

fn same_value_to_one_place() -> Case {
    Case::new("same_value_to_one_place", KERNELS).mistake("with no barrier between at line 118").groups([9, 1, 1]).output([42_u32, 100, 101, 102, 0])
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        index_shapes(),
        bounds_by_row_and_column(),
        reads_and_writes(),
        changed_by_others(),
        lanes_that_sit_out(),
        interleaved_stores(),
        beside_vectors(),
        two_outputs(),
        same_value_to_one_place(),
    ]
}
