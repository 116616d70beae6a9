//! Every mistake comes back typed, with op number, label and the line that made it, before anything runs.

use std::panic::Location;

use sortie::{Batch, Device, DeviceOptions, Error, ErrorKind, Grid};

use crate::{STEP, noop, noop_with};

/// Submits a batch that must be refused, and checks that nothing reached the device.
fn refused(device: &Device, record: impl FnOnce(&Batch)) -> Error {
    let before = device.metrics();
    let batch = device.batch();
    record(&batch);
    let error = batch.submit().expect_err("the batch is refused");
    let after = device.metrics() - before;
    assert_eq!((after.submissions, after.passes), (0, 0), "nothing runs");
    error
}

fn kind_of(device: &Device, record: impl FnOnce(&Batch)) -> ErrorKind {
    let error = refused(device, record);
    assert!(error.location().is_some_and(|at| at.file().ends_with("mistakes.rs")), "{error}");
    error.kind()
}

#[test]
fn all_mistakes_are_returned_at_once_with_op_label_and_line() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let (x, y) = (device.zeros::<f32>(64)?, device.zeros::<f32>(32)?);
    let mut line = 0;
    let error = refused(&device, |batch| {
        batch.dispatch(&step, &[&x, &y], Grid::items(64)).label("fine");
        batch.barrier();
        line = Location::caller().line() + 1;
        batch.dispatch(&step, &[&x], Grid::items(64)).label("one short");
        batch.scope("layer 7", |batch| batch.copy(&x, &y));
        batch.fill(&x, 1.0);
    });
    let [first, second] = error.mistakes() else { panic!("two mistakes, not {error}") };
    assert_eq!((first.kind(), first.op(), first.label()), (ErrorKind::Bindings, Some(1), Some("one short")));
    assert_eq!(first.location().map(Location::line), Some(line));
    assert_eq!((second.kind(), second.op(), second.label()), (ErrorKind::Shape, Some(2), Some("layer 7")));
    assert_eq!(second.location().map(Location::line), Some(line + 1));
    let text = error.to_string();
    assert!(text.contains("takes 2 bindings") && text.contains(", not 1;"), "{text}");
    assert!(text.contains("copy: 256 bytes into 128; op 2 \"layer 7\", "), "{text}");
    Ok(())
}

#[test]
fn a_binding_too_short_or_no_multiple_of_its_stride_is_refused_with_both_figures() -> sortie::Result<()> {
    let device = noop();
    let kernel = device.kernel(
        "struct Head { count: u32, rest: array<vec4<f32>> }
        @group(0) @binding(0) var<storage, read_write> head: Head;
        @group(0) @binding(1) var<uniform> u: vec4<f32>;
        @compute @workgroup_size(1) fn main() { head.rest[0] = u; }",
    )?;
    let (good, uniform) = (device.zeros::<u32>(8)?, device.zeros::<f32>(4)?);
    let short = device.zeros::<u32>(4)?;
    let odd = device.zeros::<u32>(9)?;
    let bytes = device.zeros::<u8>(37)?;
    let tiny = device.zeros::<f32>(3)?;
    let message = |error: Error| error.to_string();
    let error = message(refused(&device, |batch| {
        batch.dispatch(&kernel, &[&short, &uniform], Grid::groups(1));
    }));
    assert!(error.contains("at least 32 bytes, not 16") && error.contains("`head`"), "{error}");
    // A part of an element at the end is left out.
    let batch = device.batch();
    batch.dispatch(&kernel, &[&odd, &uniform], Grid::groups(1));
    batch.dispatch(&kernel, &[&bytes, &uniform], Grid::groups(1));
    batch.submit()?;
    let error = message(refused(&device, |batch| {
        batch.dispatch(&kernel, &[&good, &bytes], Grid::groups(1));
    }));
    assert!(error.contains("bound to 37 bytes, which are not a multiple of 4"), "{error}");
    let error = message(refused(&device, |batch| {
        batch.dispatch(&kernel, &[&good, &tiny], Grid::groups(1));
    }));
    assert!(error.contains("at least 16 bytes, not 12"), "{error}");
    Ok(())
}

#[test]
fn reading_and_writing_the_same_bytes_through_two_bindings_is_refused() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let x = device.zeros::<f32>(1024)?;
    let kind = kind_of(&device, |batch| {
        batch.dispatch(&step, &[&x, &x], Grid::items(64));
    });
    assert_eq!(kind, ErrorKind::Bindings);
    let batch = device.batch();
    batch.dispatch(&step, &[&x.slice(..512), &x.slice(512..)], Grid::items(64));
    batch.submit()?;
    let two = device.kernel(
        "@group(0) @binding(0) var<storage, read> x: array<f32>;
        @group(0) @binding(1) var<storage, read> y: array<f32>;
        @group(0) @binding(2) var<storage, read_write> z: array<f32>;
        @compute @workgroup_size(1) fn main() { z[0] = x[0] + y[0]; }",
    )?;
    let z = device.zeros::<f32>(4)?;
    let batch = device.batch();
    batch.dispatch(&two, &[&x, &x, &z], Grid::groups(1));
    batch.submit()
}

#[test]
fn two_writes_to_separate_parts_of_one_buffer_are_fine_and_to_the_same_part_not() -> sortie::Result<()> {
    let device = noop();
    let two = device.kernel(
        "@group(0) @binding(0) var<storage, read_write> x: array<f32>;
        @group(0) @binding(1) var<storage, read_write> y: array<f32>;
        @compute @workgroup_size(1) fn main() { x[0] = 1.0; y[0] = 2.0; }",
    )?;
    let x = device.zeros::<f32>(1024)?;
    let batch = device.batch();
    batch.dispatch(&two, &[&x.slice(..512), &x.slice(512..)], Grid::groups(1));
    batch.submit()?;
    let kind = kind_of(&device, |batch| {
        batch.dispatch(&two, &[&x, &x.slice(512..)], Grid::groups(1));
    });
    assert_eq!(kind, ErrorKind::Bindings);
    Ok(())
}

#[test]
fn immediates_of_the_wrong_size_missing_or_unwanted_are_refused() -> sortie::Result<()> {
    for native_immediates in [true, false] {
        let device = noop_with(DeviceOptions::default().with_native_immediates(native_immediates));
        let kernel = device.kernel(
            "struct P { a: vec3<f32>, b: u32, c: vec3<f32> }
            var<immediate> p: P;
            @group(0) @binding(0) var<storage, read_write> x: array<f32>;
            @compute @workgroup_size(1) fn main() { x[0] = p.a.x + f32(p.b) + p.c.x; }",
        )?;
        let step = device.kernel(STEP)?;
        let (x, y) = (device.zeros::<f32>(4)?, device.zeros::<f32>(4)?);
        assert_eq!(kernel.immediate_bytes(), 32);
        let wrong = kind_of(&device, |b| {
            b.dispatch(&kernel, &[&x], Grid::groups(1)).immediates(&[0_u32; 4]);
        });
        let missing = kind_of(&device, |b| {
            b.dispatch(&kernel, &[&x], Grid::groups(1));
        });
        let unwanted = kind_of(&device, |b| {
            b.dispatch(&step, &[&x, &y], Grid::groups(1)).immediates(&1_u32);
        });
        assert_eq!([wrong, missing, unwanted], [ErrorKind::Bindings, ErrorKind::Bindings, ErrorKind::Bindings]);
        let batch = device.batch();
        batch.dispatch(&kernel, &[&x], Grid::groups(1)).immediates(&[0_u32; 8]);
        batch.dispatch(&kernel, &[&x], Grid::groups(1)).immediates(&[0_u32; 7]).label("without the trailing padding");
        batch.submit()?;
    }
    Ok(())
}

#[test]
fn zero_length_bindings_are_refused_and_zero_length_copies_are_nothing() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let (x, empty) = (device.zeros::<f32>(4)?, device.zeros::<f32>(0)?);
    let error = refused(&device, |batch| {
        batch.dispatch(&step, &[&x, &empty], Grid::items(4));
    });
    assert!(error.to_string().contains("length 0"), "{error}");
    assert_eq!(
        kind_of(&device, |b| {
            b.dispatch(&step, &[&x.slice(2..2), &x], Grid::items(4));
        }),
        ErrorKind::Bindings
    );
    let batch = device.batch();
    batch.copy(&empty, x.slice(1..1));
    batch.fill(&empty, 1.0);
    batch.write(&empty, &[]);
    let none = batch.read(&empty);
    batch.submit()?;
    assert!(none.wait()?.is_empty());
    assert_eq!((empty.download()?, empty.download_async()?.wait()?), (vec![], vec![]));
    assert!(device.upload::<f32>(&[])?.is_empty());
    Ok(())
}

#[test]
fn misaligned_slices_are_refused_with_both_figures() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let (x, y, bytes) = (device.zeros::<f32>(1024)?, device.zeros::<f32>(1024)?, device.zeros::<u8>(64)?);
    let error = refused(&device, |batch| {
        batch.dispatch(&step, &[&x.slice(1..), &y], Grid::items(4));
    });
    assert!(error.to_string().contains("byte 4,") && error.to_string().contains("256 bytes"), "{error}");
    let error = refused(&device, |batch| batch.copy(bytes.slice(1..5), bytes.slice(8..12)));
    assert!(error.to_string().contains("1..5") && error.to_string().contains("multiples of 4"), "{error}");
    let error = bytes.slice(2..3).write(&[1]).expect_err("misaligned");
    assert_eq!((error.kind(), error.location().is_some()), (ErrorKind::Shape, true));
    assert_eq!(bytes.slice(60..70).download().expect_err("out of range").kind(), ErrorKind::Shape);
    #[expect(clippy::reversed_empty_ranges, reason = "the mistake under test")]
    let backwards = x.slice(5..3);
    assert_eq!(kind_of(&device, |batch| batch.fill(backwards, 1.0)), ErrorKind::Shape);
    Ok(())
}

type Mistake<'a> = Box<dyn Fn(&Batch) + 'a>;

#[test]
fn handles_of_another_device_or_batch_are_refused() -> sortie::Result<()> {
    let (device, other) = (noop(), noop());
    let (step, foreign_step) = (device.kernel(STEP)?, other.kernel(STEP)?);
    let (x, foreign) = (device.zeros::<f32>(64)?, other.zeros::<f32>(64)?);
    let foreign_empty = other.zeros::<f32>(0)?;
    let elsewhere = device.batch();
    let slot = elsewhere.scratch::<f32>(64);
    let (device_s, batch_s) =
        ("the buffer belongs to another device; ", "the slot or tensor belongs to another batch; ");
    let all: [(Mistake<'_>, &str, &str); 9] = [
        (
            Box::new(|b| {
                b.dispatch(&step, &[&x, &foreign], Grid::items(4));
            }),
            "@group(0) @binding(1) `y`: ",
            device_s,
        ),
        (
            Box::new(|b| {
                b.dispatch(&foreign_step, &[&x, &foreign], Grid::items(4));
            }),
            "",
            "the kernel belongs to another device; ",
        ),
        (
            Box::new(|b| {
                b.dispatch(&step, &[&x, &slot], Grid::items(4));
            }),
            "@group(0) @binding(1) `y`: ",
            batch_s,
        ),
        (Box::new(|b| b.copy(&foreign, &x)), "the source of the copy: ", device_s),
        (Box::new(|b| b.copy(&x, slot)), "the destination of the copy: ", batch_s),
        (Box::new(|b| b.fill(slot, 1.0)), "fill: ", batch_s),
        (Box::new(|b| b.fill(&foreign, 1.0)), "fill: ", device_s),
        (Box::new(|b| drop(b.read(&foreign_empty))), "read: ", device_s),
        (Box::new(|b| b.write(&foreign, &[0.0; 64])), "write: ", device_s),
    ];
    for (record, what, whose) in all {
        let error = refused(&device, |batch| record(batch));
        assert_eq!(error.kind(), ErrorKind::Bindings);
        assert!(error.to_string().starts_with(&format!("{what}{whose}")), "{error}");
    }
    Ok(())
}

#[test]
fn an_imported_buffer_without_the_needed_usage_is_refused() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let raw = |usage| {
        let (wgpu, _) = device.wgpu().expect("a wgpu device");
        wgpu.create_buffer(&wgpu::BufferDescriptor { label: None, size: 256, usage, mapped_at_creation: false })
    };
    let x = device.zeros::<f32>(64)?;
    let copies = device.import::<f32>(raw(wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST))?;
    let storage = device.import::<f32>(raw(wgpu::BufferUsages::STORAGE))?;
    let error = refused(&device, |batch| {
        batch.dispatch(&step, &[&x, &copies], Grid::items(4));
    });
    assert!(error.to_string().contains("without the usage STORAGE") && error.to_string().contains("`y`"), "{error}");
    assert_eq!(kind_of(&device, |batch| batch.copy(&x, &storage)), ErrorKind::Bindings);
    assert_eq!(kind_of(&device, |batch| batch.copy(&storage, &x)), ErrorKind::Bindings);
    assert_eq!(kind_of(&device, |batch| drop(batch.read(&storage))), ErrorKind::Bindings);
    assert_eq!(storage.write(&[0.0; 64]).expect_err("no COPY_DST").kind(), ErrorKind::Bindings);
    let grid = |batch: &Batch| {
        batch.dispatch(&step, &[&x, &storage], Grid::indirect(&copies));
    };
    assert_eq!(kind_of(&device, grid), ErrorKind::Bindings);
    assert_eq!(
        device.import::<[f32; 7]>(raw(wgpu::BufferUsages::STORAGE)).expect_err("256 / 28").kind(),
        ErrorKind::Shape
    );
    Ok(())
}

#[test]
fn a_grid_past_what_ids_can_count_is_too_large() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let (x, y) = (device.zeros::<f32>(64)?, device.zeros::<f32>(64)?);
    let kind = |grid: Grid<'_>| {
        kind_of(&device, |batch| {
            batch.dispatch(&step, &[&x, &y], grid);
        })
    };
    assert_eq!(kind(Grid::items((1_u64 << 32) + 1)), ErrorKind::TooLarge { wanted: (1 << 32) + 1, limit: 1 << 32 });
    assert!(matches!(kind(Grid::groups([70_000_u64, 70_000, 1])), ErrorKind::TooLarge { .. }), "4.9e9 groups to fold");
    assert_eq!(kind(Grid::items(-1)), ErrorKind::Grid);
    let short = device.zeros::<u32>(2)?;
    assert_eq!(kind(Grid::indirect(&short)), ErrorKind::Grid);
    let batch = device.batch();
    batch.dispatch(&step, &[&x, &y], Grid::groups([65_536, 1, 1]));
    batch.submit()
}

#[test]
fn wgsl_errors_show_the_users_line() {
    let device = noop();
    let error =
        device.kernel("@compute @workgroup_size(1)\nfn main() {\n    let x: u32 = 1.5;\n}").expect_err("a type error");
    assert_eq!(error.kind(), ErrorKind::Shader);
    assert!(error.to_string().contains("let x: u32 = 1.5"), "{error}");
    assert!(error.location().is_some_and(|at| at.file().ends_with("mistakes.rs")));
    let kind = |source: &str| device.kernel(source).expect_err("refused").kind();
    assert_eq!(kind(""), ErrorKind::Shader);
    assert_eq!(kind("@compute @workgroup_size(1) fn a() {} @compute @workgroup_size(1) fn b() {}"), ErrorKind::Shader);
    assert_eq!(
        kind(
            "@group(0) @binding(0) var t: texture_2d<f32>; @compute @workgroup_size(1) fn a() { _ = textureDimensions(t); }"
        ),
        ErrorKind::Unsupported
    );
    let module = device.module("@compute @workgroup_size(1) fn a() {}").expect("it is valid");
    for kernel in [module.with("nope", 1).kernel("a"), module.kernel("b")] {
        assert_eq!(kernel.expect_err("refused").kind(), ErrorKind::Shader);
    }
    assert_eq!(device.module("fn").expect_err("refused").kind(), ErrorKind::Shader);
}

#[test]
fn wgsl_made_to_hurt_is_refused_before_it_can() {
    let device = noop();
    let body =
        |expression: &str| format!("@compute @workgroup_size(1) fn main() {{ var a = 1u; let b = {expression}; }}");
    let kind = |source: &str| device.kernel(source).expect_err("refused").kind();
    let long = format!("@compute @workgroup_size(1) fn main() {{}} //{}", "x".repeat(10 << 20));
    assert!(matches!(kind(&long), ErrorKind::TooLarge { wanted, .. } if wanted > 10 << 20));
    assert_eq!(kind(&body(&format!("{}a", "~".repeat(5_000)))), ErrorKind::Shader);
    assert_eq!(kind(&body(&vec!["a"; 5_000].join("+"))), ErrorKind::Shader);
    assert_eq!(kind(&body(&format!("{}a{}", "(".repeat(5_000), ")".repeat(5_000)))), ErrorKind::Shader);
    let ladder = format!("if a == 0u {{}} {}", "else if a == 1u {} ".repeat(5_000));
    assert_eq!(kind(&format!("@compute @workgroup_size(1) fn main() {{ var a = 1u; {ladder} }}")), ErrorKind::Shader);
}

#[test]
fn a_workgroup_over_the_limit_is_too_large() {
    let device = noop();
    let error = device.kernel("@compute @workgroup_size(257) fn main() {}").expect_err("257 > 256");
    assert_eq!(error.kind(), ErrorKind::TooLarge { wanted: 257, limit: 256 });
    let memory = "var<workgroup> w: array<f32, 5000>; @compute @workgroup_size(1) fn main() { w[0] = 1.0; }";
    assert_eq!(
        device.kernel(memory).expect_err("20,000 bytes").kind(),
        ErrorKind::TooLarge { wanted: 20_000, limit: 16_384 }
    );
}
