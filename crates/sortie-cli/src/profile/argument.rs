//! What a kernel is given for one of its buffers.

use std::{
    error::Error,
    fmt,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use sortie::{BindingInfo, Buffer, Device, Scalar, bytemuck, half::f16};

use crate::{
    array::{Array, Kind},
    input, number, size, terminal,
};

/// What was said about a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'a> {
    pub(super) file: Option<&'a Path>,
    pub(super) elements: Option<u64>,
    pub(super) items: u32,
}

/// A buffer on the device, and what it holds at first.
pub(super) struct Argument {
    name: String,
    about: String,
    buffer: Buffer<u32>,
    words: Vec<u32>,
}

impl Argument {
    pub(super) fn new(device: &Device, binding: &BindingInfo, given: Given<'_>) -> Result<Self, Box<dyn Error>> {
        let name = name(binding);
        let (words, origin) = match given.file {
            Some(path) => {
                if given.elements.is_some() {
                    return Err(format!(
                        "{name}: --len is for buffers without a file; {} has its own length",
                        terminal::name(path)
                    )
                    .into());
                }
                (read(path, binding, device)?, format!("from {}", terminal::name(path)))
            }
            None => {
                let bytes = bytes(device, binding, given)?;
                let words = usize::try_from(bytes.div_ceil(4))?;
                if binding.writes {
                    (vec![0; words], "zeros".into())
                } else {
                    (made_up(binding, words, given.items), "made up".into())
                }
            }
        };
        let access = if binding.writes { "written" } else { "read" };
        let about =
            format!("{access}, {}, {}{origin}", size::shown(4 * words.len() as u64), elements(binding, words.len()));
        let buffer = device.upload(&words).map_err(|error| format!("{name}: {error}"))?;
        Ok(Self { name, about, buffer, words })
    }

    pub(super) fn buffer(&self) -> &Buffer<u32> {
        &self.buffer
    }

    /// As it was at first.
    pub(super) fn reset(&self) -> sortie::Result<()> {
        self.buffer.write(&self.words)
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.about)
    }
}

/// Whether `key` names this one: by its variable, its place, or its number where no other has it.
pub(super) fn is(binding: &BindingInfo, key: &str, all: &[BindingInfo]) -> bool {
    let only = |number: u32| all.iter().filter(|other| other.binding == number).count() == 1;
    binding.name == key
        || format!("{}.{}", binding.group, binding.binding) == key
        || (binding.binding.to_string() == key && only(binding.binding))
}

/// As it is shown, and can be typed.
pub(super) fn name(binding: &BindingInfo) -> String {
    format!("{} ({}.{})", binding.name, binding.group, binding.binding)
}

pub(super) fn input(text: &str) -> Result<(String, PathBuf), String> {
    let (key, path) = text.split_once('=').ok_or("it is given as BUFFER=FILE")?;
    npy(Path::new(path))?;
    Ok((key.trim().into(), path.into()))
}

pub(super) fn len(text: &str) -> Result<(String, u64), String> {
    let (key, len) = text.split_once('=').ok_or("it is given as BUFFER=N")?;
    let len = len.trim().parse().ok().filter(|len| *len > 0);
    Ok((key.trim().into(), len.ok_or("N is a number of elements, at least 1")?))
}

/// Whether it is .npy; anything but that and .bin is an error.
fn npy(path: &Path) -> Result<bool, String> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("npy") => Ok(true),
        Some("bin") => Ok(false),
        _ => Err(format!("{}: only .npy and .bin are known", terminal::name(path))),
    }
}

/// Of a buffer that no file fills.
fn bytes(device: &Device, binding: &BindingInfo, given: Given<'_>) -> Result<u64, String> {
    let name = name(binding);
    if given.elements.is_some() && binding.stride.is_none() {
        return Err(format!("{name}: --len is for runtime-sized arrays; this one has {} bytes", binding.least_bytes));
    }
    let elements = given.elements.unwrap_or(given.items.into());
    let limits = &device.info().limits;
    let limit = limits.buffer_bytes.min(if binding.uniform { limits.uniform_bytes } else { limits.binding_bytes });
    let bytes = binding.bytes(elements).filter(|bytes| *bytes <= limit);
    bytes.ok_or_else(|| {
        let wanted = binding.bytes(elements).map_or_else(|| "more bytes than can be counted".into(), size::shown);
        format!(
            "{name}: {} elements are {wanted}, where {} binds {} at most",
            number::whole(elements),
            device.info(),
            size::shown(limit)
        )
    })
}

/// What a file has for a buffer. It is read only if the device can have as much.
fn read(path: &Path, binding: &BindingInfo, device: &Device) -> Result<Vec<u32>, String> {
    let told = |what: &dyn fmt::Display| input::named(path, what);
    let name = name(binding);
    let (mut file, all) = input::data(path)?;
    let (start, length) = if npy(path)? {
        let array = Array::read(&mut file, all).map_err(|error| told(&error))?;
        let kind = match array.kind {
            Kind::F32 => Scalar::F32,
            Kind::I32 => Scalar::I32,
            Kind::U32 => Scalar::U32,
        };
        if let Some(scalar) = binding.scalar.filter(|scalar| *scalar != kind) {
            return Err(told(&format!("its elements are {}, but {name} takes {scalar}", array.kind)));
        }
        (array.start, all - array.start)
    } else {
        (0, all)
    };
    let limit = device.info().limits.buffer_bytes;
    if length > limit {
        let [length, limit] = [length, limit].map(size::shown);
        return Err(told(&format!("it has {length}, where a buffer of {} has {limit} at most", device.info())));
    }
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(start)).and_then(|_| file.take(length).read_to_end(&mut bytes));
    read.map_err(|error| told(&error))?;
    let length = bytes.len() as u64;
    let fits = match binding.stride {
        Some(stride) => length >= binding.least_bytes && (length - binding.fixed_bytes).is_multiple_of(stride),
        None => length >= binding.least_bytes,
    };
    if !fits {
        let least = binding.least_bytes;
        let wants = match (binding.stride, binding.fixed_bytes) {
            (Some(stride), 0) => format!("elements of {stride}"),
            (Some(stride), fixed) => format!("{fixed} and then elements of {stride}, {least} at least"),
            (None, _) => format!("{least}"),
        };
        return Err(told(&format!("it has {length} bytes, but {name} takes {wants}")));
    }
    // A buffer of f16 may end within a word.
    let whole = bytes.iter().copied().chain(std::iter::repeat(0)).take(bytes.len().next_multiple_of(4));
    Ok(bytemuck::pod_collect_to_vec(&whole.collect::<Vec<u8>>()))
}

/// Numbers that look like any, and are the same in every run.
fn made_up(binding: &BindingInfo, words: usize, items: u32) -> Vec<u32> {
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
        // What may be an index into something of as many items.
        _ => random(at) % items,
    };
    (0..words).map(word).collect()
}

fn elements(binding: &BindingInfo, words: usize) -> String {
    let elements = binding.stride.map(|stride| (4 * words as u64).saturating_sub(binding.fixed_bytes) / stride);
    elements.map(|elements| format!("{} ", number::counted(elements, "element"))).unwrap_or_default()
}
