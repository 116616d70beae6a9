//! A library of operations: each implements `Record`, returns what it makes, reports mistakes of its own, and is used by
//! the next. Any number of them share one submission.
//!
//! `cargo run --release -p sortie --example operations`
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::{error::Error as _, time::Instant};

use sortie::{Batch, Buffer, Device, ErrorKind, Grid, Kernel, Record, Result, Slot, Tensor};

const SOURCE: &str = "
    @group(0) @binding(0) var<storage, read> values: array<u32>;
    @group(0) @binding(1) var<storage, read_write> counts: array<atomic<u32>>;
    @group(0) @binding(2) var<storage, read_write> sums: array<u32>;

    @compute @workgroup_size(64)
    fn count(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&values) { atomicAdd(&counts[min(values[id.x], arrayLength(&counts) - 1u)], 1u); }
    }

    @compute @workgroup_size(64)
    fn sum_up(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x >= arrayLength(&counts) { return; }
        var sum = 0u;
        for (var at = 0u; at <= id.x; at++) { sum += atomicLoad(&counts[at]); }
        sums[id.x] = sum;
    }";

/// The library: its kernels, compiled once.
struct Operations {
    count: Kernel,
    sum_up: Kernel,
}

impl Operations {
    fn new(device: &Device) -> Result<Self> {
        let module = device.module(SOURCE)?;
        Ok(Self { count: module.kernel("count")?, sum_up: module.kernel("sum_up")? })
    }

    fn histogram<'a>(&'a self, values: &'a Buffer<u32>, bins: usize) -> Histogram<'a> {
        Histogram { operations: self, values, bins }
    }

    fn distribution<'a>(&'a self, values: &'a Buffer<u32>, bins: usize) -> Distribution<'a> {
        Distribution { histogram: self.histogram(values, bins) }
    }
}

/// How often each value occurs. The last bin also has all values beyond it.
struct Histogram<'a> {
    operations: &'a Operations,
    values: &'a Buffer<u32>,
    bins: usize,
}

impl Record<'_> for Histogram<'_> {
    /// Scratch: memory that lives for the batch.
    type Output = Slot<u32>;

    /// Names what it records in errors and profiles.
    fn label(&self) -> &str {
        "histogram"
    }

    fn record(&self, batch: &Batch) -> Slot<u32> {
        if !(1..=1024).contains(&self.bins) {
            batch.mistake(format!("histogram: 1 to 1,024 bins, not {}", self.bins));
        }
        let counts = batch.scratch(self.bins.clamp(1, 1024));
        batch.fill(counts, 0);
        batch.dispatch(&self.operations.count, &[self.values, &counts], self.values.len());
        counts
    }
}

/// Which share of the values is at most 0, 1, 2 and so on: made of the histogram, and returned as a tensor.
struct Distribution<'a> {
    histogram: Histogram<'a>,
}

impl<'b> Record<'b> for Distribution<'_> {
    type Output = Tensor<'b, f32>;

    fn label(&self) -> &str {
        "distribution"
    }

    fn record(&self, batch: &'b Batch) -> Tensor<'b, f32> {
        let counts = batch.record(&self.histogram);
        let bins = self.histogram.bins.clamp(1, 1024);
        let sums = batch.scratch::<u32>(bins);
        batch.dispatch(&self.histogram.operations.sum_up, &[&counts, &sums], Grid::items(bins));
        batch.tensor(sums, [bins]).cast::<f32>() / self.histogram.values.len() as f32
    }
}

fn main() -> Result<()> {
    let device = Device::open()?;
    println!("on {}", device.info());
    let operations = Operations::new(&device)?;
    let data: Vec<u32> = (0..100_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 22) * (at % 10) / 40).collect();
    let values = device.upload(&data)?;
    let bins = 256;

    let (clock, before) = (Instant::now(), device.metrics());
    let batch = device.batch();
    let counts = batch.record(&operations.histogram(&values, bins));
    let counts = batch.read(counts);
    let shares = batch.record(&operations.distribution(&values, bins));
    // An operation can also be a closure. The median: how many bins have less than half of all values up to them.
    let median = batch.record(&|_: &Batch| shares.less(0.5).sum(&[0]));
    let (shares, median) = (shares.read(), median.read());
    batch.submit()?;
    let (counts, shares, median) = (counts.wait()?, shares.wait()?, median.wait()?[0]);
    let (time, did) = (clock.elapsed(), device.metrics() - before);
    println!("median {median}; {} dispatches in {} submission, {time:.1?}", did.dispatches, did.submissions);
    assert_eq!(did.submissions, 1);

    // The same in plain Rust.
    let mut expected = vec![0_u32; bins];
    data.iter().for_each(|value| expected[(*value as usize).min(bins - 1)] += 1);
    assert_eq!(counts, expected);
    let mut sum = 0;
    for (count, share) in expected.iter().zip(&shares) {
        sum += count;
        assert!((share - sum as f32 / data.len() as f32).abs() < 1e-6);
    }
    assert_eq!(median as usize, shares.iter().filter(|share| **share < 0.5).count());

    // An operation's own mistake names the line that used the operation; its source is the line inside of it.
    let batch = device.batch();
    let line = line!() + 1;
    batch.record(&operations.distribution(&values, 5000));
    let error = batch.submit().expect_err("too many bins");
    println!("{error}");
    assert!(matches!(error.kind(), ErrorKind::Input));
    assert_eq!(error.label(), Some("distribution/histogram"));
    assert_eq!(error.location().map(|at| (at.file(), at.line())), Some((file!(), line)));
    let inside = error.source().expect("the line inside the operation");
    println!("caused by: {inside}");
    Ok(())
}
