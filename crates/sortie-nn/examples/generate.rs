//! A small decoder, as of Llama: rotary attention with shared keys, RMS norms and a gated feed-forward layer. Keys and
//! values stay on the device; each token is one run of one replay. Random weights; checked against f64, token by token.
//!
//! `cargo run --release -p sortie-nn --example generate`
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::time::Instant;

use sortie::{Device, Input, Output, Replay, Tensor};
use sortie_nn::{
    Activation, Attention, Embedding, FeedForward, KeyValueCache, Linear, Params, Result, RmsNorm, Rotary, Weights,
};

const WORDS: usize = 256;
const WIDTH: usize = 128;
const LAYERS: usize = 4;
const HEADS: usize = 8;
/// Of keys and values: two heads of queries share one.
const SHARED: usize = 4;
const HEAD: usize = WIDTH / HEADS;
const INNER: usize = 344;
const POSITIONS: usize = 96;
const BASE: f64 = 10_000.0;
const EPSILON: f32 = 1e-5;
const PROMPT: [u32; 4] = [17, 3, 101, 42];

struct Decoder {
    words: Embedding,
    layers: Vec<Layer>,
    norm: RmsNorm,
    head: Linear,
}

struct Layer {
    before_attention: RmsNorm,
    attention: Attention,
    before_feed_forward: RmsNorm,
    feed_forward: FeedForward,
}

impl Decoder {
    fn new(params: &Params<'_>) -> Result<Self> {
        let rotary = Rotary::new(params.device(), POSITIONS, HEAD, BASE)?;
        Ok(Self {
            words: Embedding::new(&params.at("words"), [WORDS, WIDTH])?,
            layers: (0..LAYERS).map(|at| Layer::new(&params.at(at), &rotary)).collect::<Result<_>>()?,
            norm: RmsNorm::new(&params.at("norm"), WIDTH, EPSILON)?,
            head: Linear::without_bias(&params.at("head"), [WIDTH, WORDS])?,
        })
    }

    /// Scores of the next word.
    fn step<'b>(&self, token: Tensor<'b, u32>, position: Tensor<'b, u32>, caches: &[KeyValueCache]) -> Tensor<'b, f32> {
        let mut x = self.words.forward(token);
        for (layer, cache) in self.layers.iter().zip(caches) {
            x = x + layer.attention.step(layer.before_attention.forward(x), position, cache);
            x = x + layer.feed_forward.forward(layer.before_feed_forward.forward(x));
        }
        self.head.forward(self.norm.forward(x))
    }
}

impl Layer {
    fn new(params: &Params<'_>, rotary: &Rotary) -> Result<Self> {
        let linear = |name: &str, widths| Linear::without_bias(&params.at(name), widths);
        let shared = SHARED * HEAD;
        let products = [
            linear("q", [WIDTH, WIDTH])?,
            linear("k", [WIDTH, shared])?,
            linear("v", [WIDTH, shared])?,
            linear("o", [WIDTH, WIDTH])?,
        ];
        let (gate, up) = (linear("gate", [WIDTH, INNER])?, linear("up", [WIDTH, INNER])?);
        Ok(Self {
            before_attention: RmsNorm::new(&params.at("norm1"), WIDTH, EPSILON)?,
            attention: Attention::new(products, HEADS)?.with_rotary(rotary.clone()),
            before_feed_forward: RmsNorm::new(&params.at("norm2"), WIDTH, EPSILON)?,
            feed_forward: FeedForward::gated(gate, up, linear("down", [INNER, WIDTH])?, Activation::Silu)?,
        })
    }
}

/// The whole loop as one replay: the token it starts with is in a buffer, and so is the one it chooses.
struct Generator {
    replay: Replay,
    token: Input<u32>,
    position: Input<u32>,
    scores: Output<f32>,
    chosen: Output<u32>,
}

impl Generator {
    fn new(device: &Device, decoder: &Decoder) -> Result<Self> {
        let cache = || KeyValueCache::new(device, POSITIONS, SHARED * HEAD);
        let caches = (0..LAYERS).map(|_| cache()).collect::<Result<Vec<_>>>()?;
        let batch = device.batch();
        let ((token, last), (position, at)) = (batch.input::<u32>([1]), batch.input::<u32>([1]));
        let scores = decoder.step(last, at, &caches);
        let (scores, chosen) = (scores.output(), scores.argmax(1).output());
        Ok(Self { replay: batch.freeze()?, token, position, scores, chosen })
    }

    /// Words after the prompt, and the scores that they were chosen by.
    fn run(&self) -> Result<(Vec<u32>, Vec<Vec<f32>>)> {
        let (mut words, mut scores) = (PROMPT.to_vec(), Vec::new());
        for at in 0..POSITIONS {
            let mut run = self.replay.run();
            run.write(self.token, &[words[at]]);
            run.write(self.position, &[at as u32]);
            let (found, chosen) = (run.read(self.scores), run.read(self.chosen));
            run.submit()?;
            scores.push(found.wait()?);
            if at + 1 >= words.len() {
                words.extend(chosen.wait()?);
            }
        }
        Ok((words, scores))
    }
}

/// A parameter: pseudo-random, the same for the same name on every machine. Norms scale by about 1.
fn param(name: &str, shape: &[usize]) -> Vec<f32> {
    let mut state = name.bytes().fold(7_u64, |seed, byte| seed.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte));
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let (centre, scale) = if name.contains("norm") { (1.0, 0.2) } else { (0.0, 0.25) };
    (0..shape.iter().product()).map(|_| centre + scale * random()).collect()
}

/// The decoder in plain Rust, in f64.
#[derive(Default)]
struct Reference {
    /// Keys and values of each layer, by position.
    caches: Vec<[Vec<Vec<f64>>; 2]>,
}

impl Reference {
    fn step(&mut self, token: u32, position: usize) -> Vec<f64> {
        self.caches.resize_with(LAYERS, Default::default);
        let mut x = row(&wide("words.weight", &[WORDS, WIDTH]), token as usize).to_vec();
        for (at, cache) in self.caches.iter_mut().enumerate() {
            let of = |name: &str| format!("{at}.{name}.weight");
            let normal = norm(&x, &of("norm1"));
            let [mut query, mut key] =
                [("q", WIDTH), ("k", SHARED * HEAD)].map(|(name, out)| product(&normal, &of(name), out));
            rotate(&mut query, position);
            rotate(&mut key, position);
            cache[0].push(key);
            cache[1].push(product(&normal, &of("v"), SHARED * HEAD));
            add(&mut x, &product(&attention(&query, cache), &of("o"), WIDTH));
            let normal = norm(&x, &of("norm2"));
            let [gate, up] = ["gate", "up"].map(|name| product(&normal, &of(name), INNER));
            let inner: Vec<f64> = gate.iter().zip(&up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up).collect();
            add(&mut x, &product(&inner, &of("down"), WIDTH));
        }
        product(&norm(&x, "norm.weight"), "head.weight", WORDS)
    }
}

fn wide(name: &str, shape: &[usize]) -> Vec<f64> {
    param(name, shape).into_iter().map(f64::from).collect()
}

fn row(table: &[f64], at: usize) -> &[f64] {
    &table[at * WIDTH..][..WIDTH]
}

fn product(x: &[f64], name: &str, outputs: usize) -> Vec<f64> {
    wide(name, &[outputs, x.len()]).chunks(x.len()).map(|w| w.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
}

fn norm(x: &[f64], name: &str) -> Vec<f64> {
    let scale = (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64 + f64::from(EPSILON)).sqrt().recip();
    x.iter().zip(wide(name, &[x.len()])).map(|(x, weight)| x * scale * weight).collect()
}

fn rotate(x: &mut [f64], position: usize) {
    for head in x.chunks_mut(HEAD) {
        let (left, right) = head.split_at_mut(HEAD / 2);
        for (pair, (x, y)) in left.iter_mut().zip(right).enumerate() {
            let (sin, cos) = (position as f64 * BASE.powf(-2.0 * pair as f64 / HEAD as f64)).sin_cos();
            (*x, *y) = (*x * cos - *y * sin, *y * cos + *x * sin);
        }
    }
}

fn attention(query: &[f64], [keys, values]: &[Vec<Vec<f64>>; 2]) -> Vec<f64> {
    let of_head = |(head, query): (usize, &[f64])| -> Vec<f64> {
        let own = head / (HEADS / SHARED) * HEAD;
        let score =
            |key: &Vec<f64>| query.iter().zip(&key[own..]).map(|(x, y)| x * y).sum::<f64>() / (HEAD as f64).sqrt();
        let shares: Vec<f64> = keys.iter().map(|key| score(key).exp()).collect();
        let all: f64 = shares.iter().sum();
        (0..HEAD).map(|i| shares.iter().zip(values).map(|(share, value)| share / all * value[own + i]).sum()).collect()
    };
    query.chunks(HEAD).enumerate().flat_map(of_head).collect()
}

fn add(x: &mut [f64], y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

fn main() -> Result<()> {
    let device = Device::open()?;
    let decoder = Weights::from_fn(param).load(&device, Decoder::new)?;
    let generator = Generator::new(&device, &decoder)?;
    let (words, scores) = generator.run()?;

    let before = device.metrics();
    let start = Instant::now();
    let again = generator.run()?;
    let time = start.elapsed();
    let did = device.metrics() - before;
    assert_eq!(again, (words.clone(), scores.clone()), "the same words and scores from the same start");
    let made = [did.pipelines_created, did.plans_made, did.buffers_created, did.bind_groups_created];
    assert_eq!(made, [0; 4], "a token makes nothing: no kernel, plan, buffer or bind group");

    let mut reference = Reference::default();
    let mut worst = 0.0_f64;
    for (at, scores) in scores.iter().enumerate() {
        let expected = reference.step(words[at], at);
        let differences = scores.iter().zip(&expected).map(|(x, y)| (f64::from(*x) - y).abs());
        worst = differences.fold(worst, f64::max);
    }
    println!("{} words, among them {:?} …, on {}", words.len(), &words[PROMPT.len()..][..8], device.info());
    println!(
        "{:.0} tokens a second; per token {} dispatches and {} submissions; scores at most {worst:.1e} from f64",
        POSITIONS as f64 / time.as_secs_f64(),
        did.dispatches / POSITIONS as u64,
        did.submissions / POSITIONS as u64,
    );
    assert!(worst < 1e-4, "{worst:e}");
    Ok(())
}
