//! Watching and tracing a device.

use std::{ops::Range, path::PathBuf};

use super::Device;
use crate::{
    clock::Instant,
    error::Result,
    profile::{Profile, Trace, Watch},
};

impl Device {
    /// Profiles every batch of this device, including replays and a batcher's batches, and calls `tell` with each
    /// profile, on its own thread, until the watch is dropped.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// # let device = sortie::Device::cpu()?;
    /// # let x = device.zeros::<f32>(64)?;
    /// let (told, slow) = mpsc::channel();
    /// let watch = device.watch(move |profile| {
    ///     if profile.device_time() > Some(std::time::Duration::from_secs(1)) {
    ///         told.send(profile.to_string()).ok();
    ///     }
    /// })?;
    /// let batch = device.batch();
    /// batch.fill(&x, 1.0);
    /// batch.submit()?;
    /// watch.finish();
    /// assert!(slow.try_recv().is_err());
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Internal`](crate::ErrorKind::Internal) if the system cannot start more threads.
    pub fn watch(&self, tell: impl FnMut(&Profile) + Send + 'static) -> Result<Watch> {
        Watch::begin(&self.core.notes, tell)
    }

    /// Traces everything that this device does from now on: batches recorded, planned, encoded, submitted and awaited,
    /// the device's work for each op, and the queued and running requests of batchers. Open the file in Perfetto
    /// (`ui.perfetto.dev`) or `chrome://tracing`.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// # let x = device.zeros::<f32>(64)?;
    /// # let path = std::env::temp_dir().join(format!("sortie-doc-run-{}.json", std::process::id()));
    /// let trace = device.trace(&path)?;
    /// for value in 0..10 {
    ///     let batch = device.batch();
    ///     batch.fill(&x, value as f32);
    ///     batch.submit()?;
    /// }
    /// trace.finish()?;
    /// # std::fs::remove_file(&path).expect("it was written");
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`File`](crate::ErrorKind::File) if the file cannot be created.
    pub fn trace(&self, path: impl Into<PathBuf>) -> Result<Trace> {
        Trace::begin(&self.core.notes, path.into())
    }

    /// Whether the device is watched.
    pub(crate) fn is_watched(&self) -> bool {
        self.core.notes.is_on()
    }

    /// Sends the watchers an event that is not a batch: its time ranges, from the batcher's own clock, and a count of
    /// its items.
    pub(crate) fn note(
        &self,
        category: &'static str,
        name: &str,
        times: Vec<Range<impl Into<Instant>>>,
        count: Option<(&'static str, u64)>,
    ) {
        let times = times.into_iter().map(|time| time.start.into()..time.end.into()).collect();
        self.core.notes.note(category, name, times, count);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;

    #[test]
    fn a_watch_gets_every_profile_and_does_not_keep_its_device_open() {
        let device = Device::cpu().expect("the built-in CPU opens");
        let (told, profiles) = mpsc::channel();
        let watch = device.watch(move |profile| told.send(profile.ops().len()).expect("the test listens"));
        let watch = watch.expect("the thread starts");
        let x = device.zeros::<u32>(4).expect("there is memory");
        let batch = device.batch();
        batch.fill(&x, 1);
        batch.submit().expect("it runs");
        let core = Arc::downgrade(&device.core);
        drop((device, x));
        assert!(core.upgrade().is_none());
        watch.finish();
        assert_eq!(profiles.into_iter().collect::<Vec<_>>(), [1]);
    }
}
