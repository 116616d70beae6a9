//! A stack of feed-forward blocks as in a language model: norm, gate and up, swish, product, down, and what came in added.
//!
//! The layers are a list of steps between places. So the same steps are run by the device, one at a time or together, and by the reference.

use std::error::Error;

use sortie::{Batch, Buffer, Device, Replay, Tensor};

use super::work::{Strategy, Trial, Work};
use crate::{
    lap::{Lap, UnderWay},
    number,
    pair::Pair,
    wrong::Wrong,
};

const ROWS: usize = 1;
const WIDTH: usize = 64;
const HIDDEN: usize = 176;
const EPSILON: f32 = 1e-6;

/// Products of a hundred or two terms, summed in whatever order the device likes, through all layers.
const TOLERANCE: f32 = 1e-4;

/// Where something lies between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// What goes into a layer comes out of the one before, in the other of two places.
    State(usize),
    Normed,
    Gate,
    Swished,
    Up,
    Hidden,
    Out,
}

const PLACES: [Place; 8] = [
    Place::State(0),
    Place::State(1),
    Place::Normed,
    Place::Gate,
    Place::Swished,
    Place::Up,
    Place::Hidden,
    Place::Out,
];

impl Place {
    fn index(self) -> usize {
        PLACES.iter().position(|place| *place == self).unwrap_or_else(|| unreachable!("states alternate between two"))
    }

    fn width(self) -> usize {
        match self {
            Self::State(_) | Self::Normed | Self::Out => WIDTH,
            Self::Gate | Self::Swished | Self::Up | Self::Hidden => HIDDEN,
        }
    }
}

/// One operation: what it reads and where it leaves its result.
#[derive(Clone, Copy, Debug)]
enum Step {
    RmsNorm(Place, Place),
    /// With the weights of this number.
    Matmul(Place, usize, Place),
    Swish(Place, Place),
    Mul(Place, Place, Place),
    Add(Place, Place, Place),
}

impl Step {
    /// All of so many layers.
    fn stack(layers: usize) -> Vec<Self> {
        let layer = |layer: usize| {
            let (from, to) = (Place::State(layer % 2), Place::State((layer + 1) % 2));
            [
                Self::RmsNorm(from, Place::Normed),
                Self::Matmul(Place::Normed, 3 * layer, Place::Gate),
                Self::Swish(Place::Gate, Place::Swished),
                Self::Matmul(Place::Normed, 3 * layer + 1, Place::Up),
                Self::Mul(Place::Swished, Place::Up, Place::Hidden),
                Self::Matmul(Place::Hidden, 3 * layer + 2, Place::Out),
                Self::Add(from, Place::Out, to),
            ]
        };
        (0..layers).flat_map(layer).collect()
    }

    fn to(self) -> Place {
        match self {
            Self::RmsNorm(_, to) | Self::Swish(_, to) => to,
            Self::Matmul(_, _, to) | Self::Mul(_, _, to) | Self::Add(_, _, to) => to,
        }
    }

    fn record(
        self,
        batch: &mut Batch,
        weights: &[Buffer<f32>],
        at: impl Fn(&mut Batch, Place) -> Tensor<f32>,
    ) -> Tensor<f32> {
        match self {
            Self::RmsNorm(x, _) => {
                let x = at(batch, x);
                batch.rms_norm(x, EPSILON)
            }
            Self::Matmul(x, number, to) => {
                let weights = batch.tensor(&weights[number], [x.width(), to.width()]);
                let x = at(batch, x);
                batch.matmul(x, weights)
            }
            Self::Swish(x, _) => {
                let x = at(batch, x);
                batch.swish(x)
            }
            Self::Mul(x, y, _) => {
                let (x, y) = (at(batch, x), at(batch, y));
                batch.mul(x, y)
            }
            Self::Add(x, y, _) => {
                let (x, y) = (at(batch, x), at(batch, y));
                batch.add(x, y)
            }
        }
    }

    /// The same in plain Rust.
    fn reference(self, weights: &[Vec<f32>], at: impl Fn(Place) -> Vec<f64>) -> Vec<f64> {
        let both =
            |x: Place, y: Place, f: fn(f64, f64) -> f64| at(x).iter().zip(at(y)).map(|(x, y)| f(*x, y)).collect();
        match self {
            Self::RmsNorm(x, _) => {
                let norm = |row: &[f64]| {
                    let mean = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
                    row.iter().map(|x| x / (mean + f64::from(EPSILON)).sqrt()).collect::<Vec<_>>()
                };
                at(x).chunks(x.width()).flat_map(norm).collect()
            }
            Self::Matmul(x, number, to) => {
                let (columns, weights) = (to.width(), &weights[number]);
                let term = |row: &[f64], column: usize| {
                    let terms = row.iter().enumerate().map(|(k, x)| x * f64::from(weights[k * columns + column]));
                    terms.sum::<f64>()
                };
                at(x).chunks(x.width()).flat_map(|row| (0..columns).map(|c| term(row, c)).collect::<Vec<_>>()).collect()
            }
            Self::Swish(x, _) => at(x).iter().map(|x| x / (1.0 + (-x).exp())).collect(),
            Self::Mul(x, y, _) => both(x, y, |x, y| x * y),
            Self::Add(x, y, _) => both(x, y, |x, y| x + y),
        }
    }
}

/// What lies on a device.
struct Resident {
    device: Device,
    weights: Vec<Buffer<f32>>,
    places: Vec<Buffer<f32>>,
}

impl Resident {
    fn new(device: &Device, weights: &[Vec<f32>]) -> sortie::Result<Self> {
        Ok(Self {
            device: device.clone(),
            weights: weights.iter().map(|weights| device.upload(weights)).collect::<sortie::Result<_>>()?,
            places: PLACES.iter().map(|place| device.zeros(ROWS * place.width())).collect::<sortie::Result<_>>()?,
        })
    }

    fn one_each(&self, steps: &[Step]) -> sortie::Result<()> {
        let mut under_way = UnderWay::on(&self.device);
        for step in steps {
            let mut batch = self.device.batch();
            let at = |batch: &mut Batch, place: Place| batch.tensor(&self.places[place.index()], [ROWS, place.width()]);
            let made = step.record(&mut batch, &self.weights, at);
            batch.store(made, &self.places[step.to().index()]);
            if under_way.one_by_one() {
                batch.submit()?;
            } else {
                under_way.push(batch.submit_async()?)?;
            }
        }
        under_way.land()
    }

    fn together(&self, steps: &[Step]) -> Batch {
        let mut batch = self.device.batch();
        let start = batch.tensor(&self.places[0], [ROWS, WIDTH]);
        let mut made = [start; PLACES.len()];
        let mut last = Place::State(0);
        for step in steps {
            last = step.to();
            made[last.index()] = step.record(&mut batch, &self.weights, |_, place| made[place.index()]);
        }
        batch.store(made[last.index()], &self.places[last.index()]);
        batch
    }
}

/// The stack on both devices.
pub(super) struct Ffn {
    layers: usize,
    steps: Vec<Step>,
    input: Vec<f32>,
    expected: Vec<f32>,
    plain: Resident,
    fusing: Resident,
    replay: Replay,
}

impl Ffn {
    pub(super) fn new(pair: &Pair, layers: usize) -> sortie::Result<Self> {
        let weights: Vec<Vec<f32>> = (0..3 * layers).map(weights).collect();
        let input: Vec<f32> = (0..ROWS * WIDTH).map(|at| (at as f32 * 0.37).sin()).collect();
        let steps = Step::stack(layers);
        let (plain, fusing) = (Resident::new(&pair.plain, &weights)?, Resident::new(&pair.fusing, &weights)?);
        Ok(Self {
            layers,
            expected: reference(&steps, &weights, &input),
            replay: fusing.together(&steps).freeze()?,
            steps,
            input,
            plain,
            fusing,
        })
    }

    fn result(&self) -> Place {
        self.steps.last().map_or(Place::State(0), |step| step.to())
    }
}

impl Work for Ffn {
    fn title(&self) -> String {
        format!("{} feed-forward layers", self.layers)
    }

    fn about(&self) -> String {
        format!(
            "{} ops: norm, gate, up, swish, product, down and residual, a row of {WIDTH}, {HIDDEN} in between, weights resident. Checked against plain \
             Rust in 64 bits; off by at most {TOLERANCE:e} of the largest value.",
            number::whole(self.steps.len())
        )
    }

    fn unit(&self) -> &'static str {
        "op"
    }

    fn count(&self) -> usize {
        self.steps.len()
    }

    fn ways(&self) -> &'static [Strategy] {
        &[Strategy::Each, Strategy::Batched, Strategy::Fused, Strategy::Replayed]
    }

    fn run(&mut self, way: Strategy) -> Result<Trial, Box<dyn Error>> {
        let on = if matches!(way, Strategy::Fused | Strategy::Replayed) { &self.fusing } else { &self.plain };
        on.places[0].write(&self.input)?;
        // What an earlier run left must not pass for an answer.
        on.places[1].write(&[0.0; ROWS * WIDTH])?;
        let lap = Lap::of(&on.device, || match way {
            Strategy::Each => on.one_each(&self.steps),
            Strategy::Replayed => self.replay.run().submit(),
            _ => on.together(&self.steps).submit(),
        })?;
        let answer = on.places[self.result().index()].download()?;
        let named = format!("{}, {way}", self.title());
        Wrong::unless_near(&named, "element", &answer, &self.expected, TOLERANCE)?;
        Ok(Trial { lap, count: self.steps.len(), service: None })
    }
}

/// Of one matrix: any numbers, small enough that nothing grows from layer to layer.
fn weights(number: usize) -> Vec<f32> {
    let rows = if number % 3 == 2 { HIDDEN } else { WIDTH };
    let scale = 1.0 / (rows as f32).sqrt();
    (0..WIDTH * HIDDEN).map(|at| (((at * 7919 + number * 104_729) % 2003) as f32 / 1001.0 - 1.0) * scale).collect()
}

fn reference(steps: &[Step], weights: &[Vec<f32>], input: &[f32]) -> Vec<f32> {
    let mut places: Vec<Vec<f64>> = vec![Vec::new(); PLACES.len()];
    places[0] = input.iter().copied().map(f64::from).collect();
    let mut last = Place::State(0);
    for step in steps {
        last = step.to();
        places[last.index()] = step.reference(weights, |place| places[place.index()].clone());
    }
    places[last.index()].iter().map(|x| *x as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_gives_the_reference_s_answer_and_one_batch_is_one_submission() -> Result<(), Box<dyn Error>> {
        for layers in [1, 2] {
            let mut ffn = Ffn::new(&Pair::open(Some("cpu"))?, layers)?;
            assert!(ffn.expected.iter().any(|x| x.abs() > 0.1) && ffn.expected != ffn.input);
            for way in ffn.ways() {
                let submissions = ffn.run(*way)?.lap.submissions;
                assert_eq!(submissions, if *way == Strategy::Each { 7 * layers as u64 } else { 1 }, "{way}");
            }
        }
        Ok(())
    }
}
