//! What is measured about a device, and kept.

use std::{fs, path::PathBuf};

use sortie::{Device, DeviceOptions, TuningFile};

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
        let options = DeviceOptions {
            device: Some(driver.into()),
            tuning: TuningFile::At(self.file()),
            ..DeviceOptions::default()
        };
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
    let mut batch = device.batch();
    let (a, b) = (batch.upload(&some(m * k, 1), [m, k]), batch.upload(&some(k * n, 2), [k, n]));
    let product = batch.matmul(a, b);
    let product = batch.relu(product);
    let product = batch.read(product);
    batch.submit().unwrap_or_else(|error| panic!("{error}"));
    let product = product.wait().unwrap_or_else(|error| panic!("{error}"));
    (product, device.metrics().pipelines_created - before)
}

const LARGE: [usize; 3] = [260, 300, 260];

#[test]
fn a_large_product_is_preceded_by_a_measurement_once() {
    for driver in ["llvmpipe", "swiftshader"] {
        if drivers::open(driver).is_none() {
            continue;
        }
        let place = Place::new(&format!("once-{driver}"));
        let device = place.open(driver);
        multiply(&device, [20, 30, 40]);
        assert_eq!(place.text(), "", "a small one is not worth it");
        let (first, compiled) = multiply(&device, LARGE);
        let text = place.text();
        assert!(text.contains(&device.info().name) && text.contains("product = "), "{text}");
        assert!(compiled > 1, "the ways were tried");
        assert_eq!(multiply(&device, LARGE), (first.clone(), 0));
        let again = place.open(driver);
        assert_eq!(multiply(&again, LARGE), (first, 1), "it is known");
        assert_eq!(place.text(), text);
    }
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
fn a_file_that_makes_no_sense_is_ignored_and_what_others_wrote_stays() {
    if drivers::open("llvmpipe").is_none() {
        return;
    }
    let place = Place::new("ignored");
    for text in ["]]", "product = 3", "[\"another device\"]\nproduct = \"quick\"\nnumber = 7\n"] {
        place.write(text);
        let device = place.open("llvmpipe");
        let (result, _) = multiply(&device, LARGE);
        assert!(result.iter().any(|x| *x > 0.0));
        assert!(place.text().contains(&device.info().name), "{}", place.text());
    }
    assert!(place.text().contains("another device") && place.text().contains("number = 7"), "{}", place.text());
    // Where nothing can be written, nothing is.
    fs::remove_file(place.file()).expect("it is there");
    fs::create_dir(place.file()).expect("a folder in its place");
    multiply(&place.open("llvmpipe"), LARGE);
}
