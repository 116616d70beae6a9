//! Panics of others on our threads.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Wake, Waker},
};

use crate::noop;

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

/// It took the wait thread with it, and every later batch hung.
#[test]
fn a_panicking_waker_affects_no_other_caller() -> sortie::Result<()> {
    let device = noop();
    let x = device.zeros::<u32>(4)?;
    let waker = Waker::from(Arc::new(Panics));
    for _ in 0..20 {
        let batch = device.batch();
        batch.fill(&x, 1);
        let mut ticket = pin!(batch.submit_async()?);
        drop(ticket.as_mut().poll(&mut Context::from_waker(&waker)));
        ticket.wait()?;
    }
    Ok(())
}
