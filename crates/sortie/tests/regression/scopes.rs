//! Odd but legal ways to record.

use sortie::{ErrorKind, Grid};

use crate::{STEP, noop};

/// The offset of a slice was computed before the range was checked.
#[test]
fn a_slice_far_out_of_range_is_an_error_in_a_dispatch_too() -> sortie::Result<()> {
    let device = noop();
    let kernel = device.kernel(STEP)?;
    let (x, y) = (device.zeros::<u32>(64)?, device.zeros::<u32>(64)?);
    let batch = device.batch();
    batch.dispatch(&kernel, &[&x.slice(usize::MAX / 2..), &y], Grid::items(64));
    batch.copy(x.slice(usize::MAX - 1..usize::MAX), y.slice(..1));
    let error = batch.submit().expect_err("out of range");
    assert_eq!(
        error.mistakes().iter().map(sortie::Error::kind).collect::<Vec<_>>(),
        [ErrorKind::Shape, ErrorKind::Shape]
    );
    Ok(())
}

/// A copy within one buffer takes two ops, and the second one was counted.
#[test]
fn ops_are_numbered_as_the_user_counts_them() -> sortie::Result<()> {
    let device = noop();
    let (x, y) = (device.zeros::<u32>(64)?, device.zeros::<u32>(32)?);
    let batch = device.batch();
    batch.copy(x.slice(..32), x.slice(32..));
    batch.barrier();
    assert_eq!(batch.num_ops(), 1);
    batch.copy(&x, &y);
    assert_eq!(batch.num_ops(), 2);
    assert_eq!(batch.submit().expect_err("lengths differ").op(), Some(1));
    Ok(())
}

/// The missing bind group was noticed when the wrapped variant was compiled, far from the dispatch that needs it.
#[test]
fn a_kernel_without_room_for_hidden_parameters_names_its_dispatch() -> sortie::Result<()> {
    let device = noop();
    let kernel = device.kernel(
        "@group(3) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(1) fn main() { x[0] = 1u; }",
    )?;
    let x = device.zeros::<u32>(4)?;
    let batch = device.batch();
    batch.dispatch(&kernel, &[&x], Grid::groups(4)).label("fits");
    batch.dispatch(&kernel, &[&x], Grid::groups(70_000)).label("does not");
    let error = batch.submit().expect_err("no group is left");
    assert_eq!((error.kind(), error.label()), (ErrorKind::Unsupported, Some("does not")));
    Ok(())
}

/// Zeroing reused scratch bound it whole, whatever its size.
#[test]
fn scratch_longer_than_a_binding_is_reused() -> sortie::Result<()> {
    let device = noop();
    let len = usize::try_from(device.info().limits.binding_bytes / 4).expect("64 bits") + 64;
    let touch = device.kernel(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(1) fn main() { x[0] = 1u; }",
    )?;
    let small = device.zeros::<u32>(64)?;
    let batch = device.batch();
    for _ in 0..2 {
        let scratch = batch.scratch::<u32>(len);
        batch.fill(scratch, 3);
        batch.barrier();
        batch.dispatch(&touch, &[&small], Grid::groups(1));
        batch.barrier();
    }
    batch.submit()
}

/// The length of a refused scratch overflowed when it was used.
#[test]
fn a_refused_scratch_may_be_used_and_stays_one_mistake_each() -> sortie::Result<()> {
    let device = noop();
    let kernel = device.kernel(STEP)?;
    let y = device.zeros::<u32>(64)?;
    let batch = device.batch();
    let huge = batch.scratch::<u64>(usize::MAX);
    batch.dispatch(&kernel, &[&huge, &y], Grid::items(64));
    batch.fill(huge, 1);
    let error = batch.submit().expect_err("too large");
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }), "{error}");
    assert_eq!(error.mistakes().len(), 3);
    Ok(())
}

/// Drivers hang or end the process over it.
#[test]
fn a_kernel_with_more_private_memory_than_drivers_bear_is_refused() {
    let device = noop();
    let source = |words: u32| {
        format!(
            "var<private> a: array<u32, {words}>;
            @group(0) @binding(0) var<storage, read_write> o: array<u32>;
            @compute @workgroup_size(1) fn main() {{ var b: array<u32, 8>; b[o[2]] = 1u; a[o[0]] = 5u; o[0] = a[o[1]] + b[o[3]]; }}"
        )
    };
    assert!(device.kernel(&source(1000)).is_ok());
    let error = device.kernel(&source(16_384)).expect_err("64 KiB and a little");
    assert_eq!(error.kind(), ErrorKind::TooLarge { wanted: 65_536 + 32, limit: 65_536 });
}

/// Scopes and labels are found without looking through all of them.
#[test]
fn every_one_of_many_mistakes_has_its_own_scope_and_label() -> sortie::Result<()> {
    let device = noop();
    let (x, y) = (device.zeros::<u32>(64)?, device.zeros::<u32>(32)?);
    let batch = device.batch();
    for layer in 0..1000 {
        batch.scope("net", |batch| {
            batch.scope(&format!("layer {layer}"), |batch| batch.copy(&x, &y));
            batch.fill(&x, 1);
            batch.copy(&x, &y);
        });
    }
    let error = batch.submit().expect_err("lengths differ");
    let labels: Vec<_> = error.mistakes().iter().map(|mistake| (mistake.op(), mistake.label())).collect();
    assert_eq!(labels.len(), 2000);
    assert_eq!(labels[..3], [(Some(0), Some("net/layer 0")), (Some(2), Some("net")), (Some(3), Some("net/layer 1"))]);
    assert_eq!(labels[1998], (Some(2997), Some("net/layer 999")));
    Ok(())
}
