//! Which Rust element types fit which WGSL arrays. The table was written before the code.

use sortie::{Device, DeviceOptions, ErrorKind, bytemuck, half::f16};

/// A structure of 16 bytes.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Particle {
    mass: f32,
    kind: u32,
    place: [f32; 2],
}

const ARRAYS: [(&str, &str); 7] = [
    ("array<f32>", "`f32`"),
    ("array<u32>", "`u32`"),
    ("array<atomic<u32>>", "`u32`"),
    ("array<vec2<f32>>", "`[f32; 2]`"),
    ("array<vec3<f32>>", "`[f32; 4]`"),
    ("array<vec4<f32>>", "`[f32; 4]`"),
    ("array<Particle>", "a type of 16 bytes"),
];

/// One row per Rust type, one column per array: `y` fits, `.` is a mistake.
const TABLE: [(&str, &str); 11] = [
    ("f32", "y......"),
    ("f16", "......."),
    ("u32", ".yy...."),
    ("i32", "......."),
    ("f64", "......."),
    ("u8", "......."),
    ("[f32; 2]", "...y..."),
    ("[f32; 3]", "......."),
    ("[f32; 4]", "....yyy"),
    ("[u32; 4]", "......y"),
    ("Particle", "....yyy"),
];

fn source(binding: &str) -> String {
    format!(
        "struct Particle {{ mass: f32, kind: u32, place: vec2<f32> }}
         struct Header {{ count: u32, data: array<f32> }}
         @group(0) @binding(0) {binding};
         @compute @workgroup_size(1) fn main() {{ _ = &x; }}"
    )
}

/// The message of a dispatch with a buffer of 48 bytes of this type, if it is refused.
fn refusal(device: &Device, row: &str, binding: &str) -> Option<String> {
    fn with<T: bytemuck::Pod>(device: &Device, binding: &str) -> Option<String> {
        let kernel = device.kernel(&source(binding)).expect("it compiles");
        let buffer = device.zeros::<T>(48 / size_of::<T>()).expect("it fits");
        let batch = device.batch();
        let line = line!() + 1;
        batch.dispatch(&kernel, &[&buffer], 1);
        let error = batch.submit().err()?;
        assert_eq!(error.kind(), ErrorKind::Bindings);
        assert_eq!(error.location().map(std::panic::Location::line), Some(line));
        Some(error.to_string())
    }
    match row {
        "f32" => with::<f32>(device, binding),
        "f16" => with::<f16>(device, binding),
        "u32" => with::<u32>(device, binding),
        "i32" => with::<i32>(device, binding),
        "f64" => with::<f64>(device, binding),
        "u8" => with::<u8>(device, binding),
        "[f32; 2]" => with::<[f32; 2]>(device, binding),
        "[f32; 3]" => with::<[f32; 3]>(device, binding),
        "[f32; 4]" => with::<[f32; 4]>(device, binding),
        "[u32; 4]" => with::<[u32; 4]>(device, binding),
        "Particle" => with::<Particle>(device, binding),
        row => panic!("no row {row}"),
    }
}

fn devices() -> [Device; 2] {
    let noop = DeviceOptions::default().with_device("noop");
    [Device::cpu().expect("the CPU opens"), Device::open_with(noop).expect("noop opens")]
}

#[test]
fn an_element_fits_an_array_by_its_size_and_its_numbers_or_is_a_mistake_that_names_the_type_that_fits() {
    for device in devices() {
        for (row, cells) in TABLE {
            for ((array, fitting), cell) in ARRAYS.iter().zip(cells.chars()) {
                let refusal = refusal(&device, row, &format!("var<storage, read_write> x: {array}"));
                assert_eq!(refusal.is_none(), cell == 'y', "{row} for {array}: {refusal:?}");
                if let Some(message) = refusal {
                    assert!(message.contains(&format!("is an array that {fitting} fits, not ")), "{row}: {message}");
                }
            }
        }
    }
}

#[test]
fn what_is_no_array_or_has_a_header_is_checked_by_its_length_alone() {
    for device in devices() {
        for (row, _) in TABLE {
            for binding in ["var<uniform> x: vec4<f32>", "var<storage> x: Header", "var<storage> x: mat2x2<f32>"] {
                assert_eq!(refusal(&device, row, binding), None, "{row} for {binding}");
            }
        }
        let kernel = device.kernel(&source("var<uniform> x: mat4x4<f32>")).expect("it compiles");
        let short = device.zeros::<f32>(15).expect("it fits");
        let batch = device.batch();
        batch.dispatch(&kernel, &[&short], 1);
        let error = batch.submit().expect_err("60 bytes are no matrix").to_string();
        assert!(error.contains("takes at least 64 bytes, not 60"), "{error}");
    }
}

#[test]
fn reinterpreted_memory_fits_and_is_the_same_memory() {
    let device = Device::cpu().expect("the CPU opens");
    let bits = device.kernel(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] ^= 0x80000000u; }",
    );
    let bits = bits.expect("it compiles");
    let x = device.upload(&[1.0_f32, -2.0, 3.0, 4.0]).expect("it fits");
    let batch = device.batch();
    batch.dispatch(&bits, &[&x.reinterpret::<u32>()], 4);
    let room = batch.scratch::<[f32; 2]>(2);
    batch.copy(x.reinterpret::<[f32; 2]>(), &room);
    batch.dispatch(&bits, &[&room.reinterpret::<u32>()], 4);
    batch.copy(room.slice(1..), x.slice(..2).reinterpret::<[f32; 2]>());
    batch.submit().expect("it runs");
    assert_eq!(x.download().expect("it reads"), [3.0, 4.0, -3.0, -4.0]);
}

#[test]
fn a_reinterpreted_slice_that_begins_inside_an_element_says_so() {
    let device = Device::cpu().expect("the CPU opens");
    let bytes = device.upload(&[1_u8; 12]).expect("it fits");
    let batch = device.batch();
    let scratch = batch.scratch::<u32>(8);
    let readings = [batch.read(bytes.slice(1..5).reinterpret::<u32>()), batch.read(scratch.slice(2..5).slice(1..4))];
    let error = batch.submit().expect_err("two mistakes");
    assert_eq!((error.kind(), error.mistakes().len(), readings.len()), (ErrorKind::Shape, 2, 2));
    for mistake in error.mistakes() {
        let said = mistake.to_string();
        assert!(said.contains("reaches past its end, or does not begin and end with an element of 4 bytes"), "{said}");
    }
}

#[test]
fn bindings_by_name_come_in_any_order_and_all_have_names_or_none() {
    let device = Device::cpu().expect("the CPU opens");
    let sub = device.kernel(
        "@group(0) @binding(0) var<storage> a: array<u32>;
        @group(0) @binding(1) var<storage> b: array<u32>;
        @group(0) @binding(2) var<storage, read_write> to: array<u32>;
        @compute @workgroup_size(1) fn main() { to[0] = a[0] - b[0]; }",
    );
    let sub = sub.expect("it compiles");
    let (x, y) = (device.upload(&[7_u32]).expect("x"), device.upload(&[2_u32]).expect("y"));
    let z = device.zeros::<u32>(1).expect("z");
    let batch = device.batch();
    batch.dispatch(&sub, &[&("to", &z), &("b", &y), &("a", &x)], 1);
    batch.submit().expect("it runs");
    assert_eq!(z.download().expect("it reads"), [5]);

    let refused: [(&[&dyn sortie::Bind], &str); 4] = [
        (&[&("to", &z), &("b", &y), &("c", &x)], "kernel \"main\" has no binding `c`; it has `a`, `b`, `to`"),
        (&[&("to", &z), &("b", &y), &("b", &x)], "the binding `b` is given twice"),
        (&[&("to", &z), &y, &("a", &x)], "give all of them names, or none"),
        (&[&x, &y, &("to", &z)], "give all of them names, or none"),
    ];
    for (bindings, expected) in refused {
        let batch = device.batch();
        batch.dispatch(&sub, bindings, 1);
        let error = batch.submit().expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}
