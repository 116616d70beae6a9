//! Batchers through their public face: answers, fairness, faults.

#[path = "../drivers/mod.rs"]
mod installed;

mod answers;
mod faults;
mod fleet;
mod isolation;
mod limits;
mod published;

use std::{
    panic::resume_unwind,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use sortie::{
    Batch, Device, Error, Grid, Kernel,
    batcher::{Answers, DeviceJob},
};

/// Every device that runs something.
fn devices() -> Vec<(&'static str, Device)> {
    let mut all: Vec<(&str, Device)> = installed::cpu().map(|device| ("cpu", device)).into_iter().collect();
    for driver in ["llvmpipe", "swiftshader"] {
        all.extend(installed::open(driver).map(|device| (driver, device)));
    }
    all
}

/// What a test wants to be computed: `3 x + 1` for each number, with faults on request.
#[derive(Default)]
struct Triple {
    /// Most requests that a batch has had.
    most: Arc<AtomicUsize>,
    /// Closed, recording waits.
    gate: Arc<Gate>,
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
enum Ask {
    Numbers(Vec<u32>),
    /// Of another kind: must not meet the others.
    Odd(u32),
    Wrong,
    /// Recording fails, panics, or the batch gives no answers.
    Fail,
    Panic,
    TooFew,
}

fn one(number: u32) -> Ask {
    Ask::Numbers(vec![number])
}

#[derive(Default)]
struct Gate {
    closed: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn set(&self, closed: bool) {
        *self.closed.lock().expect("no panic") = closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let closed = self.closed.lock().expect("no panic");
        drop(self.changed.wait_while(closed, |closed| *closed).expect("no panic"));
    }
}

impl DeviceJob for Triple {
    type Input = Ask;
    type Output = Vec<u32>;
    type Ready = Kernel;

    fn prepare(&self, device: &Device) -> sortie::Result<Kernel> {
        device.kernel(
            "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                if id.x < arrayLength(&x) { x[id.x] = 3u * x[id.x] + 1u; }
            }",
        )
    }

    fn rows(&self, input: &Ask) -> usize {
        if let Ask::Numbers(numbers) = input { numbers.len() } else { 1 }
    }

    fn key(&self, input: &Ask) -> u64 {
        u64::from(matches!(input, Ask::Odd(_)))
    }

    fn check(&self, input: &Ask) -> sortie::Result<()> {
        if *input == Ask::Wrong { Err(Error::input("it is wrong")) } else { Ok(()) }
    }

    fn answer_immediately(&self, input: &Ask) -> Option<Vec<u32>> {
        matches!(input, Ask::Numbers(numbers) if numbers.is_empty()).then(Vec::new)
    }

    fn record(&self, kernel: &mut Kernel, batch: &Batch, inputs: &[Ask]) -> sortie::Result<Answers<Vec<u32>>> {
        self.gate.pass();
        self.most.fetch_max(inputs.len(), Ordering::Relaxed);
        if inputs.contains(&Ask::Fail) {
            return Err(Error::input("recording fails, as was asked for"));
        }
        if inputs.contains(&Ask::Panic) {
            // A panic that the hook prints nothing of.
            resume_unwind(Box::new("as was asked for"));
        }
        let odd = inputs.iter().filter(|input| matches!(input, Ask::Odd(_))).count();
        assert!(odd == 0 || odd == inputs.len(), "keys never mix");
        let rows = |input: &Ask| match input {
            Ask::Numbers(numbers) => numbers.clone(),
            Ask::Odd(number) => vec![*number],
            Ask::Wrong | Ask::Fail | Ask::Panic | Ask::TooFew => vec![0],
        };
        let (all, lengths): (Vec<_>, Vec<_>) = inputs.iter().map(rows).map(|rows| (rows.clone(), rows.len())).unzip();
        let all = all.concat();
        let x = batch.tensor_from(&all, [all.len()]);
        batch.dispatch(kernel, &[&x], Grid::items(all.len()));
        let x = batch.read(x);
        let few = inputs.contains(&Ask::TooFew);
        Ok(Box::new(move || {
            let all = x.wait()?;
            let mut rest = &all[..];
            let mut answers: Vec<_> = lengths
                .iter()
                .map(|len| {
                    let (own, others) = rest.split_at(*len);
                    rest = others;
                    Ok(own.to_vec())
                })
                .collect();
            answers.truncate(if few { 0 } else { answers.len() });
            Ok(answers)
        }))
    }
}

fn tripled(numbers: &[u32]) -> Vec<u32> {
    numbers.iter().map(|number| number.wrapping_mul(3).wrapping_add(1)).collect()
}
