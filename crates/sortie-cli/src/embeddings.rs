//! Where embeddings go: an `.npy` file, JSON lines, or the lines nearest to a question.

use std::{error::Error, io::Write, path::Path};

use sortie::kernel::Scalar;

use crate::{array::Array, lines::Line, output::OutputFile};

/// Rows that the header of an unfinished file leaves room for.
const MOST_ROWS: u64 = u64::MAX / (1 << 32);

/// Takes embeddings in the order of their lines.
pub(crate) enum Embeddings<'a> {
    Npy { file: OutputFile, width: u64, rows: u64 },
    JsonFile(OutputFile),
    Json(&'a mut dyn Write),
    Nearest { query: Vec<f32>, top: usize, nearest: Vec<(f32, Line)>, out: &'a mut dyn Write },
}

impl<'a> Embeddings<'a> {
    /// A file: .npy or .jsonl. Without one, JSON lines go to `out`.
    pub(crate) fn create(path: Option<&Path>, width: usize, out: &'a mut dyn Write) -> Result<Self, String> {
        let Some(path) = path else { return Ok(Self::Json(out)) };
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("npy") => {
                let mut file = OutputFile::create(path)?;
                let width = width as u64;
                // How many rows there will be is known at the end.
                file.put(&header(MOST_ROWS, width))?;
                Ok(Self::Npy { file, width, rows: 0 })
            }
            Some("jsonl") => Ok(Self::JsonFile(OutputFile::create(path)?)),
            _ => Err(crate::input::named(path, &"only .npy and .jsonl are known")),
        }
    }

    pub(crate) fn take(&mut self, line: Line, embedding: &[f32]) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Npy { file, rows, .. } => {
                let bytes: Vec<u8> = embedding.iter().flat_map(|x| x.to_le_bytes()).collect();
                file.put(&bytes)?;
                *rows += 1;
            }
            Self::JsonFile(file) => file.put(&json(&line, embedding)?)?,
            Self::Json(out) => out.write_all(&json(&line, embedding)?)?,
            Self::Nearest { query, top, nearest, .. } => {
                let score: f32 = query.iter().zip(embedding).map(|(x, y)| x * y).sum();
                // After those of the same score, which came before it.
                let at = nearest.partition_point(|(other, _)| *other >= score);
                if at < *top {
                    nearest.insert(at, (score, line));
                    nearest.truncate(*top);
                }
            }
        }
        Ok(())
    }

    /// Completes the file, or prints the nearest lines.
    pub(crate) fn finish(self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Npy { mut file, width, rows } => {
                file.put_at_start(&header(rows, width))?;
                file.keep()?;
            }
            Self::JsonFile(file) => file.keep()?,
            Self::Json(out) => out.flush()?,
            Self::Nearest { nearest, out, .. } => {
                for (score, line) in nearest {
                    writeln!(out, "{score:6.3} {:>6}  {}", line.number, line.text)?;
                }
            }
        }
        Ok(())
    }
}

/// Of the same length for any number of rows.
fn header(rows: u64, width: u64) -> Vec<u8> {
    let header = |rows| Array { scalar: Scalar::F32, shape: vec![rows, width], start: 0 }.header();
    let (mut bytes, len) = (header(rows), header(MOST_ROWS).len());
    if bytes.len() < len {
        // The padding of a shorter one may end a block earlier. Its length is in bytes 8 and 9.
        bytes.pop();
        bytes.resize(len - 1, b' ');
        bytes.push(b'\n');
        let rest = u16::try_from(len - 10).unwrap_or_else(|_| unreachable!("a shape of two lengths"));
        bytes[8..10].copy_from_slice(&rest.to_le_bytes());
    }
    bytes
}

fn json(line: &Line, embedding: &[f32]) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = serde_json::to_vec(&serde_json::json!({ "line": line.number }))?;
    // Not through `json!`, which makes a value of each number.
    bytes.pop();
    bytes.extend_from_slice(b",\"embedding\":");
    serde_json::to_writer(&mut bytes, embedding)?;
    bytes.extend_from_slice(b"}\n");
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_one_length_and_say_how_many_rows_there_are() {
        for width in [1, 384, 100_000] {
            let len = header(MOST_ROWS, width).len();
            for rows in [0, 1, 10_000, MOST_ROWS] {
                let header = header(rows, width);
                assert_eq!(header.len(), len);
                let bytes = len as u64 + rows * width * 4;
                let read = Array::read(&mut &header[..], bytes).map(|array| array.shape);
                assert_eq!(read, Ok(vec![rows, width]));
            }
        }
    }

    #[test]
    fn the_nearest_come_first_and_equal_ones_in_their_order() {
        let mut out = Vec::new();
        let query = vec![1.0, 0.0];
        let mut sink = Embeddings::Nearest { query, top: 3, nearest: Vec::new(), out: &mut out };
        for (number, x) in (1..).zip([0.1, 0.9, 0.5, 0.9, 0.2]) {
            sink.take(Line { number, text: format!("line {number}") }, &[x, 0.0]).expect("taken");
        }
        sink.finish().expect("printed");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text, " 0.900      2  line 2\n 0.900      4  line 4\n 0.500      3  line 3\n");
    }
}
