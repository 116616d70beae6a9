//! Image filters on a 4k picture: a separable blur, sharpening and edges. Four dispatches, one submission; the pictures in
//! between are scratch.
//!
//! `cargo run --release -p sortie --example filters`
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::time::Instant;

use sortie::{Device, Result, policy::Split};

const WIDTH: usize = 3840;
const HEIGHT: usize = 2160;

/// Brightness from 0 to 1, one number per pixel. Outside the picture, its border goes on.
const FILTERS: &str = "
    const WIDTH = 3840i;
    const HEIGHT = 2160i;
    @group(0) @binding(0) var<storage, read> picture: array<f32>;
    @group(0) @binding(1) var<storage, read> blurred: array<f32>;
    @group(0) @binding(2) var<storage, read_write> result: array<f32>;

    fn at(x: i32, y: i32) -> i32 {
        return clamp(y, 0, HEIGHT - 1) * WIDTH + clamp(x, 0, WIDTH - 1);
    }

    // Five pixels in a row, weighted 1, 4, 6, 4, 1.
    fn blur(id: vec3<u32>, step: vec2<i32>) -> f32 {
        let here = vec2<i32>(id.xy);
        let far = picture[at(here.x - 2 * step.x, here.y - 2 * step.y)] + picture[at(here.x + 2 * step.x, here.y + 2 * step.y)];
        let near = picture[at(here.x - step.x, here.y - step.y)] + picture[at(here.x + step.x, here.y + step.y)];
        return (far + 4.0 * near + 6.0 * picture[at(here.x, here.y)]) / 16.0;
    }

    // 3840 is 60 × 64, so no invocation is outside the picture.
    @compute @workgroup_size(64)
    fn blur_rows(@builtin(global_invocation_id) id: vec3<u32>) {
        result[id.y * u32(WIDTH) + id.x] = blur(id, vec2(1, 0));
    }

    @compute @workgroup_size(64)
    fn blur_columns(@builtin(global_invocation_id) id: vec3<u32>) {
        result[id.y * u32(WIDTH) + id.x] = blur(id, vec2(0, 1));
    }

    // What the blur took away, added once more.
    @compute @workgroup_size(64)
    fn sharpen(@builtin(global_invocation_id) id: vec3<u32>) {
        let here = id.y * u32(WIDTH) + id.x;
        result[here] = clamp(2.0 * picture[here] - blurred[here], 0.0, 1.0);
    }

    // The length of the gradient, by Sobel's weights.
    @compute @workgroup_size(64)
    fn edges(@builtin(global_invocation_id) id: vec3<u32>) {
        let x = i32(id.x);
        let y = i32(id.y);
        let nw = picture[at(x - 1, y - 1)];
        let ne = picture[at(x + 1, y - 1)];
        let sw = picture[at(x - 1, y + 1)];
        let se = picture[at(x + 1, y + 1)];
        let across = ne + se - nw - sw + 2.0 * (picture[at(x + 1, y)] - picture[at(x - 1, y)]);
        let down = sw + se - nw - ne + 2.0 * (picture[at(x, y + 1)] - picture[at(x, y - 1)]);
        result[id.y * u32(WIDTH) + id.x] = sqrt(across * across + down * down);
    }";

fn main() -> Result<()> {
    let device = Device::open()?;
    println!("on {}", device.info());
    let module = device.module(FILTERS)?;
    let [blur_rows, blur_columns] = [module.kernel("blur_rows")?, module.kernel("blur_columns")?];
    let [sharpen, edges] = [module.kernel("sharpen")?, module.kernel("edges")?];

    let pixels: Vec<f32> = (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| brightness(x, y))).collect();
    let picture = device.upload(&pixels)?;
    let sharp = device.zeros::<f32>(pixels.len())?;
    let outline = device.zeros::<f32>(pixels.len())?;

    let (clock, before) = (Instant::now(), device.metrics());
    let batch = device.batch();
    // Without this a batch is cut where a driver is so slow that it would block the screen.
    batch.split_by(Split::Never);
    let (rows, blurred) = (batch.scratch::<f32>(pixels.len()), batch.scratch::<f32>(pixels.len()));
    let grid = [WIDTH, HEIGHT];
    batch.dispatch(&blur_rows, &[&("picture", &picture), &("result", &rows)], grid);
    batch.dispatch(&blur_columns, &[&("picture", &rows), &("result", &blurred)], grid);
    batch.dispatch(&sharpen, &[&("picture", &picture), &("blurred", &blurred), &("result", &sharp)], grid);
    batch.dispatch(&edges, &[&("picture", &sharp), &("result", &outline)], grid);
    batch.submit()?;
    let (time, did) = (clock.elapsed(), device.metrics() - before);
    println!(
        "{WIDTH} × {HEIGHT} pixels, {} filters in {} submission, {time:.1?} with compilation",
        did.dispatches, did.submissions
    );
    assert_eq!((did.dispatches, did.submissions), (4, 1));

    // A sample of pixels in plain Rust, corners and borders among them.
    let (sharp, outline) = (sharp.download()?, outline.download()?);
    let clock = Instant::now();
    let xs = (0..WIDTH).step_by(97).chain([1, WIDTH - 2, WIDTH - 1]);
    let sample: Vec<[usize; 2]> =
        xs.flat_map(|x| (0..HEIGHT).step_by(83).chain([1, HEIGHT - 2, HEIGHT - 1]).map(move |y| [x, y])).collect();
    let mut edge_pixels = 0;
    for &[x, y] in &sample {
        let at = y * WIDTH + x;
        let (expected_sharp, expected_edge) = (sharpened(&pixels, x, y), edge(&pixels, x, y));
        assert!((sharp[at] - expected_sharp).abs() < 1e-5, "{} at {x}, {y}, not {expected_sharp}", sharp[at]);
        assert!((outline[at] - expected_edge).abs() < 1e-4, "{} at {x}, {y}, not {expected_edge}", outline[at]);
        edge_pixels += usize::from(expected_edge > 0.5);
    }
    println!("{} pixels checked, {edge_pixels} of them on an edge, {:.1?}", sample.len(), clock.elapsed());
    assert!(edge_pixels > 0);
    Ok(())
}

/// Rings on a slope.
fn brightness(x: usize, y: usize) -> f32 {
    let (across, down) = (x as f32 - 1500.0, y as f32 - 900.0);
    let ring = ((across * across + down * down).sqrt() / 40.0) as u32 % 2;
    0.5 * ring as f32 + 0.25 * (x as f32 / WIDTH as f32) + 0.25 * (y as f32 / HEIGHT as f32)
}

/// `by` pixels further along a side of `size` pixels. Outside the picture, its border goes on.
fn moved(from: usize, by: isize, size: usize) -> usize {
    from.saturating_add_signed(by).min(size - 1)
}

fn sharpened(pixels: &[f32], x: usize, y: usize) -> f32 {
    let weights = [(-2, 1.0), (-1, 4.0), (0, 6.0), (1, 4.0), (2, 1.0)];
    let pixel = |x, y| pixels[y * WIDTH + x];
    let row = |y| weights.iter().map(|&(by, weight)| weight * pixel(moved(x, by, WIDTH), y)).sum::<f32>() / 16.0;
    let blurred = weights.iter().map(|&(by, weight)| weight * row(moved(y, by, HEIGHT))).sum::<f32>() / 16.0;
    (2.0 * pixel(x, y) - blurred).clamp(0.0, 1.0)
}

fn edge(pixels: &[f32], x: usize, y: usize) -> f32 {
    let sharp = |across, down| sharpened(pixels, moved(x, across, WIDTH), moved(y, down, HEIGHT));
    let corners = [sharp(-1, -1), sharp(1, -1), sharp(-1, 1), sharp(1, 1)];
    let across = corners[1] + corners[3] - corners[0] - corners[2] + 2.0 * (sharp(1, 0) - sharp(-1, 0));
    let down = corners[2] + corners[3] - corners[0] - corners[1] + 2.0 * (sharp(0, 1) - sharp(0, -1));
    across.hypot(down)
}
