//! The heat equation on a plate, written as a picture. A replay of 50 time steps runs ten times: 500 dispatches in ten
//! submissions, and the plate never leaves the device in between.
//!
//! `cargo run --release -p sortie --example heat -- plate.png` (without an argument, into the directory for temporary
//! files)
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::{error::Error, fs::File, io::BufWriter, path::Path, time::Instant};

use sortie::Device;

const WIDTH: u32 = 256;
const HEIGHT: u32 = 192;
const STEPS_PER_RUN: usize = 50;
const RUNS: usize = 10;
/// Conductivity × time step / cell size². The scheme is stable up to 0.25.
const RATE: f32 = 0.2;

/// A row of 64 invocations per workgroup. Indices are clamped to the plate, so no heat leaves through its edges.
const STEP: &str = "
    override width: u32;
    override height: u32;
    var<immediate> rate: f32;
    @group(0) @binding(0) var<storage, read> old: array<f32>;
    @group(0) @binding(1) var<storage, read_write> next: array<f32>;
    @compute @workgroup_size(64)
    fn step(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x >= width { return; }
        let row = id.y * width;
        let at = row + id.x;
        let west = old[row + max(id.x, 1u) - 1u];
        let east = old[row + min(id.x + 1u, width - 1u)];
        let north = old[(max(id.y, 1u) - 1u) * width + id.x];
        let south = old[min(id.y + 1u, height - 1u) * width + id.x];
        next[at] = old[at] + rate * (west + east + north + south - 4.0 * old[at]);
    }";

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::open()?;
    println!("on {}", device.info());
    let module = device.module(STEP)?;
    let step = module.with("width", WIDTH).with("height", HEIGHT).kernel("step")?;

    let start = plate();
    let now = device.upload(&start)?;
    let next = device.zeros::<f32>(start.len())?;

    // Two buffers take turns. That each step waits for the one before is read off the kernel.
    let batch = device.batch();
    for _ in 0..STEPS_PER_RUN / 2 {
        batch.dispatch(&step, &[&now, &next], [WIDTH, HEIGHT]).immediates(&RATE);
        batch.dispatch(&step, &[&next, &now], [WIDTH, HEIGHT]).immediates(&RATE);
    }
    let replay = batch.freeze()?;

    let (clock, before) = (Instant::now(), device.metrics());
    for _ in 0..RUNS {
        replay.run().submit()?;
    }
    let (time, did) = (clock.elapsed(), device.metrics() - before);
    let found = now.download()?;
    println!(
        "{} steps of {WIDTH} × {HEIGHT} cells in {} submissions, {time:.1?}",
        RUNS * STEPS_PER_RUN,
        did.submissions
    );

    let clock = Instant::now();
    let expected = in_plain_rust(start);
    println!("the same in plain Rust: {:.1?}", clock.elapsed());
    let worst = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    // Drivers may contract a product and a sum into one rounding.
    assert!(worst < 1e-4, "{worst} away from what plain Rust computes");

    let path = std::env::args_os().nth(1).map_or_else(|| std::env::temp_dir().join("sortie-heat.png"), Into::into);
    write_png(&path, &found)?;
    println!("written to {}", path.display());
    Ok(())
}

/// A cold plate with a hot disc and a hot bar. Temperatures are between 0 and 1.
fn plate() -> Vec<f32> {
    let hot = |x: i64, y: i64| {
        let disc = (x - 70).pow(2) + (y - 80).pow(2) < 900;
        let bar = (150..230).contains(&x) && (120..135).contains(&y);
        if disc || bar { 1.0 } else { 0.0 }
    };
    (0..i64::from(HEIGHT)).flat_map(|y| (0..i64::from(WIDTH)).map(move |x| hot(x, y))).collect()
}

fn in_plain_rust(mut now: Vec<f32>) -> Vec<f32> {
    let (width, height) = (WIDTH as usize, HEIGHT as usize);
    let mut next = now.clone();
    for _ in 0..RUNS * STEPS_PER_RUN {
        for y in 0..height {
            for x in 0..width {
                let at = |x: usize, y: usize| now[y * width + x];
                let sides = at(x.max(1) - 1, y) + at((x + 1).min(width - 1), y);
                let ends = at(x, y.max(1) - 1) + at(x, (y + 1).min(height - 1));
                next[y * width + x] = at(x, y) + RATE * (sides + ends - 4.0 * at(x, y));
            }
        }
        std::mem::swap(&mut now, &mut next);
    }
    now
}

/// Black is cold, then red, yellow, and white is hot.
fn write_png(path: &Path, plate: &[f32]) -> Result<(), Box<dyn Error>> {
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), WIDTH, HEIGHT);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let level = |from: f32, heat: f32| ((heat * 3.0 - from).clamp(0.0, 1.0) * 255.0) as u8;
    let pixels: Vec<u8> = plate.iter().flat_map(|heat| [0.0, 1.0, 2.0].map(|from| level(from, *heat))).collect();
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(())
}
