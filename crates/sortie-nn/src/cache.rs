//! Keys and values of the positions so far, on the device.

use sortie::{Buffer, Device, Grid, Kernel, Tensor};

use crate::error::Result;

/// Writes one row at a position that is itself data, so that one replay serves all positions.
const PUT: &str = "
    @group(0) @binding(0) var<storage, read> row: array<f32>;
    @group(0) @binding(1) var<storage, read> position: array<u32>;
    @group(0) @binding(2) var<storage, read_write> all: array<f32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        let width = arrayLength(&row);
        if id.x < width && position[0] < arrayLength(&all) / width { all[position[0] * width + id.x] = row[id.x]; }
    }";

/// Keys and values of one decoder layer, with room for a fixed number of positions. They stay on the device from
/// token to token.
/// A further position is not kept.
#[derive(Clone, Debug)]
pub struct KeyValueCache {
    keys: Buffer<f32>,
    values: Buffer<f32>,
    put: Kernel,
    positions: usize,
}

impl KeyValueCache {
    /// An empty cache: `width` is that of all keys of a position.
    ///
    /// # Errors
    /// The device failed.
    pub fn new(device: &Device, positions: usize, width: usize) -> Result<Self> {
        let empty = || device.zeros(positions * width);
        Ok(Self { keys: empty()?, values: empty()?, put: device.kernel(PUT)?, positions })
    }

    /// Number of positions it has room for.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Records that a key and a value are kept at a position. Returns all keys, all values, and the mask of positions
    /// up to this one, to be added to scores.
    #[track_caller]
    pub(crate) fn push<'b>(
        &self,
        key: Tensor<'b, f32>,
        value: Tensor<'b, f32>,
        position: Tensor<'b, u32>,
    ) -> [Tensor<'b, f32>; 3] {
        let batch = key.batch();
        for (row, all) in [(key, &self.keys), (value, &self.values)] {
            batch.dispatch(&self.put, &[&row, &position, all], Grid::items(row.len()));
        }
        let positions: Vec<u32> = (0..self.positions as u32).collect();
        let positions = batch.tensor_from(&positions, [self.positions]);
        let mask = positions.less_equal(position).select(0.0, f32::NEG_INFINITY);
        let all = |buffer: &Buffer<f32>| batch.tensor(buffer, [self.positions, key.len()]);
        [all(&self.keys), all(&self.values), mask]
    }
}
