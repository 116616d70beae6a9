//! Timestamps that a device writes between ops while it runs them.
//!
//! Timestamps are numbered in the order they are written. The number determines the query set and the offset of the
//! eight bytes in the buffer that they are resolved into. Every submission resolves its own timestamps, so that wgpu
//! need not track others.

use std::{ops::Range, sync::Arc};

use sortie_plan::StepId;

use super::Gpu;
use crate::{
    clock::Instant,
    error::Result,
    profile::{ExecutedStep, Log, TimedSteps, TimestampRange, TimestampTier},
};

/// Timestamps per query set: the maximum.
const SET: u32 = wgpu::QUERY_SET_MAX_QUERIES;
/// Alignment of resolved timestamps, in timestamps.
const ALIGN: u32 = (wgpu::QUERY_RESOLVE_BUFFER_ALIGNMENT / BYTES) as u32;
const BYTES: u64 = wgpu::QUERY_SIZE as u64;

/// The timestamps of one batch, and the steps between them.
#[derive(Debug)]
pub(super) struct TimestampWriter {
    log: Arc<Log>,
    tier: TimestampTier,
    /// Whether transfers can be timed.
    between: bool,
    sets: Vec<wgpu::QuerySet>,
    resolved: Option<wgpu::Buffer>,
    /// The number of the next timestamp.
    next: u32,
    /// Ranges of numbers written by this submission. Each lies in one set and starts at a valid resolve offset.
    written: Vec<Range<u32>>,
    part: u32,
    ran: Vec<ExecutedStep>,
    stretches: Vec<TimedSteps>,
    /// The timestamp after the last step, where the next step begins.
    last: Option<u32>,
    /// The open pass: its first timestamp, and the number of steps before it.
    pass: Option<(u32, u32)>,
    /// When the last op was encoded.
    encoded: Instant,
}

/// How finely a device can be timed.
fn tier(features: wgpu::Features) -> TimestampTier {
    // A borrowed device may have the other features without this one.
    if !features.contains(wgpu::Features::TIMESTAMP_QUERY) {
        TimestampTier::Host
    } else if features.contains(wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES) {
        TimestampTier::Inside
    } else {
        TimestampTier::Pass
    }
}

impl TimestampWriter {
    /// For this many commands and submissions (`parts`). All timestamps together may take `room` bytes; if that is too
    /// little, none are written.
    pub(super) fn new(gpu: &Gpu, log: &Arc<Log>, commands: usize, parts: usize, room: u64) -> Result<Self> {
        let features = gpu.features();
        // At most one timestamp before and one after each command. A submission starts at an aligned number, and a set
        // may leave one unused.
        let most = 2 * (commands as u64 + 4 * parts as u64) + u64::from(2 * ALIGN) * parts as u64;
        let most = most + most / u64::from(SET) + 1;
        let tier = if parts == 0 || most * BYTES > room { TimestampTier::Host } else { tier(features) };
        log.timed_by(tier);
        let mut stamps = Self {
            log: log.clone(),
            tier,
            between: tier != TimestampTier::Host && features.contains(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS),
            sets: Vec::new(),
            resolved: None,
            next: 0,
            written: Vec::new(),
            part: 0,
            ran: Vec::new(),
            stretches: Vec::new(),
            last: None,
            pass: None,
            encoded: Instant::now(),
        };
        if tier == TimestampTier::Host {
            return Ok(stamps);
        }
        let scopes = gpu.scopes();
        for _ in 0..most.div_ceil(u64::from(SET)) {
            let left = most - u64::from(SET) * stamps.sets.len() as u64;
            stamps.sets.push(gpu.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("sortie profile"),
                ty: wgpu::QueryType::Timestamp,
                count: u32::try_from(left).unwrap_or(SET).min(SET),
            }));
        }
        stamps.resolved = Some(gpu.create_buffer(&wgpu::BufferDescriptor {
            label: Some("sortie profile"),
            size: most * BYTES,
            usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        }));
        scopes.pop(|| format!("{most} timestamps"), most * BYTES)?;
        Ok(stamps)
    }

    /// Most bytes that reading all timestamps back takes.
    pub(super) fn bytes(&self) -> u64 {
        self.resolved.as_ref().map_or(0, wgpu::Buffer::size)
    }

    /// A submission begins.
    pub(super) fn begin(&mut self, part: usize) {
        self.part = u32::try_from(part).unwrap_or(u32::MAX);
        self.next = self.next.next_multiple_of(ALIGN);
        self.last = None;
        self.encoded = Instant::now();
    }

    /// The timestamp writes of a new pass.
    pub(super) fn pass_writes(&mut self) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        self.last = None;
        if self.tier != TimestampTier::Pass {
            return None;
        }
        if self.next % SET == SET - 1 {
            // Both must be in one set.
            self.next += 1;
        }
        let (begin, end) = (self.take(), self.take());
        self.pass = Some((begin, self.count()));
        let query_set = &self.sets[(begin / SET) as usize];
        let [first, last] = [begin, end].map(|number| Some(number % SET));
        Some(wgpu::ComputePassTimestampWrites {
            query_set,
            beginning_of_pass_write_index: first,
            end_of_pass_write_index: last,
        })
    }

    /// A pass has been opened.
    pub(super) fn opened(&mut self, pass: &mut wgpu::ComputePass<'_>) {
        if self.tier == TimestampTier::Inside {
            let number = self.take();
            pass.write_timestamp(&self.sets[(number / SET) as usize], number % SET);
            self.last = Some(number);
        }
    }

    /// A pass has been closed.
    pub(super) fn closed(&mut self) {
        self.last = None;
        if let Some((begin, first)) = self.pass.take() {
            let count = self.count() - first;
            if count > 0 {
                self.between(first, count, begin, begin + 1);
            }
        }
    }

    /// A command is about to be encoded outside passes.
    pub(super) fn outside(&mut self, encoder: &mut wgpu::CommandEncoder) {
        if self.between && self.last.is_none() {
            self.last = Some(self.stamp(encoder));
        }
    }

    /// A step was encoded in a pass.
    pub(super) fn ran_inside(&mut self, step: StepId, pass: &mut wgpu::ComputePass<'_>) {
        self.note(step);
        if self.tier == TimestampTier::Inside {
            let number = self.take();
            pass.write_timestamp(&self.sets[(number / SET) as usize], number % SET);
            self.ended(number);
        }
    }

    /// A step was encoded outside passes.
    pub(super) fn ran_outside(&mut self, step: StepId, encoder: &mut wgpu::CommandEncoder) {
        self.note(step);
        if self.between {
            let number = self.stamp(encoder);
            self.ended(number);
        }
    }

    /// A submission ends.
    pub(super) fn end(&mut self, encoder: &mut wgpu::CommandEncoder) {
        if let Some(resolved) = &self.resolved {
            for range in self.written.drain(..) {
                let set = &self.sets[(range.start / SET) as usize];
                let queries = range.start % SET..range.start % SET + (range.end - range.start);
                encoder.resolve_query_set(set, queries, resolved, u64::from(range.start) * BYTES);
            }
        }
        self.log.ran(std::mem::take(&mut self.ran), std::mem::take(&mut self.stretches));
    }

    /// The last submission ends: copies all timestamps to the readback buffer at `start`.
    pub(super) fn read(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        readback: Option<&wgpu::Buffer>,
        start: u64,
        period: f32,
    ) {
        if let (Some(resolved), Some(readback), 1..) = (&self.resolved, readback, self.next) {
            let bytes = u64::from(self.next) * BYTES;
            encoder.copy_buffer_to_buffer(resolved, 0, readback, start, bytes);
            self.log.stamped(TimestampRange { start, count: u64::from(self.next), period: f64::from(period) });
        }
    }

    fn stamp(&mut self, encoder: &mut wgpu::CommandEncoder) -> u32 {
        let number = self.take();
        encoder.write_timestamp(&self.sets[(number / SET) as usize], number % SET);
        number
    }

    /// The number of a timestamp that is written next.
    fn take(&mut self) -> u32 {
        let number = self.next;
        self.next += 1;
        match self.written.last_mut() {
            Some(range) if range.end == number && !number.is_multiple_of(SET) => range.end += 1,
            _ => self.written.push(number..number + 1),
        }
        number
    }

    fn note(&mut self, step: StepId) {
        let now = Instant::now();
        let encode = now.saturating_duration_since(std::mem::replace(&mut self.encoded, now)).as_nanos();
        self.ran.push(ExecutedStep {
            step: step.0,
            part: self.part,
            encode: u32::try_from(encode).unwrap_or(u32::MAX),
        });
    }

    /// The last step ended at this timestamp.
    fn ended(&mut self, number: u32) {
        if let Some(begin) = self.last.replace(number) {
            self.between(self.count() - 1, 1, begin, number);
        }
    }

    fn between(&mut self, first: u32, count: u32, begin: u32, end: u32) {
        self.stretches.push(TimedSteps { first, count, part: self.part, begin: begin.into(), end: end.into() });
    }

    fn count(&self) -> u32 {
        u32::try_from(self.ran.len()).unwrap_or(u32::MAX)
    }
}
