//! An answer that is not what it should be.

use std::fmt::Display;

/// A wrong answer: whose, where, and what was expected instead.
#[derive(Debug)]
pub(crate) struct Wrong(String);

impl Wrong {
    /// To the bit.
    pub(crate) fn unless_equal<T: PartialEq + Display>(
        way: &dyn Display,
        place: &str,
        answer: &[T],
        expected: &[T],
    ) -> Result<(), Self> {
        Self::unless(way, place, answer, expected, |answer, expected| answer == expected)
    }

    /// Within a share of the largest that is expected, because sums in another order are rounded otherwise.
    pub(crate) fn unless_near(
        way: &dyn Display,
        place: &str,
        answer: &[f32],
        expected: &[f32],
        tolerance: f32,
    ) -> Result<(), Self> {
        let largest = expected.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
        // Written so that what is no number is wrong.
        Self::unless(way, place, answer, expected, |answer, expected| (answer - expected).abs() <= tolerance * largest)
    }

    fn unless<T: Display>(
        way: &dyn Display,
        place: &str,
        answer: &[T],
        expected: &[T],
        same: impl Fn(&T, &T) -> bool,
    ) -> Result<(), Self> {
        if answer.len() != expected.len() {
            return Err(Self(format!("{way} gave {} answers instead of {}", answer.len(), expected.len())));
        }
        match answer.iter().zip(expected).position(|(answer, expected)| !same(answer, expected)) {
            None => Ok(()),
            Some(at) => {
                Err(Self(format!("{way} gave {} for {place} {at}, but it should be {}", answer[at], expected[at])))
            }
        }
    }
}

impl Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(result: Result<(), Wrong>) -> Option<String> {
        result.err().map(|wrong| wrong.to_string())
    }

    #[test]
    fn a_wrong_answer_is_named_with_its_place() {
        assert_eq!(told(Wrong::unless_equal(&"one batch", "item", &[1, 2], &[1, 2])), None);
        let error = told(Wrong::unless_equal(&"one batch", "item", &[1, 3], &[1, 2]));
        assert_eq!(error.as_deref(), Some("one batch gave 3 for item 1, but it should be 2"));
        assert!(told(Wrong::unless_equal(&"one batch", "item", &[], &[1])).is_some());
    }

    #[test]
    fn near_is_near_the_largest_and_no_number_is_near_anything() {
        let near = |answer: &[f32], expected: &[f32]| Wrong::unless_near(&"x", "y", answer, expected, 0.01).is_ok();
        assert!(near(&[100.0, 0.9], &[100.0, 0.0]) && !near(&[100.0, 1.1], &[100.0, 0.0]));
        assert!(!near(&[f32::NAN], &[1.0]) && !near(&[1.0], &[f32::NAN]));
    }
}
