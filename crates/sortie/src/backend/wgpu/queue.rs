//! wgpu's queue, the direct path to the driver's queue, and how submissions are waited for.
//!
//! Errors are caught on the calling thread. After an error the device is probed, to recognize a loss. [`Retained`]
//! keeps resources that a lost device may still use.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    Gpu, NativeReplay, RunMemory, Timeline,
    commands::{WgpuCommands, WgpuWrite},
    pending_writes::PendingWrites,
    retained::Retained,
    wait_point::WaitPoint,
};
use crate::{
    clock::{Clock, Moment},
    error::{Error, ErrorKind, Result},
    exit::{self, Loading},
    finish::PendingReadback,
    lost::Lost,
    memory::Block,
    metrics::{AtomicCounter, Counters},
    submit::{BatchState, DeviceQueue, Refused, Submitted, Waited},
};

/// Interval of checks for a mapping whose callback another thread's poll is about to run.
const MAPPING: Duration = Duration::from_millis(1);

pub(crate) struct WgpuQueue {
    gpu: Gpu,
    queue: wgpu::Queue,
    /// The semaphore that submissions signal, on Vulkan.
    timeline: Option<Arc<Timeline>>,
    retained: Arc<Retained>,
    lost: Arc<Lost>,
    counters: Arc<Counters>,
    /// Measures device times.
    clock: Clock,
    /// Other uses of the queue. Locked during a direct submission.
    sharing: Mutex<Sharing>,
    writes: PendingWrites,
    /// Set from the first submission until it is done: a driver may load its compiler only then.
    loading: Mutex<Option<Loading>>,
    /// Whether the first submission was submitted, and whether it is done.
    first: [AtomicBool; 2],
}

/// Other uses of a queue.
#[derive(Debug, Default)]
struct Sharing {
    /// Others may submit to it: it belongs to the application, or was given away.
    others: bool,
    /// There were direct submissions that bypassed wgpu.
    direct: bool,
}

impl WgpuQueue {
    pub(crate) fn new(gpu: Gpu, queue: wgpu::Queue, lost: Arc<Lost>, counters: Arc<Counters>, clock: Clock) -> Self {
        let timeline = Timeline::new(&gpu).map(Arc::new);
        let retained = Arc::new(Retained {
            gpu: gpu.clone(),
            timeline: timeline.clone(),
            lost: lost.clone(),
            counters: counters.clone(),
            state: Mutex::default(),
        });
        let sharing = Mutex::new(Sharing { others: gpu.is_borrowed, direct: false });
        let writes = PendingWrites::new(counters.clone());
        let (loading, first) = (Mutex::default(), [AtomicBool::new(false), AtomicBool::new(false)]);
        Self { gpu, queue, timeline, retained, lost, counters, clock, sharing, writes, loading, first }
    }

    /// Whether direct submissions can be waited for.
    pub(crate) fn has_timeline(&self) -> bool {
        self.timeline.is_some()
    }

    /// Others may use the queue from now on. wgpu does not know of direct submissions, and would free the buffers of a
    /// destroyed device while they run. An empty submission, which ends after all earlier ones, prevents that. Needs no
    /// turn.
    pub(crate) fn share(&self) {
        let mut sharing = self.sharing.lock();
        sharing.others = true;
        if std::mem::take(&mut sharing.direct) {
            let scopes = self.gpu.scopes();
            self.queue.submit([]);
            if let Err(error) = scopes.pop(|| "an empty submission".into(), 0) {
                tracing::warn!(%error, "the queue is shared while work that wgpu does not know of is under way");
            }
        }
    }

    fn submit_encoded(
        &self,
        commands: impl IntoIterator<Item = wgpu::CommandBuffer>,
        batch: &Arc<BatchState>,
    ) -> std::result::Result<(WaitPoint, Moment), Refused> {
        let others = self.sharing.lock().others;
        let scopes = self.gpu.scopes();
        let at = self.clock.now();
        let point = WaitPoint::submit(&self.queue, self.timeline.as_deref(), others, commands);
        self.writes.left(point.as_ref());
        let refused = scopes.pop(|| "a submission".into(), 0).err();
        let error = match (&point, refused) {
            (Some(_), None) => None,
            (None, None) => {
                self.lost.set("it was destroyed");
                self.lost.check().err()
            }
            (_, Some(error)) => Some(self.lost.explain(&self.gpu, error)),
        };
        match (point, error) {
            (Some(point), None) => Ok((point, at)),
            (point, error) => {
                let error = error.unwrap_or_else(|| Error::internal("a submission was refused without a reason"));
                let error = Block::blame_import(batch.blocks().iter().flatten(), error);
                // wgpu reported an error after it had submitted.
                let started = self.timeline.is_some() && point.is_some();
                if let (true, Some(point)) = (started, point) {
                    self.retained.keep(point, batch.clone());
                }
                Err(Refused { error, started })
            }
        }
    }

    /// Submits one submission of a replay directly, unless others may use the queue.
    fn submit_direct(
        &self,
        replay: &dyn NativeReplay,
        part: usize,
        memory: Option<&dyn RunMemory>,
        batch: &Arc<BatchState>,
    ) -> std::result::Result<(WaitPoint, Moment), Refused> {
        let refused = |error| Refused { error, started: false };
        let mut sharing = self.sharing.lock();
        let timeline = self.timeline.as_ref().filter(|_| !sharing.others);
        let Some(timeline) = timeline else {
            drop(sharing);
            let scopes = self.gpu.scopes();
            let descriptor = wgpu::CommandEncoderDescriptor { label: Some("sortie") };
            let mut encoder = self.gpu.create_command_encoder(&descriptor);
            let commands = replay.execute(part, memory, &mut encoder).map(|()| encoder.finish());
            let commands = scopes.pop(|| "a run".into(), 0).and(commands);
            let commands = commands.map_err(|error| refused(self.lost.explain(&self.gpu, error)))?;
            return self.submit_encoded([commands], batch);
        };
        if self.writes.any_unsubmitted() {
            let scopes = self.gpu.scopes();
            let point = WaitPoint::submit(&self.queue, Some(timeline), false, None);
            self.writes.left(point.as_ref());
            let flushed = scopes.pop(|| "writes".into(), 0);
            flushed.map_err(|error| refused(self.direct_failed(self.lost.explain(&self.gpu, error))))?;
        }
        let at = self.clock.now();
        let value = replay.submit(part, memory, timeline).map_err(|error| refused(self.direct_failed(error)))?;
        sharing.direct = true;
        Ok((WaitPoint::direct(value), at))
    }

    fn direct_failed(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::DeviceLost {
            self.lost.set_by_driver();
        }
        error
    }

    /// Submits commands that no thread waits for, together with all pending writes. The caller has the turn.
    fn submit_unattended(&self, commands: Option<wgpu::CommandBuffer>, what: &str) -> Result<()> {
        let others = self.sharing.lock().others;
        let scopes = self.gpu.scopes();
        let point = WaitPoint::submit(&self.queue, self.timeline.as_deref(), others, commands);
        self.writes.left(point.as_ref());
        scopes.pop(|| what.into(), 0).map_err(|error| self.lost.explain(&self.gpu, error))?;
        if point.is_none() {
            self.lost.set("it was destroyed");
        }
        self.lost.check()
    }
}

impl DeviceQueue for WgpuQueue {
    type Commands = WgpuCommands;
    type Write = WgpuWrite;
    type WaitPoint = WaitPoint;

    fn submit(
        &self,
        commands: WgpuCommands,
        batch: &Arc<BatchState>,
    ) -> std::result::Result<Submitted<WaitPoint>, Refused> {
        let native = matches!(commands, WgpuCommands::Native(..) | WgpuCommands::Direct(..));
        let counted = !matches!(commands, WgpuCommands::Preparation(_));
        let (point, at) = match commands {
            WgpuCommands::Encoded(commands) | WgpuCommands::Preparation(commands) => {
                self.submit_encoded([commands], batch)?
            }
            WgpuCommands::Native(commands, memory) => {
                memory.into_iter().for_each(|memory| batch.keep_memory(memory.pending()));
                self.submit_encoded(commands, batch)?
            }
            WgpuCommands::Direct(replay, part, memory) => {
                memory.iter().for_each(|memory| batch.keep_memory(memory.clone().pending()));
                self.submit_direct(&*replay, part, memory.as_deref(), batch)?
            }
        };
        if !self.first[0].swap(true, Ordering::Relaxed) {
            *self.loading.lock() = Some(Loading::begin());
        }
        self.counters.submissions.add(u64::from(counted));
        Ok(Submitted::InFlight { point, at, native })
    }

    fn write(&self, write: WgpuWrite) -> Result<()> {
        match write {
            WgpuWrite::View(view) => {
                let bytes = view.len() as u64;
                let scopes = self.gpu.scopes();
                drop(view);
                self.writes.applied(bytes);
                scopes.pop(|| "a write".into(), 0).map_err(|error| self.lost.explain(&self.gpu, error))
            }
            WgpuWrite::Copy(commands, bytes) => {
                self.writes.applied(bytes);
                self.submit_unattended(Some(commands), "a write")
            }
            WgpuWrite::Clear(commands) => {
                self.submit_unattended(Some(commands), "the zeroing of recycled memory").inspect_err(|error| {
                    // Old data could be read: nothing on this device can be trusted any more.
                    self.lost.set(format!("recycled memory could not be zeroed: {error}"));
                })
            }
        }
    }

    fn flush(&self) {
        if !self.writes.any_unsubmitted() {
            return;
        }
        if let Err(error) = self.submit_unattended(None, "writes") {
            self.lost.set(format!("writes could not be submitted: {error}"));
        }
    }

    fn wait_for_write(&self, at_most: Duration) -> bool {
        let Some(oldest) = self.writes.oldest() else { return false };
        oldest.wait(&self.gpu, self.timeline.as_deref(), &self.lost, at_most);
        self.reap();
        true
    }

    fn reap(&self) {
        let is_over =
            |point: &WaitPoint| point.is_over(&self.gpu, self.timeline.as_deref(), &self.lost, Duration::ZERO);
        self.writes.reap(is_over);
    }

    fn wait(&self, point: &WaitPoint, at_most: Duration) -> Waited {
        let waited = point.wait(&self.gpu, self.timeline.as_deref(), &self.lost, at_most);
        if waited == Waited::Pending {
            self.lost.probe(&self.gpu);
        }
        waited
    }

    fn finished(&self, readback: Option<&dyn PendingReadback>) -> Result<()> {
        if !self.first[1].swap(true, Ordering::Relaxed) {
            // By now the driver has created everything that it creates at first use.
            exit::run_at_exit();
            drop(self.loading.lock().take());
        }
        // Another thread's poll may be running the callback now.
        while let Some(readback) = readback
            && readback.mapped().is_none()
            && self.lost.check().is_ok()
        {
            self.lost.poll(&self.gpu, &wgpu::PollType::Poll);
            readback.wait_mapped(MAPPING);
        }
        if readback.is_some_and(|readback| readback.mapped() == Some(false)) {
            let error = Error::internal("the readback buffer could not be mapped");
            return Err(self.lost.explain(&self.gpu, error));
        }
        Ok(())
    }

    fn retain(&self, point: WaitPoint, batch: &Arc<BatchState>) {
        self.retained.keep(point, batch.clone());
    }
}
