//! What goes wrong goes wrong for those concerned alone.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use sortie::{
    Batch, BatchConfig, Batcher, Device, ErrorKind,
    batcher::{Answers, DeviceJob},
};

use crate::{Ask, Gate, Triple, devices, one, tripled};

#[test]
fn a_wrong_input_fails_its_caller_alone() -> sortie::Result<()> {
    let batcher = Batcher::new(&Device::cpu()?, Triple::default(), BatchConfig::default())?;
    let error = batcher.call_blocking(Ask::Wrong).expect_err("it is wrong");
    assert_eq!((error.kind(), error.to_string().contains("it is wrong")), (ErrorKind::Input, true), "{error}");
    assert_eq!(batcher.call_blocking(one(1))?, [4]);
    assert_eq!(batcher.metrics().failed, 0);
    Ok(())
}

#[test]
fn a_panic_or_a_wrong_number_of_answers_fails_one_batch() -> sortie::Result<()> {
    let batcher = Batcher::new(&Device::cpu()?, Triple::default(), BatchConfig::default())?;
    for (input, kind) in [(Ask::Panic, ErrorKind::JobPanicked), (Ask::TooFew, ErrorKind::Shape)] {
        assert_eq!(batcher.call_blocking(input).expect_err("a fault").kind(), kind);
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
                    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{name}: {error}");
                    lost += 1;
                    assert!(lost < 10, "{name}: it does not come back");
                }
            }
        };
        assert_eq!(answer, tripled(&[7]), "{name}");
        assert_eq!(batcher.metrics().reopened, 1, "{name}");
    }
}

/// An input that must not be dropped before it has been used.
struct Touchy(AtomicBool);

impl Drop for Touchy {
    fn drop(&mut self) {
        assert!(*self.0.get_mut() || std::thread::panicking(), "it was to be used");
    }
}

/// Counts what it is given.
struct Use(Arc<Gate>);

impl DeviceJob for Use {
    type Input = Touchy;
    type Output = ();
    type Ready = ();

    fn prepare(&self, _: &Device) -> sortie::Result<()> {
        Ok(())
    }

    fn record(&self, (): &mut (), _: &Batch, inputs: &[Touchy]) -> sortie::Result<Answers<()>> {
        self.0.pass();
        inputs.iter().for_each(|input| input.0.store(true, Ordering::Relaxed));
        let answers = inputs.iter().map(|_| Ok(())).collect();
        Ok(Box::new(move || Ok(answers)))
    }
}

#[test]
fn an_input_that_panics_when_dropped_leaves_no_caller_waiting() -> sortie::Result<()> {
    let gate = Arc::new(Gate::default());
    gate.set(true);
    let config = BatchConfig::default().with_in_flight(1).with_max_batch_size(2);
    let batcher = Batcher::new(&Device::cpu()?, Use(gate.clone()), config)?;
    let first = batcher.call(Touchy(false.into())).send();
    while batcher.metrics().batches == 0 {
        std::thread::yield_now();
    }
    let [gone, second] = [(); 2].map(|()| batcher.call(Touchy(false.into())).send());
    // Its input is dropped by the batcher when the next batch is taken.
    drop(gone);
    gate.set(false);
    first.wait()?;
    let error = second.wait().expect_err("the thread is over");
    assert!(matches!(error.kind(), ErrorKind::JobPanicked | ErrorKind::Internal), "{error}");
    assert_eq!(batcher.call(Touchy(true.into())).wait().expect_err("so is the batcher").kind(), ErrorKind::JobPanicked);
    Ok(())
}
