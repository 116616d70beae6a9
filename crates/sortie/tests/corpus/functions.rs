//! Functions and pointers: nested calls, early returns, pointers of every address space, side effects.

use crate::{
    case::Case,
    dice::{below, words},
    word::Word,
};

const KERNELS: &str = include_str!("kernels/functions.wgsl");
const LEN: usize = 137;

fn each(name: &'static str, a: &[u32], reference: impl Fn(u32, u32) -> u32) -> Case {
    let expected: Vec<u32> = a.iter().zip(0..).map(|(a, index)| reference(*a, index)).collect();
    Case::new(name, KERNELS).items([LEN as u32, 1, 1]).input(&a.to_vec()).output(expected)
}

fn square(x: u32) -> u32 {
    x.wrapping_mul(x)
}

fn poly(x: u32, y: u32, z: u32) -> u32 {
    square(x).wrapping_mul(x).wrapping_add(square(y).wrapping_mul(3)).wrapping_add(z)
}

fn divisor(n: u32) -> u32 {
    if n < 2 {
        return 0;
    }
    for d in 2.. {
        if d * d > n {
            break;
        }
        if n % d == 0 {
            return d;
        }
        if d > 200 {
            return 1_000_000 + d;
        }
    }
    n
}

fn early_returns(a: u32, _: u32) -> u32 {
    let n = a % 100_000;
    let first = divisor(n);
    if first == n { first } else { first + 7 * divisor(n / first.max(1)) }
}

fn function_pointers(a: u32, index: u32) -> u32 {
    let (x, z) = (3_u32, a.wrapping_add(5));
    let y = index.wrapping_add(z) ^ z;
    let x = x + x;
    let y = y.wrapping_add(x);
    x.wrapping_add(y.wrapping_mul(3)).wrapping_add(z.wrapping_mul(5))
}

/// Words of `Item`: k, pad 3, v, list, pad.
fn item(k: u32, v: [u32; 4], list: [u32; 3]) -> Vec<Word> {
    let words = [Word::from(k), Word::Any, Word::Any, Word::Any];
    words.into_iter().chain(v.map(Word::from)).chain(list.map(Word::from)).chain([Word::Any]).collect()
}

fn pointers_into_memory() -> Case {
    let a = words(92, LEN);
    let expected: Vec<Word> = a
        .iter()
        .flat_map(|seed| {
            let at = *seed as usize % 3;
            let key = |nth: u32| seed.wrapping_mul(nth + 1);
            let mut list = [0; 3];
            list[at] = 11;
            list[0] += 4;
            let k = key(1).wrapping_add(list[0] + 2 * list[1] + 4 * list[2]);
            item(k, [0, 9, seed.wrapping_add(1), key(at as u32)], list)
        })
        .collect();
    Case::new("pointers_into_memory", KERNELS).mistake("no invocation has written at line 78").items([LEN as u32, 1, 1]).input(&a).output(expected)
}

fn structs_by_value() -> Case {
    let a = words(93, LEN);
    let expected: Vec<Word> = a
        .iter()
        .flat_map(|x| {
            let mut k = *x;
            let mut v = [1, 2, 3, *x];
            let mut list = [5, 6, 7];
            let mut first = 0;
            for (nth, by) in [x % 7, 2, x % 5].into_iter().enumerate() {
                k = k.wrapping_add(by);
                v.rotate_right(1);
                list[by as usize % 3] = by;
                if nth == 0 {
                    first = v[0];
                }
            }
            v[0] = v[0].wrapping_add(first).wrapping_add(*x);
            item(k, v, list)
        })
        .collect();
    Case::new("structs_by_value", KERNELS).items([LEN as u32, 1, 1]).input(&a).output(expected)
}

fn short_circuits(x: u32, _: u32) -> u32 {
    let mut evaluated = 0;
    let mut tested = |x: u32, bit: u32| {
        evaluated |= 1 << bit;
        x % 2 == 0
    };
    let mut r = 0;
    if tested(x, 0) && tested(x >> 1, 1) && tested(x >> 2, 2) {
        r |= 1;
    }
    if tested(x >> 3, 3) || tested(x >> 4, 4) || tested(x >> 5, 5) {
        r |= 2;
    }
    if (tested(x >> 6, 6) || tested(x >> 7, 7)) && (tested(x >> 8, 8) || tested(x >> 9, 9)) {
        r |= 4;
    }
    if tested(x, 10) & tested(x >> 1, 11) | tested(x, 12) {
        r |= 8;
    }
    r | evaluated << 8
}

fn called_often(a: u32, index: u32) -> u32 {
    fn rotate(state: &mut [u32; 4], at: u32) -> u32 {
        let near = |by: u32| (at.wrapping_add(by) % 4) as usize;
        state[near(0)] = state[near(1)] << 7 | state[near(3)] >> 3;
        state[near(2)].wrapping_add(at)
    }
    let (mut one, mut two) = ([a, index, 3, 4], [9, a, 7, index]);
    let mut sum = 0_u32;
    for i in 0..11 {
        let first = rotate(&mut one, i);
        sum = sum.wrapping_add(first ^ rotate(&mut two, i.wrapping_add(sum)));
        if sum % 3 == 0 {
            sum = sum.wrapping_add(rotate(&mut one, sum));
        } else {
            sum ^= rotate(&mut two, 1);
        }
    }
    sum.wrapping_add(one[0]).wrapping_add(two[3])
}

fn evaluation_order(a: u32, _: u32) -> u32 {
    let mut count = a % 100;
    let mut next = || {
        count += 1;
        count
    };
    let [one, two, three, four, five, six, seven, eight, _, ten] = std::array::from_fn(|_| next());
    let r = (one * 3).wrapping_sub(two).wrapping_add(three.wrapping_mul(poly(four, five, six)));
    r.wrapping_add([1, 10, 100][seven as usize % 3] * eight).wrapping_add(ten)
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        each("nested_calls", &words(90, LEN), |x, _| {
            let inner = poly(x, 2, 27);
            let first = poly(x, square(x.wrapping_add(1)), inner);
            first.wrapping_add(poly(poly(x, x, x), 1, square(square(x))))
        }),
        each("early_returns", &words(91, LEN), early_returns),
        each("function_pointers", &words(94, LEN), function_pointers),
        pointers_into_memory(),
        structs_by_value(),
        each("short_circuits", &below(95, LEN, 1 << 10), short_circuits),
        each("called_often", &words(96, LEN), called_often),
        each("evaluation_order", &words(97, LEN), evaluation_order),
    ]
}
