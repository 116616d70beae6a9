//! What is read.

use std::{fs, path::Path};

use crate::{on_drivers, place::Place, use_kernel};

/// Something is done to a good file; it is ignored, the answers are right, and it is replaced.
fn ignored_and_replaced(name: &str, spoil: impl Fn(&Path)) {
    on_drivers(name, |place| {
        let file = place.fill();
        let good = place.loaded();
        assert!(good > 0);
        spoil(&file);
        let device = place.open();
        assert_eq!(device.metrics().cache_bytes_loaded, 0);
        use_kernel(&device, 1);
        drop(device);
        assert_eq!(place.loaded(), good);
    });
}

fn edit(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(file).expect("the file");
    change(&mut bytes);
    fs::write(file, bytes).expect("the file is ours");
}

#[test]
fn a_second_device_takes_all_that_the_first_one_left() {
    on_drivers("second", |place| {
        let device = place.open();
        assert_eq!(device.metrics().cache_bytes_loaded, 0, "there is nothing yet");
        use_kernel(&device, 1);
        let saved = device.save_cache().expect("a file");
        drop(device);
        let device = place.open();
        assert_eq!(device.metrics().cache_bytes_loaded, saved);
        use_kernel(&device, 1);
        use_kernel(&device, 2);
    });
}

#[test]
fn a_file_with_a_flipped_bit_is_ignored_and_replaced() {
    ignored_and_replaced("flipped", |file| edit(file, |bytes| *bytes.last_mut().expect("not empty") ^= 1));
}

#[test]
fn a_truncated_file_is_ignored_and_replaced() {
    ignored_and_replaced("truncated", |file| edit(file, |bytes| bytes.truncate(bytes.len() - 1)));
}

#[test]
fn an_empty_file_is_ignored_and_replaced() {
    ignored_and_replaced("empty", |file| edit(file, Vec::clear));
}

#[test]
fn a_file_of_another_driver_is_ignored_and_replaced() {
    ignored_and_replaced("foreign", |file| {
        edit(file, |bytes| {
            // The key begins with its 16th byte.
            assert!(bytes[16..].starts_with(b"wgpu_pipeline_cache_vulkan_"));
            bytes[16] = b'W';
        });
    });
}

#[test]
fn a_file_of_another_format_is_ignored_and_replaced() {
    ignored_and_replaced("format", |file| edit(file, |bytes| bytes[8] += 1));
}

#[cfg(unix)]
fn chmod(path: &Path, mode: u32) {
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
    fs::set_permissions(path, permissions).expect("it is ours");
}

#[test]
#[cfg(unix)]
fn a_file_that_others_may_write_is_ignored_and_replaced() {
    ignored_and_replaced("writable", |file| chmod(file, 0o606));
    ignored_and_replaced("writable-by-group", |file| chmod(file, 0o620));
}

#[test]
#[cfg(unix)]
fn nothing_is_read_from_a_folder_that_others_may_write_to_nor_written() {
    on_drivers("folder", |place| {
        let file = place.fill();
        let before = fs::read(&file).expect("the file");
        chmod(file.parent().expect("a folder"), 0o777);
        let device = place.open();
        assert_eq!(device.metrics().cache_bytes_loaded, 0);
        use_kernel(&device, 2);
        let error = device.save_cache().expect_err("not private");
        assert_eq!(error.kind(), sortie::ErrorKind::File);
        drop(device);
        assert_eq!(fs::read(&file).expect("the file"), before);
    });
}

/// One to give away, where the test may.
#[test]
#[cfg(unix)]
fn a_file_of_another_user_is_ignored_and_replaced() {
    const NOBODY: u32 = 65_534;
    let probe = std::env::temp_dir().join(format!("sortie-cache-{}-chown", std::process::id()));
    fs::write(&probe, "").expect("a file");
    let may = std::os::unix::fs::chown(&probe, Some(NOBODY), None).is_ok();
    fs::remove_file(&probe).expect("it is there");
    if may {
        ignored_and_replaced("owner", |file| {
            std::os::unix::fs::chown(file, Some(NOBODY), None).expect("it was possible");
        });
    }
}

#[test]
fn devices_that_write_at_once_leave_a_whole_file_at_any_time() {
    on_drivers("at-once", |place: &Place| {
        let bytes = {
            let device = place.open();
            use_kernel(&device, 0);
            device.save_cache().expect("a file")
        };
        std::thread::scope(|scope| {
            for number in 1..=2 {
                scope.spawn(move || {
                    let device = place.open();
                    use_kernel(&device, number);
                    for _ in 0..20 {
                        device.save_cache().expect("a file");
                    }
                });
            }
            for _ in 0..10 {
                assert!(place.loaded() >= bytes);
            }
        });
        assert!(place.loaded() >= bytes);
    });
}
