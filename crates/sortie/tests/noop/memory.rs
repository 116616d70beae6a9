//! The pool: what is recycled, what is freed, and who pays.

use sortie::{DeviceOptions, ErrorKind, Grid, device::PoolLimits};

use crate::{STEP, noop, noop_with};

#[test]
fn dropped_buffers_are_recycled() -> sortie::Result<()> {
    let device = noop();
    drop(device.zeros::<f32>(1000)?);
    let before = device.metrics();
    for len in [1000, 990, 1010] {
        drop(device.zeros::<f32>(len)?);
    }
    let after = device.metrics() - before;
    assert_eq!((after.buffers_created, after.buffers_recycled), (0, 3), "all of one size class");
    Ok(())
}

#[test]
fn a_pool_without_room_frees_at_once_and_takes_the_bind_groups_along() -> sortie::Result<()> {
    let nothing = PoolLimits { bytes: 0, ..PoolLimits::default() };
    let device = noop_with(DeviceOptions::default().with_pool(nothing));
    let step = device.kernel(STEP)?;
    let (x, y) = (device.zeros::<f32>(64)?, device.zeros::<f32>(64)?);
    assert_eq!(device.memory_bytes(), 512);
    let batch = device.batch();
    batch.dispatch(&step, &[&x, &y], Grid::items(64));
    batch.submit()?;
    drop((x, y));
    assert_eq!(device.memory_bytes(), 0);
    Ok(())
}

#[test]
fn trimming_frees_what_lies_idle() -> sortie::Result<()> {
    let device = noop();
    let kept = device.zeros::<u8>(1 << 20)?;
    drop(device.zeros::<u8>(1 << 20)?);
    assert_eq!(device.memory_bytes(), 2 << 20);
    device.trim();
    assert_eq!((device.memory_bytes(), kept.len()), (1 << 20, 1 << 20));
    Ok(())
}

#[test]
fn the_memory_budget_is_kept_and_what_lies_idle_is_given_up_for_it() -> sortie::Result<()> {
    let device = noop_with(DeviceOptions::default().with_memory_budget(3 << 20));
    let kept = device.zeros::<u8>(1 << 20)?;
    drop(device.zeros::<u8>(1 << 20)?);
    let other_class = device.zeros::<u8>(2 << 20)?;
    let error = device.zeros::<u8>(1 << 20).expect_err("over the budget");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory { wanted: 1 << 20, budget: 3 << 20 });
    assert!(error.location().is_some_and(|at| at.file().ends_with("memory.rs")));
    let batch = device.batch();
    let scratch = batch.scratch::<u8>(1 << 20);
    batch.fill(scratch, 1);
    assert!(matches!(batch.submit().expect_err("no room for scratch").kind(), ErrorKind::OutOfMemory { .. }));
    drop((kept, other_class));
    Ok(())
}

#[test]
fn a_buffer_over_the_devices_limit_is_too_large() {
    let device = noop();
    let limit = device.info().limits.buffer_bytes;
    let len = usize::try_from(limit).expect("64 bits") + 4;
    let error = device.zeros::<u8>(len).expect_err("over the limit");
    assert_eq!(error.kind(), ErrorKind::TooLarge { wanted: len as u64, limit });
    assert!(device.zeros::<u64>(usize::MAX).is_err());
    let batch = device.batch();
    let slot = batch.scratch::<u8>(len);
    batch.fill(slot, 0);
    assert!(matches!(batch.submit().expect_err("over the limit").kind(), ErrorKind::TooLarge { .. }));
}

#[test]
fn the_gauges_of_the_pool_say_who_has_what() -> sortie::Result<()> {
    let device = noop();
    let pool = || {
        let now = device.metrics();
        [now.pool_bytes_live, now.pool_bytes_idle, now.pool_bytes_peak, now.pool_bytes_wasted]
    };
    assert_eq!(pool(), [0; 4]);
    let (x, y) = (device.zeros::<f32>(64)?, device.zeros::<f32>(65)?);
    assert_eq!(pool(), [256 + 512, 0, 768, 512 - 260]);
    drop(y);
    assert_eq!(pool(), [256, 512, 768, 0], "what lies idle is nobody's waste");
    let y = device.zeros::<f32>(100)?;
    assert_eq!(pool(), [768, 0, 768, 512 - 400], "the same memory, asked for by somebody else");
    let step = device.kernel(STEP)?;
    let batch = device.batch();
    let scratch = batch.scratch::<f32>(64);
    batch.dispatch(&step, &[&x, &scratch], Grid::items(64));
    batch.dispatch(&step, &[&scratch, &x], Grid::items(64));
    batch.submit()?;
    assert_eq!(pool(), [768, 256, 1024, 112], "scratch was in use, and is back");
    drop((x, y));
    assert_eq!(pool(), [0, 1024, 1024, 0]);
    assert_eq!(device.memory_bytes(), 1024);
    device.trim();
    assert_eq!(pool(), [0, 0, 1024, 0]);
    Ok(())
}

#[test]
fn what_was_not_given_is_not_in_use() -> sortie::Result<()> {
    let device = noop_with(DeviceOptions::default().with_memory_budget(1024));
    let _kept = device.zeros::<u8>(512)?;
    assert!(device.zeros::<u8>(1024).is_err());
    let now = device.metrics();
    assert_eq!((now.pool_bytes_live, now.pool_bytes_peak), (512, 512));
    Ok(())
}
