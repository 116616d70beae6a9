//! What one buffer of a kernel holds.

use std::{
    error::Error,
    fmt,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use sortie::{
    Buffer, Device, bytemuck,
    half::f16,
    kernel::{BindingInfo, Scalar},
};

use crate::{
    array::{self, Array},
    input, number, size, terminal,
};

/// A buffer on the device, and its initial contents.
pub(crate) struct BufferArgument {
    binding: BindingInfo,
    origin: String,
    bytes: u64,
    buffer: Buffer<u32>,
    words: Vec<u32>,
}

impl BufferArgument {
    /// Filled from `file`; else generated, with `len` elements in its runtime-sized array or as many as there are
    /// items.
    pub(super) fn new(
        device: &Device,
        binding: &BindingInfo,
        file: Option<&Path>,
        len: Option<u64>,
        items: u32,
    ) -> Result<Self, Box<dyn Error>> {
        let name = name(binding);
        let (words, bytes, origin) = match (file, len) {
            (Some(path), Some(_)) => {
                let path = terminal::name(path);
                return Err(format!("{name}: --len is for buffers without a file; {path} has its own length").into());
            }
            (Some(path), None) => {
                let mut bytes = read(path, binding, device)?;
                let len = bytes.len();
                // A buffer of f16 may end within a word.
                bytes.resize(len.next_multiple_of(4), 0);
                (bytemuck::pod_collect_to_vec(&bytes), len as u64, format!("from {}", terminal::name(path)))
            }
            (None, len) => {
                let bytes = byte_len(device, binding, len, items)?;
                let words = usize::try_from(bytes.div_ceil(4))?;
                if binding.writes {
                    (vec![0; words], bytes, "zeros".into())
                } else {
                    (generated(binding, words, items), bytes, "generated".into())
                }
            }
        };
        let buffer = device.upload(&words).map_err(|error| format!("{name}: {error}"))?;
        Ok(Self { binding: binding.clone(), origin, bytes, buffer, words })
    }

    pub(crate) fn name(&self) -> String {
        name(&self.binding)
    }

    pub(super) fn buffer(&self) -> &Buffer<u32> {
        &self.buffer
    }

    /// Restores the initial contents.
    pub(crate) fn reset(&self) -> sortie::Result<()> {
        self.buffer.write(&self.words)
    }

    /// The current contents.
    pub(crate) fn download(&self) -> sortie::Result<Vec<u8>> {
        let words = self.buffer.download()?;
        let mut bytes: Vec<u8> = bytemuck::cast_slice(&words).to_vec();
        bytes.truncate(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        Ok(bytes)
    }

    /// The contents as an array: a row for each element of a runtime-sized array, if that has several numbers.
    pub(crate) fn array(&self) -> Result<Array, String> {
        let BindingInfo { stride, fixed_bytes, scalar, .. } = self.binding;
        let scalar = scalar.filter(|scalar| *scalar != Scalar::F16);
        let scalar = scalar.ok_or_else(|| {
            format!("{}: only buffers of f32, i32 or u32 alone can be kept as .npy; use .bin", name(&self.binding))
        })?;
        let shape = match stride {
            Some(stride) if stride > 4 && fixed_bytes == 0 => vec![self.bytes / stride, stride / 4],
            _ => vec![self.bytes / 4],
        };
        Ok(Array { scalar, shape, start: 0 })
    }
}

impl fmt::Display for BufferArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.binding.writes { "written" } else { "read" };
        write!(f, "{}: {access}, {}, ", name(&self.binding), size::shown(4 * self.words.len() as u64))?;
        if let Some(stride) = self.binding.stride {
            let elements = (4 * self.words.len() as u64).saturating_sub(self.binding.fixed_bytes) / stride;
            write!(f, "{} ", number::counted(elements, "element"))?;
        }
        f.write_str(&self.origin)
    }
}

/// Whether `key` names this buffer: by its variable, by GROUP.BINDING, or by its binding if no other group has that
/// number.
pub(super) fn is_named(binding: &BindingInfo, key: &str, all: &[BindingInfo]) -> bool {
    let only = |number: u32| all.iter().filter(|other| other.binding == number).count() == 1;
    binding.name == key
        || format!("{}.{}", binding.group, binding.binding) == key
        || (binding.binding.to_string() == key && only(binding.binding))
}

/// The display form.
pub(super) fn name(binding: &BindingInfo) -> String {
    format!("{} ({}.{})", binding.name, binding.group, binding.binding)
}

/// The length of a buffer that is not filled from a file.
fn byte_len(device: &Device, binding: &BindingInfo, len: Option<u64>, items: u32) -> Result<u64, String> {
    let name = name(binding);
    if len.is_some() && binding.stride.is_none() {
        return Err(format!("{name}: --len is for runtime-sized arrays; this one has {} bytes", binding.least_bytes));
    }
    let elements = len.unwrap_or(items.into());
    let limits = &device.info().limits;
    let limit = limits.buffer_bytes.min(if binding.uniform { limits.uniform_bytes } else { limits.binding_bytes });
    let bytes = binding.bytes(elements).filter(|bytes| *bytes <= limit);
    bytes.ok_or_else(|| {
        let wanted = binding.bytes(elements).map_or_else(|| "more than 16 EiB".into(), size::shown);
        format!(
            "{name}: {} elements are {wanted}, but {} binds at most {}",
            number::whole(elements),
            device.info(),
            size::shown(limit)
        )
    })
}

/// The contents of a file for a buffer. A file larger than the device's buffers is not read.
fn read(path: &Path, binding: &BindingInfo, device: &Device) -> Result<Vec<u8>, String> {
    let named = |what: &dyn fmt::Display| input::named(path, what);
    let name = name(binding);
    let (mut file, all) = input::data(path)?;
    let (start, length) = if array::is_npy(path)? {
        let array = Array::read(&mut file, all).map_err(|error| named(&error))?;
        if let Some(scalar) = binding.scalar.filter(|scalar| *scalar != array.scalar) {
            return Err(named(&format!("its elements are {}, but {name} takes {scalar}", array.scalar)));
        }
        (array.start, all - array.start)
    } else {
        (0, all)
    };
    let limit = device.info().limits.buffer_bytes;
    if length > limit {
        let [length, limit] = [length, limit].map(size::shown);
        return Err(named(&format!("it has {length}, but a buffer of {} has at most {limit}", device.info())));
    }
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(start)).and_then(|_| file.take(length).read_to_end(&mut bytes));
    read.map_err(|error| named(&error))?;
    let length = bytes.len() as u64;
    let fits = match binding.stride {
        Some(stride) => length >= binding.least_bytes && (length - binding.fixed_bytes).is_multiple_of(stride),
        None => length >= binding.least_bytes,
    };
    if !fits {
        let least = binding.least_bytes;
        let wants = match (binding.stride, binding.fixed_bytes) {
            (Some(stride), 0) => format!("elements of {stride}"),
            (Some(stride), fixed) => format!("{fixed} and then elements of {stride}, at least {least}"),
            (None, _) => format!("{least}"),
        };
        return Err(named(&format!("it has {length} bytes, but {name} takes {wants}")));
    }
    Ok(bytes)
}

/// Pseudo-random numbers, the same in every run.
fn generated(binding: &BindingInfo, words: usize, items: u32) -> Vec<u32> {
    let random = |at: usize| {
        // SplitMix64.
        let mut x = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ x >> 31) >> 32) as u32
    };
    // Between -1 and 1.
    let float = |at: usize| random(at) as f32 / u32::MAX as f32 * 2.0 - 1.0;
    let word = |at: usize| match binding.scalar {
        Some(Scalar::F32) => float(at).to_bits(),
        Some(Scalar::F16) => {
            let [low, high] = [2 * at, 2 * at + 1].map(|at| u32::from(f16::from_f32(float(at)).to_bits()));
            low | high << 16
        }
        Some(Scalar::I32) => (random(at) % 201).wrapping_sub(100),
        // May be an index into an array of as many items.
        _ => random(at) % items,
    };
    (0..words).map(word).collect()
}
