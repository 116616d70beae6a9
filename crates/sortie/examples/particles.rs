//! Particles in a box that push each other apart. Each step sorts them into the cells of a grid on the device, by counting
//! (histogram, scan, scatter), so that a particle meets only those of the nine cells around it. Two steps are frozen into
//! a replay.
//!
//! `cargo run --release -p sortie --example particles`
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::time::Instant;

use sortie::{Batch, Buffer, Device, Grid, Kernel, Result};

const PARTICLES: usize = 4096;
const STEPS: usize = 40;
/// The box is one long and wide, and has 32 × 32 cells. Particles push each other if they are closer than a cell.
const CELLS: usize = 32 * 32;
const REACH: f32 = 1.0 / 32.0;
const PUSH: f32 = 20.0;
const TIME: f32 = 0.002;

const SOURCE: &str = "
    const SIDE = 32u;
    const CELLS = SIDE * SIDE;
    const REACH = 1.0 / 32.0;
    const PUSH = 20.0;
    const TIME = 0.002;
    // Position and velocity.
    @group(0) @binding(0) var<storage, read> particles: array<vec4<f32>>;
    @group(0) @binding(1) var<storage, read_write> counts: array<atomic<u32>>;
    // Where the particles of each cell start in `order`; at the end, the number of particles.
    @group(0) @binding(2) var<storage, read_write> starts: array<u32>;
    // The particles' numbers, cell by cell.
    @group(0) @binding(3) var<storage, read_write> order: array<u32>;
    @group(0) @binding(4) var<storage, read_write> moved: array<vec4<f32>>;

    fn cell(position: vec2<f32>) -> vec2<u32> {
        return min(vec2<u32>(position * f32(SIDE)), vec2(SIDE - 1u));
    }

    @compute @workgroup_size(64)
    fn count(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x >= arrayLength(&particles) { return; }
        let at = cell(particles[id.x].xy);
        atomicAdd(&counts[at.y * SIDE + at.x], 1u);
    }

    // One workgroup, four cells to an invocation.
    var<workgroup> sums: array<u32, 256>;
    @compute @workgroup_size(256)
    fn scan(@builtin(local_invocation_index) lane: u32) {
        var own = array<u32, 4>();
        var sum = 0u;
        for (var at = 0u; at < 4u; at++) { own[at] = atomicLoad(&counts[4u * lane + at]); sum += own[at]; }
        sums[lane] = sum;
        workgroupBarrier();
        for (var distance = 1u; distance < 256u; distance *= 2u) {
            var below = 0u;
            if lane >= distance { below = sums[lane - distance]; }
            workgroupBarrier();
            sums[lane] += below;
            workgroupBarrier();
        }
        var start = sums[lane] - sum;
        for (var at = 0u; at < 4u; at++) {
            starts[4u * lane + at] = start;
            start += own[at];
        }
        if lane == 255u { starts[CELLS] = start; }
    }

    // Counts back down to zero, so that they are ready for the next step.
    @compute @workgroup_size(64)
    fn scatter(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x >= arrayLength(&particles) { return; }
        let at = cell(particles[id.x].xy);
        let number = at.y * SIDE + at.x;
        order[starts[number] + atomicSub(&counts[number], 1u) - 1u] = id.x;
    }

    @compute @workgroup_size(64)
    fn advance(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x >= arrayLength(&particles) { return; }
        let own = particles[id.x];
        let at = cell(own.xy);
        let first = max(at, vec2(1u)) - 1u;
        let last = min(at + 1u, vec2(SIDE - 1u));
        var force = vec2(0.0);
        for (var y = first.y; y <= last.y; y++) {
            // Cells of a row are neighbours in `order`, too.
            for (var next = starts[y * SIDE + first.x]; next < starts[y * SIDE + last.x + 1u]; next++) {
                let apart = own.xy - particles[order[next]].xy;
                let distance = length(apart);
                if order[next] != id.x && distance < REACH {
                    force += PUSH * (REACH - distance) * apart / max(distance, 1e-6);
                }
            }
        }
        var velocity = own.zw + TIME * force;
        let position = own.xy + TIME * velocity;
        // The walls send them back.
        velocity = select(velocity, -velocity, (position < vec2(0.0)) | (position > vec2(1.0)));
        moved[id.x] = vec4(clamp(position, vec2(0.0), vec2(1.0)), velocity);
    }";

/// Everything a step needs but the particles themselves.
struct Simulation {
    kernels: [Kernel; 4],
    counts: Buffer<u32>,
    starts: Buffer<u32>,
    order: Buffer<u32>,
}

impl Simulation {
    fn new(device: &Device) -> Result<Self> {
        let module = device.module(SOURCE)?;
        let kernel = |entry| module.kernel(entry);
        Ok(Self {
            kernels: [kernel("count")?, kernel("scan")?, kernel("scatter")?, kernel("advance")?],
            counts: device.zeros(CELLS)?,
            starts: device.zeros(CELLS + 1)?,
            order: device.zeros(PARTICLES)?,
        })
    }

    fn step(&self, batch: &Batch, now: &Buffer<[f32; 4]>, moved: &Buffer<[f32; 4]>) {
        let ([count, scan, scatter, advance], Self { counts, starts, order, .. }) = (&self.kernels, self);
        batch.dispatch(count, &[now, counts], PARTICLES);
        batch.dispatch(scan, &[counts, starts], Grid::groups(1));
        batch.dispatch(scatter, &[now, counts, starts, order], PARTICLES);
        batch.dispatch(advance, &[now, starts, order, moved], PARTICLES);
    }
}

fn main() -> Result<()> {
    let device = Device::open()?;
    println!("on {}", device.info());
    let simulation = Simulation::new(&device)?;
    let one = device.upload(&particles())?;
    let other = device.zeros::<[f32; 4]>(PARTICLES)?;
    let batch = device.batch();
    simulation.step(&batch, &one, &other);
    simulation.step(&batch, &other, &one);
    let two_steps = batch.freeze()?;

    let (clock, before) = (Instant::now(), device.metrics());
    for _ in 0..STEPS / 2 {
        two_steps.run().submit()?;
    }
    let (time, did) = (clock.elapsed(), device.metrics() - before);
    println!(
        "{STEPS} steps of {PARTICLES} particles, {} dispatches in {} submissions, {time:.1?}",
        did.dispatches, did.submissions
    );

    // One more step, against plain Rust from the same state. Every particle is in its cell's part of the order, once.
    let batch = device.batch();
    simulation.step(&batch, &one, &other);
    batch.submit()?;
    let (old, found) = (one.download()?, other.download()?);
    let (starts, order) = (simulation.starts.download()?, simulation.order.download()?);
    let mut seen = vec![false; PARTICLES];
    for (cell, bounds) in starts.windows(2).enumerate() {
        for particle in &order[bounds[0] as usize..bounds[1] as usize] {
            let [x, y] = [0, 1].map(|axis| ((old[*particle as usize][axis] * 32.0) as usize).min(31));
            assert_eq!(y * 32 + x, cell, "particle {particle} is in another cell");
            assert!(!std::mem::replace(&mut seen[*particle as usize], true), "particle {particle} is there twice");
        }
    }
    assert!(seen.iter().all(|seen| *seen));

    let clock = Instant::now();
    let expected = step_in_plain_rust(&old);
    println!("one step in plain Rust, every pair of particles: {:.1?}", clock.elapsed());
    // Forces are added up in another order.
    let apart = |(a, b): (&[f32; 4], &[f32; 4])| (0..4).map(|at| (a[at] - b[at]).abs()).fold(0.0, f32::max);
    let worst = found.iter().zip(&expected).map(apart).fold(0.0, f32::max);
    assert!(worst < 1e-4, "{worst} away from what plain Rust computes");
    Ok(())
}

/// Particles at rest, the same on every machine.
fn particles() -> Vec<[f32; 4]> {
    let mut state = 1_u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    (0..PARTICLES).map(|_| [random(), random(), 0.0, 0.0]).collect()
}

fn step_in_plain_rust(old: &[[f32; 4]]) -> Vec<[f32; 4]> {
    let step = |(at, [x, y, vx, vy]): (usize, &[f32; 4])| {
        let mut force = [0.0; 2];
        for (_, other) in old.iter().enumerate().filter(|(other, _)| *other != at) {
            let apart = [x - other[0], y - other[1]];
            let distance = (apart[0] * apart[0] + apart[1] * apart[1]).sqrt();
            if distance < REACH {
                force = [0, 1].map(|axis| force[axis] + PUSH * (REACH - distance) * apart[axis] / distance.max(1e-6));
            }
        }
        let [(x, vx), (y, vy)] = [(x, vx, force[0]), (y, vy, force[1])].map(|(position, velocity, force)| {
            let velocity = velocity + TIME * force;
            let position = position + TIME * velocity;
            (position.clamp(0.0, 1.0), if (0.0..=1.0).contains(&position) { velocity } else { -velocity })
        });
        [x, y, vx, vy]
    };
    old.iter().enumerate().map(step).collect()
}
