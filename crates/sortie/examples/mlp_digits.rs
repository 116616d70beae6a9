//! A small network that classifies drawn digits. Its first layer compares an image with known ones, its second maps those
//! to digits, so no training is needed. The test images are shifted and noisy; all of them are one submission.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Instant;

use sortie::{Device, Tensor};

const SIDE: usize = 8;
const PIXELS: usize = SIDE * SIDE;

/// Images less similar than this do not vote.
const THRESHOLD: f32 = 0.6;

/// Five rows of three pixels, three bits per row.
const DIGITS: [[u8; 5]; 10] = [
    [7, 5, 5, 5, 7],
    [2, 6, 2, 2, 7],
    [7, 1, 7, 4, 7],
    [7, 1, 3, 1, 7],
    [5, 5, 7, 1, 1],
    [7, 4, 7, 1, 7],
    [7, 4, 7, 5, 7],
    [7, 1, 2, 2, 2],
    [7, 5, 7, 5, 7],
    [7, 5, 7, 1, 7],
];

/// A digit drawn at a place.
fn draw(digit: usize, x: usize, y: usize) -> Vec<f32> {
    let mut picture = vec![0.0; PIXELS];
    for (row, bits) in DIGITS[digit].iter().enumerate() {
        for column in (0..3).filter(|column| bits >> (2 - column) & 1 == 1) {
            picture[(y + row) * SIDE + x + column] = 1.0;
        }
    }
    picture
}

/// Mean zero and length one: the dot product of two images is their similarity.
fn normal(picture: &[f32]) -> Vec<f32> {
    let mean = picture.iter().sum::<f32>() / picture.len() as f32;
    let length = picture.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>().sqrt();
    picture.iter().map(|x| (x - mean) / length).collect()
}

struct Network<'b> {
    seen: Tensor<'b, f32>,
    digits: Tensor<'b, f32>,
}

impl<'b> Network<'b> {
    fn read(&self, pictures: Tensor<'b, f32>) -> Tensor<'b, u32> {
        let alike = (pictures.matmul(self.seen) - THRESHOLD).relu();
        // Squared, so that the most similar count for much more.
        (alike * alike).matmul(self.digits).argmax(1)
    }
}

fn main() -> sortie::Result<()> {
    let device = Device::open()?;
    let places: Vec<(usize, usize, usize)> = (0..10)
        .flat_map(|digit| (0..=SIDE - 3).flat_map(move |x| (0..=SIDE - 5).map(move |y| (digit, x, y))))
        .collect();
    let count = places.len();
    let known: Vec<Vec<f32>> = places.iter().map(|(digit, x, y)| normal(&draw(*digit, *x, *y))).collect();
    let seen: Vec<f32> = (0..PIXELS * count).map(|at| known[at % count][at / count]).collect();
    let digits: Vec<f32> = (0..count * 10).map(|at| f32::from(u8::from(places[at / 10].0 == at % 10))).collect();

    // Each with one pixel flipped.
    let pictures: Vec<Vec<f32>> = (0..)
        .zip(&places)
        .map(|(number, (digit, x, y)): (usize, _)| {
            let mut picture = draw(*digit, *x, *y);
            let spot = (number * 37 + 11) % PIXELS;
            picture[spot] = 0.5 * picture[spot] + 0.35;
            normal(&picture)
        })
        .collect();

    let (start, before) = (Instant::now(), device.metrics());
    let batch = device.batch();
    let given = batch.tensor_from(&pictures.concat(), [count, PIXELS]);
    let network =
        Network { seen: batch.tensor_from(&seen, [PIXELS, count]), digits: batch.tensor_from(&digits, [count, 10]) };
    let answers = network.read(given).read();
    let (ops, plan) = (batch.num_ops(), batch.plan()?);
    batch.submit()?;
    let answers = answers.wait()?;
    let after = device.metrics();
    println!(
        "{ops} ops, {} kernels compiled, {} dispatches, {} submissions, {} KiB at most, {:?} on {}",
        after.pipelines_created - before.pipelines_created,
        plan.dispatches(),
        after.submissions - before.submissions,
        plan.peak_bytes() / 1024,
        start.elapsed(),
        device.info(),
    );
    let right = answers.iter().zip(&places).filter(|(answer, (digit, ..))| **answer as usize == *digit).count();
    println!("{right} of {count} digits read");
    assert!(right * 100 >= count * 98, "{right} of {count}");
    Ok(())
}
