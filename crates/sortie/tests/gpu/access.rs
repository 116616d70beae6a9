//! What a kernel reads and writes, as it does and not as it declares: what only reads shares a wave and a buffer.

use std::panic::Location;

use sortie::{Buffer, Device, ErrorKind, Grid};

use crate::{STEP, drivers::is_gl, on_all, step};

/// As a code generator writes it: all bindings are `read_write`, and helpers access them.
const PRODUCT: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @group(0) @binding(2) var<storage, read_write> z: array<u32>;
    fn left(at: u32) -> u32 { let p = &x[at]; return *p; }
    fn put(at: u32, value: u32) { z[at] = value; }
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&z) { put(id.x, left(id.x) * y[id.x]); }
    }
";

/// Writes through its second binding as well, far down.
const PLANTED: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    fn deeper(at: u32) { if at == 1000000u { y[0] = 1u; } }
    fn deep(at: u32) { deeper(at); }
    @compute @workgroup_size(1) fn main() { deep(x[0]); }
";

/// Elements of a `u32` buffer that a slice may start at.
fn aligned(device: &Device) -> usize {
    (device.info().limits.slice_alignment as usize / 4).max(64)
}

fn counting(len: usize) -> Vec<u32> {
    (1..).take(len).collect()
}

#[test]
fn dispatches_that_only_read_what_they_declare_read_write_need_no_barrier() {
    on_all(|device| {
        let product = device.kernel(PRODUCT)?;
        assert_eq!([0, 1, 2].map(|at| product.writes(at)), [false, false, true]);
        assert!(product.bindings().iter().all(|binding| binding.writes), "as declared");
        let (x, y) = (device.upload(&counting(200))?, device.upload(&[3_u32; 200])?);
        let results = [device.zeros::<u32>(200)?, device.zeros::<u32>(200)?, device.zeros::<u32>(200)?];
        let before = device.metrics();
        let batch = device.batch();
        for result in &results {
            batch.dispatch(&product, &[&x, &y, result], 200);
        }
        batch.submit()?;
        assert_eq!((device.metrics() - before).barriers, 0);
        let expected: Vec<u32> = counting(200).iter().map(|x| 3 * x).collect();
        for result in &results {
            assert_eq!(result.download()?, expected);
        }
        Ok(())
    });
}

#[test]
fn a_buffer_that_is_only_read_may_be_bound_twice_whatever_is_declared() {
    on_all(|device| {
        let product = device.kernel(PRODUCT)?;
        let (x, squares) = (device.upload(&counting(200))?, device.zeros::<u32>(200)?);
        let cubes = device.zeros::<u32>(200)?;
        let before = device.metrics();
        let batch = device.batch();
        batch.dispatch(&product, &[&x, &x, &squares], 200);
        batch.dispatch(&product, &[&x, &squares, &cubes], 200);
        batch.submit()?;
        assert_eq!((device.metrics() - before).barriers, 1, "only for the squares");
        assert_eq!(squares.download()?, counting(200).iter().map(|x| x * x).collect::<Vec<_>>());
        assert_eq!(cubes.download()?, counting(200).iter().map(|x| x * x * x).collect::<Vec<_>>());
        Ok(())
    });
}

#[test]
fn a_kernel_that_only_loads_atomics_reads_them() {
    on_all(|device| {
        let sum = device.kernel(
            "@group(0) @binding(0) var<storage, read_write> x: array<atomic<u32>>;
            @group(0) @binding(1) var<storage, read_write> y: array<atomic<u32>>;
            @group(0) @binding(2) var<storage, read_write> z: array<atomic<u32>>;
            @compute @workgroup_size(1) fn main(@builtin(workgroup_id) id: vec3<u32>) {
                atomicAdd(&z[id.x], atomicLoad(&x[id.x]) + atomicLoad(&y[id.x]));
            }",
        )?;
        assert_eq!([0, 1, 2].map(|at| sum.writes(at)), [false, false, true]);
        let (x, one, other) = (device.upload(&counting(8))?, device.zeros::<u32>(8)?, device.zeros::<u32>(8)?);
        let before = device.metrics();
        let batch = device.batch();
        batch.dispatch(&sum, &[&x, &x, &one], Grid::groups(8));
        batch.dispatch(&sum, &[&x, &x, &other], Grid::groups(8));
        batch.submit()?;
        assert_eq!((device.metrics() - before).barriers, 0);
        let expected: Vec<u32> = counting(8).iter().map(|x| 2 * x).collect();
        assert_eq!((one.download()?, other.download()?), (expected.clone(), expected));
        Ok(())
    });
}

#[test]
fn parts_of_one_buffer_are_read_and_written_in_one_dispatch() {
    on_all(|device| {
        let (step_kernel, product) = (device.kernel(STEP)?, device.kernel(PRODUCT)?);
        let part = aligned(device);
        let data = counting(3 * part);
        let all = device.upload(&data)?;
        let piece = |at: usize| all.slice(at * part..(at + 1) * part);
        let batch = device.batch();
        // The first reads before what it writes, the second behind it.
        batch.dispatch(&step_kernel, &[&piece(0), &piece(1)], part);
        batch.dispatch(&step_kernel, &[&piece(1), &piece(0)], part);
        // What is read may overlap.
        batch.dispatch(&product, &[&piece(0), &all.slice(..2 * part), &piece(2)], part);
        batch.submit()?;
        let second: Vec<u32> = data[..part].iter().map(|x| step(*x)).collect();
        let first: Vec<u32> = second.iter().map(|x| step(*x)).collect();
        let third: Vec<u32> = first.iter().map(|x| x.wrapping_mul(*x)).collect();
        assert_eq!(all.download()?, [first, second, third].concat());
        Ok(())
    });
}

#[test]
fn a_form_that_writes_more_has_immediates_and_huge_grids_too() {
    on_all(|device| {
        let kernel = device.kernel(
            "var<immediate> by: u32;
            @group(0) @binding(0) var<storage, read> x: array<u32>;
            @group(2) @binding(1) var<storage, read_write> y: array<u32>;
            @compute @workgroup_size(1) fn main(@builtin(workgroup_id) id: vec3<u32>) {
                y[id.x] = x[id.x] + by;
            }",
        )?;
        let (part, count) = (71_680, 70_000);
        let all = device.upload(&counting(2 * part))?;
        let batch = device.batch();
        let halves = [all.slice(..part), all.slice(part..)];
        batch.dispatch(&kernel, &[&halves[0], &halves[1]], Grid::groups(count)).immediates(&5_u32);
        batch.submit()?;
        let mut expected = counting(2 * part);
        (0..count as usize).for_each(|at| expected[part + at] = expected[at] + 5);
        assert_eq!(all.download()?, expected);
        Ok(())
    });
}

#[test]
fn a_write_through_a_second_binding_is_a_mistake_with_its_line() {
    on_all(|device| {
        let (planted, product) = (device.kernel(PLANTED)?, device.kernel(PRODUCT)?);
        let uniform = device.kernel(
            "@group(0) @binding(0) var<uniform> x: vec4<u32>;
            @group(0) @binding(1) var<storage, read_write> y: array<u32>;
            @compute @workgroup_size(1) fn main() { y[0] = x.x; }",
        )?;
        let part = aligned(device);
        let x: Buffer<u32> = device.zeros(2 * part)?;
        let (first, second) = (x.slice(..part), x.slice(part..));
        let batch = device.batch();
        let line = Location::caller().line() + 1;
        batch.dispatch(&planted, &[&x, &x], Grid::groups(1));
        batch.dispatch(&product, &[&first, &second, &x], part);
        batch.dispatch(&uniform, &[&first, &second], Grid::groups(1));
        batch.dispatch(&product, &[&second, &second, &first], Grid::indirect(&x.slice(..3)));
        let error = batch.submit().expect_err("four mistakes");
        for (mistake, line) in error.mistakes().iter().zip(line..) {
            assert_eq!((mistake.kind(), mistake.location().map(Location::line)), (ErrorKind::Bindings, Some(line)));
        }
        let said: Vec<String> = error.mistakes().iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 4, "{error}");
        assert!(said[0].contains("`x` and @group(0) @binding(1) `y` are bound to overlapping parts"), "{}", said[0]);
        assert!(said[1].contains("`x` and @group(0) @binding(2) `z` are bound to overlapping parts"), "{}", said[1]);
        assert!(said[2].contains("are bound to one buffer") && said[2].contains("uniforms"), "{}", said[2]);
        assert!(said[3].contains("`z` and the indirect grid are bound to overlapping parts"), "{}", said[3]);
        Ok(())
    });
}

/// One kernel with more forms than it keeps.
#[test]
fn a_buffer_is_shared_in_every_way_that_a_kernel_can_be_bound() {
    // Not on GL: every form is another program, and llvmpipe links them slowly.
    if is_gl() {
        return;
    }
    on_all(|device| {
        let kernel = device.kernel(
            "@group(0) @binding(0) var<storage, read> a: array<u32>;
            @group(0) @binding(1) var<storage, read> b: array<u32>;
            @group(0) @binding(2) var<storage, read> c: array<u32>;
            @group(0) @binding(3) var<storage, read> d: array<u32>;
            @group(0) @binding(4) var<storage, read_write> out: array<u32>;
            @compute @workgroup_size(1) fn main() { out[0] = a[0] + 2u * b[0] + 4u * c[0] + 8u * d[0]; }",
        )?;
        let part = aligned(device);
        let (own, other) = (device.upload(&vec![1_u32; 2 * part])?, device.upload(&vec![16_u32; part])?);
        for round in 0..2 {
            for ways in 0..16_u32 {
                let is_own = |bit: u32| ways & (1 << bit) != 0;
                let pieces = [0, 1, 2, 3].map(|bit| if is_own(bit) { own.slice(part..) } else { other.slice(..) });
                let [a, b, c, d] = &pieces;
                let batch = device.batch();
                batch.dispatch(&kernel, &[a, b, c, d, &own.slice(..part)], Grid::groups(1));
                batch.submit()?;
                let expected = (0..4).map(|bit| if is_own(bit) { 1 << bit } else { 16 << bit }).sum::<u32>();
                assert_eq!(own.slice(..1).download()?, [expected], "{ways:04b}, round {round}");
            }
        }
        Ok(())
    });
}
