//! Hostile files: `.npy` and kernels given to the `sortie` command, and what lies where the tuning file and the pipeline
//! cache are expected.
//!
//! An input that is no good is refused with a short, printable message. A tuning file or a cache that is no good changes
//! nothing: the command succeeds, and does not write through a symbolic link.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use clap::ValueEnum;
use fastrand::Rng;
use tempfile::TempDir;

use crate::{
    child,
    part::{Part, Task},
    report::Report,
};

pub(crate) const PART: Part = Part {
    cases: PLACES.len() as u64,
    quick_runs: PLACES.len() as u64,
    patience: Duration::from_secs(1200),
    ..Part::new(
        "files",
        "hostile .npy, kernel, tuning and cache files; one place per process, with every kind of file; size: rounds",
        run,
    )
};

/// Where the hostile file is put.
type Place = (&'static str, fn(&Scene, &mut Rng, Kind) -> io::Result<Vec<String>>);

const PLACES: &[Place] = &[
    ("input", input),
    ("kernel", kernel),
    ("tuning file", tuning),
    ("folder of the cache", cache_folder),
    ("file of the cache", cache_file),
];

/// What is put there.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Kind {
    Empty,
    Folder,
    Pipe,
    LinkToZeros,
    LinkToItself,
    LinkToVictim,
    Oversized,
    RandomBytes,
    Truncated,
    ControlCharacters,
    Nested,
    Mutated,
}

/// A command that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of a message.
const MAX_OUTPUT_BYTES: usize = 16 << 10;

/// Contents of a file that no command may write to.
const VICTIM: &str = "not yours\n";

const KERNEL: &str = include_str!("../../kernels/double.wgsl");

fn run(task: &Task, report: &mut Report) -> sortie::Result<()> {
    let (name, place) = PLACES[task.seed as usize % PLACES.len()];
    let mut random = task.random();
    for _ in 0..task.size {
        for kind in Kind::value_variants() {
            report.at(format!("{name}, {kind:?}"));
            report.count(1);
            let faults = Scene::new(&task.device).and_then(|scene| {
                let mut faults = place(&scene, &mut random, *kind)?;
                let victim = fs::read_to_string(scene.path("victim"));
                if !victim.is_ok_and(|text| text == VICTIM) {
                    faults.push("wrote through a symbolic link".into());
                }
                Ok(faults)
            });
            match faults {
                Ok(faults) => faults.iter().for_each(|fault| report.fault(format!("{name}, {kind:?}: {fault}"))),
                Err(error) => report.fault(format!("{name}, {kind:?}: the scene: {error}")),
            }
        }
    }
    Ok(())
}

/// A folder with good files in it.
struct Scene {
    folder: TempDir,
    device: String,
}

impl Scene {
    fn new(device: &str) -> io::Result<Self> {
        let scene = Self { folder: tempfile::tempdir()?, device: device.into() };
        fs::write(scene.path("victim"), VICTIM)?;
        fs::write(scene.path("good.wgsl"), KERNEL)?;
        fs::write(scene.path("good.npy"), npy(&[1.0, 2.0, 3.0]))?;
        Ok(scene)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `sortie map` of these files.
    fn map(&self, kernel: &str, input: &str, out: &str) -> io::Result<Command> {
        // Built beside this program.
        let sortie = std::env::current_exe()?.with_file_name("sortie");
        if !sortie.exists() {
            return Err(io::Error::other("the sortie command is not built: cargo build -p sortie-cli"));
        }
        // A file without an end must not take all memory of the machine.
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v 4194304 && exec \"$0\" \"$@\""]).arg(sortie);
        command.args(["map", "--device", &self.device]);
        command.arg("--kernel").arg(self.path(kernel)).arg("--in").arg(self.path(input));
        command.arg("--out").arg(self.path(out));
        command.envs([("SORTIE_TUNING", "off"), ("SORTIE_CACHE", "off")]);
        Ok(command)
    }

    /// The good files, doubled.
    fn doubles(&self, command: &mut Command) -> io::Result<Vec<String>> {
        let mut faults = ends(command, true)?;
        let doubled = fs::read(self.path("out.npy")).unwrap_or_default();
        if faults.is_empty() && !doubled.ends_with(&bytes(&[2.0, 4.0, 6.0])) {
            faults.push("a wrong answer".into());
        }
        Ok(faults)
    }

    /// Puts a hostile file at `path`. `good` is what should be there.
    fn put(&self, path: &Path, good: &[u8], kind: Kind, random: &mut Rng) -> io::Result<()> {
        match kind {
            Kind::Empty => fs::write(path, ""),
            Kind::Folder => fs::create_dir(path),
            Kind::Pipe => Command::new("mkfifo").arg(path).status().map(drop),
            Kind::LinkToZeros => symlink("/dev/zero", path),
            Kind::LinkToItself => symlink(path, path),
            Kind::LinkToVictim => symlink(self.path("victim"), path),
            Kind::Oversized => {
                let mut file = fs::File::create(path)?;
                file.write_all(good)?;
                file.set_len(8 << 30)
            }
            Kind::RandomBytes => fs::write(path, (0..random.usize(1..4096)).map(|_| random.u8(..)).collect::<Vec<_>>()),
            Kind::Truncated => fs::write(path, &good[..random.usize(..good.len().max(1))]),
            Kind::ControlCharacters => fs::write(path, control(good)),
            Kind::Nested => fs::write(path, "[".repeat(100_000) + "{(".repeat(100_000).as_str()),
            Kind::Mutated => {
                let mut data = good.to_vec();
                for _ in 0..random.usize(1..8) {
                    let at = random.usize(..data.len().max(1));
                    if let Some(byte) = data.get_mut(at) {
                        *byte = random.u8(..);
                    }
                }
                fs::write(path, data)
            }
        }
    }
}

/// Terminal sequences in the middle of a good file. In the header of an `.npy` they are in what a message would quote.
fn control(good: &[u8]) -> Vec<u8> {
    const SEQUENCE: &[u8] = b"\x1b[2J\x1b]0;owned\x07\x08\x00\r";
    match good.windows(5).position(|window| window == b"shape") {
        Some(at) => {
            let mut data = good.to_vec();
            let end = (at + SEQUENCE.len()).min(data.len());
            data[at..end].copy_from_slice(&SEQUENCE[..end - at]);
            data
        }
        None => [SEQUENCE, good, SEQUENCE].concat(),
    }
}

fn input(scene: &Scene, random: &mut Rng, kind: Kind) -> io::Result<Vec<String>> {
    // A pipe may be meant: the command waits for data.
    if kind == Kind::Pipe {
        return Ok(Vec::new());
    }
    scene.put(&scene.path("in.npy"), &npy(&[1.0, 2.0, 3.0]), kind, random)?;
    // A mutation may leave it as good as it was.
    ends(&mut scene.map("good.wgsl", "in.npy", "out.npy")?, false)
}

fn kernel(scene: &Scene, random: &mut Rng, kind: Kind) -> io::Result<Vec<String>> {
    if kind == Kind::Pipe {
        return Ok(Vec::new());
    }
    scene.put(&scene.path("in.wgsl"), KERNEL.as_bytes(), kind, random)?;
    ends(&mut scene.map("in.wgsl", "good.npy", "out.npy")?, false)
}

fn tuning(scene: &Scene, random: &mut Rng, kind: Kind) -> io::Result<Vec<String>> {
    let good = format!("[\"{}\"]\nproducts = \"tiled\"\nin_flight = \"2\"\n", scene.device);
    let path = scene.path("tuning.toml");
    scene.put(&path, good.as_bytes(), kind, random)?;
    scene.doubles(scene.map("good.wgsl", "good.npy", "out.npy")?.env("SORTIE_TUNING", path))
}

fn cache_folder(scene: &Scene, random: &mut Rng, kind: Kind) -> io::Result<Vec<String>> {
    let path = scene.path("cache");
    scene.put(&path, b"not a folder", kind, random)?;
    scene.doubles(scene.map("good.wgsl", "good.npy", "out.npy")?.env("SORTIE_CACHE", path))
}

fn cache_file(scene: &Scene, random: &mut Rng, kind: Kind) -> io::Result<Vec<String>> {
    let path = scene.path("cache");
    let mut faults = scene.doubles(scene.map("good.wgsl", "good.npy", "out.npy")?.env("SORTIE_CACHE", &path))?;
    // What it has written is replaced. The built-in CPU writes none.
    for file in fs::read_dir(path.join("pipelines")).into_iter().flatten() {
        let file = file?.path();
        let good = fs::read(&file)?;
        fs::remove_file(&file)?;
        scene.put(&file, &good, kind, random)?;
    }
    let mut again = scene.map("good.wgsl", "good.npy", "out.npy")?;
    faults.extend(scene.doubles(again.env("SORTIE_CACHE", &path))?);
    Ok(faults)
}

/// Runs a command and says what must not happen.
fn ends(command: &mut Command, must_succeed: bool) -> io::Result<Vec<String>> {
    let output = child::output(command, PATIENCE)?;
    let mut faults = Vec::new();
    match output.status {
        None => faults.push(format!("hung: no end after {} s", PATIENCE.as_secs())),
        Some(status) => faults.extend(child::signal(status)),
    }
    if must_succeed && output.status.is_some_and(|status| !status.success()) {
        faults.push("the command fails".into());
    }
    for (stream, text) in [("output", &output.stdout), ("error", &output.stderr)] {
        if text.contains("panicked at") {
            faults.push(format!("a panic: {text:.300}"));
        }
        if text.len() > MAX_OUTPUT_BYTES {
            faults.push(format!("{} bytes on standard {stream}", text.len()));
        }
        if let Some(char) = text.chars().find(|char| char.is_control() && !matches!(char, '\n' | '\t')) {
            faults.push(format!("the control character {char:?} on standard {stream}"));
        }
    }
    Ok(faults)
}

/// A good file of NumPy's.
fn npy(elements: &[f32]) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}\n", elements.len());
    let len = u16::try_from(header.len()).unwrap_or_default().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &len[..], header.as_bytes(), &bytes(elements)].concat()
}

fn bytes(elements: &[f32]) -> Vec<u8> {
    elements.iter().flat_map(|element| element.to_le_bytes()).collect()
}
