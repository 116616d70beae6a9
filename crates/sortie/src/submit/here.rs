//! A scope in which a thread submits its batches itself, if the device has nothing else to do, instead of handing them
//! to the submit thread. The built-in CPU then runs them on that thread.

use std::{cell::Cell, marker::PhantomData};

thread_local! {
    static HERE: Cell<bool> = const { Cell::new(false) };
}

/// While this lives, the calling thread submits its batches itself.
#[derive(Debug)]
pub(crate) struct Here {
    before: bool,
    /// It belongs to one thread.
    not_send: PhantomData<*const ()>,
}

impl Here {
    pub(crate) fn enter() -> Self {
        Self { before: HERE.replace(true), not_send: PhantomData }
    }

    pub(crate) fn is_entered() -> bool {
        HERE.get()
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        HERE.set(self.before);
    }
}
