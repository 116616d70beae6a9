//! Keeps the device's own thread away from its work for as long as a test needs it.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    task::{Context, Wake, Waker},
};

use sortie::Device;

/// While it lives, nothing that was handed over is begun. What runs on the caller's thread still runs.
pub(crate) struct Gate {
    _open: Sender<()>,
}

/// A waker runs on the thread that ends the batch: this one stays there until the gate opens.
struct Keeper {
    there: Sender<()>,
    opens: Mutex<Receiver<()>>,
}

impl Wake for Keeper {
    fn wake(self: Arc<Self>) {
        self.there.send(()).expect("the test waits for it");
        // An error is what it waits for: the gate has been dropped.
        let _dropped = self.opens.lock().expect("one waker, woken once").recv();
    }
}

impl Gate {
    pub(crate) fn close(device: &Device) -> sortie::Result<Self> {
        let x = device.zeros::<u32>(1 << 20)?;
        loop {
            let (there, arrived) = channel();
            let (open, opens) = channel();
            let waker = Waker::from(Arc::new(Keeper { there, opens: Mutex::new(opens) }));
            let batch = device.batch();
            (0..4).for_each(|value| batch.fill(&x, value));
            let mut ticket = pin!(batch.submit_async()?);
            // Too late when the batch is done already: then again.
            if ticket.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                arrived.recv().expect("it is woken");
                return Ok(Self { _open: open });
            }
        }
    }
}
