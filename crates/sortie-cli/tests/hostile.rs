//! Input files that are made to hurt: each is refused with a short, printable message, in little memory and without
//! waiting.
#![cfg(unix)]

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Command, Output},
};

const KERNEL: &str = "
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&y) { y[id.x] = x[id.x]; }
    }";

/// Less memory than the files claim to have.
const MEMORY_KIB: u32 = 2 << 20;

/// A directory with the kernel, gone at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sortie-hostile-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).expect("a directory");
        let place = Self(folder);
        place.file("k.wgsl", KERNEL.as_bytes());
        place
    }

    fn file(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.join(name), bytes).expect("a file");
    }

    /// Runs the command on the built-in CPU, within the directory and with little memory.
    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -v {MEMORY_KIB} && exec \"$@\""), "sh", env!("CARGO_BIN_EXE_sortie")]);
        command.current_dir(&self.0).env("SORTIE_DEVICE", "cpu").env("SORTIE_TUNING", "off").args(arguments);
        command.output().expect("it runs")
    }

    /// Runs it, and returns why it failed: a message, not a signal or a panic.
    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.starts_with("error: ") && error.len() < 9 << 10, "{arguments:?}: {} bytes", error.len());
        let hidden = error.chars().find(|character| character.is_control() && *character != '\n');
        assert_eq!(hidden, None, "{arguments:?}: {error:?}");
        error
    }

    fn map_fails(&self, input: &str) -> String {
        self.fails(&["map", "--kernel", "k.wgsl", "--in", input, "--out", "y.npy"])
    }

    fn profile_fails(&self, input: &str) -> String {
        self.fails(&["profile", "--kernel", "k.wgsl", "--items", "8", "--input", &format!("x={input}")])
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn version_1(header: &[u8], elements: usize) -> Vec<u8> {
    let len = u16::try_from(header.len()).expect("short").to_le_bytes();
    [b"\x93NUMPY\x01\x00", &len[..], header, &vec![0; 4 * elements]].concat()
}

fn version_2(len: u32, header: &[u8]) -> Vec<u8> {
    [b"\x93NUMPY\x02\x00", &len.to_le_bytes()[..], header].concat()
}

fn with(descr: &str, shape: &str, elements: usize) -> Vec<u8> {
    version_1(format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}").as_bytes(), elements)
}

#[test]
fn no_npy_file_makes_map_or_profile_crash_wait_or_take_much_memory() {
    let place = Place::new("npy");
    let many = format!("({})", "1,".repeat(20_000));
    let cases = [
        ("empty", Vec::new(), "not an .npy file"),
        ("cut in its magic", b"\x93NUM".to_vec(), "not an .npy file"),
        ("cut in its length", b"\x93NUMPY\x01\x00\x10".to_vec(), "ends within its header"),
        ("cut in its header", version_2(1000, b"{'descr': '<f4'"), "ends within its header"),
        ("a header of 4 GiB", version_2(u32::MAX, b"{}"), "a header of 4294967295 bytes"),
        ("an empty header", version_1(b"", 0), "no valid descr"),
        ("a header of zeros", version_1(&[0; 1000], 0), "no valid descr"),
        ("a header that is no text", version_1(&[0xff; 1000], 0), "no valid descr"),
        (
            "a header of control characters",
            version_1("{'\u{1b}[2J\u{9b}\r".repeat(999).as_bytes(), 0),
            "no valid descr",
        ),
        ("another version", b"\x93NUMPY\x09\x00\x10\x00\x00\x00".to_vec(), "version 9.0"),
        ("objects", with("'|O'", "(1,)", 1), "its elements are \"|O\""),
        ("structures", with("[('x', '<f4')]", "(1,)", 1), "no valid plain descr"),
        ("a descr without an end", with("'<f4", "(1,)", 1), "its elements are"),
        ("a descr of 50 KB", with(&format!("'{}'", "<f4\u{1b}".repeat(12_000)), "(1,)", 1), "its elements are"),
        ("big-endian", with("'>f4'", "(1,)", 1), "its elements are \">f4\""),
        ("eight bytes", with("'<f8'", "(1,)", 2), "its elements are \"<f8\""),
        ("a negative length", with("'<f4'", "(-1,)", 1), "no valid shape"),
        ("a length with a fraction", with("'<f4'", "(1.5,)", 1), "no valid shape"),
        ("a length that no number has", with("'<f4'", "(99999999999999999999,)", 1), "no valid shape"),
        ("lengths whose product overflows", with("'<f4'", "(4294967296, 4294967296)", 0), "larger than any file"),
        ("an overflow beside a zero", with("'<f4'", "(0, 4294967296, 4294967296)", 0), "larger than any file"),
        ("20,000 dimensions", with("'<f4'", &many, 1), "larger than any file"),
        ("a shape without an end", with("'<f4'", "(1", 1), "no valid shape"),
        ("promised, but not there", with("'<f4'", "(1000000000000,)", 4), "promises 4000000000000 bytes"),
        ("more than promised", with("'<f4'", "(1,)", 2), "promises 4 bytes of elements, but 8 follow"),
        ("cut in an element", with("'<f4'", "(2,)", 1), "promises 8 bytes of elements, but 4 follow"),
    ];
    for (what, bytes, expected) in cases {
        place.file("x.npy", &bytes);
        for error in [place.map_fails("x.npy"), place.profile_fails("x.npy")] {
            assert!(error.contains("x.npy: ") && error.contains(expected), "{what}: {error}");
        }
        assert!(!place.0.join("y.npy").exists(), "{what}");
    }
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let place = Place::new("kinds");
    for name in ["fifo.npy", "fifo.bin"] {
        let made = Command::new("mkfifo").arg(place.0.join(name)).status().expect("mkfifo is there");
        assert!(made.success());
    }
    for name in ["folder.npy", "folder.bin"] {
        fs::create_dir(place.0.join(name)).expect("a folder");
    }
    for name in ["zero.npy", "zero.bin"] {
        std::os::unix::fs::symlink("/dev/zero", place.0.join(name)).expect("a link");
    }
    for name in ["fifo.npy", "fifo.bin", "folder.npy", "folder.bin", "zero.npy", "zero.bin"] {
        for error in [place.map_fails(name), place.profile_fails(name)] {
            assert!(error.contains(&format!("{name}: it is not a regular file")), "{error}");
        }
    }
    let error = place.fails(&["profile", "--kernel", "/dev/zero", "--items", "8"]);
    assert!(error.contains("/dev/zero: it has more than 16 MiB"), "{error}");
}

#[test]
fn a_file_larger_than_memory_is_not_read_into_it() {
    let place = Place::new("large");
    let file = File::create(place.0.join("x.bin")).expect("a file");
    file.set_len(1 << 42).expect("a sparse file");
    let error = place.profile_fails("x.bin");
    assert!(error.contains("x.bin: it has 4 TiB, but a buffer of sortie CPU"), "{error}");
}

#[test]
fn names_and_sources_with_control_characters_are_escaped() {
    let place = Place::new("escaped");
    let name = "a\n\u{1b}[31mb\r.npy";
    place.file(name, &with("'<f8'", "(1,)", 2));
    for error in [place.map_fails(name), place.profile_fails(name)] {
        assert!(error.contains("a\\n\\u{1b}[31mb\\r.npy: "), "{error}");
    }
    let giant = format!("fn main() {{ /* \u{1b}]0;title\u{7}{} */ let x: u32 = 1.5; }}", "x".repeat(900_000));
    place.file("\u{1b}[2J.wgsl", giant.as_bytes());
    let error = place.fails(&["profile", "--kernel", "\u{1b}[2J.wgsl", "--items", "8"]);
    assert!(error.contains("\\u{1b}[2J.wgsl:1:") && error.contains("]0;title"), "{error}");
    place.file("\u{1b}[7m.bin", &[0; 32]);
    let input = "x=\u{1b}[7m.bin";
    let output = place.run(&["profile", "--kernel", "k.wgsl", "--items", "8", "--input", input]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success() && text.contains("from \\u{1b}[7m.bin") && !text.contains('\u{1b}'), "{text}");
}
