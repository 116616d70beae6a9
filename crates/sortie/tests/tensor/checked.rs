//! Generated kernels are compiled without run-time checks: random programs run theirs with a checker, which finds nothing.

use std::sync::LazyLock;

use proptest::{prelude::*, test_runner::RngSeed};
use sortie::{Device, DeviceOptions, ErrorKind, Grid, device::Planning};

use crate::random::{live, steps};

fn config() -> ProptestConfig {
    let all = std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full");
    ProptestConfig {
        cases: if all { 20_000 } else { 2_000 },
        rng_seed: RngSeed::Fixed(0x5027_1e78),
        failure_persistence: None,
        max_shrink_iters: 400,
        ..ProptestConfig::default()
    }
}

/// A built-in CPU that fails a dispatch with an access out of bounds, a race, or a read of workgroup memory that nothing
/// has written.
fn checking(fuse: bool) -> Device {
    let planning = Planning { fuse, ..Planning::default() };
    let options = DeviceOptions::default().with_check_races(true).with_check_unwritten(true).with_planning(planning);
    Device::cpu_with(options).expect("it is always there")
}

static DEVICES: LazyLock<[Device; 3]> =
    LazyLock::new(|| [Device::cpu().expect("it is always there"), checking(true), checking(false)]);

proptest! {
    #![proptest_config(config())]
    #[test]
    fn generated_kernels_stay_in_bounds(steps in steps(), kept in any::<u64>()) {
        let [native, checked @ ..] = &*DEVICES;
        let bits = |device| -> Result<Vec<u32>, TestCaseError> {
            let found = live(device, &steps, kept).map_err(|error| TestCaseError::fail(error.to_string()))?;
            Ok(found.concat().iter().map(|x| (x + 0.0).to_bits()).collect())
        };
        let expected = bits(native)?;
        for device in checked {
            prop_assert_eq!(&expected, &bits(device)?);
        }
    }
}

/// Without it, the silence of the checker would mean nothing.
#[test]
fn the_checker_finds_an_access_out_of_bounds() -> sortie::Result<()> {
    let device = checking(true);
    let kernel = device.kernel(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(1) fn main() { x[64] = 1u; }",
    )?;
    let x = device.zeros::<u32>(64)?;
    let batch = device.batch();
    batch.dispatch(&kernel, &[&x], Grid::groups(1));
    let error = batch.submit().expect_err("there are 64");
    assert_eq!(error.kind(), ErrorKind::Race);
    assert!(error.to_string().contains("past the end"), "{error}");
    Ok(())
}
