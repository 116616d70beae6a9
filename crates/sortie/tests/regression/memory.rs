//! Writes without a submission were kept by wgpu without bound, and neither the budget nor the metrics saw them.

use sortie::{Device, DeviceOptions, ErrorKind, Result};

use super::on_all_with;

const BUDGET: u64 = 64 << 20;
/// 8 MiB.
const ELEMENTS: usize = 2 << 20;

fn on_all_within_the_budget(test: impl Fn(&Device) -> Result<()>) {
    on_all_with(&DeviceOptions::default().with_memory_budget(BUDGET), test);
}

#[test]
fn uploads_that_are_dropped_as_they_go_stay_within_the_budget() {
    on_all_within_the_budget(|device| {
        let data = vec![7_u32; ELEMENTS];
        for round in 0..40 {
            drop(device.upload(&data)?);
            assert!(device.memory_bytes() <= BUDGET, "{} bytes after {round}", device.memory_bytes());
        }
        device.trim();
        assert_eq!((device.memory_bytes(), device.metrics().staged_bytes), (0, 0));
        Ok(())
    });
}

#[test]
fn uploads_that_are_kept_fail_at_the_budget() {
    on_all_within_the_budget(|device| {
        let data = vec![7_u32; ELEMENTS];
        let mut kept = Vec::new();
        let error = loop {
            match device.upload(&data) {
                Ok(buffer) => kept.push(buffer),
                Err(error) => break error,
            }
        };
        assert!(matches!(error.kind(), ErrorKind::OutOfMemory { budget: BUDGET, .. }), "{error}");
        assert_eq!((kept.len(), device.memory_bytes()), (8, BUDGET));
        assert!(kept[7].download()?.iter().all(|element| *element == 7));
        Ok(())
    });
}

#[test]
fn writes_to_one_buffer_stay_within_the_budget() {
    on_all_within_the_budget(|device| {
        let x = device.zeros::<u32>(ELEMENTS)?;
        let mut data = vec![0_u32; ELEMENTS];
        for round in 0..40 {
            data[ELEMENTS - 1] = round;
            x.write(&data)?;
            assert!(device.memory_bytes() <= BUDGET, "{} bytes after {round}", device.memory_bytes());
        }
        assert_eq!(x.download()?[ELEMENTS - 1], 39);
        Ok(())
    });
}
