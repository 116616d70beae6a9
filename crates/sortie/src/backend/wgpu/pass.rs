//! The encoder of one submission, with its open compute pass.

use std::ptr;

use sortie_plan::StepId;

use super::{
    Pipeline, WgpuKernel,
    bind_groups::{BindGroupRef, BindGroups},
    timestamps::TimestampWriter,
};
use crate::metrics::{AtomicCounter, Counters};

/// An encoder, ours or the application's, its open pass and the state set in it. State that is already set is not set again, which saves time in
/// wgpu.
pub(super) struct PassEncoder<'a, 's> {
    encoder: &'s mut wgpu::CommandEncoder,
    pass: Option<wgpu::ComputePass<'static>>,
    groups: &'a BindGroups,
    now: u64,
    /// The kernel, whether it is wrapped, and its pipeline.
    pipeline: Option<(&'a WgpuKernel, bool, &'a Pipeline)>,
    set: [BindGroupRef; SET],
    /// The immediates of the last dispatch, while its pipeline is set.
    immediates: &'a [u8],
    passes: u64,
    dispatches: u64,
    transfers: u64,
    /// Timestamp writer, if the batch is profiled.
    stamps: Option<&'s mut TimestampWriter>,
}

/// Group numbers whose state is tracked; devices have 4 to 8.
const SET: usize = 8;

impl<'a, 's> PassEncoder<'a, 's> {
    pub(super) fn new(
        encoder: &'s mut wgpu::CommandEncoder,
        groups: &'a BindGroups,
        now: u64,
        stamps: Option<&'s mut TimestampWriter>,
    ) -> Self {
        Self {
            encoder,
            pass: None,
            groups,
            now,
            pipeline: None,
            set: [BindGroupRef::default(); SET],
            immediates: &[],
            passes: 0,
            dispatches: 0,
            transfers: 0,
            stamps,
        }
    }

    /// Starts this submission of the batch.
    pub(super) fn begin(&mut self, part: usize) {
        if let Some(stamps) = &mut self.stamps {
            stamps.begin(part);
        }
    }

    /// A step was just encoded, in the open pass or outside.
    #[inline]
    pub(super) fn executed(&mut self, step: StepId) {
        if self.stamps.is_some() {
            self.stamp(step);
        }
    }

    /// Out of line, so that encoding without a profile does not pay for it.
    #[cold]
    fn stamp(&mut self, step: StepId) {
        if let Some(stamps) = &mut self.stamps {
            match &mut self.pass {
                Some(pass) => stamps.ran_inside(step, pass),
                None => stamps.ran_outside(step, self.encoder),
            }
        }
    }

    fn close(&mut self) {
        let open = self.pass.take().is_some();
        if let Some(stamps) = self.stamps.as_mut().filter(|_| open) {
            stamps.closed();
        }
    }

    /// The encoder, for one command outside a pass.
    pub(super) fn transfer(&mut self) -> &mut wgpu::CommandEncoder {
        self.close();
        if let Some(stamps) = &mut self.stamps {
            stamps.outside(self.encoder);
        }
        self.transfers += 1;
        self.encoder
    }

    /// The open pass; opens one if there is none.
    #[inline]
    fn pass(&mut self) -> &mut wgpu::ComputePass<'static> {
        if self.pass.is_none() {
            self.open();
        }
        self.pass.as_mut().unwrap_or_else(|| unreachable!("just opened"))
    }

    fn open(&mut self) {
        self.passes += 1;
        self.pipeline = None;
        self.set = [BindGroupRef::default(); SET];
        self.immediates = &[];
        let timestamp_writes = self.stamps.as_mut().and_then(|stamps| stamps.pass_writes());
        let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
        let mut pass = self.encoder.begin_compute_pass(&descriptor).forget_lifetime();
        if let Some(stamps) = &mut self.stamps {
            stamps.opened(&mut pass);
        }
        self.pass = Some(pass);
    }

    #[inline]
    pub(super) fn pipeline(&mut self, kernel: &'a WgpuKernel, wrapped: bool) -> &'a Pipeline {
        match self.pipeline {
            Some((set, as_wrapped, pipeline))
                if ptr::eq(set, kernel) && as_wrapped == wrapped && self.pass.is_some() =>
            {
                pipeline
            }
            _ => {
                let pipeline = pipeline(kernel, wrapped);
                self.pass().set_pipeline(&pipeline.raw);
                self.pipeline = Some((kernel, wrapped, pipeline));
                // Another layout may have other immediates.
                self.immediates = &[];
                pipeline
            }
        }
    }

    #[inline]
    pub(super) fn group(&mut self, number: u32, named: BindGroupRef) {
        if self.set.get(number as usize) == Some(&named) {
            return;
        }
        self.set_group(number, named, &[]);
        if let Some(set) = self.set.get_mut(number as usize) {
            *set = named;
        }
    }

    /// Hidden parameters differ from op to op by their offset.
    pub(super) fn hidden(&mut self, number: u32, named: BindGroupRef, offsets: &[u32]) {
        self.set_group(number, named, offsets);
        if let Some(set) = self.set.get_mut(number as usize) {
            *set = BindGroupRef::default();
        }
    }

    #[inline]
    fn set_group(&mut self, number: u32, named: BindGroupRef, offsets: &[u32]) {
        let group =
            self.groups.get(named, self.now).unwrap_or_else(|| unreachable!("groups stay while the guard is held"));
        self.pass().set_bind_group(number, group, offsets);
    }

    #[inline]
    pub(super) fn immediates(&mut self, bytes: &'a [u8]) {
        if self.immediates != bytes {
            self.immediates = bytes;
            self.pass().set_immediates(0, bytes);
        }
    }

    /// Immediates that do not live as long as the encoder.
    pub(super) fn brief_immediates(&mut self, bytes: &[u8]) {
        self.immediates = &[];
        self.pass().set_immediates(0, bytes);
    }

    #[inline]
    pub(super) fn dispatch(&mut self, [x, y, z]: [u32; 3]) {
        self.dispatches += 1;
        self.pass().dispatch_workgroups(x, y, z);
    }

    pub(super) fn dispatch_indirect(&mut self, from: &wgpu::Buffer, offset: u64) {
        self.dispatches += 1;
        self.pass().dispatch_workgroups_indirect(from, offset);
    }

    pub(super) fn end(mut self, counters: &Counters) {
        self.close();
        if let Some(stamps) = &mut self.stamps {
            stamps.end(self.encoder);
        }
        counters.passes.add(self.passes);
        counters.dispatches.add(self.dispatches);
        counters.transfers.add(self.transfers);
    }
}

/// The pipeline of a kernel, which is already compiled.
pub(super) fn pipeline(kernel: &WgpuKernel, wrapped: bool) -> &Pipeline {
    kernel.pipeline(wrapped).unwrap_or_else(|| unreachable!("pipelines are compiled before encoding"))
}
