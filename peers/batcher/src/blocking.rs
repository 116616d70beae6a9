//! Ways to wait for the device in a task.

use std::sync::Arc;

use tokio::task::{block_in_place, spawn_blocking};

use crate::device::Device;

/// Where the thread that waits comes from.
#[derive(Clone, Copy)]
pub(crate) enum Blocking {
    /// It is the runtime's own, which does nothing else meanwhile.
    Here,
    /// It is the runtime's own, which gets another one for it.
    InPlace,
    /// It is one that tokio keeps for this.
    Aside,
}

impl Blocking {
    /// Turns inputs into answers.
    pub(crate) async fn run(self, device: &Arc<Device>, mut rows: Vec<u64>) -> Result<Vec<u64>, String> {
        match self {
            Self::Here => device.run(&mut rows),
            Self::InPlace => block_in_place(|| device.run(&mut rows)),
            Self::Aside => {
                let device = device.clone();
                let aside = move || {
                    device.run(&mut rows);
                    rows
                };
                rows = spawn_blocking(aside).await.map_err(|error| error.to_string())?;
            }
        }
        Ok(rows)
    }
}
