//! Row operations against a copy of the same elements on the same threads: rates of bytes read plus written.
//!
//! Each has a floor: the share of the copy's rate that its loop reaches only as vector code. The bench fails below it.

use std::time::{Duration, Instant};

use sortie::{Batch, Buffer, Device};
use sortie_bench::{Case, Contender, Outcome, Report, Rounds};

/// Memory of one case.
struct Work {
    device: Device,
    x: Buffer<f32>,
    /// Indices of rows, for gather.
    chosen: Buffer<u32>,
    y: Buffer<f32>,
    places: Buffer<u32>,
    shape: [usize; 2],
}

/// One operation.
struct Operation {
    name: &'static str,
    /// Records it; returns the number of elements that it reads and writes.
    record: fn(&Work, &Batch) -> usize,
    /// Least share of the copy's rate: about half of what it has on two threads of a core with AVX-512.
    floor: f64,
}

const OPERATIONS: [Operation; 13] = [
    Operation { name: "softmax", floor: 0.25, record: |work, batch| work.whole(batch, |x| x.softmax()) },
    Operation { name: "layer_norm", floor: 0.2, record: |work, batch| work.whole(batch, |x| x.layer_norm(1e-5)) },
    Operation { name: "rms_norm", floor: 0.3, record: |work, batch| work.whole(batch, |x| x.rms_norm(1e-5)) },
    Operation { name: "sum_rows", floor: 0.28, record: |work, batch| work.reduced(batch, 1, |x| x.sum(&[1])) },
    Operation { name: "mean_rows", floor: 0.28, record: |work, batch| work.reduced(batch, 1, |x| x.mean(&[1])) },
    Operation { name: "max_rows", floor: 0.12, record: |work, batch| work.reduced(batch, 1, |x| x.max(&[1])) },
    Operation { name: "sum_columns", floor: 0.3, record: |work, batch| work.reduced(batch, 0, |x| x.sum(&[0])) },
    Operation { name: "mean_columns", floor: 0.3, record: |work, batch| work.reduced(batch, 0, |x| x.mean(&[0])) },
    Operation { name: "max_columns", floor: 0.25, record: |work, batch| work.reduced(batch, 0, |x| x.max(&[0])) },
    Operation {
        name: "argmax_rows",
        floor: 0.12,
        record: |work, batch| {
            let [rows, columns] = work.shape;
            batch.tensor(&work.x, [rows, columns]).argmax(1).store(work.places.slice(..rows));
            rows * columns + rows
        },
    },
    Operation {
        name: "gather",
        floor: 0.3,
        record: |work, batch| {
            let chosen = batch.tensor(&work.chosen, [work.shape[0]]);
            work.whole(batch, |x| x.gather(chosen))
        },
    },
    Operation {
        name: "concat",
        floor: 0.18,
        record: |work, batch| {
            work.whole(batch, |x| {
                let [rows, columns] = [x.shape()[0], x.shape()[1]];
                let half = columns / 2;
                x.slice(&[0..rows, half..columns]).concat(&[x.slice(&[0..rows, 0..half])], 1)
            })
        },
    },
    Operation {
        name: "permute",
        floor: 0.25,
        record: |work, batch| {
            let [rows, columns] = work.shape;
            let heads = batch.tensor(&work.x, [rows / 128, 128, columns / 32, 32]);
            heads.permute(&[0, 2, 1, 3]).store(&work.y);
            2 * rows * columns
        },
    },
];

impl Work {
    fn new(device: &Device, shape: [usize; 2]) -> Outcome<Self> {
        let [rows, columns] = shape;
        let x: Vec<f32> = (0..rows * columns).map(|at| (at * 7919 % 1999) as f32 / 1000.0 - 1.0).collect();
        let chosen: Vec<u32> = (0..rows as u32).map(|at| at.wrapping_mul(7919) % rows as u32).collect();
        Ok(Self {
            device: device.clone(),
            x: device.upload(&x)?,
            chosen: device.upload(&chosen)?,
            y: device.zeros(x.len())?,
            places: device.zeros(rows)?,
            shape,
        })
    }

    /// An operation with as many results as elements.
    fn whole<'b>(&self, batch: &'b Batch, f: impl FnOnce(sortie::Tensor<'b, f32>) -> sortie::Tensor<'b, f32>) -> usize {
        f(batch.tensor(&self.x, self.shape)).store(&self.y);
        2 * self.x.len()
    }

    /// A reduction over an axis.
    fn reduced<'b>(
        &self,
        batch: &'b Batch,
        axis: usize,
        f: impl FnOnce(sortie::Tensor<'b, f32>) -> sortie::Tensor<'b, f32>,
    ) -> usize {
        let results = self.shape[1 - axis];
        f(batch.tensor(&self.x, self.shape)).store(self.y.slice(..results));
        self.x.len() + results
    }

    /// Runs an operation once: GB/s.
    fn run(&self, record: impl Fn(&Self, &Batch) -> usize) -> Outcome<f64> {
        let start = Instant::now();
        let batch = self.device.batch();
        let elements = record(self, &batch);
        batch.submit()?;
        Ok(4.0 * elements as f64 / start.elapsed().as_secs_f64() / 1e9)
    }
}

/// Times every operation in turns with a copy, at both shapes of a small transformer.
pub(crate) fn compare(device: &Device, budget: Duration, report: &mut Report) -> Outcome<()> {
    let copy = |work: &Work, batch: &Batch| work.whole(batch, |x| x.broadcast(work.shape));
    let mut slow = Vec::new();
    for (label, shape) in [("scores", [49_152, 128]), ("states", [4096, 384])] {
        let work = Work::new(device, shape)?;
        work.run(copy)?;
        for Operation { name, record, floor } in &OPERATIONS {
            work.run(record)?;
            let rounds = Rounds { min: 5, max: 100, budget: budget / 8 };
            let samples = rounds.run(2, |at, _| Ok([if at == 0 { work.run(copy)? } else { work.run(record)? }]))?;
            let case = format!("{name}-{label}");
            let n = work.x.len();
            let case = Case { device: "cpu", case: &case, n, metrics: ["gb_per_s"] };
            report.rows(&case, &Contender::all(&["copy", name]), &samples);
            let share = samples.ratio(1, 0, 0);
            if share < *floor {
                slow.push(format!("{}: {share:.2} of a copy's rate, not {floor}", case.case));
            }
        }
    }
    if slow.is_empty() { Ok(()) } else { Err(format!("no vector code any more?\n{}", slow.join("\n")).into()) }
}
