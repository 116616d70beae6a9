//! Variables of every address space, arrays with dynamic indices, constants, initialisers, shadowing.

use crate::{case::Case, dice::words};

const KERNELS: &str = include_str!("kernels/variables.wgsl");
const LEN: usize = 131;

fn each(name: &'static str, seed: u64, reference: impl Fn(u32, usize) -> u32) -> Case {
    let a = words(seed, LEN);
    let expected: Vec<u32> = a.iter().enumerate().map(|(index, a)| reference(*a, index)).collect();
    Case::new(name, KERNELS).items([LEN as u32, 1, 1]).input(&a).output(expected)
}

fn constants(i: u32, _: usize) -> u32 {
    let primes = [2_u32, 3, 5, 7, 11, 13, 17, 19];
    let table = [[1_i32, 2, 3], [-4, 5, -6]];
    let pairs = [(5_u32, [6_u32, 7]), (8, [9, 10])];
    let (k, v) = pairs[i as usize % 2];
    let entry = table[i as usize % 2][i as usize % 3].cast_unsigned();
    (primes[i as usize % 8] * 22).wrapping_add(entry).wrapping_add(k * 1000 + v[i as usize & 1] * 100_000 + 88)
}

fn function_arrays(a: u32, index: usize) -> u32 {
    let mut list: [u32; 7] = [1, 2, 3, 4, 5, 6, 7];
    let mut square = [[0_u32; 3]; 4];
    for k in 0..7 {
        list[(k * 3 + index) % 7] ^= a >> k;
    }
    for k in 0..12 {
        square[k % 4][k / 4] = list[k % 7].wrapping_add(k as u32);
    }
    let copy = list;
    list[2] = 0;
    let sum = copy[index % 7].wrapping_mul(5).wrapping_add(square[index % 4][index % 3]);
    sum.wrapping_add(list[(index + 2) % 7]).wrapping_add(copy[2])
}

fn privates(a: u32, index: usize) -> u32 {
    let mut memory = [[1, 2], [3, 4], [5, 6], [7, 8]];
    let first = 5 + a % 10;
    let second = first + 2;
    memory[index % 4][1] += first;
    for part in &mut memory[second as usize % 4] {
        *part *= 3;
    }
    let all = memory.iter().fold([0, 0], |sum, part| [sum[0] + part[0], sum[1] + part[1]]);
    all[0] + all[1] * 100 + second * 10_000 + (1 << (index % 3)) * 1_000_000
}

fn fresh_variables(a: u32, _: usize) -> u32 {
    (0..a % 9).map(|i| 2 * (i + 1) + if i % 2 == 1 { 100 } else { 0 }).sum()
}

fn shadowing(a: u32, _: usize) -> u32 {
    let one = a.wrapping_add(1);
    let two = one.wrapping_mul(2).wrapping_add(3);
    [7, two, one, 3, one].iter().fold(0_u32, |sum, part| sum.wrapping_add(*part))
}

fn value_arrays(a: u32, index: usize) -> u32 {
    let make = |seed: u32| [seed, seed.wrapping_mul(3), seed ^ 5, seed.wrapping_add(9), 1];
    let made = make(a);
    let second = [made[index % 5], made[(index + 2) % 5]];
    let fixed = [1, 20, 300, 4000][index % 4];
    second[index & 1].wrapping_add(make(index as u32)[index % 5]).wrapping_add(fixed)
}

fn workgroup_zeros() -> Case {
    let a = words(86, 5);
    let groups = 6_u32;
    let expected: Vec<u32> =
        (0..21 * groups).map(|id| (21 - id % 21 + 6).wrapping_add(a[id as usize % 5])).collect();
    Case::new("workgroup_zeros", KERNELS).mistake("no invocation has written at line 94").groups([groups, 1, 1]).input(&a).output(expected)
}

fn kinds_in_memory() -> Case {
    let (groups, a) = (11_u32, words(87, 60));
    let at = |id: u32| a[id as usize % 60];
    let expected = (0..7 * groups).map(|id| {
        let (l, group, x) = (id % 7, id / 7 * 7, at(id));
        let mut truths = [false; 5];
        let mut note = |at: u32| {
            truths[at as usize % 5] ^= true;
            u32::from(truths[0]) + u32::from(truths[4]) * 2
        };
        let noted = note(x) + note(x / 5) * 4;
        let mut masks = [[false; 3]; 2];
        masks[x as usize % 2] = [truths[0], truths[1], truths[2]];
        masks[1][x as usize % 3] = true;
        let mut table = [[0.0_f64; 2]; 3];
        table[x as usize % 3] = [f64::from(x % 8), 2.0];
        table[1][x as usize % 2] += 0.5;
        let other = (l + 3) % 7;
        let beside = at(group + other);
        let plane = f64::from(at(group) % 16) + 2.0 * f64::from(at(group + 1) % 16) + 1.0 + 2.0 * 7.0;
        let floats = (table[0][0] + table[1][1] * 4.0 + table[2][0] + plane) as u32;
        let bits = [masks[0][0], masks[1] == [true; 3], masks[x as usize % 2].contains(&true), beside % 2 == 1];
        let bits: u32 = bits.iter().enumerate().map(|(bit, set)| u32::from(*set) << (4 + bit)).sum();
        noted + bits + (other + beside % 100 + id) * 256 + floats * 100_000
    });
    let expected: Vec<u32> = expected.collect();
    Case::new("kinds_in_memory", KERNELS).groups([groups, 1, 1]).input(&a).output(expected)
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        each("constants", 80, constants),
        each("function_arrays", 81, function_arrays),
        each("privates", 82, privates),
        each("fresh_variables", 83, fresh_variables),
        each("shadowing", 84, shadowing),
        each("value_arrays", 85, value_arrays),
        workgroup_zeros(),
        kinds_in_memory(),
    ]
}
