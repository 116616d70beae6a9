//! A BERT-style encoder in plain Rust, in f64.

use sortie_nn::EncoderConfig;

/// Parameters by name.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str, &[usize]) -> Vec<f32>;

/// The embedding of one sequence.
pub(crate) fn embedding(config: &EncoderConfig, params: Lookup<'_>, tokens: &[u32]) -> Vec<f64> {
    let width = config.width;
    let row = |name: &str, rows: usize, at: usize| -> Vec<f64> {
        let table = params(&format!("embeddings.{name}.weight"), &[rows, width]);
        table[at * width..][..width].iter().map(|x| f64::from(*x)).collect()
    };
    let embedded = tokens.iter().enumerate().map(|(position, token)| {
        let word = row("word_embeddings", config.vocabulary, *token as usize);
        let place = row("position_embeddings", config.positions, position);
        let kind = row("token_type_embeddings", config.token_types, 0);
        (0..width).map(|i| word[i] + place[i] + kind[i]).collect::<Vec<f64>>()
    });
    let mut x: Vec<Vec<f64>> = embedded.collect();
    norm(&mut x, params, "embeddings.LayerNorm", config);
    for layer in 0..config.layers {
        let name = |part: &str| format!("encoder.layer.{layer}.{part}");
        let [query, key, value] =
            ["query", "key", "value"].map(|part| linear(&x, params, &name(&format!("attention.self.{part}")), width));
        let mixed = attention(&query, &key, &value, config.heads);
        let out = linear(&mixed, params, &name("attention.output.dense"), width);
        add(&mut x, &out);
        norm(&mut x, params, &name("attention.output.LayerNorm"), config);
        let mut inner = linear(&x, params, &name("intermediate.dense"), config.inner_width);
        inner.iter_mut().flatten().for_each(|x| *x = 0.5 * *x * (1.0 + erf(*x / 2.0_f64.sqrt())));
        let out = linear(&inner, params, &name("output.dense"), width);
        add(&mut x, &out);
        norm(&mut x, params, &name("output.LayerNorm"), config);
    }
    let sums: Vec<f64> = (0..width).map(|i| x.iter().map(|row| row[i]).sum()).collect();
    let length = sums.iter().map(|x| x * x).sum::<f64>().sqrt();
    sums.iter().map(|x| x / length).collect()
}

fn linear(x: &[Vec<f64>], params: Lookup<'_>, name: &str, outputs: usize) -> Vec<Vec<f64>> {
    let inputs = x[0].len();
    let weight: Vec<f64> = params(&format!("{name}.weight"), &[outputs, inputs]).into_iter().map(f64::from).collect();
    let bias = params(&format!("{name}.bias"), &[outputs]);
    let of = |row: &Vec<f64>| {
        weight.chunks(inputs).zip(&bias).map(|(weight, bias)| dot(row, weight) + f64::from(*bias)).collect()
    };
    x.iter().map(of).collect()
}

/// In eight sums, so that it is fast enough for a real model.
fn dot(one: &[f64], other: &[f64]) -> f64 {
    let (ones, others) = (one.chunks_exact(8), other.chunks_exact(8));
    let rest: f64 = ones.remainder().iter().zip(others.remainder()).map(|(x, y)| x * y).sum();
    let mut sums = [0.0; 8];
    for (x, y) in ones.zip(others) {
        for i in 0..8 {
            sums[i] += x[i] * y[i];
        }
    }
    sums.iter().sum::<f64>() + rest
}

fn attention(query: &[Vec<f64>], key: &[Vec<f64>], value: &[Vec<f64>], heads: usize) -> Vec<Vec<f64>> {
    let size = query[0].len() / heads;
    let mut out = vec![vec![0.0; query[0].len()]; query.len()];
    for head in 0..heads {
        let own = head * size..(head + 1) * size;
        for (query, out) in query.iter().zip(&mut out) {
            let scores: Vec<f64> =
                key.iter().map(|key| dot(&query[own.clone()], &key[own.clone()]) / (size as f64).sqrt()).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let shares: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
            let all: f64 = shares.iter().sum();
            for i in own.clone() {
                out[i] = shares.iter().zip(value).map(|(share, value)| share / all * value[i]).sum();
            }
        }
    }
    out
}

fn norm(x: &mut [Vec<f64>], params: Lookup<'_>, name: &str, config: &EncoderConfig) {
    let of = |part: &str| params(&format!("{name}.{part}"), &[config.width]);
    let (weight, bias) = (of("weight"), of("bias"));
    for row in x {
        let len = row.len() as f64;
        let mean = row.iter().sum::<f64>() / len;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / len;
        for (i, x) in row.iter_mut().enumerate() {
            *x =
                (*x - mean) / (variance + f64::from(config.epsilon)).sqrt() * f64::from(weight[i]) + f64::from(bias[i]);
        }
    }
}

fn add(x: &mut [Vec<f64>], y: &[Vec<f64>]) {
    x.iter_mut().flatten().zip(y.iter().flatten()).for_each(|(x, y)| *x += y);
}

/// The error function, by its series near 0 and its continued fraction beyond: to 1e-15.
fn erf(x: f64) -> f64 {
    if x.abs() < 3.0 {
        let (mut term, mut sum) = (x, x);
        for n in 1..100 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return 2.0 / std::f64::consts::PI.sqrt() * sum;
    }
    let fraction = (1..60).rev().fold(0.0, |rest, n| f64::from(n) / 2.0 / (x.abs() + rest));
    let tail = (-x * x).exp() / std::f64::consts::PI.sqrt() / (x.abs() + fraction);
    (1.0 - tail).copysign(x)
}

#[test]
fn the_error_function_is_that_of_tables() {
    for (x, expected) in
        [(0.5, 0.520_499_877_813_046_5), (1.5, 0.966_105_146_475_310_7), (3.5, 0.999_999_256_901_627_7)]
    {
        assert!((erf(x) - expected).abs() < 1e-14 && (erf(-x) + expected).abs() < 1e-14, "{x}: {}", erf(x));
    }
}
