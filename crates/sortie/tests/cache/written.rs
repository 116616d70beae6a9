//! What is written, and when.

use std::{
    fs::{self, File},
    time::{Duration, SystemTime},
};

use sortie::{Device, ErrorKind};

use crate::{no_cache, on_drivers, place::Place, use_kernel};

#[test]
fn the_file_exists_when_the_device_is_closed() {
    on_drivers("gone", |place| {
        let device = place.open();
        use_kernel(&device, 1);
        let file = device.cache_file().expect("Vulkan has a pipeline cache").to_owned();
        assert!(file.starts_with(place.directory().join("pipelines")));
        assert!(!file.exists());
        drop(device);
        assert!(file.is_file());
        assert_eq!(
            fs::read_dir(file.parent().expect("a folder")).expect("a folder").count(),
            1,
            "nothing is left beside it"
        );
    });
}

#[test]
#[cfg(unix)]
fn file_and_folder_are_private() {
    on_drivers("private", |place| {
        let file = place.fill();
        let mode = |path| std::os::unix::fs::MetadataExt::mode(&fs::metadata(path).expect("it is there")) & 0o777;
        assert_eq!((mode(file.as_path()), mode(file.parent().expect("a folder"))), (0o600, 0o700));
    });
}

#[test]
fn a_process_that_never_lets_go_has_written_its_first_eight() {
    on_drivers("kept", |place| {
        let device = place.open();
        (1..8).for_each(|number| use_kernel(&device, number));
        assert_eq!((device.metrics().pipelines_created, device.metrics().cache_bytes_saved), (7, 0));
        use_kernel(&device, 8);
        let saved = device.metrics().cache_bytes_saved;
        assert!(saved > 0);
        std::mem::forget(device);
        assert_eq!(place.loaded(), saved);
    });
}

#[test]
fn a_device_that_compiles_nothing_writes_nothing() {
    on_drivers("nothing", |place| {
        drop(place.open());
        assert!(!place.directory().exists());
    });
}

#[test]
fn a_device_that_compiles_nothing_new_does_not_write_the_file() {
    on_drivers("nothing-new", |place| {
        let file = place.fill();
        let written = || fs::metadata(&file).and_then(|metadata| metadata.modified()).expect("it is there");
        let before = SystemTime::now() - Duration::from_secs(3600);
        File::options().write(true).open(&file).and_then(|file| file.set_modified(before)).expect("it is ours");
        let before = written();
        place.fill();
        assert_eq!(written(), before);
    });
}

#[test]
fn switched_off_nothing_is_written() {
    on_drivers("off", |place| {
        let options = no_cache().with_device(place.open().info().name.clone());
        let device = Device::open_with(options).expect("it opened before");
        use_kernel(&device, 1);
        assert_eq!(device.cache_file(), None);
        assert_eq!(device.save_cache().expect_err("off").kind(), ErrorKind::Unsupported);
        assert_eq!(device.metrics().cache_bytes_saved, 0);
    });
}

#[test]
fn the_cpu_and_noop_have_no_file() {
    for name in ["cpu", "noop"] {
        let place = Place::new(name, name.into());
        let device = place.open();
        device.kernel("@compute @workgroup_size(1) fn main() {}").expect("a kernel");
        assert_eq!(device.cache_file(), None);
        assert_eq!(device.save_cache().expect_err("none").kind(), ErrorKind::Unsupported);
        drop(device);
        assert!(!place.directory().exists());
    }
}

#[test]
fn a_guest_has_no_file() {
    on_drivers("guest", |place| {
        let host = place.open();
        let (device, queue) = host.wgpu().expect("it is wgpu's");
        let guest = Device::from_wgpu(device.clone(), queue.clone()).expect("a guest");
        use_kernel(&guest, 1);
        assert_eq!(guest.cache_file(), None);
    });
}

#[test]
fn where_nothing_can_be_written_all_else_works() {
    on_drivers("unwritable", |place| {
        fs::write(place.directory(), "in the way").expect("a file");
        let device = place.open();
        (1..=20).for_each(|number| use_kernel(&device, number));
        let error = device.save_cache().expect_err("no folder");
        assert_eq!(error.kind(), ErrorKind::File);
        assert!(std::error::Error::source(&error).is_some());
        drop(device);
        fs::remove_file(place.directory()).expect("it is there");
    });
}

#[test]
fn the_least_recently_written_files_are_removed() {
    on_drivers("files", |place| {
        let file = place.fill();
        let folder = file.parent().expect("a folder");
        let old = |number: u64| folder.join(format!("{number:032x}.{}", if number == 3 { "tmp" } else { "bin" }));
        for number in 0..20 {
            let written = SystemTime::now() - Duration::from_secs(3600 - number);
            File::create(old(number)).and_then(|file| file.set_modified(written)).expect("a file");
        }
        place.open().save_cache().expect("a file");
        assert!(file.exists());
        let left: Vec<u64> = (0..20).filter(|number| old(*number).exists()).collect();
        assert_eq!(left, (5..20).collect::<Vec<_>>());
    });
}
