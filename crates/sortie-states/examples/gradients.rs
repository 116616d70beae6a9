//! Gradients of 10,000 states: as one batch, and one state at a time.
#![expect(clippy::print_stdout, reason = "an example shows its answer")]

use std::time::Instant;

use sortie::Device;
use sortie_states::{Gradient, Result, State, States, reference};

const STATES: u32 = 10_000;

/// So many are asked for one at a time; all of them would take twenty times as long.
const SINGLE: usize = 500;

fn main() -> Result<()> {
    let device = Device::open()?;
    let states = States::new(&device)?;
    let many: Vec<_> = (0..STATES).map(scrambled).collect();
    // The first use of a kernel is the slowest.
    states.gradients(&many[..1])?;

    let begin = Instant::now();
    let batched = states.gradients(&many)?;
    let batched_time = begin.elapsed();

    let begin = Instant::now();
    let single: Vec<_> = many[..SINGLE].iter().map(|state| states.gradients(&[*state])).collect::<Result<_>>()?;
    let single_time = begin.elapsed();

    let expected = reference::compute_gradients(&many);
    assert!(agree(&batched, &expected), "the batch differs from the reference");
    assert!(agree(&single.concat(), &expected[..SINGLE]), "single states differ from the reference");

    let each = |time: std::time::Duration, states: usize| 1e6 * time.as_secs_f64() / states as f64;
    let (batched, single) = (each(batched_time, many.len()), each(single_time, SINGLE));
    println!("gradients of {STATES} states of 16 layers on {}", device.info());
    println!("one batch         {batched:10.3} µs/state, {STATES} states measured");
    println!("one at a time     {single:10.3} µs/state, {SINGLE} states measured");
    println!("ratio {:.1}", single / batched);
    println!("both agree with the reference");
    Ok(())
}

/// A state of which no two layers need be alike.
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
