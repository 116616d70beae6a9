//! Any bytes as an `.npy` file: what is read is as long as the file says.
#![no_main]

// The command's own reader: it has no library.
#[path = "../../crates/sortie-cli/src/array.rs"]
#[expect(dead_code, reason = "only reading is tried")]
mod array;
#[path = "../../crates/sortie-cli/src/terminal.rs"]
#[expect(dead_code, reason = "errors are made, not printed")]
mod terminal;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    if let Ok(array) = array::Array::read(&mut &*file, file.len() as u64) {
        assert_eq!(array.start + 4 * array.elements(), file.len() as u64, "{array:?}");
    }
});
