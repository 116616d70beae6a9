//! Scans, sorts and histograms.

use crate::{
    case::Case,
    dice::words,
};

const KERNELS: &str = include_str!("kernels/orders.wgsl");

/// Each chunk of the input becomes a chunk of the output.
fn chunks(name: &'static str, size: usize, count: usize, groups: u32, reference: impl Fn(&[u32]) -> Vec<u32>) -> Case {
    let a = words(170 + size as u64, size * count);
    let expected: Vec<u32> = a.chunks(size).flat_map(reference).collect();
    Case::new(name, KERNELS).groups([groups, 1, 1]).input(&a).output(expected)
}

fn inclusive(a: &[u32]) -> Vec<u32> {
    let sums = a.iter().scan(0_u32, |sum, a| {
        *sum = sum.wrapping_add(*a);
        Some(*sum)
    });
    sums.collect()
}

fn exclusive(a: &[u32]) -> Vec<u32> {
    let sums = inclusive(a);
    [&[0], &sums[..sums.len() - 1]].concat()
}

fn sorted(a: &[u32]) -> Vec<u32> {
    let mut a = a.to_vec();
    a.sort_unstable();
    a
}

fn compacted(a: &[u32]) -> Vec<u32> {
    let mut kept: Vec<u32> = a.iter().copied().filter(|a| a % 2 == 0).collect();
    kept.resize(a.len(), 0);
    kept
}

fn scan_of_many_groups() -> Case {
    let a = words(177, 1111);
    let sums: Vec<u32> = a.chunks(40).map(|a| a.iter().fold(0, |sum: u32, a| sum.wrapping_add(*a))).collect();
    let case = Case::new("scan_of_many_groups", KERNELS).mistake("no invocation has written at line 59").entry("scan_blocks").items([1111, 1, 1]);
    let case = case.then("scan_sums").binds(&[2]).then("add_sums").items([1111, 1, 1]).binds(&[1, 2]);
    case.input(&a).output(inclusive(&a)).output(inclusive(&sums))
}

fn histogram(name: &'static str, groups: u32) -> Case {
    let a = words(175, 3001);
    let mut counts = vec![5_u32; 32];
    let before = counts.clone();
    for a in &a {
        counts[(a >> 27) as usize] += 1;
    }
    Case::new(name, KERNELS).groups([groups, 1, 1]).input(&a).change(&before, counts)
}

fn bitonic_global() -> Case {
    let before = words(176, 512);
    let mut case = Case::new("bitonic_global", KERNELS).entry("bitonic_step").items([512, 1, 1]).immediates(&[2_u32, 1]);
    for k in (2..=9).map(|power| 1_u32 << power) {
        let mut j = k / 2;
        while j > 0 {
            case = case.then("bitonic_step").items([512, 1, 1]).immediates(&[k, j]);
            j /= 2;
        }
    }
    let after = sorted(&before);
    case.change(&before, after)
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        chunks("scan_hillis_steele", 100, 9, 9, inclusive),
        chunks("scan_blelloch", 128, 7, 7, exclusive),
        scan_of_many_groups(),
        histogram("histogram_global", 63),
        histogram("histogram_local", 5),
        chunks("bitonic_local", 128, 5, 5, sorted),
        bitonic_global(),
        chunks("insertion_sort", 16, 67, 6, sorted),
        chunks("quicksort", 24, 53, 5, sorted),
        chunks("compaction", 64, 11, 11, compacted),
    ]
}
