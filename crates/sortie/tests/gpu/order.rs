//! Ops see what was recorded before them, and batches what was submitted before them.

use sortie::{Buffer, Grid};

use crate::{STEP, on_all, on_drivers, step};

#[test]
fn each_dispatch_sees_the_write_recorded_before_it() {
    on_all(|device| {
        let kernel = device.kernel(STEP)?;
        let (x, a, b) = (device.zeros::<u32>(4)?, device.zeros::<u32>(4)?, device.zeros::<u32>(4)?);
        let batch = device.batch();
        batch.write(&x, &[1; 4]);
        batch.dispatch(&kernel, &[&x, &a], Grid::items(4));
        batch.write(&x, &[2; 4]);
        batch.dispatch(&kernel, &[&x, &b], Grid::items(4));
        let (saw, now) = (batch.read(&a), batch.read(&b));
        batch.submit()?;
        assert_eq!((saw.wait()?, now.wait()?), (vec![3; 4], vec![5; 4]));
        Ok(())
    });
}

#[test]
fn each_read_sees_the_moment_it_was_recorded_at() {
    on_all(|device| {
        let x = device.zeros::<u32>(2)?;
        let batch = device.batch();
        let mut readings = vec![batch.read(&x)];
        for value in 1..20 {
            batch.fill(&x, value);
            readings.push(batch.read(&x));
        }
        batch.submit()?;
        for (value, reading) in (0..).zip(readings) {
            assert_eq!(reading.wait()?, [value; 2]);
        }
        Ok(())
    });
}

#[test]
fn buffer_writes_are_in_order_with_batches_under_way() {
    on_all(|device| {
        let kernel = device.kernel(STEP)?;
        let (x, y) = (device.zeros::<u32>(1000)?, device.zeros::<u32>(1000)?);
        let mut results = Vec::new();
        for round in 0..20_u32 {
            x.write(&vec![round; 1000])?;
            let batch = device.batch();
            batch.dispatch(&kernel, &[&x, &y], Grid::items(1000));
            results.push(batch.read(&y));
            drop(batch.submit_async()?);
        }
        for (round, result) in (0..).zip(results) {
            assert_eq!(result.wait()?, vec![step(round); 1000]);
        }
        Ok(())
    });
}

#[test]
fn submissions_of_a_split_batch_run_in_order() {
    on_all(|device| {
        let kernel = device.kernel(STEP)?;
        let (x, y) = (device.upload(&[5_u32; 8])?, device.zeros::<u32>(8)?);
        let batch = device.batch();
        let mut expected = 5;
        for _ in 0..5 {
            batch.dispatch(&kernel, &[&x, &y], Grid::items(8));
            batch.split();
            batch.dispatch(&kernel, &[&y, &x], Grid::items(8));
            expected = step(step(expected));
        }
        let end = batch.read(&x);
        let before = device.metrics();
        batch.submit_async()?.wait()?;
        assert_eq!(end.wait()?, [expected; 8]);
        assert_eq!((device.metrics() - before).submissions, 6);
        Ok(())
    });
}

#[test]
fn many_threads_get_each_their_own_answer() {
    on_all(|device| {
        let kernel = device.kernel(STEP)?;
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let (device, kernel) = (device.clone(), kernel.clone());
                scope.spawn(move || -> sortie::Result<()> {
                    for round in 0..25 {
                        let data: Vec<u32> = (0..256).map(|index| index * 1000 + thread * 100 + round).collect();
                        let x = device.upload(&data)?;
                        let batch = device.batch();
                        let y = batch.scratch::<u32>(256);
                        batch.dispatch(&kernel, &[&x, &y], Grid::items(256));
                        let result = batch.read(y);
                        let result = if round % 2 == 0 {
                            pollster::block_on(async { batch.submit_async()?.await.and(result.await) })?
                        } else {
                            batch.submit()?;
                            result.wait()?
                        };
                        assert_eq!(result, data.into_iter().map(step).collect::<Vec<_>>());
                    }
                    Ok(())
                });
            }
        });
        Ok(())
    });
}

#[test]
fn two_imports_of_one_buffer_are_one_piece_of_memory() {
    on_drivers(|device| {
        let kernel = device.kernel(STEP)?;
        let (wgpu, _) = device.wgpu().expect("a wgpu device");
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let raw =
            wgpu.create_buffer(&wgpu::BufferDescriptor { label: None, size: 64, usage, mapped_at_creation: false });
        let (one, other): (Buffer<u32>, Buffer<u32>) = (device.import(raw.clone())?, device.import(raw)?);
        let (x, y) = (device.upload(&[7_u32; 16])?, device.zeros::<u32>(16)?);
        let batch = device.batch();
        batch.dispatch(&kernel, &[&x, &one], Grid::items(16));
        batch.dispatch(&kernel, &[&other, &y], Grid::items(16));
        assert_eq!(batch.num_slots(), 3);
        batch.submit()?;
        assert_eq!(y.download()?, [step(step(7)); 16]);
        Ok(())
    });
}
