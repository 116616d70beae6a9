//! A full overwrite that was queued behind a batch which then failed left the buffer poisoned.

use sortie::{Device, ErrorKind, Grid, Result, Ticket};

const ENDLESS: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(1) fn main() { loop { x[0] += 1u; if x[0] == 0u { x[1] = 1u; } } }
";

/// A batch that writes `x` and fails once it is canceled, after `then` has queued something behind it.
fn fails_before<R>(device: &Device, x: &sortie::Buffer<u32>, then: impl FnOnce() -> Result<R>) -> Result<R> {
    let endless = device.kernel(ENDLESS)?;
    let batch = device.batch();
    batch.dispatch(&endless, &[x], Grid::groups([1, 1, 1]));
    let ticket: Ticket = batch.submit_async()?;
    while device.metrics().in_flight == 0 {
        std::thread::yield_now();
    }
    let queued = then()?;
    ticket.cancel();
    assert_eq!(ticket.wait().expect_err("canceled").kind(), ErrorKind::Canceled);
    Ok(queued)
}

#[test]
fn a_full_write_queued_behind_a_batch_that_fails_leaves_the_buffer_clean() -> Result<()> {
    let device = Device::cpu()?;
    let x = device.zeros::<u32>(2)?;
    fails_before(&device, &x, || x.write(&[3, 4]))?;
    assert_eq!(x.download()?, [3, 4]);
    Ok(())
}

#[test]
fn a_batch_that_overwrites_all_behind_one_that_fails_leaves_the_buffer_clean() -> Result<()> {
    let device = Device::cpu()?;
    let x = device.zeros::<u32>(2)?;
    let read = fails_before(&device, &x, || {
        let batch = device.batch();
        batch.fill(&x, 5);
        batch.submit_async()?;
        x.download_async()
    })?;
    assert_eq!((read.wait()?, x.download()?), (vec![5, 5], vec![5, 5]));
    Ok(())
}

#[test]
fn what_was_queued_before_the_overwrite_still_sees_the_failure() -> Result<()> {
    let device = Device::cpu()?;
    let x = device.zeros::<u32>(2)?;
    let read = fails_before(&device, &x, || {
        let read = x.download_async()?;
        x.write(&[3, 4])?;
        Ok(read)
    })?;
    assert_eq!(read.wait().expect_err("it reads what was left behind").kind(), ErrorKind::Poisoned);
    assert_eq!(x.download()?, [3, 4]);
    Ok(())
}

#[test]
fn a_write_of_a_part_behind_a_batch_that_fails_leaves_the_buffer_poisoned() -> Result<()> {
    let device = Device::cpu()?;
    let x = device.zeros::<u32>(2)?;
    fails_before(&device, &x, || x.slice(..1).write(&[3]))?;
    assert_eq!(x.download().expect_err("a part is not all").kind(), ErrorKind::Poisoned);
    x.write(&[3, 4])?;
    assert_eq!(x.download()?, [3, 4]);
    Ok(())
}

#[test]
fn a_batch_that_is_canceled_between_its_submissions_poisons_what_was_overwritten_before() -> Result<()> {
    let device = Device::cpu()?;
    let endless = device.kernel(ENDLESS)?;
    let (x, y) = (device.zeros::<u32>(2)?, device.zeros::<u32>(2)?);
    y.write(&[1, 2])?;
    let batch = device.batch();
    batch.dispatch(&endless, &[&x], Grid::groups([1, 1, 1]));
    batch.split();
    batch.copy(x.slice(..1), y.slice(..1));
    let ticket = batch.submit_async()?;
    while device.metrics().in_flight == 0 {
        std::thread::yield_now();
    }
    ticket.cancel();
    assert_eq!(ticket.wait().expect_err("canceled").kind(), ErrorKind::Canceled);
    assert_eq!(y.download().expect_err("a later submission should have written it").kind(), ErrorKind::Poisoned);
    Ok(())
}
