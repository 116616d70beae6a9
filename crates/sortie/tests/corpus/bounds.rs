//! Accesses out of bounds. What they give is the device's business; that nothing else is disturbed is ours.

use crate::{
    case::Case,
    dice::words,
    word::Word,
};

const KERNELS: &str = include_str!("kernels/bounds.wgsl");

fn writes_past_the_end() -> Case {
    // Anything may have happened to the last word, where an index may be clamped to.
    let kept: Vec<Word> = (0..49_u32).map(Word::from).chain([Word::Any]).collect();
    let before: Vec<u32> = (0..50).collect();
    let good: Vec<u32> = (1..=40).collect();
    Case::new("writes_past_the_end", KERNELS).mistake("writes past the end of @group(0) @binding(1), which has 50 words at line 9").items([60, 1, 1]).change(&before, kept).output(good)
}

fn reads_past_the_end() -> Case {
    let a = words(140, 21);
    let expected: Vec<Word> =
        (0..60).map(|at| if at < 20 { Word::from(a[at]) } else { Word::Any }).collect();
    Case::new("reads_past_the_end", KERNELS).mistake("reads past the end of @group(0) @binding(0), which has 21 words at line 17").items([60, 1, 1]).input(&a).output(expected)
}

fn indices_past_local_arrays() -> Case {
    let far = vec![4_u32, 5, 100, 1 << 20, u32::MAX, 0x8000_0000, 8, 3];
    Case::new("indices_past_local_arrays", KERNELS).mistake("past the end of an array, which has 4 words at line 30").items([60, 1, 1]).input(&far).output(vec![1113_u32; 55])
}

pub(crate) fn cases() -> Vec<Case> {
    vec![writes_past_the_end(), reads_past_the_end(), indices_past_local_arrays()]
}
