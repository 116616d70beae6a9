//! Rows of a fixed width: concatenates requests, and splits their answers.

use crate::{
    batch::RowWidths,
    error::{Error, Result},
};

/// Elements of each answer of a batch, in the order of its requests.
#[derive(Debug)]
pub(super) struct Lengths(Vec<usize>);

/// The methods of a [`DeviceJob`](super::DeviceJob) with `widths`, whose inputs are `Vec<T>` and whose outputs are
/// `Vec<U>`: whole rows, which may be split.
macro_rules! whole_rows {
    () => {
        fn rows(&self, input: &Vec<T>) -> usize {
            self.widths.rows(input)
        }

        fn check(&self, input: &Vec<T>) -> Result<()> {
            self.widths.check(input)
        }

        fn answer_immediately(&self, input: &Vec<T>) -> Option<Vec<U>> {
            input.is_empty().then(Vec::new)
        }

        fn split(&self, input: Vec<T>, rows: usize) -> Vec<Vec<T>> {
            self.widths.split(&input, rows)
        }

        fn join(&self, parts: Vec<Vec<U>>) -> Vec<U> {
            parts.concat()
        }
    };
}
pub(super) use whole_rows;

impl RowWidths {
    pub(super) fn rows<T>(self, input: &[T]) -> usize {
        input.len() / self.input
    }

    pub(super) fn check<T>(self, input: &[T]) -> Result<()> {
        if input.len().is_multiple_of(self.input) {
            return Ok(());
        }
        let message = format!("{} elements are not a whole number of rows of {}", input.len(), self.input);
        Err(Error::input(message))
    }

    pub(super) fn split<T: Clone>(self, input: &[T], rows: usize) -> Vec<Vec<T>> {
        input.chunks(rows.max(1) * self.input).map(<[T]>::to_vec).collect()
    }

    pub(super) fn gather<T: Clone>(self, inputs: &[Vec<T>]) -> (Vec<T>, Lengths) {
        let lengths = inputs.iter().map(|input| self.rows(input) * self.output).collect();
        (inputs.concat(), Lengths(lengths))
    }
}

impl Lengths {
    /// Splits the output into one answer per request; padding at the end is dropped.
    pub(super) fn hand_out<U: Clone, E>(&self, all: &[U]) -> Vec<std::result::Result<Vec<U>, E>> {
        let mut rest = all;
        let own = |len: &usize| {
            let (own, others) = rest.split_at(*len);
            rest = others;
            Ok(own.to_vec())
        };
        self.0.iter().map(own).collect()
    }
}
