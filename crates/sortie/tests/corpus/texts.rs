//! Texts: search and distance.

use crate::{
    case::Case,
    dice::below,
};

const KERNELS: &str = include_str!("kernels/texts.wgsl");

fn string_search() -> Case {
    let (text, words) = (below(200, 300, 4), below(201, 4 * 97, 4));
    let expected: Vec<u32> = words
        .chunks(4)
        .map(|word| text.windows(4).position(|window| window == word).map_or(u32::MAX, |at| at as u32))
        .collect();
    Case::new("string_search", KERNELS).items([97, 1, 1]).input(&text).input(&words).output(expected)
}

/// By its definition, from the ends of both.
fn distance(a: &[u32], b: &[u32]) -> u32 {
    let mut table = vec![vec![0_u32; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i][j] = match (i, j) {
                (0, distance) | (distance, 0) => distance as u32,
                _ if a[i - 1] == b[j - 1] => table[i - 1][j - 1],
                _ => 1 + table[i - 1][j - 1].min(table[i][j - 1]).min(table[i - 1][j]),
            };
        }
    }
    table[a.len()][b.len()]
}

fn levenshtein() -> Case {
    let (text, words) = (below(202, 12, 5), below(203, 12 * 61, 5));
    let expected: Vec<u32> = words.chunks(12).map(|word| distance(&text, word)).collect();
    Case::new("levenshtein", KERNELS).items([61, 1, 1]).input(&text).input(&words).output(expected)
}

pub(crate) fn cases() -> Vec<Case> {
    vec![string_search(), levenshtein()]
}
