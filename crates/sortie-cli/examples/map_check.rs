//! Runs a large file through `sortie map`, and checks every element of the result and the memory that was used.
//!
//! `map_check SIZE WINDOW MEMORY FOLDER`, all but the folder in MiB. Both files are in a temporary folder within
//! FOLDER. The command is the `sortie` that was built beside this program; `SORTIE_DEVICE` chooses the device.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::{
    error::Error,
    fs::{self, File},
    io::{BufReader, BufWriter, Read, Write},
    path::Path,
    process::Command,
};

use bytesize::ByteSize;

const KERNEL: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&y) { y[id.x] = 1664525u * x[id.x] + 1013904223u; }
    }";

/// The element at an index: a permutation, so that a misplaced element is found.
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
    fs::create_dir_all(folder)?;
    let place = tempfile::tempdir_in(folder)?;
    let [kernel, input, output] = ["kernel.wgsl", "in.bin", "out.bin"].map(|name| place.path().join(name));
    fs::write(&kernel, KERNEL)?;
    let elements = size << 18;
    write(&input, elements)?;

    // The command is one folder above the examples.
    let mut sortie = std::env::current_exe()?;
    sortie.pop();
    sortie.set_file_name("sortie");
    let run = Command::new(&sortie)
        .args(["map", "--type", "u32", "--window", &format!("{window}MiB")])
        .args(["--kernel".as_ref(), kernel.as_os_str(), "--in".as_ref(), input.as_os_str()])
        .args(["--out".as_ref(), output.as_os_str()])
        .output()
        .map_err(|error| format!("{}: {error}", sortie.display()))?;
    let summary = String::from_utf8(run.stdout)?;
    print!("{summary}");
    if !run.status.success() {
        return Err(String::from_utf8_lossy(&run.stderr).into());
    }
    check(&output, elements)?;
    println!("all {elements} elements are correct");

    let used = summary.split("at most ").nth(1).and_then(|rest| rest.split_once(" of memory"));
    let used: ByteSize = used.ok_or("the summary has no memory")?.0.parse()?;
    if used > ByteSize::mib(memory) {
        return Err(format!("{used} of memory, but {memory} MiB are allowed").into());
    }
    println!("{used} of memory, of {memory} MiB that are allowed");
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
        return Err(format!("there are more than {elements} elements").into());
    }
    Ok(())
}
