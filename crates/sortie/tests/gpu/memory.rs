//! Recycled memory never shows old data, and what is dropped is freed.

use sortie::{DeviceOptions, Grid, batch::Bind, device::PoolLimits};

use crate::{STEP, on_all, on_drivers_with};

/// Writes only its first element.
const TOUCH: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(1) fn main() { x[0] = 1u; }
";

#[test]
fn zeros_are_zero_in_recycled_memory_of_any_size() {
    on_all(|device| {
        for len in [1_usize, 100, 16_384, 16_385, 300_000] {
            let dirty = device.upload(&vec![0xdead_beef_u32; len])?;
            dirty.download()?;
            drop(dirty);
            let before = device.metrics();
            let clean = device.zeros::<u32>(len)?;
            assert_eq!((device.metrics() - before).buffers_recycled, 1);
            assert!(clean.download()?.iter().all(|word| *word == 0), "{len}");
        }
        Ok(())
    });
}

#[test]
fn data_written_right_after_zeros_or_into_their_memory_survives_the_zeroing() {
    on_all(|device| {
        for len in [100_usize, 300_000] {
            drop(device.upload(&vec![1_u32; len])?);
            let x = device.zeros::<u32>(len)?;
            x.write(&vec![2; len])?;
            assert!(x.download()?.iter().all(|word| *word == 2));
            drop(x);
            drop(device.zeros::<u32>(len)?);
            let y = device.upload(&vec![3_u32; len])?;
            assert!(y.download()?.iter().all(|word| *word == 3));
        }
        Ok(())
    });
}

#[test]
fn scratch_reads_as_zero_where_nothing_was_written_even_when_it_is_shared() {
    on_all(|device| {
        let (touch, step) = (device.kernel(TOUCH)?, device.kernel(STEP)?);
        drop(device.upload(&[9_u32; 64])?);
        for _ in 0..3 {
            let batch = device.batch();
            let mut readings = Vec::new();
            let out = device.zeros::<u32>(64)?;
            for _ in 0..4 {
                let slot = batch.scratch::<u32>(64);
                batch.dispatch(&touch, &[&slot], Grid::groups(1));
                batch.dispatch(&step, &[&slot, &out], Grid::items(64));
                readings.push(batch.read(&out));
            }
            let untouched = batch.scratch::<u32>(64);
            readings.push(batch.read(untouched));
            batch.submit()?;
            let last = readings.pop().expect("five readings").wait()?;
            assert_eq!(last, [0; 64]);
            for reading in readings {
                let mut expected = [1; 64];
                expected[0] = 3;
                assert_eq!(reading.wait()?, expected);
            }
        }
        Ok(())
    });
}

#[test]
fn a_dropped_buffer_that_had_been_bound_is_freed() {
    let nothing = PoolLimits { bytes: 0, ..PoolLimits::default() };
    on_drivers_with(&DeviceOptions::default().with_pool(nothing), |device| {
        let kernel = device.kernel(STEP)?;
        let (wgpu, _) = device.wgpu().expect("a wgpu device");
        let live = || {
            // Resources go when wgpu next looks.
            wgpu.poll(wgpu::PollType::wait_indefinitely()).expect("the device is idle");
            let counters = wgpu.get_internal_counters().hal;
            (counters.buffer_memory.read(), counters.bind_groups.read())
        };
        let (x, y) = (device.zeros::<u32>(1 << 20)?, device.zeros::<u32>(1 << 20)?);
        let batch = device.batch();
        batch.dispatch(&kernel, &[&x, &y], Grid::items(64));
        batch.submit()?;
        let during = live();
        drop((x, y));
        let after = live();
        // Of GL wgpu does not count them.
        let counted = device.info().backend != "gl";
        assert!(!counted || during.0 - after.0 >= 8 << 20, "{} bytes became {}", during.0, after.0);
        assert!(after.1 < during.1, "{} bind groups became {}", during.1, after.1);
        Ok(())
    });
}

#[test]
fn a_runtime_sized_array_has_as_many_elements_as_fit_into_its_buffer() {
    const LENGTHS: &str = "
        struct Head { count: u32, rest: array<vec2<u32>> }
        @group(0) @binding(0) var<storage, read> words: array<u32>;
        @group(0) @binding(1) var<storage, read> threes: array<array<u32, 3>>;
        @group(0) @binding(2) var<storage, read> head: Head;
        @group(0) @binding(3) var<storage, read_write> written: array<vec4<u32>>;
        @group(0) @binding(4) var<storage, read_write> found: array<u32>;
        @compute @workgroup_size(1) fn main() {
            found[0] = arrayLength(&words);
            found[1] = arrayLength(&threes);
            found[2] = arrayLength(&head.rest);
            found[3] = arrayLength(&written);
            found[4] = words[arrayLength(&words) - 1u];
            found[5] = threes[arrayLength(&threes) - 1u][2];
            found[6] = head.rest[arrayLength(&head.rest) - 1u].y;
            written[arrayLength(&written) - 1u].w = 9u;
        }
    ";
    on_all(|device| {
        let kernel = device.kernel(LENGTHS)?;
        let numbers: Vec<u32> = (0..24).collect();
        let bytes: Vec<u8> = (0..10).collect();
        // 10 bytes of words, 8 words in threes, 8 words behind a head of two, 7 words in fours.
        let words = device.upload(&bytes)?;
        let (threes, head) = (device.upload(&numbers[..8])?, device.upload(&numbers[..9])?);
        let (written, found) = (device.upload(&numbers[..7])?, device.zeros::<u32>(7)?);
        let batch = device.batch();
        let bound: [&dyn Bind; 5] = [&words.untyped(), &threes.untyped(), &head, &written.untyped(), &found];
        batch.dispatch(&kernel, &bound, Grid::groups(1));
        batch.submit()?;
        assert_eq!(found.download()?, [2, 2, 3, 1, 0x0706_0504, 5, 7]);
        assert_eq!(written.download()?, [0, 1, 2, 9, 4, 5, 6]);
        assert_eq!(words.download()?, bytes);
        Ok(())
    });
}

#[test]
fn work_in_flight_completes_after_the_last_handle_is_dropped() {
    on_all(|device| {
        let device = device.reopen()?;
        let kernel = device.kernel(STEP)?;
        let (x, y) = (device.upload(&vec![0_u32; 100_000])?, device.zeros::<u32>(100_000)?);
        let batch = device.batch();
        batch.dispatch(&kernel, &[&x, &y], Grid::items(x.len()));
        batch.dispatch(&kernel, &[&y, &x], Grid::items(x.len()));
        let replay = batch.freeze()?;
        let mut readings = Vec::new();
        for _ in 0..4 {
            let batch = device.batch();
            for _ in 0..8 {
                let scratch = batch.scratch::<u32>(x.len());
                batch.dispatch(&kernel, &[&x, &scratch], Grid::items(x.len()));
                batch.dispatch(&kernel, &[&scratch, &x], Grid::items(x.len()));
                batch.split();
            }
            readings.push(batch.read(&x));
            batch.submit_async()?;
            replay.run().submit_async()?;
            // A write that stands in line behind them.
            y.write(&vec![7; 100_000])?;
        }
        drop((device, kernel, x, y, replay));
        let mut expected = 0;
        for reading in readings {
            expected = (0..16).fold(expected, |x, _| crate::step(x));
            assert!(reading.wait()?.iter().all(|x| *x == expected));
            expected = crate::step(crate::step(expected));
        }
        Ok(())
    });
}
