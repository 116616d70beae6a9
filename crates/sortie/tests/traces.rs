//! What a subscriber of `tracing` hears. The warning comes once in a process, so those who count it are processes of their own.

use std::{
    fmt::{self, Write},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sortie::{
    Device, DeviceOptions, ErrorKind,
    device::{CacheDir, DeviceKind},
    policy::Split,
    tune::TuneReport,
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::{set_global_default, with_default},
};

/// Keeps what this crate says: a line for each span and event, with its level, its name or message, and its fields.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn lines(&self) -> Vec<String> {
        self.0.lock().expect("no panic").clone()
    }

    fn starting(&self, with: &str) -> Vec<String> {
        self.lines().into_iter().filter(|line| line.starts_with(with)).collect()
    }

    fn add(&self, level: Level, name: &str, visit: impl FnOnce(&mut Line)) {
        let mut line = Line(format!("{level} {name}"));
        visit(&mut line);
        self.0.lock().expect("no panic").push(line.0);
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        }
        .expect("a string takes anything");
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sortie"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        self.add(*span.metadata().level(), span.metadata().name(), |line| span.record(line));
        Id::from_u64(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    fn event(&self, event: &Event<'_>) {
        self.add(*event.metadata().level(), "", |line| event.record(line));
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn open(name: &str) -> Device {
    let options = DeviceOptions::default().with_device(name);
    Device::open_with(options).expect("it opens")
}

#[test]
fn a_batch_is_planned_encoded_and_submitted_in_spans_of_those_names() {
    for name in ["noop", "cpu"] {
        let log = Log::default();
        with_default(log.clone(), || {
            let device = open(name);
            let x = device.zeros::<u32>(64).expect("memory");
            for _ in 0..2 {
                let batch = device.batch();
                (0..10).for_each(|value| batch.fill(&x, value));
                batch.submit().expect("it runs");
            }
        });
        assert_eq!(log.starting("DEBUG plan"), ["DEBUG plan ops=10"], "the second time it is known: {name}");
        assert_eq!(log.starting("DEBUG encode"), ["DEBUG encode ops=10 submissions=1"; 2], "{name}");
        assert_eq!(log.starting("DEBUG submit"), ["DEBUG submit part=0 last=true"; 2], "{name}");
    }
}

#[test]
fn opened_devices_and_cut_batches_are_logged() {
    for name in ["noop", "cpu"] {
        let log = Log::default();
        with_default(log.clone(), || {
            let device = open(name);
            let info = device.info();
            let opened =
                format!("INFO a device is open name={:?} kind={:?} backend={:?}", info.name, info.kind, info.backend);
            assert_eq!(log.starting(&opened).len(), 1, "{:?}", log.lines());
            let x = device.zeros::<u32>(64).expect("memory");
            let batch = device.batch();
            (0..10).for_each(|value| batch.fill(&x, value));
            batch.split_by(Split::Every(4));
            batch.submit().expect("it runs");
        });
        let cut = log.starting("DEBUG a batch is cut");
        assert_eq!(cut, ["DEBUG a batch is cut submissions=3 cuts=2 pieces=0"], "{name}");
    }
}

#[test]
fn a_lost_device_is_logged_once_and_a_dropped_one_not_at_all() {
    let log = Log::default();
    with_default(log.clone(), || {
        let device = open("noop");
        device.zeros::<u32>(64).expect("memory").download().expect("data");
        drop(device);
        assert_eq!(log.starting("ERROR"), [""; 0]);
        let device = open("noop");
        let x = device.zeros::<u32>(64).expect("memory");
        device.wgpu().expect("a wgpu device").0.destroy();
        for _ in 0..2 {
            assert_eq!(x.download().expect_err("it is gone").kind(), ErrorKind::DeviceLost);
        }
    });
    let errors = log.starting("ERROR");
    assert!(errors.len() == 1 && errors[0].starts_with("ERROR the device is lost reason="), "{errors:?}");
}

/// Tells the child process that it is one.
const CHILD: &str = "SORTIE_TEST_TRACES";

/// Runs one of the tests below in a process of its own, and returns what it logged at a level.
fn logged(level: Level, test: &str, set: impl FnOnce(&mut Command)) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", test, "--nocapture"]).env(CHILD, "1").env_remove("SORTIE_DEVICE");
    set(&mut child);
    let output = child.output().expect("the child runs");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.contains("1 passed"), "{said}");
    errors.lines().filter(|line| line.starts_with(level.as_str())).map(str::to_owned).collect()
}

fn warnings(test: &str, set: impl FnOnce(&mut Command)) -> Vec<String> {
    logged(Level::WARN, test, set)
}

/// In a child process: does something twice, and prints what was logged.
fn twice(run: impl Fn()) {
    if std::env::var_os(CHILD).is_some() {
        // Blocking indefinitely is a failure.
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_secs(300));
            std::process::abort();
        });
        let log = Log::default();
        set_global_default(log.clone()).expect("the first");
        run();
        run();
        std::io::Write::write_all(&mut std::io::stderr(), (log.lines().join("\n") + "\n").as_bytes()).expect("a pipe");
    }
}

/// In that process there is no driver.
fn without_drivers(child: &mut Command) {
    child.env("WGPU_BACKEND", "noop");
}

#[test]
fn without_hardware_there_is_one_warning_for_two_opens() {
    let said = warnings("opens_twice", without_drivers);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("WARN no GPU found: running on sortie CPU ("), "{said:?}");
    assert!(said[0].ends_with("; see sortie::guide::troubleshooting"), "{said:?}");
}

#[test]
fn opened_by_an_index_for_want_of_hardware_it_warns_too() {
    let said = warnings("opens_twice", |child| {
        without_drivers(child);
        child.env("SORTIE_DEVICE", "0");
    });
    assert!(said.len() == 1 && said[0].starts_with("WARN no GPU found"), "{said:?}");
}

#[test]
fn opening_the_built_in_cpu_by_name_logs_no_warning() {
    assert_eq!(warnings("opens_the_cpu_twice", without_drivers), [""; 0]);
    let named = warnings("opens_twice", |child| {
        without_drivers(child);
        child.env("SORTIE_DEVICE", "cpu");
    });
    assert_eq!(named, [""; 0]);
}

#[test]
fn a_software_driver_is_slow_and_that_is_said_once() {
    let list = Device::list();
    let Some(index) = list.iter().position(|info| info.kind == DeviceKind::Software) else {
        let required = std::env::var_os("SORTIE_REQUIRE_GPU").is_some();
        assert!(!required, "SORTIE_REQUIRE_GPU is set, but there is no software driver");
        return;
    };
    let said = warnings("opens_twice", |child| {
        child.env("SORTIE_DEVICE", index.to_string());
    });
    let expected = format!(
        "WARN running on {}, a software driver, which is slow; see sortie::guide::troubleshooting",
        list[index].name
    );
    assert_eq!(said, [expected]);
}

/// Compiled on a thread of its own, which a subscriber of this thread does not see.
#[test]
fn a_compiled_kernel_is_logged_once_with_its_time() {
    for (device, says) in [("noop", "DEBUG a pipeline is compiled "), ("cpu", "DEBUG a kernel is ready ")] {
        let said = logged(Level::DEBUG, "compiles_twice", |child| {
            child.env("SORTIE_DEVICE", device);
        });
        let told = said.iter().filter(|line| line.starts_with(says) && line.contains("entry=\"once\""));
        let told: Vec<_> = told.collect();
        assert!(told.len() == 1 && told[0].contains(" time="), "{said:?}");
    }
}

/// What lies at a path, and how it is put there.
#[cfg(unix)]
type Odd = (&'static str, fn(&Path));

/// What may lie in the place of a file, and what becomes of it.
#[cfg(unix)]
const ODD: [Odd; 3] = [
    ("a FIFO", |path| {
        let made = Command::new("mkfifo").arg(path).status().expect("mkfifo is there");
        assert!(made.success());
    }),
    ("a folder", |path| std::fs::create_dir(path).expect("a folder")),
    ("a file of 1 TiB", |path| {
        std::fs::File::create(path).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
    }),
];

#[cfg(unix)]
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("sortie-traces-{}-{name}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir(&folder).expect("a folder");
    folder
}

#[test]
#[cfg(unix)]
fn what_is_no_tuning_file_is_ignored_with_one_warning_and_left_alone() {
    let folder = folder("tuning");
    for (what, make) in ODD {
        let path = folder.join(what);
        make(&path);
        let kind =
            |path: &Path| std::fs::metadata(path).map(|about| (about.file_type(), about.len())).expect("it is there");
        let before = kind(&path);
        let said = warnings("saves_findings_twice", |child| {
            without_drivers(child);
            child.env("SORTIE_TUNING", &path);
        });
        assert_eq!(said.len(), 1, "{what}: {said:?}");
        assert!(said[0].starts_with("WARN the tuning file is ignored path="), "{what}: {said:?}");
        assert_eq!(kind(&path), before, "{what}");
    }
    std::fs::remove_dir_all(folder).expect("it is ours");
}

/// A child: saving fails each time, and both times it is a plain error.
#[test]
fn saves_findings_twice() {
    let options = DeviceOptions::default().with_device("cpu");
    let findings = LazyLock::new(|| TuneReport::measure(&options, Duration::from_millis(1), |_| {}).expect("it runs"));
    twice(|| {
        let error = findings.save().expect_err("it is no tuning file");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    });
}

#[test]
#[cfg(unix)]
fn what_is_no_pipeline_cache_is_ignored_with_one_warning() {
    let list = Device::list();
    let Some(index) = list.iter().position(|info| info.backend == "vulkan") else {
        let required = std::env::var_os("SORTIE_REQUIRE_GPU").is_some();
        assert!(!required, "SORTIE_REQUIRE_GPU is set, but there is no Vulkan driver");
        return;
    };
    let folder = folder("cache");
    let options = DeviceOptions::default().with_device(index.to_string()).with_cache(CacheDir::At(folder.clone()));
    let device = Device::open_with(options).expect("it is listed");
    device.save_cache().expect("a file");
    let path = device.cache_file().expect("it was written").to_owned();
    drop(device);
    std::fs::remove_file(&path).expect("it is ours");
    for (what, make) in ODD {
        make(&path);
        let mut said = warnings("compiles_on_a_new_device_twice", |child| {
            child.env("SORTIE_DEVICE", index.to_string()).env("SORTIE_CACHE", &folder);
        });
        said.retain(|line| line.contains("cache"));
        assert_eq!(said.len(), 1, "{what}: {said:?}");
        assert!(said[0].starts_with("WARN the pipeline cache is ignored path="), "{what}: {said:?}");
        let about = std::fs::metadata(&path).expect("it is there");
        // Of ours only what is a file is replaced.
        assert_eq!(about.is_file(), what == "a file of 1 TiB", "{what}");
        drop(if about.is_dir() { std::fs::remove_dir(&path) } else { std::fs::remove_file(&path) });
    }
    std::fs::remove_dir_all(folder).expect("it is ours");
}

/// A child: each device is dropped, which writes the cache.
#[test]
fn compiles_on_a_new_device_twice() {
    twice(|| {
        let device = Device::open().expect("a device");
        device.kernel("@compute @workgroup_size(1) fn once() {}").expect("a kernel");
    });
}

/// A child.
#[test]
fn compiles_twice() {
    let device = LazyLock::new(|| Device::open().expect("a device"));
    twice(|| drop(device.kernel("@compute @workgroup_size(1) fn once() {}").expect("a kernel")));
}

/// A child.
#[test]
fn opens_twice() {
    twice(|| drop(Device::open().expect("a device")));
}

/// A child.
#[test]
fn opens_the_cpu_twice() {
    twice(|| drop(Device::cpu().expect("the CPU")));
}
