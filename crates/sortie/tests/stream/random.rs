//! Any length, any window, any width, any way of bringing it: the same comes out as at once.

use proptest::{prelude::*, test_runner::Config};
use sortie::{Device, Stream, stream::Source};

use super::{kernel, numbers};

/// A row's elements out are sums of all its elements in, each with a shift of its own.
const SUMS: &str = "
    override width: u32 = 1;
    override out: u32 = 1;
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(16) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x >= arrayLength(&y) / out { return; }
        var sum = 0u;
        for (var i = 0u; i < width; i++) { sum += x[id.x * width + i] * (i + 1u); }
        for (var i = 0u; i < out; i++) { y[id.x * out + i] = sum + i; }
    }";

fn reference(all: &[u32], [width, out]: [usize; 2]) -> Vec<u32> {
    let sum = |row: &[u32]| row.iter().zip(1..).fold(0_u32, |sum, (x, at)| sum.wrapping_add(x.wrapping_mul(at)));
    all.chunks(width).flat_map(|row| (0..out as u32).map(move |at| sum(row).wrapping_add(at))).collect()
}

fn cases() -> u32 {
    if std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full") { 2000 } else { 200 }
}

proptest! {
    #![proptest_config(Config { cases: cases(), failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(8), ..Config::default() })]

    #[test]
    fn windows_never_show(
        rows in 0_usize..400,
        widths in [1_usize..5, 1_usize..5],
        window in 0_usize..3000,
        in_flight in 0_usize..5,
        chunk in 1_usize..200,
        kind in 0_usize..4,
        spare in 0_usize..5,
    ) {
        thread_local!(static DEVICE: Device = Device::cpu().expect("the built-in CPU"));
        let device = DEVICE.with(Device::clone);
        let module = device.module(SUMS).expect("it is valid");
        let module = module.with("width", widths[0] as f64).with("out", widths[1] as f64);
        let sums = module.kernel("main").expect("it compiles");
        let spare = spare.min(widths[0] - 1);
        let all = numbers((rows * widths[0] + spare) as u32);
        let source = match kind {
            0 => Source::slice(&all),
            1 => Source::items(all.iter().copied()),
            2 => Source::chunks(all.chunks(chunk)),
            _ => Source::reader(sortie::bytemuck::cast_slice::<u32, u8>(&all)),
        };
        let mut out = Vec::new();
        let mut stream = Stream::<u32, u32>::kernel(&device, &sums).rows(widths).window(window).in_flight(in_flight);
        let each = stream.window_rows().expect("rows are short");
        let outcome = stream.run(source, &mut out);
        let expected = reference(&all[..rows * widths[0]], widths);
        if spare == 0 {
            prop_assert_eq!(outcome.expect("whole rows").windows, rows.div_ceil(each) as u64);
            prop_assert_eq!(out, expected);
        } else {
            prop_assert!(outcome.is_err());
            prop_assert_eq!(&out[..], &expected[..rows / each * each * widths[1]]);
        }
    }
}

#[test]
fn the_reference_is_what_the_kernel_says() {
    assert_eq!(reference(&[1, 10, 2, 20], [2, 2]), [21, 22, 42, 43]);
    let device = Device::cpu().expect("the built-in CPU");
    assert_eq!(kernel(&device, SUMS).num_bindings(), 2);
}
