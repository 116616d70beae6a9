//! How devices multiply large matrices: by default, as measured, and as kept in a file.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use sortie::{Device, DeviceOptions, ErrorKind, Result, device::TuningFile};

use crate::{drivers, some};

/// A file of its own, gone at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sortie-tuning-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("deep").join("tuning.toml")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap_or_default()
    }

    fn write(&self, text: &str) {
        let folder = self.0.join("deep");
        fs::create_dir_all(&folder).and_then(|()| fs::write(self.file(), text)).expect("a file");
    }

    fn open(&self, driver: &str) -> Device {
        // On a busy machine drivers take long to compile, and a long product would be divided, by another pipeline.
        let options = drivers::uncut()
            .with_device(driver)
            .with_tuning(TuningFile::At(self.file()))
            .with_compile_budget(Duration::from_secs(600));
        Device::open_with(options).unwrap_or_else(|error| panic!("{driver}: {error}"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// The product of matrices of `m × k` and `k × n`, and how many pipelines it took to get there.
fn multiply(device: &Device, [m, k, n]: [usize; 3]) -> (Vec<f32>, u64) {
    let before = device.metrics().pipelines_created;
    let batch = device.batch();
    let (a, b) = (batch.tensor_from(&some(m * k, 1), [m, k]), batch.tensor_from(&some(k * n, 2), [k, n]));
    let product = a.matmul(b);
    let product = product.relu();
    let product = batch.read(product);
    batch.submit().unwrap_or_else(|error| panic!("{error}"));
    let product = product.wait().unwrap_or_else(|error| panic!("{error}"));
    (product, device.metrics().pipelines_created - before)
}

const LARGE: [usize; 3] = [260, 300, 260];

/// Names the device to the child process.
const DEVICE: &str = "SORTIE_TEST_TUNING_ON";

/// Submitting the first large product compiled all variants, ran each of them several times and wrote the tuning file.
#[test]
fn the_first_large_product_measures_nothing_and_writes_nothing() {
    for device in ["cpu", "llvmpipe", "swiftshader"] {
        if device != "cpu" && drivers::find(device).is_none() {
            continue;
        }
        let home = Place::new(&format!("home-{device}"));
        fs::create_dir_all(&home.0).expect("a folder");
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", "tuning::multiplies_for_the_first_time", "--nocapture"]).env(DEVICE, device);
        for name in ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"] {
            child.env(name, &home.0);
        }
        // The pipeline cache is the one file that is written without being asked for; Mesa has a cache of its own.
        child.env_remove("SORTIE_TUNING").env("SORTIE_CACHE", "off").env("MESA_SHADER_CACHE_DISABLE", "true");
        let output = child.output().expect("the child runs");
        assert!(output.status.success(), "on {device}: {}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(files(&home.0), Vec::<PathBuf>::new(), "written on {device}");
    }
}

/// A child: does nothing unless it was asked to.
#[test]
fn multiplies_for_the_first_time() -> Result<()> {
    const SIDE: usize = 1024;
    let Ok(name) = std::env::var(DEVICE) else { return Ok(()) };
    let device = Device::open_with(drivers::uncut().with_device(name))?;
    let (a, b) = (device.upload(&some(SIDE * SIDE, 1))?, device.upload(&some(SIDE * SIDE, 2))?);
    let product = device.zeros::<f32>(SIDE * SIDE)?;
    let before = device.metrics();
    let batch = device.batch();
    let (left, right) = (batch.tensor(&a, [SIDE, SIDE]), batch.tensor(&b, [SIDE, SIDE]));
    let tensor = left.matmul(right);
    tensor.store(&product);
    let ticket = batch.submit_async()?;
    let pipelines = u64::from(device.wgpu().is_some());
    let now = device.metrics() - before;
    assert_eq!((now.batches, now.plans_made, now.pipelines_created), (1, 1, pipelines), "when it has been submitted");
    ticket.wait()?;
    let done = device.metrics() - before;
    assert_eq!((done.batches, done.submissions, done.dispatches), (1, 1, 1));
    // The right side is resident, so the built-in CPU keeps it in panels.
    assert_eq!((done.pipelines_created, done.buffers_created), (pipelines, 1 - pipelines));
    Ok(())
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn an_untuned_device_multiplies_as_suits_its_kind() -> Result<()> {
    for (name, way) in [("cpu", "native"), ("llvmpipe", "wide"), ("swiftshader", "wide"), ("noop", "tiles")] {
        if !matches!(name, "cpu" | "noop") && drivers::find(name).is_none() {
            continue;
        }
        let place = Place::new(&format!("untuned-{name}"));
        assert_eq!(place.open(name).product_way(), way, "on {name}");
    }
    let host = Device::open_with(DeviceOptions::default().with_device("noop"))?;
    let (gpu, queue) = host.wgpu().expect("it is wgpu's");
    assert_eq!(Device::from_wgpu(gpu.clone(), queue.clone())?.product_way(), "tiles");
    Ok(())
}

/// A plan made before tuning was found again after it: the kernel stayed the same.
#[test]
fn what_tuning_finds_is_used_by_the_next_product_of_the_same_recording() -> Result<()> {
    for driver in ["llvmpipe", "swiftshader"] {
        let Some(device) = drivers::open(driver) else { continue };
        let table = format!("{}, {}", device.info().name, device.info().driver);
        // Whichever is the fastest, the others change.
        for way in ["blocks", "wide", "tiles"] {
            let place = Place::new(&format!("next-{driver}-{way}"));
            place.write(&format!("[{table:?}]\nproduct = {way:?}\n"));
            let device = place.open(driver);
            assert_eq!(device.product_way(), way);
            let (first, compiled) = multiply(&device, LARGE);
            assert_eq!((compiled, multiply(&device, LARGE)), (1, (first.clone(), 0)), "the plan is found again");
            let found = device.tune()?;
            assert_eq!(device.product_way(), found.fastest());
            let changed = u64::from(found.fastest() != way);
            let before = device.metrics();
            assert_eq!(multiply(&device, LARGE), (first.clone(), changed), "{way} became {}", found.fastest());
            let done = device.metrics() - before;
            assert_eq!((done.plans_made, done.plan_hits), (changed, 1 - changed));
            assert_eq!(multiply(&device, LARGE), (first, 0));
        }
    }
    Ok(())
}

#[test]
fn tuning_says_what_it_measured_and_is_in_the_file_only_once_it_is_saved() -> Result<()> {
    let kernels: &[&str] = &["blocks", "wide", "tiles"];
    for (name, ways) in [("cpu", &["native"][..]), ("llvmpipe", kernels), ("swiftshader", kernels)] {
        if name != "cpu" && drivers::find(name).is_none() {
            continue;
        }
        let place = Place::new(&format!("saved-{name}"));
        let device = place.open(name);
        let found = device.tune()?;
        assert_eq!(found.timings().iter().map(|timing| timing.way).collect::<Vec<_>>(), ways);
        let least = found.timings().iter().min_by_key(|timing| timing.time).expect("one at least");
        assert!(least.time > Duration::ZERO && least.way == found.fastest(), "{found:?}");
        assert_eq!((device.product_way(), place.text().as_str()), (found.fastest(), ""), "used, and not written");
        assert_eq!(found.save()?, place.file());
        let line = format!("product = {:?}\n", found.fastest());
        assert!(place.text().contains(&device.info().name) && place.text().contains(&line), "{}", place.text());
        assert_eq!(place.open(name).product_way(), found.fastest(), "of a device that is opened later");
    }
    Ok(())
}

#[test]
fn nothing_is_measured_on_a_device_that_runs_nothing_or_saved_without_a_file() -> Result<()> {
    let off = |name: &str| DeviceOptions::default().with_device(name).with_tuning(TuningFile::Off);
    let error = Device::open_with(off("noop"))?.tune().expect_err("it runs nothing");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let error = Device::open_with(off("cpu"))?.tune()?.save().expect_err("there is no file");
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("switched off"), "{error}");
    Ok(())
}

#[test]
fn every_way_gives_the_same() {
    for driver in ["llvmpipe", "swiftshader"] {
        let Some(device) = drivers::open(driver) else { continue };
        let table = format!("{}, {}", device.info().name, device.info().driver);
        for sizes in [[64, 20, 128], [67, 33, 129], [130, 1, 66]] {
            let mut results = Vec::new();
            for way in ["blocks", "wide", "tiles"] {
                let place = Place::new(&format!("same-{driver}"));
                place.write(&format!("[{table:?}]\nproduct = {way:?}\n"));
                results.push(multiply(&place.open(driver), sizes).0);
            }
            assert!(results.iter().all(|result| *result == results[0]), "{sizes:?} on {driver}");
        }
    }
}

#[test]
fn a_file_that_makes_no_sense_is_ignored_and_what_others_wrote_stays() -> Result<()> {
    let place = Place::new("ignored");
    for text in ["]]", "product = 3", "[\"another device\"]\nproduct = \"quick\"\nnumber = 7\n"] {
        place.write(text);
        let device = place.open("cpu");
        assert_eq!(device.product_way(), "native", "{text}");
        multiply(&device, LARGE);
        assert_eq!(place.text(), text, "a product writes nothing");
        device.tune()?.save()?;
        assert!(place.text().contains(&device.info().name), "{}", place.text());
    }
    assert!(place.text().contains("another device") && place.text().contains("number = 7"), "{}", place.text());
    // Where nothing can be written, nothing is.
    fs::remove_file(place.file()).expect("it is there");
    fs::create_dir(place.file()).expect("a folder in its place");
    let error = place.open("cpu").tune()?.save().expect_err("it is a folder");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    Ok(())
}
