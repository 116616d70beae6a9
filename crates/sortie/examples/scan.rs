//! The prefix sum of ten million elements, in three kernels of one source and one submission: sum each block, scan the
//! sums of the blocks, scan each block from there.
//!
//! `cargo run --release -p sortie --example scan`
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::time::Instant;

use sortie::{Device, Grid, Result};

const ELEMENTS: usize = 10_000_000;
/// As in the source: 256 invocations, each with 16 elements in a row.
const BLOCK: usize = 256 * 16;

const SCAN: &str = "
    const LANES = 256u;
    const RUN = 16u;
    const BLOCK = LANES * RUN;
    @group(0) @binding(0) var<storage, read> input: array<u32>;
    @group(0) @binding(1) var<storage, read_write> block_sums: array<u32>;
    @group(0) @binding(2) var<storage, read_write> output: array<u32>;
    var<workgroup> shared_sums: array<u32, LANES>;

    // The sum of `own` over all lanes before this one. The sum over all lanes stays in the last of `shared_sums`.
    fn sum_before(lane: u32, own: u32) -> u32 {
        var sum = own;
        shared_sums[lane] = sum;
        workgroupBarrier();
        for (var distance = 1u; distance < LANES; distance *= 2u) {
            var below = 0u;
            if lane >= distance { below = shared_sums[lane - distance]; }
            workgroupBarrier();
            sum += below;
            shared_sums[lane] = sum;
            workgroupBarrier();
        }
        return sum - own;
    }

    // The sum of one lane's elements. Past the end of the input there are zeros.
    fn sum_of_run(start: u32) -> u32 {
        var sum = 0u;
        for (var at = start; at < min(start + RUN, arrayLength(&input)); at++) { sum += input[at]; }
        return sum;
    }

    @compute @workgroup_size(LANES)
    fn sum_blocks(@builtin(workgroup_id) block: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
        let own = sum_of_run(block.x * BLOCK + lane * RUN);
        let before = sum_before(lane, own);
        if lane == LANES - 1u { block_sums[block.x] = before + own; }
    }

    // One workgroup: each lane takes a run of blocks. Sums become the sums of all blocks before.
    @compute @workgroup_size(LANES)
    fn scan_block_sums(@builtin(local_invocation_index) lane: u32) {
        let blocks = arrayLength(&block_sums);
        let run = (blocks + LANES - 1u) / LANES;
        let start = min(lane * run, blocks);
        let end = min(start + run, blocks);
        var own = 0u;
        for (var at = start; at < end; at++) { own += block_sums[at]; }
        var sum = sum_before(lane, own);
        for (var at = start; at < end; at++) {
            let next = sum + block_sums[at];
            block_sums[at] = sum;
            sum = next;
        }
    }

    @compute @workgroup_size(LANES)
    fn scan_blocks(@builtin(workgroup_id) block: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
        let start = block.x * BLOCK + lane * RUN;
        var sum = block_sums[block.x] + sum_before(lane, sum_of_run(start));
        for (var at = start; at < min(start + RUN, arrayLength(&input)); at++) {
            sum += input[at];
            output[at] = sum;
        }
    }";

fn main() -> Result<()> {
    let device = Device::open()?;
    println!("on {}", device.info());
    // A kernel takes the bindings that its entry point uses: two, one and three of them.
    let module = device.module(SCAN)?;
    let sum_blocks = module.kernel("sum_blocks")?;
    let scan_block_sums = module.kernel("scan_block_sums")?;
    let scan_blocks = module.kernel("scan_blocks")?;

    let numbers: Vec<u32> = (0..ELEMENTS as u32).map(|at| at.wrapping_mul(2_654_435_761) >> 24).collect();
    let blocks = ELEMENTS.div_ceil(BLOCK);
    let input = device.upload(&numbers)?;
    let output = device.zeros::<u32>(ELEMENTS)?;

    let (clock, before) = (Instant::now(), device.metrics());
    let batch = device.batch();
    let sums = batch.scratch::<u32>(blocks);
    batch.dispatch(&sum_blocks, &[&input, &sums], Grid::groups(blocks));
    batch.dispatch(&scan_block_sums, &[&sums], Grid::groups(1));
    batch.dispatch(&scan_blocks, &[&input, &sums, &output], Grid::groups(blocks));
    batch.submit()?;
    let (time, did) = (clock.elapsed(), device.metrics() - before);
    println!(
        "{ELEMENTS} elements in {blocks} blocks, {} dispatches, {} submissions, {time:.1?} with compilation",
        did.dispatches, did.submissions
    );

    let found = output.download()?;
    let clock = Instant::now();
    let running = numbers.iter().scan(0_u32, |sum, number| {
        *sum = sum.wrapping_add(*number);
        Some(*sum)
    });
    let expected: Vec<u32> = running.collect();
    println!("the same in plain Rust: {:.1?}; the sum is {}", clock.elapsed(), expected[ELEMENTS - 1]);
    assert!(found == expected, "the scan differs from that of plain Rust");
    Ok(())
}
