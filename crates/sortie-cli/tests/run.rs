//! `sortie run` through the built command.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use sortie::Device;
use tempfile::TempDir;

/// Both sums of two arrays and their halves, with three buffers written and two groups.
const KERNEL: &str = "
    struct Params { factor: f32 }
    var<immediate> params: Params;
    override offset: f32 = 0.0;
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read> y: array<f32>;
    @group(0) @binding(2) var<storage, read_write> sums: array<f32>;
    @group(1) @binding(0) var<storage, read_write> pairs: array<vec2<u32>>;
    @group(1) @binding(1) var<storage, read_write> calls: array<atomic<i32>, 1>;
    @compute @workgroup_size(64) fn add(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&sums) {
            sums[id.x] += params.factor * (x[id.x] + y[id.x]) + offset;
            pairs[id.x] = vec2(id.x, 2u * id.x);
            atomicAdd(&calls[0], 1);
        }
    }
    @compute @workgroup_size(1) fn other() {}";

const RUN: &str = "--kernel k.wgsl --entry add --items 100 --immediates 2.0 --constant offset=1";

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        folder.file("k.wgsl", KERNEL.as_bytes());
        folder.file("x.npy", &npy("<f4", "(100,)", &floats(|at| at)));
        folder.file("y.bin", &floats(|at| 3.0 * at));
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).expect("a file");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).expect("a folder").map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = entries.filter_map(|name| name.into_string().ok()).collect();
        names.sort();
        names
    }

    fn run(&self, device: &str, arguments: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sortie"));
        command.current_dir(self.0.path()).env_remove("SORTIE_DEVICE").args(["run", "--device", device]);
        command.args(arguments.split_whitespace()).output().expect("it runs")
    }

    fn succeeds(&self, device: &str, arguments: &str) -> String {
        let output = self.run(device, arguments);
        assert!(output.status.success(), "{arguments}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    fn fails(&self, device: &str, arguments: &str) -> String {
        let output = self.run(device, arguments);
        assert!(!output.status.success(), "{arguments}: {}", text(&output.stdout));
        text(&output.stderr)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn floats(element: impl Fn(f32) -> f32) -> Vec<u8> {
    (0..100).flat_map(|at| element(at as f32).to_le_bytes()).collect()
}

/// As NumPy writes it.
fn npy(descr: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let header = format!("{header:<117}\n");
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), elements].concat()
}

#[test]
fn every_device_writes_every_requested_output_file() {
    let folder = Folder::new();
    let arguments = format!(
        "{RUN} --input x=x.npy --input 0.1=y.bin --output sums=sums.npy --output pairs=pairs.npy --output calls=calls.bin --repeat 2"
    );
    let devices = Device::list();
    for (index, info) in devices.iter().enumerate().filter(|(_, info)| !["noop", "gl"].contains(&info.backend)) {
        let out = folder.succeeds(&index.to_string(), &arguments);
        for part in [
            "k.wgsl: add, 100 items in 2 workgroups of 64, 2 times",
            "x (0.0): read, 400 B, 100 elements from x.npy",
            "pairs (1.0): written, 800 B, 100 elements zeros",
            "sums (0.2) kept in sums.npy",
            "calls (1.1) kept in calls.bin",
        ] {
            assert!(out.contains(part), "{info}: {part:?} is not in\n{out}");
        }
        assert_eq!(folder.read("sums.npy"), npy("<f4", "(100,)", &floats(|at| 2.0 * (8.0 * at + 1.0))), "{info}");
        let pairs: Vec<u8> = (0..100_u32).flat_map(|at| [at, 2 * at]).flat_map(u32::to_le_bytes).collect();
        assert_eq!(folder.read("pairs.npy"), npy("<u4", "(100, 2)", &pairs), "{info}");
        assert_eq!(folder.read("calls.bin"), 200_i32.to_le_bytes(), "{info}");
    }
}

#[test]
fn an_output_is_an_input_of_the_next_run_and_generated_data_is_the_same_in_every_run() {
    let folder = Folder::new();
    folder.succeeds("cpu", &format!("{RUN} --output x=first.npy --output sums=sums.npy"));
    folder.succeeds("cpu", &format!("{RUN} --output x=second.npy --output sums=again.npy"));
    assert_eq!(folder.read("first.npy"), folder.read("second.npy"));
    assert_eq!(folder.read("sums.npy"), folder.read("again.npy"));
    folder.succeeds("cpu", &format!("{RUN} --input sums=sums.npy --output sums=more.npy"));
    assert_ne!(folder.read("sums.npy"), folder.read("more.npy"));
    let out = folder.succeeds("cpu", &format!("{RUN} --len sums=7 --len pairs=7 --output sums=short.bin"));
    assert!(out.contains("sums (0.2): written, 28 B, 7 elements zeros"), "{out}");
    assert_eq!(folder.read("short.bin").len(), 28);
}

#[test]
fn a_mistake_is_named_and_no_file_remains() {
    let folder = Folder::new();
    folder.file(
        "mixed.wgsl",
        b"
        struct Mixed { a: f32, b: u32 }
        @group(0) @binding(0) var<storage, read_write> m: array<Mixed>;
        @compute @workgroup_size(1) fn main() { m[0].b = 1u; }",
    );
    folder.file("bad.wgsl", b"fn");
    let before = folder.names();
    for (arguments, parts) in [
        (format!("{RUN} --output sum=s.npy"), &["--output sum: ", "sums (0.2)"][..]),
        (format!("{RUN} --output 0=s.npy"), &["--output 0: ", "x (0.0)", "pairs (1.0)"]),
        (format!("{RUN} --output sums=s.txt"), &["s.txt", ".npy and .bin"]),
        (format!("{RUN} --output sums=none/s.npy"), &["none/s.npy: "]),
        (format!("{RUN} --input x=x.npy --output sums=x.npy"), &["--output is --input: x.npy"]),
        (format!("{RUN} --output sums=s.npy --output x=s.npy"), &["--output is another --output: s.npy"]),
        (RUN.to_owned(), &["--output"]),
        ("--kernel mixed.wgsl --items 8 --output m=m.npy".to_owned(), &["m (0.0): ", "use .bin"]),
        ("--kernel bad.wgsl --items 8 --output m=m.npy".to_owned(), &["bad.wgsl:1:"]),
    ] {
        let error = folder.fails("cpu", &arguments);
        assert!(parts.iter().all(|part| error.contains(part)), "{arguments}: {error}");
        assert_eq!(folder.names(), before, "{arguments}");
    }
    let error = folder.fails("noop", &format!("{RUN} --output sums=s.npy"));
    assert!(error.contains("the noop device runs nothing"), "{error}");
    folder.succeeds("cpu", "--kernel mixed.wgsl --items 8 --output m=m.bin");
    assert_eq!(folder.read("m.bin").len(), 64);
}
