//! Recording allocates nothing per op, nor does running it on the built-in CPU: lists are reused from batch to batch.

#![expect(unsafe_code, reason = "counting allocations takes a global allocator")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::{Mutex, MutexGuard, PoisonError},
};

use sortie::{Batch, Device, DeviceOptions, Grid};

const ADD: &str = "
    var<immediate> amount: u32;
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] = x[id.x] + amount; }
    }
";

/// The lists that are used again belong to the process: a test beside this one would take them away.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_warm_batch_is_recorded_without_an_allocation_per_op() -> sortie::Result<()> {
    let _turn = turn();
    let device = Device::open_with(DeviceOptions::default().with_device("noop"))?;
    let kernel = device.kernel(ADD)?;
    let (x, y) = (device.zeros::<u32>(1024)?, device.zeros::<u32>(1024)?);
    let record = |batch: &Batch| {
        for amount in 0..1000_u32 {
            batch.scope("step", |batch| {
                batch.dispatch(&kernel, &[&x, &y], Grid::items(1024)).immediates(&amount).label("there");
            });
            batch.dispatch(&kernel, &[&y, &x], Grid::items(1024)).immediates(&amount);
            batch.copy(x.slice(..16), y.slice(16..32));
            batch.fill(&y, 3);
            batch.write(x.slice(..4), &[1, 2, 3, 4]);
        }
    };
    for _ in 0..2 {
        let batch = device.batch();
        record(&batch);
        batch.submit()?;
    }
    let batch = device.batch();
    let before = ALLOCS.get();
    record(&batch);
    let recorded = ALLOCS.get() - before;
    assert_eq!(recorded, 0, "for 5,000 ops");
    batch.submit()
}

#[test]
fn warm_tensor_operations_are_recorded_without_an_allocation_per_op() -> sortie::Result<()> {
    let _turn = turn();
    let device = Device::open_with(DeviceOptions::default().with_device("noop"))?;
    let (x, bias) = (device.zeros::<f32>(64)?, device.zeros::<f32>(8)?);
    let record = |batch: &Batch| {
        let (weights, bias) = (batch.tensor(&x, [8, 8]), batch.tensor(&bias, [8]));
        let mut h = weights;
        for _ in 0..100 {
            h = (h.matmul(weights) + bias).tanh() * 0.5 + 1.0;
            h = h.greater(0.5).select(h.transpose(), 1.0 - h);
            h = h - h.mean(&[1]).reshape([8, 1]);
            h = h.slice(&[0..4, 0..8]).concat(&[h.slice(&[4..8, 0..8])], 0);
        }
        h.store(&x);
    };
    for _ in 0..2 {
        let batch = device.batch();
        record(&batch);
        batch.submit()?;
    }
    let batch = device.batch();
    let before = ALLOCS.get();
    record(&batch);
    let recorded = ALLOCS.get() - before;
    assert_eq!(recorded, 0, "for {} ops", batch.num_ops());
    Ok(())
}

#[test]
fn a_warm_batch_runs_on_the_cpu_without_an_allocation_per_op() -> sortie::Result<()> {
    let _turn = turn();
    let device = Device::cpu()?;
    let kernel = device.kernel(ADD)?;
    let (x, y) = (device.zeros::<u32>(1024)?, device.zeros::<u32>(1024)?);
    let run = || -> sortie::Result<u64> {
        let before = ALLOCS.get();
        let batch = device.batch();
        let scratch = batch.scratch::<u32>(16);
        for value in 0..1000_u32 {
            batch.fill(&y, value);
            batch.copy(x.slice(..16), y.slice(16..32));
            batch.copy(x.slice(..16), x.slice(8..24));
            batch.copy(y.slice(..16), scratch);
            batch.dispatch(&kernel, &[&x, &y], Grid::items(16)).immediates(&value);
        }
        // On this thread, where they are counted.
        batch.submit()?;
        Ok(ALLOCS.get() - before)
    };
    for _ in 0..2 {
        run()?;
    }
    let allocs = run()?;
    assert!(allocs <= 8, "{allocs} for 5,000 ops");
    Ok(())
}

thread_local! {
    static ALLOCS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // Already destroyed at the end of a thread; allocations there are not counted.
    let _gone = ALLOCS.try_with(|allocs| allocs.set(allocs.get() + 1));
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) };
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        unsafe { System.realloc(at, layout, size) }
    }
}
