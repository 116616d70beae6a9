//! Matrix products of many shapes on the built-in CPU: few rows and many by the weights of an encoder of width 384, and
//! the products of its attention, whose sides are permuted heads.
//!
//! Weights are resident, as floats and as halves; `gemm`, called directly on as many threads, is the control. A rate is
//! from recording to completion. `dense` in the attention cases is a product of as many multiplications by weights.
//!
//! `cargo bench -p sortie --bench shapes [-- --quick] [--json]`

#![expect(unsafe_code, reason = "the crate that multiplies matrices takes pointers")]

use std::time::{Duration, Instant};

use sortie::{Batch, Buffer, Device, Tensor, half::f16};
use sortie_bench::{Args, Case, Contender, Outcome, Report, Rounds};

const ROWS: [usize; 8] = [1, 2, 4, 8, 16, 32, 256, 4096];
const WEIGHTS: [[usize; 2]; 3] = [[384, 384], [384, 1536], [1536, 384]];
const HEADS: usize = 12;
const HEAD: usize = 32;
const WIDTH: usize = HEADS * HEAD;

fn floats(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7919 + seed) % 1999) as f32 / 1000.0 - 1.0).collect()
}

/// Runs once: the time in s.
type Work<'a> = Box<dyn FnMut() -> Outcome<f64> + 'a>;

fn timed(run: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed().as_secs_f64())
}

/// Records, submits and waits.
fn recorded<'a>(device: &'a Device, record: impl for<'b> Fn(&'b Batch) + 'a) -> Work<'a> {
    Box::new(move || {
        timed(|| {
            let batch = device.batch();
            record(&batch);
            Ok(batch.submit()?)
        })
    })
}

fn by_weights<'a>(device: &'a Device, [m, k, n]: [usize; 3]) -> Outcome<[Work<'a>; 2]> {
    let (x, w) = (device.upload(&floats(m * k, 1))?, device.upload(&floats(k * n, 2))?);
    let halves: Vec<f16> = floats(k * n, 2).into_iter().map(f16::from_f32).collect();
    let (half, y) = (device.upload(&halves)?, device.zeros::<f32>(m * n)?);
    let (x_too, y_too) = (x.clone(), y.clone());
    Ok([
        recorded(device, move |batch| batch.tensor(&x, [m, k]).matmul(batch.tensor(&w, [k, n])).store(&y)),
        recorded(device, move |batch| {
            let weights = batch.tensor(&half, [k, n]).cast::<f32>();
            batch.tensor(&x_too, [m, k]).matmul(weights).store(&y_too);
        }),
    ])
}

fn by_gemm<'a>([m, k, n]: [usize; 3]) -> Work<'a> {
    let (a, b, mut c) = (floats(m * k, 1), floats(k * n, 2), vec![0.0_f32; m * n]);
    let by = gemm::Parallelism::Rayon(std::thread::available_parallelism().map_or(1, Into::into));
    let [rows, columns] = [k, n].map(usize::cast_signed);
    Box::new(move || {
        timed(|| {
            let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
            // SAFETY: pointers to m × k, k × n and m × n elements, row after row, which this closure owns.
            unsafe {
                gemm::gemm(m, n, k, c, 1, columns, false, a, 1, rows, b, 1, columns, 0.0, 1.0, false, false, false, by);
            }
            Ok(())
        })
    })
}

/// Scores of queries and keys, and scores times values.
fn attention<'a>(device: &'a Device, [count, tokens]: [usize; 2]) -> Outcome<[Work<'a>; 2]> {
    let upload = |seed| device.upload(&floats(count * tokens * WIDTH, seed));
    let (q, k, v) = (upload(1)?, upload(2)?, upload(3)?);
    let scores = device.zeros::<f32>(count * HEADS * tokens * tokens)?;
    let (out, scores_too) = (device.zeros::<f32>(count * tokens * WIDTH)?, scores.clone());
    let heads = move |batch: &Batch, x: &Buffer<f32>| -> sortie::tensor::TensorId<f32> {
        let all: Tensor<'_, f32> = batch.tensor(x, [count, tokens, HEADS, HEAD]);
        all.permute(&[0, 2, 1, 3]).id()
    };
    Ok([
        recorded(device, move |batch| {
            let [q, k] = [&q, &k].map(|x| batch.at(heads(batch, x)));
            q.matmul(k.transpose()).store(&scores);
        }),
        recorded(device, move |batch| {
            let scores = batch.tensor(&scores_too, [count, HEADS, tokens, tokens]);
            scores.matmul(batch.at(heads(batch, &v))).store(&out);
        }),
    ])
}

fn main() -> Outcome<()> {
    let args = Args::read(&[]);
    let budget = Duration::from_millis(if args.quick { 300 } else { 3_000 });
    let rounds = Rounds { min: 5, max: 500, budget };
    let mut report = Report::new("shapes", args.json);
    let device = Device::cpu()?;
    let mut compare = |case: &str, [m, k, n]: [usize; 3], names: &[&str], mut work: Vec<Work<'_>>| -> Outcome<()> {
        work.iter_mut().try_for_each(|work| work().map(drop))?;
        let flop = 2.0 * (m * k * n) as f64;
        let samples = rounds.run(work.len(), |at, _| Ok([flop / work[at]()? / 1e9]))?;
        report.rows(&Case { device: "cpu", case, n: m, metrics: ["gflop_per_s"] }, &Contender::all(names), &samples);
        Ok(())
    };
    for [k, n] in WEIGHTS {
        for m in ROWS {
            let [whole, halves] = by_weights(&device, [m, k, n])?;
            let work = vec![whole, halves, by_gemm([m, k, n])];
            compare(&format!("{k}x{n}"), [m, k, n], &["sortie", "sortie-f16", "gemm"], work)?;
        }
    }
    for [count, tokens] in [[1, 16], [8, 32], [32, 64], [32, 128]] {
        let [scores, mixed] = attention(&device, [count, tokens])?;
        // As many multiplications by weights.
        let rows = (count * tokens * tokens / WIDTH).max(1);
        let [dense, _] = by_weights(&device, [rows, WIDTH, WIDTH])?;
        let flop = [rows, WIDTH, WIDTH];
        compare(&format!("heads-{count}x{tokens}"), flop, &["dense", "scores", "mixed"], vec![dense, scores, mixed])?;
    }
    Ok(())
}
