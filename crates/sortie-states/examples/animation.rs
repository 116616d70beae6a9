//! An animation from one state to another, three ways: θ straight, θ along the shorter arc, and on a curve that swings out.
#![expect(clippy::print_stdout, reason = "an example shows its answer")]

use sortie::Device;
use sortie_states::{Bezier, Layer, Result, Sequence, State, States, reference};

const FRAMES: u16 = 9;

fn main() -> Result<()> {
    let device = Device::open()?;
    let states = States::new(&device)?;
    let state = |rho, theta| vec![State::from_layers([Layer::new(rho, theta); 16])];
    let (a, b, out) = (state(-6, 2), state(4, 13), state(7, 0));

    let straight = Sequence { a: a.clone(), b: b.clone(), frames: FRAMES.into(), slerp: false };
    let shorter = Sequence { slerp: true, ..straight.clone() };
    let point = |frame| {
        let t = f32::from(frame) / f32::from(FRAMES - 1);
        Bezier { points: [a.clone(), out.clone(), b.clone()], t }
    };
    let points: Vec<_> = (0..FRAMES).map(point).collect();

    // All frames of all three are one submission.
    let before = device.metrics();
    let batch = device.batch();
    let frames = states.record_sequence(&batch, &[straight, shorter])?;
    let curve = states.record_quadratic_bezier(&batch, &points)?;
    batch.submit()?;
    let (frames, curve) = (frames.wait()?, curve.wait()?);
    let did = device.metrics() - before;

    let (straight, shorter) = frames.split_at(FRAMES.into());
    println!("frame   straight         shorter arc      curve: (ρ, θ) and |z| of layer 0");
    for (frame, ((straight, shorter), curve)) in straight.iter().zip(shorter).zip(&curve).enumerate() {
        println!("{frame:5}   {}   {}   {}", show(*straight), show(*shorter), show(*curve));
    }
    println!("{} submission, {} dispatches on {}", did.submissions, did.dispatches, device.info());
    assert_eq!((did.submissions, did.dispatches), (1, 2));

    let expected = |slerp| reference::interpolate_sequence(&a, &b, FRAMES.into(), slerp).map(|frames| frames.concat());
    assert_eq!((straight, shorter), (&expected(false)?[..], &expected(true)?[..]));
    Ok(())
}

fn show(state: State) -> String {
    let layer = state.layer(0);
    format!("({:2}, {:2}) {:5.2}", layer.rho(), layer.theta(), layer.magnitude())
}
