//! The kernel for fills with a pattern, and for zeroing scratch memory inside a pass.
//!
//! wgpu can only clear to zero, and only outside a pass. A kernel writes a pattern of up to 16 words and keeps the pass
//! open.

/// Longest pattern in words. With its three counters it fits the 128 bytes of immediates that every device with
/// immediates has.
pub(super) const PATTERN_WORDS: usize = 16;
/// Bytes of the kernel's immediates.
const FILL_BYTES: usize = 12 + 4 * PATTERN_WORDS;
/// Must agree with `@workgroup_size` in `fill.wgsl`.
const GROUP: u32 = 256;

/// Its WGSL source.
pub(super) const SOURCE: &str = include_str!("../../../kernels/fill.wgsl");

/// The immediates of a fill of `count` words, from word `start` of the binding.
pub(crate) fn immediates(start: u32, count: u32, pattern: &[u8]) -> [u8; FILL_BYTES] {
    let mut bytes = [0; FILL_BYTES];
    let period = u32::try_from(pattern.len() / 4).unwrap_or_else(|_| unreachable!("at most {PATTERN_WORDS} words"));
    bytes[0..4].copy_from_slice(&start.to_le_bytes());
    bytes[4..8].copy_from_slice(&count.to_le_bytes());
    bytes[8..12].copy_from_slice(&period.to_le_bytes());
    bytes[12..12 + pattern.len()].copy_from_slice(pattern);
    bytes
}

/// Bytes in words. A binding is smaller than 16 GiB.
pub(crate) fn words(bytes: u64) -> u32 {
    u32::try_from(bytes / 4).unwrap_or_else(|_| unreachable!("bounded by the binding limit"))
}

/// The grid of a fill. Folded here, because the kernel computes its index itself.
pub(crate) fn grid(count: u32, most: u32) -> [u32; 3] {
    let groups = count.div_ceil(GROUP);
    [groups.min(most), groups.div_ceil(most.max(1)).max(1), 1]
}
