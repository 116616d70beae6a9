//! k-means: each point joins its nearest centre, each centre moves to the mean of its points. One iteration is frozen
//! into a replay. Points are added up with atomics, and since coordinates are whole numbers, any order gives the same sum:
//! the result equals that of plain Rust bit by bit.
//!
//! `cargo run --release -p sortie --example kmeans`
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::time::Instant;

use sortie::{Device, Grid, Result};

const POINTS: usize = 50_000;
const CENTRES: usize = 8;
const ITERATIONS: usize = 20;
/// Coordinates are below this: squared distances fit 31 bits, and sums of all points 32.
const SIDE: u32 = 16_384;

const KMEANS: &str = "
    const CENTRES = 8u;
    @group(0) @binding(0) var<storage, read> points: array<vec2<u32>>;
    @group(0) @binding(1) var<storage, read_write> centres: array<vec2<u32>>;
    @group(0) @binding(2) var<storage, read_write> labels: array<u32>;
    // The sum of x, the sum of y and the number of points of each centre.
    @group(0) @binding(3) var<storage, read_write> sums: array<atomic<u32>>;
    var<workgroup> group_sums: array<atomic<u32>, 3 * CENTRES>;

    @compute @workgroup_size(256)
    fn assign(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
        if id.x < arrayLength(&points) {
            let point = points[id.x];
            var nearest = 0u;
            var least = 0xffffffffu;
            for (var at = 0u; at < CENTRES; at++) {
                let apart = vec2<i32>(point) - vec2<i32>(centres[at]);
                let distance = u32(apart.x * apart.x + apart.y * apart.y);
                if distance < least { least = distance; nearest = at; }
            }
            labels[id.x] = nearest;
            atomicAdd(&group_sums[3u * nearest], point.x);
            atomicAdd(&group_sums[3u * nearest + 1u], point.y);
            atomicAdd(&group_sums[3u * nearest + 2u], 1u);
        }
        // Atomics of a workgroup are cheap: only its sums go to memory.
        workgroupBarrier();
        if lane < 3u * CENTRES { atomicAdd(&sums[lane], atomicLoad(&group_sums[lane])); }
    }

    @compute @workgroup_size(CENTRES)
    fn update(@builtin(local_invocation_index) at: u32) {
        let count = atomicExchange(&sums[3u * at + 2u], 0u);
        let sum = vec2(atomicExchange(&sums[3u * at], 0u), atomicExchange(&sums[3u * at + 1u], 0u));
        if count > 0u { centres[at] = sum / count; }
    }";

fn main() -> Result<()> {
    let device = Device::open()?;
    println!("on {}", device.info());
    let module = device.module(KMEANS)?;
    let (assign, update) = (module.kernel("assign")?, module.kernel("update")?);

    let data = clouds();
    let first: Vec<[u32; 2]> = data[..CENTRES].to_vec();
    let (points, centres) = (device.upload(&data)?, device.upload(&first)?);
    let labels = device.zeros::<u32>(POINTS)?;
    let sums = device.zeros::<u32>(3 * CENTRES)?;

    // Bindings by name: their order does not matter.
    let batch = device.batch();
    let bindings: [&dyn sortie::Bind; 4] =
        [&("points", &points), &("centres", &centres), &("labels", &labels), &("sums", &sums)];
    batch.dispatch(&assign, &bindings, POINTS).label("assign");
    batch.dispatch(&update, &[&("sums", &sums), &("centres", &centres)], Grid::groups(1)).label("update");
    let iteration = batch.freeze()?;

    let clock = Instant::now();
    for _ in 0..ITERATIONS {
        iteration.run().submit()?;
    }
    let time = clock.elapsed();
    println!("{ITERATIONS} iterations over {POINTS} points and {CENTRES} centres in {time:.1?}");

    let clock = Instant::now();
    let (expected_centres, expected_labels, spreads) = in_plain_rust(&data, first);
    println!("the same in plain Rust: {:.1?}", clock.elapsed());
    assert_eq!(centres.download()?, expected_centres);
    assert!(labels.download()? == expected_labels, "labels differ from those of plain Rust");

    let (start, end) = (spreads[0].sqrt(), spreads[ITERATIONS - 1].sqrt());
    println!("a point's distance from its centre (root of the mean square): {start:.0} at first, {end:.0} at last");
    assert!(end < start);
    Ok(())
}

/// Points around eight places, the same on every machine.
fn clouds() -> Vec<[u32; 2]> {
    let mut state = 1_u32;
    let mut random = move |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    let places: Vec<[u32; 2]> = (0..CENTRES).map(|_| [random(SIDE - 3000), random(SIDE - 3000)]).collect();
    // The sum of three numbers is near the middle more often than not.
    let mut offset = move || random(1000) + random(1000) + random(1000);
    (0..POINTS).map(|at| places[at % 7 * at % CENTRES].map(|place| place + offset())).collect()
}

/// Centres, labels, and the mean squared distance of each iteration.
fn in_plain_rust(points: &[[u32; 2]], mut centres: Vec<[u32; 2]>) -> (Vec<[u32; 2]>, Vec<u32>, Vec<f64>) {
    let (mut labels, mut spreads) = (vec![0; points.len()], Vec::new());
    for _ in 0..ITERATIONS {
        let (mut sums, mut spread) = ([[0_u32; 3]; CENTRES], 0.0);
        for (point, label) in points.iter().zip(&mut labels) {
            let distance =
                |centre: &[u32; 2]| point[0].abs_diff(centre[0]).pow(2) + point[1].abs_diff(centre[1]).pow(2);
            let nearest = (0..CENTRES).min_by_key(|at| distance(&centres[*at])).expect("there are centres");
            *label = nearest as u32;
            spread += f64::from(distance(&centres[nearest])) / POINTS as f64;
            let [x, y, count] = sums[nearest];
            sums[nearest] = [x + point[0], y + point[1], count + 1];
        }
        for (centre, [x, y, count]) in centres.iter_mut().zip(sums).filter(|(_, sums)| sums[2] > 0) {
            *centre = [x / count, y / count];
        }
        spreads.push(spread);
    }
    (centres, labels, spreads)
}
