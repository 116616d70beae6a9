//! Handed over is not done: tickets, readings, and the order of what stands in line.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Wake, Waker},
    time::Duration,
};

use sortie::{ErrorKind, policy::Split};

use crate::{cpu, gate::Gate};

#[test]
fn submitting_returns_before_the_work_is_begun_and_waiting_sees_it_done() -> sortie::Result<()> {
    let device = cpu();
    let x = device.zeros::<u32>(4)?;
    let gate = Gate::close(&device)?;
    let batch = device.batch();
    batch.fill(&x, 5);
    let reading = batch.read(&x);
    let ticket = batch.submit_async()?;
    assert!(!ticket.is_ready() && !reading.is_ready());
    assert_eq!(ticket.wait_timeout(Duration::from_millis(1)).expect_err("not yet").kind(), ErrorKind::Timeout);
    assert_eq!(reading.wait_timeout(Duration::ZERO).expect_err("not yet").kind(), ErrorKind::Timeout);
    drop(gate);
    ticket.wait()?;
    assert!(ticket.is_ready() && reading.is_ready());
    assert_eq!(reading.wait()?, [5; 4]);
    Ok(())
}

#[test]
fn a_blocking_submit_needs_no_other_thread_when_nothing_is_ahead() -> sortie::Result<()> {
    let device = cpu();
    let x = device.zeros::<u32>(4)?;
    let gate = Gate::close(&device)?;
    let batch = device.batch();
    batch.fill(&x, 5);
    batch.submit()?;
    assert_eq!(x.download()?, [5; 4]);
    drop(gate);
    Ok(())
}

#[test]
fn tickets_and_readings_are_futures() -> sortie::Result<()> {
    let device = cpu();
    let x = device.zeros::<u32>(4)?;
    let result = pollster::block_on(async {
        let mut last = None;
        for value in 0..100 {
            let batch = device.batch();
            batch.fill(&x, value);
            last = Some(batch.read(&x));
            batch.submit_async()?.await?;
        }
        last.expect("a hundred").await
    })?;
    assert_eq!(result, [99; 4]);
    Ok(())
}

#[test]
fn writes_stand_in_line_with_batches() -> sortie::Result<()> {
    let device = cpu();
    let x = device.upload(&[1_u32; 4])?;
    let gate = Gate::close(&device)?;
    let before = x.download_async()?;
    x.write(&[2; 4])?;
    let between = x.download_async()?;
    x.slice(1..3).write(&[3; 2])?;
    let after = x.download_async()?;
    assert!(!before.is_ready());
    drop(gate);
    assert_eq!((before.wait()?, between.wait()?, after.wait()?), (vec![1; 4], vec![2; 4], vec![2, 3, 3, 2]));
    Ok(())
}

#[test]
fn a_blocking_submit_waits_for_what_stands_in_line() -> sortie::Result<()> {
    let device = cpu();
    let x = device.zeros::<u32>(1)?;
    for round in 0..50 {
        let batch = device.batch();
        batch.fill(&x, round);
        let ticket = batch.submit_async()?;
        assert_eq!(x.download()?, [round]);
        assert!(ticket.is_ready(), "what came first is done first");
    }
    Ok(())
}

#[test]
fn everything_may_be_dropped_while_work_stands_in_line() -> sortie::Result<()> {
    let device = cpu();
    let gate = Gate::close(&device)?;
    let x = device.upload(&[7_u32; 64])?;
    let batch = device.batch();
    let scratch = batch.scratch::<u32>(64);
    batch.copy(&x, scratch);
    let reading = batch.read(scratch);
    drop(batch.submit_async()?);
    drop((x, device));
    drop(gate);
    assert_eq!(reading.wait()?, [7; 64]);
    Ok(())
}

#[test]
fn many_threads_get_each_their_own_answer() {
    let device = cpu();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let device = device.clone();
            scope.spawn(move || {
                for round in 0..50 {
                    let data: Vec<u32> = (0..256).map(|index| index * 1000 + thread * 100 + round).collect();
                    let x = device.upload(&data).expect("memory");
                    let batch = device.batch();
                    let y = batch.scratch::<u32>(256);
                    batch.copy(&x, y);
                    let result = batch.read(y);
                    if round % 2 == 0 {
                        drop(batch.submit_async().expect("handed over"));
                    } else {
                        batch.submit().expect("it runs");
                    }
                    assert_eq!(result.wait().expect("read"), data);
                }
            });
        }
    });
}

/// Submits from within the waker, on the device's own thread.
struct Submits(sortie::Device, std::sync::mpsc::Sender<sortie::Result<Vec<u32>>>);

impl Wake for Submits {
    fn wake(self: Arc<Self>) {
        let answer = self.0.upload(&[4_u32]).and_then(|x| x.download());
        drop(self.1.send(answer));
    }
}

/// Others are in line before it, and the thread that would run them is the waker's.
#[test]
fn a_waker_may_submit_and_wait_behind_others() -> sortie::Result<()> {
    let device = cpu();
    let (tell, told) = std::sync::mpsc::channel();
    let waker = Waker::from(Arc::new(Submits(device.clone(), tell)));
    let gate = Gate::close(&device)?;
    let x = device.zeros::<u32>(4)?;
    let batch = device.batch();
    batch.fill(&x, 1);
    let mut ticket = pin!(batch.submit_async()?);
    assert!(ticket.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let mut behind = Vec::new();
    for value in 0..20 {
        let batch = device.batch();
        (0..3).for_each(|_| batch.fill(&x, value));
        batch.split_by(Split::Every(1));
        behind.push(batch.submit_async()?);
    }
    drop(gate);
    assert_eq!(told.recv().expect("it is woken")?, [4]);
    behind.iter().try_for_each(sortie::Ticket::wait)
}

#[test]
fn a_waker_may_submit_and_wait() -> sortie::Result<()> {
    let device = cpu();
    let (tell, told) = std::sync::mpsc::channel();
    let waker = Waker::from(Arc::new(Submits(device.clone(), tell)));
    let gate = Gate::close(&device)?;
    let x = device.zeros::<u32>(4)?;
    let batch = device.batch();
    batch.fill(&x, 1);
    let mut ticket = pin!(batch.submit_async()?);
    assert!(ticket.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(gate);
    assert_eq!(told.recv().expect("it is woken")?, [4]);
    Ok(())
}
