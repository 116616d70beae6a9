//! A device that was destroyed while native replays were in flight freed what the driver still used, and the process crashed.

use sortie::{Device, ErrorKind, Grid, Replay, Result, Ticket};

use super::{SLOW, on_drivers};

/// A replay without inputs and outputs: its runs go past wgpu until `Device::wgpu` gives the queue away.
fn slow_replay(device: &Device) -> Result<Replay> {
    let kernel = device.kernel(SLOW)?;
    let x = device.zeros::<u32>(1 << 13)?;
    let batch = device.batch();
    for _ in 0..2 {
        batch.dispatch(&kernel, &[&x], Grid::items(1 << 13));
    }
    batch.freeze()
}

fn runs(replay: &Replay) -> Result<Vec<Ticket>> {
    (0..4).map(|_| replay.run().submit_async()).collect()
}

fn all_are_over_or_lost(tickets: Vec<Ticket>) {
    for error in tickets.into_iter().filter_map(|ticket| ticket.wait().err()) {
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    }
}

#[test]
fn a_device_destroyed_under_submissions_past_wgpu_keeps_what_they_use() {
    on_drivers(|device| {
        let mut device = device.clone();
        for _ in 0..5 {
            let replay = slow_replay(&device)?;
            let tickets = runs(&replay)?;
            drop(replay);
            device.wgpu().expect("a wgpu device").0.destroy();
            all_are_over_or_lost(tickets);
            device = device.reopen()?;
        }
        Ok(())
    });
}

#[test]
fn a_device_destroyed_under_native_replays_keeps_what_they_use_and_every_error_is_a_loss() {
    on_drivers(|device| {
        let mut device = device.clone();
        for _ in 0..5 {
            let replay = slow_replay(&device)?;
            let gpu = device.wgpu().expect("a wgpu device").0.clone();
            let tickets = runs(&replay)?;
            gpu.destroy();
            let late = replay.run().submit_async().and_then(|ticket| ticket.wait()).expect_err("the device is gone");
            assert_eq!(late.kind(), ErrorKind::DeviceLost, "{late}");
            drop(replay);
            all_are_over_or_lost(tickets);
            device = device.reopen()?;
        }
        Ok(())
    });
}

#[test]
fn what_a_lost_device_still_uses_is_counted_until_it_has_finished() {
    on_drivers(|device| {
        let replay = slow_replay(device)?;
        let gpu = device.wgpu().expect("a wgpu device").0.clone();
        let tickets = runs(&replay)?;
        gpu.destroy();
        all_are_over_or_lost(tickets);
        drop(replay);
        // The driver finishes what it was given, and what was kept for it goes.
        while device.metrics().retained_bytes > 0 {
            std::thread::yield_now();
        }
        Ok(())
    });
}
