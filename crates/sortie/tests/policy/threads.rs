//! Batches of several threads, cut: none sees half of another.

use std::thread;

use sortie::{Grid, policy::Split};

use crate::{devices, on};

const ADD: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] = x[id.x] + 1u; }
    }";

/// Each batch takes the number out, adds to it elsewhere and puts it back: between others' parts it would lose theirs.
#[test]
fn a_batch_that_is_cut_is_still_one() {
    const THREADS: usize = 4;
    const BATCHES: usize = 25;
    const STEPS: usize = 6;
    on(devices(), |name, device| {
        let add = device.kernel(ADD)?;
        let number = device.zeros::<u32>(64)?;
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (add, number, device) = (&add, &number, &device);
                scope.spawn(move || -> sortie::Result<()> {
                    for round in 0..BATCHES {
                        let batch = device.batch();
                        let own = [batch.scratch::<u32>(64), batch.scratch::<u32>(64)];
                        batch.copy(number, own[0]);
                        for step in 0..STEPS {
                            batch.dispatch(add, &[&own[step % 2], &own[(step + 1) % 2]], Grid::items(64));
                        }
                        batch.copy(own[STEPS % 2], number);
                        // Some are cut and some are not; some wait and some do not.
                        match (thread + round) % 3 {
                            0 => batch.split_by(Split::Never),
                            1 => batch.split_by(Split::Every(1)),
                            _ => batch.split_by(Split::Every(3)),
                        }
                        match round % 2 {
                            0 => batch.submit()?,
                            _ => drop(batch.submit_async()?),
                        }
                    }
                    Ok(())
                });
            }
        });
        let expected = (THREADS * BATCHES * STEPS) as u32;
        assert_eq!(number.download()?, vec![expected; 64], "{name}");
        Ok(())
    });
}
