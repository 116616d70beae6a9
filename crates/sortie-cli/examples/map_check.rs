//! Has `sortie map` run a large file through a kernel, checks every element of the result, and how much memory that took.
//!
//! `map_check SIZE WINDOW MEMORY FOLDER`, all but the folder in MiB. Writes both files into the folder, reads them as it goes, and takes them away again. The command is the `sortie`
//! that was built beside this program; `SORTIE_DEVICE` chooses the device.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::{
    error::Error,
    fs::{self, File},
    io::{BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
    process::Command,
};

const KERNEL: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&y) { y[id.x] = 1664525u * x[id.x] + 1013904223u; }
    }";

/// The element at an index: a permutation, so that one in another's place is seen.
fn element(at: u64) -> u32 {
    let mixed = (at as u32).wrapping_mul(2_654_435_761);
    mixed ^ (mixed >> 15)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [size, window, memory, folder] = &arguments[..] else {
        return Err("map_check SIZE WINDOW MEMORY FOLDER, all but the folder in MiB".into());
    };
    let (size, memory): (u64, u64) = (size.parse()?, memory.parse()?);
    let place = Place::new(Path::new(folder))?;
    fs::write(place.path("kernel.wgsl"), KERNEL)?;
    let elements = size << 18;
    write(&place.path("in.bin"), elements)?;

    // This program is in a folder of examples, beside which the command is.
    let mut sortie = std::env::current_exe()?;
    sortie.pop();
    sortie.set_file_name("sortie");
    let output = Command::new(&sortie)
        .args(["map", "--type", "u32", "--window", &format!("{window}MiB")])
        .arg("--kernel")
        .arg(place.path("kernel.wgsl"))
        .arg("--in")
        .arg(place.path("in.bin"))
        .arg("--out")
        .arg(place.path("out.bin"))
        .output()
        .map_err(|error| format!("{}: {error}", sortie.display()))?;
    let told = String::from_utf8(output.stdout)?;
    print!("{told}");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    check(&place.path("out.bin"), elements)?;
    println!("all {elements} elements are right");

    let took =
        told.split("at most ").nth(1).and_then(|rest| rest.split_once(" of memory")).ok_or("no word of memory")?;
    let mib = mib(took.0).ok_or_else(|| format!("{} is no size", took.0))?;
    if mib > memory as f64 {
        return Err(format!("{} of memory, where {memory} MiB were allowed", took.0).into());
    }
    println!("{} of memory, of {memory} MiB that were allowed", took.0);
    Ok(())
}

fn write(path: &Path, elements: u64) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    for at in 0..elements {
        file.write_all(&element(at).to_le_bytes())?;
    }
    file.flush()
}

fn check(path: &Path, elements: u64) -> Result<(), Box<dyn Error>> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
    for at in 0..elements {
        let mut found = [0; 4];
        file.read_exact(&mut found).map_err(|error| format!("element {at}: {error}"))?;
        let expected = element(at).wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if u32::from_le_bytes(found) != expected {
            return Err(format!("element {at} is {}, not {expected}", u32::from_le_bytes(found)).into());
        }
    }
    if file.read(&mut [0])? != 0 {
        return Err(format!("there is more than {elements} elements").into());
    }
    Ok(())
}

/// A size as the command shows it.
fn mib(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once(' ')?;
    let number: f64 = number.parse().ok()?;
    match unit {
        "KiB" => Some(number / 1024.0),
        "MiB" => Some(number),
        "GiB" => Some(number * 1024.0),
        _ => None,
    }
}

/// Files that are gone at the end, and the folder with them if it is empty then.
struct Place(PathBuf);

impl Place {
    fn new(folder: &Path) -> std::io::Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Self(folder.into()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for name in ["kernel.wgsl", "in.bin", "out.bin"] {
            drop(fs::remove_file(self.path(name)));
        }
        drop(fs::remove_dir(&self.0));
    }
}
