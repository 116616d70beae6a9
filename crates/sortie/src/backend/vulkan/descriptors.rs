//! Descriptor sets of a native replay, cached by their bindings.

use ash::vk;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{VulkanReplay, pipelines::descriptor, refused};
use crate::{
    backend::wgpu::{BoundRange, GroupLayout},
    error::Result,
};

/// The bindings of a set.
pub(super) type SlotOffsets = SmallVec<[(BoundRange, vk::Buffer); 8]>;
/// The layout, and the bound ranges.
type SetKey = (u64, SmallVec<[BoundRange; 8]>);

/// The sets of a replay so far. Their pools belong to the replay.
#[derive(Default)]
pub(super) struct Descriptors {
    sets: FxHashMap<SetKey, vk::DescriptorSet>,
}

impl Descriptors {
    /// A set with these bindings.
    pub(super) fn set(
        &mut self,
        into: &mut VulkanReplay,
        layout: &GroupLayout,
        raw_layout: vk::DescriptorSetLayout,
        places: &SlotOffsets,
    ) -> Result<vk::DescriptorSet> {
        let key = (layout.id, places.iter().map(|(bound, _)| *bound).collect());
        if let Some(set) = self.sets.get(&key) {
            return Ok(*set);
        }
        let set = allocate(into, raw_layout)?;
        let infos: SmallVec<[_; 8]> = places
            .iter()
            .map(|(bound, buffer)| {
                [vk::DescriptorBufferInfo { buffer: *buffer, offset: bound.offset, range: bound.bytes }]
            })
            .collect();
        let writes: SmallVec<[_; 8]> = (0..)
            .zip(&layout.signature)
            .zip(&infos)
            .map(|((binding, one), info)| {
                vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_binding(binding)
                    .descriptor_type(descriptor(one.kind, one.dynamic))
                    .buffer_info(info)
            })
            .collect();
        // SAFETY: the set is new, and the buffers live as long as it is used.
        unsafe { into.device.update_descriptor_sets(&writes, &[]) };
        self.sets.insert(key, set);
        Ok(set)
    }
}

/// A new set, from a new pool when the last one is full.
fn allocate(into: &mut VulkanReplay, layout: vk::DescriptorSetLayout) -> Result<vk::DescriptorSet> {
    const SETS: u32 = 512;
    let layouts = [layout];
    if let Some(pool) = into.descriptors.last() {
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(*pool).set_layouts(&layouts);
        // SAFETY: pool and layout belong to this device, and only this thread uses the pool.
        match unsafe { into.device.allocate_descriptor_sets(&info) } {
            Ok(sets) => return Ok(sets[0]),
            Err(vk::Result::ERROR_OUT_OF_POOL_MEMORY | vk::Result::ERROR_FRAGMENTED_POOL) => {}
            Err(error) => return Err(refused(error)),
        }
    }
    let sizes = [
        (vk::DescriptorType::STORAGE_BUFFER, 16),
        (vk::DescriptorType::UNIFORM_BUFFER, 12),
        (vk::DescriptorType::STORAGE_BUFFER_DYNAMIC, 2),
        (vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC, 2),
    ]
    .map(|(ty, each)| vk::DescriptorPoolSize { ty, descriptor_count: SETS * each });
    let info = vk::DescriptorPoolCreateInfo::default().max_sets(SETS).pool_sizes(&sizes);
    // SAFETY: the device is alive. For the second call see above.
    unsafe {
        let pool = into.device.create_descriptor_pool(&info, None).map_err(refused)?;
        into.descriptors.push(pool);
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        Ok(into.device.allocate_descriptor_sets(&info).map_err(refused)?[0])
    }
}
