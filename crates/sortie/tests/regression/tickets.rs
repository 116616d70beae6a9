//! Tickets that are dropped, and readings that are waited for too early.

use sortie::{ErrorKind, Result};

use crate::noop;

/// It must compile: where a ticket had to be used, every call without one needed a `drop` around it.
#[deny(unused_must_use, reason = "this is what is tested")]
fn submitted_and_forgotten(batch: sortie::Batch) -> Result<()> {
    batch.submit_async()?;
    Ok(())
}

#[test]
fn a_batch_can_be_submitted_and_its_ticket_forgotten_in_one_statement() -> Result<()> {
    let device = noop();
    let x = device.zeros::<u32>(4)?;
    let batch = device.batch();
    let reading = batch.read(&x);
    submitted_and_forgotten(batch)?;
    assert_eq!(reading.wait()?.len(), 4);
    Ok(())
}

#[test]
fn waiting_before_the_submit_is_not_the_same_as_canceled() -> Result<()> {
    let device = noop();
    let x = device.zeros::<u32>(4)?;
    let batch = device.batch();
    let (early, late) = (batch.read(&x), batch.read(&x));
    assert_eq!(early.wait().expect_err("too early").kind(), ErrorKind::NotSubmitted);
    drop(batch);
    assert_eq!(late.wait().expect_err("dropped").kind(), ErrorKind::Canceled);
    Ok(())
}
