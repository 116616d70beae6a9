//! Tickets and readings: what they say before, after and without a submission.

use std::{
    future::Future,
    panic::Location,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use sortie::{ErrorKind, Grid};

use crate::{STEP, noop};

#[test]
fn waiting_before_the_submit_is_an_error_at_once() -> sortie::Result<()> {
    let device = noop();
    let x = device.zeros::<f32>(4)?;
    let batch = device.batch();
    let (early, early_timeout) = (batch.read(&x), batch.read(&x));
    assert!(!early.is_ready());
    assert_eq!(early.wait().expect_err("not submitted").kind(), ErrorKind::NotSubmitted);
    let timeout = early_timeout.wait_timeout(Duration::MAX).expect_err("not submitted");
    assert_eq!(timeout.kind(), ErrorKind::NotSubmitted);
    batch.submit()?;
    assert_eq!(early_timeout.wait()?.len(), 4);
    Ok(())
}

#[test]
fn data_of_the_wrong_length_is_an_error_with_the_users_line() -> sortie::Result<()> {
    let device = noop();
    let x = device.zeros::<f32>(4)?;
    let batch = device.batch();
    let reading = batch.read(&x);
    let line = line!() + 1;
    let error = batch.run_and_read::<f32, 3>(reading).expect_err("four elements");
    assert_eq!((error.kind(), error.location().map(Location::line)), (ErrorKind::Shape, Some(line)));
    assert!(error.to_string().starts_with("the reading has 4 elements, not 3; "), "{error}");
    let batch = device.batch();
    let reading = batch.read(&x);
    batch.submit()?;
    let line = line!() + 1;
    let error = reading.wait_into(&mut [0.0; 5]).expect_err("four elements");
    assert_eq!((error.kind(), error.location().map(Location::line)), (ErrorKind::Shape, Some(line)));
    Ok(())
}

#[test]
fn readings_of_a_dropped_batch_are_canceled() -> sortie::Result<()> {
    let device = noop();
    let x = device.zeros::<f32>(4)?;
    let batch = device.batch();
    let reading = batch.read(&x);
    drop(batch);
    assert!(reading.is_ready());
    assert_eq!(reading.wait().expect_err("dropped").kind(), ErrorKind::Canceled);
    Ok(())
}

#[test]
fn readings_of_a_refused_batch_report_its_error() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let x = device.zeros::<f32>(4)?;
    let batch = device.batch();
    let reading = batch.read(&x);
    batch.dispatch(&step, &[&x], Grid::items(4));
    let error = batch.submit_async().expect_err("one binding short");
    assert_eq!(reading.wait().expect_err("refused").to_string(), error.to_string());
    Ok(())
}

#[test]
fn tickets_and_readings_are_futures_on_any_executor() -> sortie::Result<()> {
    let device = noop();
    let x = device.upload(&[1_u32, 2, 3])?;
    let record = || {
        let batch = device.batch();
        let reading = batch.read(&x);
        Ok::<_, sortie::Error>((batch.submit_async()?, reading))
    };
    let (ticket, reading) = record()?;
    pollster::block_on(async {
        ticket.await?;
        assert_eq!(reading.await?.len(), 3);
        Ok::<_, sortie::Error>(())
    })?;
    let (ticket, reading) = record()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
    runtime
        .block_on(async { tokio::spawn(async move { ticket.await.and(reading.await) }).await.expect("no panic") })?;
    Ok(())
}

struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_polled_ticket_wakes_its_task() -> sortie::Result<()> {
    let device = noop();
    let x = device.zeros::<u32>(3)?;
    for _ in 0..100 {
        let wakes = Arc::new(Wakes(AtomicUsize::new(0)));
        let waker = Waker::from(wakes.clone());
        let batch = device.batch();
        batch.fill(&x, 1);
        let ticket = batch.submit_async()?;
        let done = ticket.clone();
        let mut ticket = pin!(ticket);
        let pending = ticket.as_mut().poll(&mut Context::from_waker(&waker)).is_pending();
        done.wait()?;
        // The wake follows completion on another thread; a task that was told to wait hears of it.
        while pending && wakes.0.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        assert!(matches!(ticket.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(Ok(()))));
    }
    Ok(())
}

#[test]
fn everything_may_be_dropped_while_work_is_in_flight() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let (x, y) = (device.zeros::<f32>(64)?, device.zeros::<f32>(64)?);
    let mut readings = Vec::new();
    for _ in 0..50 {
        let batch = device.batch();
        batch.dispatch(&step, &[&x, &y], Grid::items(64));
        readings.push(batch.read(&y));
        drop(batch.submit_async()?);
    }
    drop((x, y, step, device));
    for reading in readings {
        assert_eq!(reading.wait()?.len(), 64);
    }
    Ok(())
}

#[test]
fn many_threads_record_and_submit_on_clones_of_one_device() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let (device, step) = (device.clone(), step.clone());
            scope.spawn(move || {
                let (x, y) = (device.zeros::<f32>(64).expect("memory"), device.zeros::<f32>(64).expect("memory"));
                for round in 0..50 {
                    let batch = device.batch();
                    batch.dispatch(&step, &[&x, &y], Grid::items(64));
                    let reading = batch.read(&y);
                    if round % 2 == 0 {
                        batch.submit().expect("it runs");
                    } else {
                        drop(batch.submit_async().expect("it is taken"));
                    }
                    assert_eq!(reading.wait().expect("it is read").len(), 64);
                }
            });
        }
    });
    assert_eq!(device.metrics().batches, 400);
    Ok(())
}

#[test]
fn losing_the_device_fails_every_ticket_and_reopening_starts_afresh() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let (x, y) = (device.zeros::<f32>(64)?, device.zeros::<f32>(64)?);
    device.wgpu().expect("a wgpu device").0.destroy();
    let batch = device.batch();
    batch.dispatch(&step, &[&x, &y], Grid::items(64));
    let reading = batch.read(&y);
    let outcome = batch.submit_async().and_then(|ticket| ticket.wait());
    let outcome = outcome.expect_err("the device is gone");
    assert_eq!(outcome.kind(), ErrorKind::DeviceLost, "{outcome:?}");
    assert_eq!(reading.wait().expect_err("the device is gone").kind(), ErrorKind::DeviceLost);
    assert_eq!(x.download().expect_err("the device is gone").kind(), ErrorKind::DeviceLost);
    assert_eq!(device.zeros::<f32>(4).expect_err("the device is gone").kind(), ErrorKind::DeviceLost);
    let again = device.reopen()?;
    assert_eq!(again.zeros::<f32>(4)?.download()?.len(), 4);
    let batch = again.batch();
    batch.fill(&x, 1.0);
    assert_eq!(batch.submit().expect_err("a buffer of the lost device").kind(), ErrorKind::Bindings);
    Ok(())
}
