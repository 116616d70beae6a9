//! Filling words with a pattern of any length.

/// Repeats the pattern, which is whole words, from the first word on and cuts it off at the end. No pattern means
/// zeros.
pub(super) fn fill(words: &mut [u32], pattern: &[u8]) {
    match pattern {
        [] => words.fill(0),
        [a, b, c, d] => words.fill(u32::from_ne_bytes([*a, *b, *c, *d])),
        pattern => {
            let all: &mut [u8] = bytemuck::cast_slice_mut(words);
            let mut done = pattern.len().min(all.len());
            all[..done].copy_from_slice(&pattern[..done]);
            // The filled part is doubled each time: a few long copies instead of many short ones.
            while done < all.len() {
                let more = done.min(all.len() - done);
                all.copy_within(..more, done);
                done += more;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn a_pattern_of_any_length_repeats_and_is_cut_off_at_the_end() {
        for period in 0..9_u32 {
            let pattern: Vec<u32> = (1..=period).collect();
            for len in 0..30_u32 {
                let mut words = vec![77; len as usize];
                fill(&mut words, bytemuck::cast_slice(&pattern));
                let expected: Vec<u32> = (0..len).map(|at| if period == 0 { 0 } else { at % period + 1 }).collect();
                assert_eq!(words, expected, "{period} in {len}");
            }
        }
    }
}
