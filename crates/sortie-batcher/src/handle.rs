//! The handle shared by all clones of a batcher and by pending answers. It keeps the batcher open.

use std::sync::Arc;

use crate::{
    driver::Driver,
    error::{Error, ErrorKind},
    job::Job,
    parked::Parked,
    state::StateOf,
};

/// Closes the batcher when it is dropped.
pub(crate) struct Handle<J: Job> {
    pub(crate) job: Arc<J>,
    pub(crate) state: Arc<StateOf<J>>,
    pub(crate) parked: Arc<Parked<J>>,
    /// The driver of its workers; `None` if the caller drives them.
    pub(crate) driver: Option<Box<dyn Driver<J>>>,
}

impl<J: Job> Drop for Handle<J> {
    fn drop(&mut self) {
        self.state.close(Error::new(ErrorKind::Canceled, "the batcher was dropped"));
        if let Some(driver) = &self.driver {
            driver.closed();
        }
    }
}
