//! `sortie profile` through the built command.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use sortie::Device;

/// Adds what a table has at an index, times a number, to each element.
const KERNEL: &str = "
    struct Params { factor: f32, offset: u32 }
    var<immediate> params: Params;
    @group(0) @binding(0) var<storage, read> at: array<u32>;
    @group(0) @binding(1) var<storage, read> table: array<f32>;
    @group(1) @binding(0) var<storage, read_write> sums: array<f32>;
    @compute @workgroup_size(64) fn add(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&sums) { sums[id.x] += params.factor * table[(at[id.x] + params.offset) % arrayLength(&table)]; }
    }
    @compute @workgroup_size(1) fn other() {}";

/// A directory with the kernel, gone at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sortie-profile-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).expect("a directory");
        let place = Self(folder);
        place.file("k.wgsl", KERNEL.as_bytes());
        place
    }

    fn file(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.join(name), bytes).expect("a file");
    }

    /// Runs it within the directory.
    fn profile(&self, device: &str, arguments: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sortie"));
        command.current_dir(&self.0).env_remove("SORTIE_DEVICE").args(["profile", "--device", device]);
        command.args(arguments.split_whitespace()).output().expect("it runs")
    }

    fn works(&self, device: &str, arguments: &str) -> String {
        let output = self.profile(device, arguments);
        assert!(output.status.success(), "{arguments}: {}{}", told(&output.stdout), told(&output.stderr));
        told(&output.stdout)
    }

    fn fails(&self, arguments: &str) -> String {
        let output = self.profile("cpu", arguments);
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

/// A one-dimensional array as NumPy writes it.
fn npy(descr: &str, elements: &[[u8; 4]]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({},), }}\n", elements.len());
    let len = u16::try_from(header.len()).expect("short").to_le_bytes();
    [b"\x93NUMPY\x01\x00", &len[..], header.as_bytes(), elements.as_flattened()].concat()
}

const RUN: &str = "--kernel k.wgsl --entry add --items 1000 --immediates 2.0,3";

#[test]
fn every_device_says_what_each_dispatch_took() {
    let place = Place::new("all");
    let devices = Device::list();
    let known = devices.iter().enumerate().filter(|(_, info)| info.backend != "noop");
    for (index, info) in known {
        let out = place.works(&index.to_string(), &format!("{RUN} --repeat 3 --trace t.json"));
        for part in [
            "k.wgsl: add, 1,000 items in 16 workgroups of 64, 3 times",
            "at (0.0): read, 3.9 KiB, 1,000 elements generated",
            "table (0.1): read, 3.9 KiB, 1,000 elements generated",
            "sums (1.0): written, 3.9 KiB, 1,000 elements zeros",
            "trace: t.json",
        ] {
            assert!(out.contains(part), "{part:?} is not in\n{out}");
        }
        assert!(out.contains(&info.name), "{out}");
        assert!(out.matches("add").count() > 1, "{out}");
        let trace = fs::read_to_string(place.0.join("t.json")).expect("a trace");
        assert!(trace.contains("\"name\":\"add\""), "{trace}");
    }
}

#[test]
fn buffers_come_from_files_by_name_and_by_place() {
    let place = Place::new("files");
    place.file("at.npy", &npy("<u4", &[[7, 0, 0, 0]; 1000]));
    place.file("table.bin", &[0; 400]);
    let out = place.works("cpu", &format!("{RUN} --input at=at.npy --input 0.1=table.bin --len sums=500"));
    for part in [
        "at (0.0): read, 3.9 KiB, 1,000 elements from at.npy",
        "table (0.1): read, 400 B, 100 elements from table.bin",
        "sums (1.0): written, 2 KiB, 500 elements zeros",
    ] {
        assert!(out.contains(part), "{part:?} is not in\n{out}");
    }
}

#[test]
fn a_mistake_names_the_file_the_buffer_and_what_was_expected() {
    let place = Place::new("mistakes");
    place.file("f32.npy", &npy("<f4", &[[0; 4]; 8]));
    place.file("odd.bin", &[0; 6]);
    for (arguments, parts) in [
        ("--input at=f32.npy", &["f32.npy: its elements are f32, but at (0.0) takes u32"][..]),
        ("--input table=odd.bin", &["odd.bin: it has 6 bytes, but table (0.1) takes elements of 4"]),
        ("--input table=no.bin", &["no.bin: "]),
        ("--input table=no.txt", &["no.txt", ".npy and .bin"]),
        ("--input sum=odd.bin", &["--input sum: ", "sums (1.0)"]),
        // Two of them have this number.
        ("--len 0=7", &["--len 0: ", "at (0.0), table (0.1), sums (1.0)"]),
        ("--len at=0", &["at least 1"]),
        ("--len at=9999999999999", &["at (0.0): 9,999,999,999,999 elements are 36.4 TiB"]),
        ("--input table=odd.bin --len table=7", &["table (0.1): --len is for buffers without a file"]),
    ] {
        let error = place.fails(&format!("{RUN} {arguments}"));
        assert!(parts.iter().all(|part| error.contains(part)), "{arguments}: {error}");
    }
    let error = place.fails("--kernel k.wgsl --entry add --items 8 --immediates 1");
    assert!(error.contains("k.wgsl: ") && error.contains("8 bytes") && error.contains("4 bytes"), "{error}");
    let error = place.fails("--kernel k.wgsl --entry add --items 8");
    assert!(error.contains("8 bytes of immediates") && error.contains("--immediates gives 0"), "{error}");
    let error = place.fails("--kernel k.wgsl --items 8");
    assert!(error.contains("k.wgsl: ") && error.contains("other"), "{error}");
    let error = place.fails("--kernel none.wgsl --items 8");
    assert!(error.contains("none.wgsl: "), "{error}");
    assert!(place.fails("--kernel k.wgsl --items 0").contains("--items"));
}
