//! `sortie warm` through the built command.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use sortie::Device;

const TWO: &str = "
    override width: u32 = 64;
    @group(0) @binding(0) var<storage, read_write> x: array<f32>;
    @compute @workgroup_size(width) fn first(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] = 1.0; }
    @compute @workgroup_size(1) fn second() { x[0] = 2.0; }";

/// A directory with kernels and a cache, gone at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sortie-warm-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).expect("a directory");
        Self(folder)
    }

    fn kernel(&self, name: &str, source: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, source).expect("a file");
        path
    }

    fn cache(&self) -> PathBuf {
        self.0.join("cache")
    }

    fn files(&self) -> usize {
        fs::read_dir(self.cache().join("pipelines")).map_or(0, Iterator::count)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn warm(cache: &Path, arguments: &[&OsStr]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sortie"));
    command.arg("warm").args(arguments).env("SORTIE_CACHE", cache).env_remove("SORTIE_DEVICE");
    command.output().expect("it runs")
}

fn told(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Where a Vulkan device stands in the list, as an argument.
fn vulkan() -> Option<String> {
    let found = Device::list().iter().position(|info| info.backend == "vulkan");
    let required = std::env::var_os("SORTIE_REQUIRE_GPU").is_some();
    assert!(found.is_some() || !required, "SORTIE_REQUIRE_GPU is set, but there is no Vulkan device");
    found.map(|index| index.to_string())
}

#[test]
fn every_entry_point_has_its_line_and_the_file_is_named() {
    let Some(device) = vulkan() else { return };
    let place = Place::new("all");
    let kernels = [place.kernel("two.wgsl", TWO), place.kernel("one.wgsl", "@compute @workgroup_size(1) fn only() {}")];
    let output = warm(
        &place.cache(),
        &["--device".as_ref(), device.as_ref(), "--kernel".as_ref(), kernels[0].as_ref(), kernels[1].as_ref()],
    );
    let out = told(&output.stdout);
    assert!(output.status.success(), "{out}{}", told(&output.stderr));
    for line in ["two.wgsl: first\n", "two.wgsl: second\n", "one.wgsl: only\n", "3 kernels compiled; ", ".bin\n"] {
        assert!(out.contains(line), "{line:?} is not in\n{out}");
    }
    assert!(out.contains(&*place.cache().to_string_lossy()), "{out}");
    assert_eq!(place.files(), 1);
}

#[test]
fn entry_points_can_be_chosen_and_constants_given() {
    let Some(device) = vulkan() else { return };
    let place = Place::new("chosen");
    let kernel = place.kernel("two.wgsl", TWO);
    let chosen = |constant: &str| {
        let arguments = ["--device", &device, "--entry", "first", "--constant", constant, "--kernel"].map(OsStr::new);
        warm(&place.cache(), &[&arguments[..], &[kernel.as_ref()]].concat())
    };
    let output = chosen("width=32");
    let out = told(&output.stdout);
    assert!(output.status.success() && out.contains(": first") && !out.contains(": second"), "{out}");
    let output = chosen("height=32");
    let error = told(&output.stderr);
    assert!(!output.status.success() && error.contains("two.wgsl: ") && error.contains("height"), "{error}");
}

#[test]
fn a_mistake_in_a_kernel_names_its_file_line_and_column() {
    let Some(device) = vulkan() else { return };
    let place = Place::new("mistake");
    let kernel = place.kernel("bad.wgsl", "\n@compute @workgroup_size(1) fn main() { let x: u32 = 1.5; }");
    let output = warm(&place.cache(), &["--device".as_ref(), device.as_ref(), "--kernel".as_ref(), kernel.as_ref()]);
    let error = told(&output.stderr);
    assert!(!output.status.success() && error.contains(&format!("{}:2:", kernel.display())), "{error}");
}

#[test]
fn what_cannot_be_warmed_is_an_error_that_says_why() {
    let place = Place::new("cannot");
    let kernel = place.kernel("two.wgsl", TWO);
    let output = warm(&place.cache(), &["--device".as_ref(), "cpu".as_ref(), "--kernel".as_ref(), kernel.as_ref()]);
    assert!(!output.status.success() && told(&output.stderr).contains("only Vulkan devices have a pipeline cache"));
    let Some(device) = vulkan() else { return };
    let output = warm("off".as_ref(), &["--device".as_ref(), device.as_ref(), "--kernel".as_ref(), kernel.as_ref()]);
    assert!(!output.status.success() && told(&output.stderr).contains("SORTIE_CACHE"));
    assert_eq!(place.files(), 0);
}
