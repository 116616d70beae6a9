//! One encoder with its open pass: what a submission is encoded into.

use std::{ptr, sync::atomic::AtomicU64};

use sortie_plan::StepId;

use super::{
    Pipeline, WgpuKernel,
    bind_groups::{BindGroupRef, BindGroups},
    timestamps::TimestampWriter,
};
use crate::metrics::{AtomicCounter, Counters};

/// One encoder and its open pass, with what is set in it: setting the same again would cost wgpu's time for nothing.
pub(super) struct PassEncoder<'a, 's> {
    encoder: wgpu::CommandEncoder,
    pass: Option<wgpu::ComputePass<'static>>,
    groups: &'a BindGroups,
    now: u64,
    /// The kernel, whether it is wrapped, and its pipeline.
    pipeline: Option<(&'a WgpuKernel, bool, &'a Pipeline)>,
    set: [BindGroupRef; SET],
    /// Those of the last dispatch, while its pipeline is set.
    immediates: &'a [u8],
    passes: u64,
    dispatches: u64,
    transfers: u64,
    /// Where somebody wants to know what takes how long.
    stamps: Option<&'s mut TimestampWriter>,
}

/// Group numbers whose state is remembered; devices have 4 to 8.
const SET: usize = 8;

impl<'a, 's> PassEncoder<'a, 's> {
    pub(super) fn new(
        device: &wgpu::Device,
        groups: &'a BindGroups,
        now: u64,
        stamps: Option<&'s mut TimestampWriter>,
    ) -> Self {
        Self {
            encoder: device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("sortie") }),
            pass: None,
            groups,
            now,
            pipeline: None,
            set: [BindGroupRef::NONE; SET],
            immediates: &[],
            passes: 0,
            dispatches: 0,
            transfers: 0,
            stamps,
        }
    }

    /// It is for this submission of the batch.
    pub(super) fn begin(&mut self, part: usize) {
        if let Some(stamps) = &mut self.stamps {
            stamps.begin(part);
        }
    }

    /// This step has just been encoded, in the open pass or outside.
    #[inline]
    pub(super) fn executed(&mut self, step: StepId) {
        if self.stamps.is_some() {
            self.stamp(step);
        }
    }

    /// Apart, so that encoding without a profile does not carry it along.
    #[cold]
    fn stamp(&mut self, step: StepId) {
        if let Some(stamps) = &mut self.stamps {
            match &mut self.pass {
                Some(pass) => stamps.ran_inside(step, pass),
                None => stamps.ran_outside(step, &mut self.encoder),
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
            stamps.outside(&mut self.encoder);
        }
        self.transfers += 1;
        &mut self.encoder
    }

    /// The open pass.
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
        self.set = [BindGroupRef::NONE; SET];
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
            *set = BindGroupRef::NONE;
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

    /// Those of something that does not live as long.
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

    pub(super) fn end(mut self, counters: &Counters) -> wgpu::CommandEncoder {
        self.close();
        if let Some(stamps) = &mut self.stamps {
            stamps.end(&mut self.encoder);
        }
        let count = |counter: &AtomicU64, n| counter.add(n);
        count(&counters.passes, self.passes);
        count(&counters.dispatches, self.dispatches);
        count(&counters.transfers, self.transfers);
        self.encoder
    }
}

/// The pipeline of a kernel, which is compiled by now.
pub(super) fn pipeline(kernel: &WgpuKernel, wrapped: bool) -> &Pipeline {
    kernel.pipeline(wrapped).unwrap_or_else(|| unreachable!("pipelines are compiled before encoding"))
}
