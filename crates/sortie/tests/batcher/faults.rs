//! What goes wrong goes wrong for those concerned alone.

use sortie::{BatchConfig, Batcher, Device, ErrorKind};

use crate::{Ask, Triple, devices, one, tripled};

#[test]
fn a_wrong_input_fails_its_caller_alone() -> sortie::Result<()> {
    let batcher = Batcher::new(&Device::cpu()?, Triple::default(), BatchConfig::default())?;
    let error = batcher.call_blocking(Ask::Wrong).expect_err("it is wrong");
    assert_eq!((error.kind(), error.to_string().contains("it is wrong")), (&ErrorKind::Input, true), "{error}");
    assert_eq!(batcher.call_blocking(one(1))?, [4]);
    assert_eq!(batcher.metrics().failed, 0);
    Ok(())
}

#[test]
fn a_panic_or_a_wrong_number_of_answers_fails_one_batch() -> sortie::Result<()> {
    let batcher = Batcher::new(&Device::cpu()?, Triple::default(), BatchConfig::default())?;
    for (input, kind) in [(Ask::Panic, ErrorKind::JobPanicked), (Ask::TooFew, ErrorKind::Shape)] {
        assert_eq!(batcher.call_blocking(input).expect_err("a fault").kind(), &kind);
        assert_eq!(batcher.call_blocking(one(1))?, [4]);
    }
    assert_eq!(batcher.metrics().failed, 2);
    Ok(())
}

#[test]
fn a_lost_device_fails_what_was_under_way_and_is_opened_again() {
    for (name, device) in devices() {
        let Some((wgpu, _)) = device.wgpu() else { continue };
        let batcher = Batcher::new(&device, Triple::default(), BatchConfig::default()).expect("a batcher");
        assert_eq!(batcher.call_blocking(one(5)).expect("an answer"), tripled(&[5]), "{name}");
        wgpu.destroy();
        let mut lost = 0;
        let answer = loop {
            match batcher.call_blocking(one(7)) {
                Ok(answer) => break answer,
                Err(error) => {
                    assert_eq!(error.kind(), &ErrorKind::DeviceLost, "{name}: {error}");
                    lost += 1;
                    assert!(lost < 10, "{name}: it does not come back");
                }
            }
        };
        assert_eq!(answer, tripled(&[7]), "{name}");
        assert_eq!(batcher.metrics().reopened, 1, "{name}");
    }
}
