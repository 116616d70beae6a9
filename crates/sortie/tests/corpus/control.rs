//! Control flow, with data that sends neighbours different ways.

use crate::{
    case::Case,
    dice::{below, words},
};

const KERNELS: &str = include_str!("kernels/control.wgsl");
const LEN: usize = 401;

fn each(name: &'static str, a: &[u32], reference: impl Fn(u32) -> u32) -> Case {
    let expected: Vec<u32> = a.iter().map(|a| reference(*a)).collect();
    Case::new(name, KERNELS).items([LEN as u32, 1, 1]).input(&a.to_vec()).output(expected)
}

fn if_chains(x: u32) -> u32 {
    match x {
        _ if x % 30 == 0 => 4,
        _ if x % 6 == 0 => x.wrapping_add(3),
        _ if x % 2 == 0 => 2,
        _ if x % 7 == 0 => 5,
        _ if x > 0x8000_0000 => [6, 60, 66][x as usize % 3],
        _ if x % 11 < 5 => 7,
        _ => 1,
    }
}

fn switches(x: u32) -> u32 {
    let r = match x % 10 {
        0 => 100,
        1..=3 => 101 + if x > 1000 { 0 } else { 50 },
        5 => 103,
        6 | 7 => {
            1000 + match (x >> 4).cast_signed() % 4 {
                0 => 104,
                1 | -1 => 0,
                2 if x % 3 == 0 => return 999,
                2 => 106,
                _ => 107,
            }
        }
        _ => 102,
    };
    r + match x {
        0x8000_0000 => 1,
        0xffff_ffff => 2,
        0x7fff_ffff | 0 => 3,
        _ => 0,
    }
}

fn switches_in_loops(a: u32) -> u32 {
    let (mut x, mut r) = (a, 0_u32);
    for i in 0..20 {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        match (x >> 20) % 6 {
            0 => continue,
            1 => r += 1,
            2 | 3 if i > 10 => continue,
            2 | 3 => r += 10,
            4 => r += if x % 2 == 0 { 0 } else { 200 },
            _ => r ^= i,
        }
        r += 10_000;
        if r > 150_000 {
            break;
        }
    }
    r
}

fn loops_with_continuing(a: u32) -> u32 {
    let n = a % 50;
    let (mut i, mut r) = (0, 0);
    loop {
        if i % 3 == 1 {
            i += 2;
        } else {
            r += i;
            if r > 200 {
                break;
            }
        }
        r += 1;
        i += 1;
        if i >= n {
            break;
        }
    }
    let mut k = 1;
    while k < n {
        k += 1;
        r += k;
        k += 1;
    }
    r * 100 + i
}

fn nested_loops(a: u32) -> u32 {
    let x = a % 1000;
    let mut r = 0_u32;
    for i in 0..x % 9 + 1 {
        let mut j = i;
        while j * j <= x {
            if (i + j) % 4 != 0 {
                for k in (0..3).rev() {
                    if (k + j) % 5 == 0 {
                        break;
                    }
                    r += k + 1;
                }
                r ^= j;
            }
            j += 1;
        }
        if r % 7 != 3 {
            r += 2;
        }
    }
    r
}

fn divergent_returns(x: u32) -> u32 {
    let mut o = 1_u32;
    if x % 4 == 0 {
        return o;
    }
    for i in 0..10 {
        o += x % 5 + i;
        if o > 30 {
            if x % 2 == 1 {
                return o;
            }
            break;
        }
        o += if (x >> i) % 2 == 1 { 3 } else { 0 };
    }
    (0..5).fold(o, |o, i| o.wrapping_mul(3).wrapping_add(i))
}

fn collatz(mut n: u32) -> u32 {
    let mut steps = 0;
    while n != 1 {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

fn deep_divergence(x: u32) -> u32 {
    let mut r = 0_u32;
    if x & 1 == 0 {
        let mut y = x;
        loop {
            y /= 2;
            if y < 10 {
                return r;
            }
            r += y & 3;
            if y % 13 == 0 {
                return r + 1000;
            }
        }
    }
    for i in 0..(x >> 1) % 8 {
        let bits = x >> i;
        if bits & 2 != 0 {
            if bits & 4 != 0 {
                r += 1;
                if bits & 8 != 0 {
                    r += 2;
                    continue;
                }
                r += 4;
            } else {
                match bits % 3 {
                    0 => r += 8,
                    1 => {
                        for k in 0..i {
                            r += k;
                            if r % 3 == 0 {
                                break;
                            }
                        }
                    }
                    _ => r += 16,
                }
            }
            r += 32;
        } else if bits & 16 != 0 {
            break;
        }
        r += 64;
    }
    r
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        each("if_chains", &words(100, LEN), if_chains),
        each("switches", &words(101, LEN), switches),
        each("switches_in_loops", &words(102, LEN), switches_in_loops),
        each("loops_with_continuing", &words(103, LEN), loops_with_continuing),
        each("nested_loops", &words(104, LEN), nested_loops),
        each("divergent_returns", &words(105, LEN), divergent_returns),
        each("collatz", &below(106, LEN, 5000).iter().map(|n| n + 1).collect::<Vec<_>>(), collatz),
        each("deep_divergence", &words(107, LEN), deep_divergence),
        each("empty_bodies", &words(108, LEN), |_| 3),
    ]
}
