//! Gradients of 10,000 states, three ways: a submission for each state, a request for each state from sixteen threads whose requests share
//! batches, and all as one batch.
#![expect(clippy::print_stdout, reason = "an example shows its answer")]

use std::{thread, time::Instant};

use sortie::{BatchConfig, Device};
use sortie_states::{BatchedStates, Gradient, Result, State, States, reference};

const STATES: usize = 10_000;
const CALLERS: usize = 16;

fn main() -> Result<()> {
    let device = Device::open()?;
    let states = States::new(&device)?;
    // With room for all requests, so that no caller waits for the queue.
    let config = BatchConfig::default().with_queue_capacity(STATES);
    let batched = BatchedStates::new(&device, config)?;
    let many: Vec<_> = (0..STATES as u32).map(scrambled).collect();
    let expected = reference::compute_gradients(&many);
    println!("gradients of {STATES} states of 16 layers on {}", device.info());
    // The first use of a kernel is the slowest.
    states.gradients(&many[..1])?;
    batched.gradients(many[..1].to_vec()).wait()?;

    let measure = |what: &str, way: &dyn Fn() -> Result<Vec<Gradient>>| {
        let (before, begin) = (device.metrics(), Instant::now());
        let gradients = way()?;
        let (micros, did) = (1e6 * begin.elapsed().as_secs_f64() / STATES as f64, device.metrics() - before);
        assert!(agree(&gradients, &expected), "{what}: not what the reference says");
        println!("{what:<24} {micros:10.3} µs/state {:>8} submissions", did.submissions);
        Ok::<_, sortie_states::StatesError>(micros)
    };
    let single =
        measure("one submission each", &|| many.iter().map(|state| Ok(states.gradients(&[*state])?[0])).collect())?;
    let shared = measure("batched, 16 threads", &|| from_callers(&batched, &many))?;
    let whole = measure("one batch", &|| states.gradients(&many))?;

    let metrics = batched.metrics();
    println!("{} requests in {} batches", metrics.requests, metrics.batches);
    println!("ratio {:.1} batched, {:.1} as one batch; all agree with the reference", single / shared, single / whole);
    Ok(())
}

/// Each caller sends a request for each of its states, without waiting for the answer before the next.
fn from_callers(batched: &BatchedStates, many: &[State]) -> Result<Vec<Gradient>> {
    let call = |own: &[State]| -> sortie::Result<Vec<Gradient>> {
        let asked: Vec<_> = own.iter().map(|state| batched.gradients(vec![*state]).send()).collect();
        asked.into_iter().map(|asking| Ok(asking.wait()?[0])).collect()
    };
    let answers: sortie::Result<Vec<_>> = thread::scope(|scope| {
        let callers: Vec<_> = many.chunks(STATES / CALLERS).map(|own| scope.spawn(move || call(own))).collect();
        callers.into_iter().map(|caller| caller.join().expect("a caller does not panic")).collect()
    });
    Ok(answers?.concat())
}

/// A state with a pseudo-random byte in each layer.
fn scrambled(seed: u32) -> State {
    let byte = |layer: u32| (16 * seed + layer).wrapping_mul(0x9e37_79b1).to_be_bytes()[0];
    State::from_bytes(std::array::from_fn(|layer| byte(layer as u32)))
}

fn agree(answers: &[Gradient], expected: &[Gradient]) -> bool {
    let slopes = |gradients: &[Gradient]| -> Vec<_> { gradients.iter().flat_map(|gradient| gradient.layers).collect() };
    let (answers, expected) = (slopes(answers), slopes(expected));
    let close = |one: f32, other: f32| (one - other).abs() < 1e-3;
    answers.len() == expected.len()
        && answers.iter().zip(expected).all(|(one, other)| close(one.rho, other.rho) && close(one.theta, other.theta))
}
