//! Opened by name, listed among the others, and without a trace of wgpu.

use sortie::{Device, DeviceOptions, ErrorKind, device::DeviceKind};

use crate::{cpu, cpu_with};

fn named(name: &str) -> sortie::Result<Device> {
    Device::open_with(DeviceOptions::default().with_device(name))
}

#[test]
fn it_opens_by_any_of_its_names_and_by_its_index() -> sortie::Result<()> {
    let list = Device::list();
    let index = list.iter().position(|info| info.kind == DeviceKind::Cpu).expect("it is listed");
    for name in ["cpu", "CPU", " cpu ", "sortie cpu", "Sortie CPU", list[index].name.as_str(), &index.to_string()] {
        let device = named(name)?;
        assert_eq!((device.info().kind, device.info().backend), (DeviceKind::Cpu, "cpu"), "{name}");
    }
    Ok(())
}

#[test]
fn it_is_listed_once_behind_hardware_and_before_software_drivers() {
    let kinds: Vec<_> = Device::list().iter().map(|info| info.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == DeviceKind::Cpu).count(), 1);
    let split = kinds.iter().position(|kind| *kind == DeviceKind::Cpu).unwrap_or(0);
    assert!(!kinds[..split].contains(&DeviceKind::Software), "{kinds:?}");
    assert!(kinds[split + 1..].iter().all(|kind| *kind == DeviceKind::Software), "{kinds:?}");
}

#[test]
fn without_a_name_it_opens_where_there_is_no_hardware() -> sortie::Result<()> {
    if std::env::var_os("SORTIE_DEVICE").is_some() {
        return Ok(());
    }
    let first = Device::list().remove(0);
    assert_ne!(first.kind, DeviceKind::Software);
    assert_eq!(Device::open()?.info().name, first.name);
    Ok(())
}

#[test]
fn a_wrong_name_is_answered_with_it_among_the_right_ones() {
    let error = named("no such device").expect_err("no such device");
    assert_eq!(error.kind(), ErrorKind::NoDevice);
    assert!(error.to_string().contains("sortie CPU"), "{error}");
}

#[test]
fn its_name_says_how_many_threads_it_has() {
    let name = |threads| cpu_with(DeviceOptions::default().with_threads(threads)).info().name.clone();
    assert_eq!((name(1), name(3)), ("sortie CPU (1 thread)".into(), "sortie CPU (3 threads)".into()));
    assert_eq!(name(0), name(1), "at least one");
}

#[test]
fn it_has_no_wgpu_and_takes_no_buffer_of_wgpus() -> sortie::Result<()> {
    let device = cpu();
    assert!(device.wgpu().is_none());
    let noop = named("noop")?;
    let (wgpu, _) = noop.wgpu().expect("a wgpu device");
    let usage = wgpu::BufferUsages::STORAGE;
    let buffer =
        wgpu.create_buffer(&wgpu::BufferDescriptor { label: None, size: 64, usage, mapped_at_creation: false });
    let error = device.import::<u32>(buffer).expect_err("nothing to import into");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.location().is_some_and(|at| at.file().ends_with("open.rs")));
    Ok(())
}

#[test]
fn memory_of_another_device_is_refused() -> sortie::Result<()> {
    let (device, noop) = (cpu(), named("noop")?);
    let (own, foreign) = (device.zeros::<u32>(4)?, noop.zeros::<u32>(4)?);
    let batch = device.batch();
    batch.copy(&foreign, &own);
    assert_eq!(batch.submit().expect_err("of another device").kind(), ErrorKind::Bindings);
    Ok(())
}

#[test]
fn it_reopens_as_it_was() -> sortie::Result<()> {
    let device = cpu_with(DeviceOptions::default().with_threads(2).with_memory_budget(4096));
    let again = device.reopen()?;
    assert_eq!(again.info(), device.info());
    assert_eq!(again.upload(&[1_u32, 2])?.download()?, [1, 2]);
    assert!(matches!(again.zeros::<u8>(8192).expect_err("the same budget").kind(), ErrorKind::OutOfMemory { .. }));
    Ok(())
}

#[test]
fn only_the_cpu_device_checks_for_races() -> sortie::Result<()> {
    let options = |device: &str| DeviceOptions::default().with_device(device).with_check_races(true);
    Device::open_with(options("cpu"))?;
    let error = Device::open_with(options("noop")).expect_err("wgpu cannot");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    Ok(())
}

#[test]
fn its_limits_are_generous() {
    let limits = cpu().info().limits;
    assert_eq!((limits.workgroup_invocations, limits.workgroup_size), (1024, [1024, 1024, 64]));
    assert_eq!((limits.workgroup_bytes, limits.storage_buffers, limits.immediate_bytes), (64 << 10, 32, 256));
    assert_eq!((limits.groups, limits.binding_bytes, limits.slice_alignment), (u32::MAX, (1 << 32) - 4, 4));
}

#[test]
fn a_kernel_over_its_limits_is_refused_with_both_figures() {
    let kind = |source: &str| cpu().kernel(source).expect_err("over a limit").kind();
    let too_large = |wanted, limit| ErrorKind::TooLarge { wanted, limit };
    assert_eq!(kind("@compute @workgroup_size(64, 32) fn main() {}"), too_large(2048, 1024));
    assert_eq!(kind("@compute @workgroup_size(1, 1, 65) fn main() {}"), too_large(65, 64));
    let shared = "var<workgroup> a: array<u32, 16385>; @compute @workgroup_size(1) fn main() { a[0] = 1; }";
    assert_eq!(kind(shared), too_large(65_552, 65_536));
    assert_eq!(kind("enable subgroups; @compute @workgroup_size(1) fn main() {}"), ErrorKind::Shader);
}

/// Tells the child process what to do.
#[cfg(target_os = "linux")]
const CHILD: &str = "SORTIE_TEST_WITHOUT_WGPU";

/// A process of its own: the other tests have wgpu loaded long since.
#[cfg(target_os = "linux")]
#[test]
fn named_it_opens_and_works_without_loading_any_driver() {
    let program = std::env::current_exe().expect("this program");
    let mut child = std::process::Command::new(program);
    child.args(["--exact", "open::works_without_loading_any_driver", "--nocapture"]);
    let output = child.env(CHILD, "1").env("SORTIE_DEVICE", "cpu").output().expect("the child runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// The child: does nothing unless it was asked to.
#[cfg(target_os = "linux")]
#[test]
fn works_without_loading_any_driver() -> sortie::Result<()> {
    if std::env::var_os(CHILD).is_none() {
        return Ok(());
    }
    let device = Device::open()?;
    let x = device.upload(&[1_u32, 2, 3])?;
    let batch = device.batch();
    batch.fill(x.slice(..1), 7);
    batch.submit()?;
    assert_eq!(x.download()?, [7, 2, 3]);
    let loaded = std::fs::read_to_string("/proc/self/maps").expect("what is loaded");
    for library in ["libvulkan", "libEGL", "libGL"] {
        assert!(!loaded.contains(library), "{library} is loaded");
    }
    Ok(())
}

/// Tells the child process what to do.
#[cfg(target_os = "linux")]
const OPENS: &str = "SORTIE_TEST_OPENS";

/// One line on stderr where there is no hardware, unless the CPU was asked for or the line is silenced. Without
/// `XDG_RUNTIME_DIR`, libwayland prints a line whenever Mesa's layer `device_select` looks for a compositor.
#[cfg(target_os = "linux")]
#[test]
fn only_the_fallback_to_the_cpu_prints_a_line() {
    for (variable, value, lines) in [("SORTIE_DEVICE", "cpu", 0), ("SORTIE_QUIET", "1", 0), ("SORTIE_QUIET", "0", 1)] {
        let mut child = std::process::Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", "open::opens_for_its_parent", "--nocapture"]).env(OPENS, "1");
        for removed in ["XDG_RUNTIME_DIR", "WAYLAND_DISPLAY", "WAYLAND_SOCKET", "NODEVICE_SELECT", "SORTIE_DEVICE"] {
            child.env_remove(removed);
        }
        child.env(variable, value);
        let output = child.output().expect("the child runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let opened = String::from_utf8_lossy(&output.stdout);
        // A machine with hardware opens that.
        if opened.contains("opened sortie CPU") {
            assert_eq!(errors.lines().count(), lines, "{variable}={value}: {errors}");
            assert!(lines == 0 || errors.starts_with("sortie: no GPU found: running on sortie CPU"), "{errors}");
        }
    }
}

/// The child: does nothing unless it was asked to.
#[cfg(target_os = "linux")]
#[test]
fn opens_for_its_parent() -> sortie::Result<()> {
    if std::env::var_os(OPENS).is_some() {
        let opened = format!("opened {}\n", Device::open()?.info());
        std::io::Write::write_all(&mut std::io::stdout(), opened.as_bytes()).expect("a pipe");
    }
    Ok(())
}
