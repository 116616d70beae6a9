//! Random batches against the same ops done in order on plain vectors, with every kind of planning.

use sortie::{Batch, Buffer, Device, DeviceOptions, Grid, Kernel, Reading, Result, Slot, device::Planning};

use crate::{cases, on_all_with, step};

const LEN: usize = 192;
/// Slices start at multiples of this: the strictest alignment there is.
const PIECE: usize = 64;

/// y[i] = 2 x[i] + 1 over the shorter of both; the rest of y stays.
const STEP: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < min(arrayLength(&x), arrayLength(&y)) { y[id.x] = 2u * x[id.x] + 1u; }
    }
";

/// A small generator of its own, so that a failing case is its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % sides
    }

    /// Start and end of a slice of whole pieces.
    fn range(&mut self) -> (usize, usize) {
        let start = self.roll(LEN / PIECE) * PIECE;
        let pieces = 1 + self.roll((LEN - start) / PIECE);
        (start, start + pieces * PIECE)
    }
}

/// What a batch works on, on the device and in plain vectors.
struct World {
    buffers: Vec<Buffer<u32>>,
    mirror: Vec<Vec<u32>>,
}

enum Memory<'a> {
    Buffer(&'a Buffer<u32>, usize, usize),
    Slot(Slot<u32>),
}

/// Records one random op on both sides.
fn record(
    dice: &mut Dice,
    kernel: &Kernel,
    batch: &Batch,
    world: &mut World,
    slots: &[Slot<u32>],
    expected: &mut Vec<Vec<u32>>,
    readings: &mut Vec<Reading<u32>>,
) {
    let buffers = world.buffers.len();
    let pick = |dice: &mut Dice| {
        let index = dice.roll(buffers + slots.len());
        let (start, end) = if index < buffers { dice.range() } else { (0, LEN) };
        (index, start, end)
    };
    let memory = |(index, start, end): (usize, usize, usize)| match index.checked_sub(buffers) {
        None => Memory::Buffer(&world.buffers[index], start, end),
        Some(slot) => Memory::Slot(slots[slot]),
    };
    let one = pick(dice);
    let mut other = pick(dice);
    while other.0 == one.0 {
        other = pick(dice);
    }
    let value = u32::try_from(dice.roll(1000)).unwrap_or(0);
    match dice.roll(9) {
        0..=3 => {
            let (from, to) = (memory(one), memory(other));
            match (&from, &to) {
                (Memory::Buffer(x, a, b), Memory::Buffer(y, c, d)) => {
                    batch.dispatch(kernel, &[&x.slice(*a..*b), &y.slice(*c..*d)], Grid::items(LEN))
                }
                (Memory::Buffer(x, a, b), Memory::Slot(y)) => {
                    batch.dispatch(kernel, &[&x.slice(*a..*b), y], Grid::items(LEN))
                }
                (Memory::Slot(x), Memory::Buffer(y, c, d)) => {
                    batch.dispatch(kernel, &[x, &y.slice(*c..*d)], Grid::items(LEN))
                }
                (Memory::Slot(x), Memory::Slot(y)) => batch.dispatch(kernel, &[x, y], Grid::items(LEN)),
            };
            let source: Vec<u32> = world.mirror[one.0][one.1..one.2].to_vec();
            let target = world.mirror[other.0][other.1..other.2].iter_mut();
            target.zip(source).for_each(|(y, x)| *y = step(x));
        }
        4 => {
            let length = (one.2 - one.1).min(other.2 - other.1);
            let (x, y) = ((one.0, one.1, one.1 + length), (other.0, other.1, other.1 + length));
            match (memory(x), memory(y)) {
                (Memory::Buffer(x, a, b), Memory::Buffer(y, c, d)) => batch.copy(x.slice(a..b), y.slice(c..d)),
                (Memory::Slot(x), Memory::Slot(y)) => batch.copy(x, y),
                // A slot is copied whole: only where lengths agree.
                (Memory::Buffer(x, a, b), Memory::Slot(y)) if b - a == LEN => batch.copy(x.slice(a..b), y),
                (Memory::Slot(x), Memory::Buffer(y, c, d)) if d - c == LEN => batch.copy(x, y.slice(c..d)),
                _ => return,
            }
            let source: Vec<u32> = world.mirror[x.0][x.1..x.2].to_vec();
            world.mirror[y.0][y.1..y.2].copy_from_slice(&source);
        }
        5 => {
            match memory(one) {
                Memory::Buffer(x, a, b) => batch.fill(x.slice(a..b), value),
                Memory::Slot(x) => batch.fill(x, value),
            }
            world.mirror[one.0][one.1..one.2].fill(value);
        }
        6 => {
            let data: Vec<u32> = (0..).take(one.2 - one.1).map(|index: u32| index.wrapping_mul(value)).collect();
            match memory(one) {
                Memory::Buffer(x, a, b) => batch.write(x.slice(a..b), &data),
                Memory::Slot(x) => batch.write(x, &data),
            }
            world.mirror[one.0][one.1..one.2].copy_from_slice(&data);
        }
        7 => {
            readings.push(match memory(one) {
                Memory::Buffer(x, a, b) => batch.read(x.slice(a..b)),
                Memory::Slot(x) => batch.read(x),
            });
            expected.push(world.mirror[one.0][one.1..one.2].to_vec());
        }
        _ if value < 30 => batch.split(),
        _ => batch.barrier(),
    }
}

fn run(device: &Device, kernel: &Kernel, seed: u64) -> Result<()> {
    let mut dice = Dice(seed);
    let mut world = World { buffers: Vec::new(), mirror: Vec::new() };
    for index in 0..3_u32 {
        let data: Vec<u32> = (0..).take(LEN).map(|at: u32| at * 10 + index).collect();
        world.buffers.push(device.upload(&data)?);
        world.mirror.push(data);
    }
    for _ in 0..2 {
        let batch = device.batch();
        let slots: Vec<Slot<u32>> = (0..3).map(|_| batch.scratch(LEN)).collect();
        world.mirror.truncate(world.buffers.len());
        world.mirror.extend(slots.iter().map(|_| vec![0; LEN]));
        let (mut expected, mut readings) = (Vec::new(), Vec::new());
        for _ in 0..5 + dice.roll(60) {
            record(&mut dice, kernel, &batch, &mut world, &slots, &mut expected, &mut readings);
        }
        batch.submit()?;
        for (index, (reading, expected)) in readings.into_iter().zip(expected).enumerate() {
            assert_eq!(reading.wait()?, expected, "seed {seed}, reading {index}");
        }
    }
    for (index, buffer) in world.buffers.iter().enumerate() {
        assert_eq!(buffer.download()?, world.mirror[index], "seed {seed}, buffer {index}");
    }
    Ok(())
}

#[test]
fn random_batches_do_what_their_ops_do_one_by_one() {
    for (reorder, reuse) in [(true, true), (true, false), (false, true), (false, false)] {
        let options = DeviceOptions::default().with_planning(Planning { reorder, reuse, ..Planning::default() });
        on_all_with(&options, |device| {
            let kernel = device.kernel(STEP)?;
            (0..cases(400)).try_for_each(|seed| run(device, &kernel, seed as u64))
        });
    }
}
