//! `sortie map` through the built command.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// y = 2 x + 1, element by element.
const KERNEL: &str = "
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&y) { y[id.x] = 2.0 * x[id.x] + 1.0; }
    }";

/// Lengths of rows of two, whole and rounded, with a constant added.
const ROUNDED: &str = "
    override more: u32 = 0;
    @group(0) @binding(0) var<storage, read> x: array<vec2<f32>>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64) fn other() { y[0] = 0u; }
    @compute @workgroup_size(64) fn lengths(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&y) { y[id.x] = u32(round(length(x[id.x]))) + more; }
    }";

/// A directory, gone at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sortie-map-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).expect("a directory");
        let place = Self(folder);
        place.file("k.wgsl", KERNEL.as_bytes());
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        fs::write(self.path(name), bytes).expect("a file");
        self.path(name)
    }

    fn floats(&self, name: &str, elements: &[f32]) -> PathBuf {
        self.file(name, &bytes(elements))
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Everything but what was put there.
    fn others(&self, known: &[&str]) -> Vec<String> {
        let names = fs::read_dir(&self.0).expect("a directory").map(|entry| entry.expect("an entry").file_name());
        names.filter_map(|name| name.into_string().ok()).filter(|name| !known.contains(&&**name)).collect()
    }

    /// Runs it within the directory.
    fn map(&self, arguments: &str) -> Output {
        self.map_on("cpu", arguments)
    }

    fn map_on(&self, device: &str, arguments: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sortie"));
        command.current_dir(&self.0).env("SORTIE_DEVICE", device).arg("map").args(arguments.split_whitespace());
        command.output().expect("it runs")
    }

    fn fails(&self, arguments: &str) -> String {
        let output = self.map(arguments);
        assert!(!output.status.success(), "{arguments}: {}", told(&output.stdout));
        told(&output.stderr)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn told(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn bytes(elements: &[f32]) -> Vec<u8> {
    elements.iter().flat_map(|element| element.to_le_bytes()).collect()
}

/// As NumPy writes it.
fn npy(descr: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let header = format!("{header:<117}\n");
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), elements].concat()
}

fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{}", told(&output.stderr));
    told(&output.stdout)
}

#[test]
fn a_plain_file_is_processed_in_windows() {
    let place = Place::new("plain");
    let all: Vec<f32> = (0..1000).map(|at| at as f32).collect();
    place.floats("x.bin", &all);
    let out = succeeds(&place.map("--kernel k.wgsl --in x.bin --out y.bin --window 512"));
    let expected: Vec<f32> = all.iter().map(|x| 2.0 * x + 1.0).collect();
    assert_eq!(place.read("y.bin"), bytes(&expected));
    assert!(out.starts_with("1,000 elements in 8 windows on sortie CPU"), "{out}");
    assert!(out.contains("3.9 KiB in and 3.9 KiB out") && out.contains(" GiB/s"), "{out}");
    assert_eq!(place.others(&["k.wgsl", "x.bin", "y.bin"]), Vec::<String>::new());
}

#[test]
fn the_answer_is_the_same_on_every_device() {
    let place = Place::new("devices");
    place.floats("x.bin", &(0..1000).map(|at| at as f32).collect::<Vec<_>>());
    for (index, info) in sortie::Device::list().iter().enumerate().filter(|(_, info)| info.backend != "gl") {
        let output = place.map_on(&index.to_string(), "--kernel k.wgsl --in x.bin --out y.bin --window 512");
        let out = succeeds(&output);
        assert!(out.contains(&info.name), "{out}");
        let expected: Vec<f32> = (0..1000).map(|at| 2.0 * at as f32 + 1.0).collect();
        assert_eq!(place.read("y.bin"), bytes(&expected), "{info}");
    }
}

#[test]
fn an_array_keeps_its_shape_when_its_rows_keep_their_width() {
    let place = Place::new("shape");
    let all: Vec<f32> = (0..24).map(|at| at as f32).collect();
    place.file("x.npy", &npy("<f4", "(2, 3, 4)", &bytes(&all)));
    succeeds(&place.map("--kernel k.wgsl --in x.npy --out y.npy --window 16"));
    let expected: Vec<f32> = all.iter().map(|x| 2.0 * x + 1.0).collect();
    assert_eq!(place.read("y.npy"), npy("<f4", "(2, 3, 4)", &bytes(&expected)));
}

#[test]
fn rows_types_entry_points_and_constants_follow_the_options() {
    let place = Place::new("rows");
    place.file("lengths.wgsl", ROUNDED.as_bytes());
    place.file("x.npy", &npy("<f4", "(3, 2)", &bytes(&[3.0, 4.0, 6.0, 8.0, 5.0, 12.0])));
    let line =
        "--kernel lengths.wgsl --entry lengths --constant more=100 --in x.npy --row 2:1 --out-type u32 --in-flight 3";
    succeeds(&place.map(&format!("{line} --out y.npy")));
    let expected: Vec<u8> = [105_u32, 110, 113].iter().flat_map(|length| length.to_le_bytes()).collect();
    assert_eq!(place.read("y.npy"), npy("<u4", "(3,)", &expected));
    succeeds(&place.map(&format!("{line} --out y.bin")));
    assert_eq!(place.read("y.bin"), expected);
}

#[test]
fn nothing_is_an_answer_to_nothing() {
    let place = Place::new("nothing");
    place.file("x.bin", &[]);
    assert!(succeeds(&place.map("--kernel k.wgsl --in x.bin --out y.npy")).starts_with("0 elements in 0 windows"));
    assert_eq!(place.read("y.npy"), npy("<f4", "(0,)", &[]));
}

#[test]
fn a_file_that_is_there_is_replaced_only_by_a_whole_one() {
    let place = Place::new("replaced");
    place.floats("x.bin", &[1.0]);
    place.file("y.bin", b"before");
    place.file("bad.wgsl", b"fn");
    place.file("three.wgsl", KERNEL.replace("y: array", "z: array").as_bytes());
    place.fails("--kernel bad.wgsl --in x.bin --out y.bin");
    assert_eq!(place.read("y.bin"), b"before");
    succeeds(&place.map("--kernel k.wgsl --in x.bin --out y.bin"));
    assert_eq!(place.read("y.bin"), bytes(&[3.0]));
    assert!(place.others(&["k.wgsl", "bad.wgsl", "three.wgsl", "x.bin", "y.bin"]).is_empty());
}

#[test]
fn what_would_be_overwritten_is_refused() {
    let place = Place::new("overwritten");
    place.floats("x.bin", &[1.0]);
    assert!(place.fails("--kernel k.wgsl --in x.bin --out x.bin").contains("--out is --in"));
    assert!(place.fails("--kernel k.wgsl --in x.bin --out ./x.bin").contains("--out is --in"));
    place.file("k.bin", KERNEL.as_bytes());
    assert!(place.fails("--kernel k.bin --in x.bin --out k.bin").contains("--out is --kernel"));
    assert_eq!(place.read("x.bin"), bytes(&[1.0]));
}

#[test]
fn mistakes_are_reported_and_leave_no_files() {
    let place = Place::new("mistakes");
    place.floats("x.bin", &[1.0, 2.0, 3.0]);
    place.file("odd.bin", &[0; 7]);
    place.file("x.npy", &npy("<f4", "(3,)", &bytes(&[1.0, 2.0, 3.0])));
    place.file("f8.npy", &npy("<f8", "(3,)", &[0; 24]));
    place.file("short.npy", &npy("<f4", "(4,)", &[0; 12]));
    place.file(
        "three.wgsl",
        b"
        @group(0) @binding(0) var<storage, read> x: array<f32>;
        @group(0) @binding(1) var<storage, read> w: array<f32>;
        @group(0) @binding(2) var<storage, read_write> y: array<f32>;
        @compute @workgroup_size(1) fn main() { y[0] = x[0] + w[0]; }",
    );
    place.file("bad.wgsl", b"\n@compute @workgroup_size(1) fn main() { let x: u32 = 1.5; }");
    let known = ["k.wgsl", "three.wgsl", "bad.wgsl", "x.bin", "odd.bin", "x.npy", "f8.npy", "short.npy"];
    let cases = [
        ("--kernel k.wgsl --in none.bin --out y.bin", "none.bin: "),
        ("--kernel none.wgsl --in x.bin --out y.bin", "none.wgsl: "),
        ("--kernel k.wgsl --in x.bin --out none/y.bin", "none/y.bin: "),
        ("--kernel k.wgsl --in odd.bin --out y.bin", "odd.bin: 7 bytes are not a whole number of elements of 4"),
        ("--kernel k.wgsl --in x.bin --row 2 --out y.bin", "x.bin: 3 elements are not a whole number of rows of 2"),
        ("--kernel k.wgsl --in f8.npy --out y.bin", "f8.npy: its elements are \"<f8\""),
        ("--kernel k.wgsl --in short.npy --out y.bin", "short.npy: its header promises 16 bytes of elements, but 12"),
        ("--kernel k.wgsl --in x.npy --type u32 --out y.bin", "x.npy: its elements are f32, not u32"),
        ("--kernel k.wgsl --in x.bin --out y.txt", "y.txt: only .npy and .bin are known"),
        ("--kernel k.wgsl --in k.wgsl --out y.bin", "k.wgsl: only .npy and .bin are known"),
        ("--kernel three.wgsl --in x.bin --out y.bin", "three.wgsl: stream: the kernel \"main\" has 3 bindings"),
        ("--kernel bad.wgsl --in x.bin --out y.bin", "bad.wgsl:2:"),
        ("--kernel k.wgsl --in x.bin --out y.bin --device noop", "the noop device runs nothing"),
        ("--kernel k.wgsl --in x.bin --out y.bin --window 1parsec", "64MiB"),
        ("--kernel k.wgsl --in x.bin --out y.bin --type f64", "one of f32, i32 and u32"),
    ];
    for (arguments, expected) in cases {
        let error = place.fails(arguments);
        assert!(error.contains(expected), "{arguments}\n{error}");
        assert_eq!(place.others(&known), Vec::<String>::new(), "{arguments}");
    }
    assert!(Path::new(&place.path("x.bin")).exists());
}
