//! Cancelling: at once and without effect before the start, with poison after it.

use std::future::Future;
use std::task::{Context, Waker};

use sortie::{Buffer, Device, ErrorKind, Ticket};

use crate::{cpu, gate::Gate};

/// A batch that would fill `x` for minutes, under way.
fn endless(device: &Device, x: &Buffer<u32>, before: impl FnOnce(&sortie::Batch)) -> sortie::Result<Ticket> {
    let batch = device.batch();
    before(&batch);
    for value in 1..100_000 {
        batch.fill(x, value);
    }
    let submissions = device.metrics().submissions;
    let ticket = batch.submit_async()?;
    while device.metrics().submissions == submissions {
        std::thread::yield_now();
    }
    Ok(ticket)
}

#[test]
fn a_batch_that_stands_in_line_ends_at_once_and_without_effect() -> sortie::Result<()> {
    let device = cpu();
    let x = device.upload(&[1_u32; 4])?;
    let gate = Gate::close(&device)?;
    let batch = device.batch();
    batch.fill(&x, 2);
    batch.split();
    batch.fill(&x, 3);
    let reading = batch.read(&x);
    let ticket = batch.submit_async()?;
    ticket.clone().cancel();
    // The device's own thread is still behind the gate.
    assert_eq!(ticket.wait().expect_err("canceled").kind(), ErrorKind::Canceled);
    assert_eq!(reading.wait().expect_err("the same").kind(), ErrorKind::Canceled);
    drop(gate);
    assert_eq!(x.download()?, [1; 4], "nothing ran, and nothing is poisoned");
    Ok(())
}

#[test]
fn cancelling_wakes_waiting_tasks() -> sortie::Result<()> {
    let device = cpu();
    let x = device.upload(&[1_u32; 4])?;
    let gate = Gate::close(&device)?;
    let batch = device.batch();
    batch.fill(&x, 2);
    let ticket = batch.submit_async()?;
    let awaited = ticket.clone();
    let mut awaited = std::pin::pin!(awaited);
    assert!(awaited.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let thread = std::thread::spawn({
        let ticket = ticket.clone();
        move || pollster::block_on(ticket)
    });
    ticket.cancel();
    assert_eq!(thread.join().expect("no panic").expect_err("canceled").kind(), ErrorKind::Canceled);
    drop(gate);
    Ok(())
}

#[test]
fn a_batch_under_way_stops_and_poisons_what_it_writes() -> sortie::Result<()> {
    let device = cpu();
    let (x, source, other) = (device.zeros::<u32>(1 << 20)?, device.upload(&[4_u32; 4])?, device.zeros::<u32>(4)?);
    let ticket = endless(&device, &x, |batch| batch.copy(&source, &other))?;
    ticket.cancel();
    let error = ticket.wait().expect_err("canceled");
    assert_eq!(error.kind(), ErrorKind::Canceled);
    assert!(error.location().is_some_and(|at| at.file().ends_with("cancel.rs")), "{error}");
    for written in [x.slice(..4), other.slice(..)] {
        let error = written.download().expect_err("half done");
        assert_eq!(error.kind(), ErrorKind::Poisoned);
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(cause.contains("canceled"), "{cause}");
    }
    assert_eq!(source.download()?, [4; 4], "what it only reads is as it was");
    x.write(&vec![8; 1 << 20])?;
    assert_eq!(x.slice(..2).download()?, [8; 2]);
    Ok(())
}

#[test]
fn what_follows_a_canceled_batch_and_needs_what_it_writes_fails() -> sortie::Result<()> {
    let device = cpu();
    let (x, y) = (device.zeros::<u32>(1 << 20)?, device.zeros::<u32>(1 << 20)?);
    let ticket = endless(&device, &x, |_| {})?;
    let batch = device.batch();
    batch.copy(&x, &y);
    let next = batch.submit_async()?;
    let free = y.download_async()?;
    ticket.cancel();
    assert_eq!(next.wait().expect_err("it needs x").kind(), ErrorKind::Poisoned);
    assert_eq!(free.wait()?.len(), 1 << 20, "and it had no effect itself");
    Ok(())
}

#[test]
fn poison_that_a_canceled_batch_would_have_lifted_is_restored() -> sortie::Result<()> {
    let device = cpu();
    let x = device.zeros::<u32>(1 << 20)?;
    let ticket = endless(&device, &x, |_| {})?;
    ticket.cancel();
    ticket.wait().expect_err("canceled");
    let gate = Gate::close(&device)?;
    let batch = device.batch();
    batch.fill(&x, 1);
    let ticket = batch.submit_async()?;
    ticket.cancel();
    drop(gate);
    // In line behind the canceled one, so that it has been seen off.
    device.zeros::<u32>(4)?.download_async()?.wait()?;
    assert_eq!(x.download().expect_err("still").kind(), ErrorKind::Poisoned);
    Ok(())
}

#[test]
fn cancelling_what_is_done_or_dropping_a_ticket_changes_nothing() -> sortie::Result<()> {
    let device = cpu();
    let x = device.zeros::<u32>(4)?;
    let batch = device.batch();
    batch.fill(&x, 1);
    let ticket = batch.submit_async()?;
    ticket.wait()?;
    ticket.cancel();
    ticket.wait()?;
    let batch = device.batch();
    batch.fill(&x, 2);
    drop(batch.submit_async()?);
    assert_eq!(x.download()?, [2; 4]);
    Ok(())
}
