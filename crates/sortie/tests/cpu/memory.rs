//! Recycled memory never shows old data, scratch reads as zero, and the budget holds.

use sortie::{DeviceOptions, ErrorKind, device::Planning};

use crate::{cpu, cpu_with};

#[test]
fn zeros_are_zero_in_recycled_memory_of_any_size() -> sortie::Result<()> {
    let device = cpu();
    for len in [1_usize, 100, 16_384, 16_385, 300_000] {
        drop(device.upload(&vec![0xdead_beef_u32; len])?);
        let before = device.metrics();
        let clean = device.zeros::<u32>(len)?;
        assert_eq!((device.metrics() - before).buffers_recycled, 1);
        assert!(clean.download()?.iter().all(|word| *word == 0), "{len}");
    }
    Ok(())
}

#[test]
fn the_last_word_of_an_upload_into_recycled_memory_is_padded_with_zeros() -> sortie::Result<()> {
    let device = cpu();
    drop(device.upload(&[0xff_u8; 8])?);
    let x = device.upload(&[1_u8, 2, 3, 4, 5])?;
    let batch = device.batch();
    let words = device.zeros::<u8>(5)?;
    batch.copy(&x, &words);
    batch.submit()?;
    assert_eq!(words.download()?, [1, 2, 3, 4, 5]);
    Ok(())
}

#[test]
fn scratch_reads_as_zero_where_nothing_was_written_even_when_it_is_shared() -> sortie::Result<()> {
    for (reorder, reuse) in [(true, true), (false, true), (true, false)] {
        let device =
            cpu_with(DeviceOptions::default().with_planning(Planning { reorder, reuse, ..Planning::default() }));
        let one = device.upload(&[1_u32])?;
        let out = device.zeros::<u32>(64)?;
        drop(device.upload(&[9_u32; 64])?);
        for _ in 0..3 {
            let batch = device.batch();
            let mut readings = Vec::new();
            for round in 0..4 {
                let slot = batch.scratch::<u32>(64);
                batch.copy(&out, slot);
                batch.fill(slot, 7);
                // One after the other, so that they may share memory.
                batch.barrier();
                let fresh = batch.scratch::<u32>(64);
                readings.push(batch.read(fresh));
                batch.copy(&one, out.slice(..1));
                if round == 2 {
                    batch.split();
                }
            }
            batch.submit()?;
            for reading in readings {
                assert_eq!(reading.wait()?, [0; 64]);
            }
        }
    }
    Ok(())
}

#[test]
fn memory_past_the_budget_or_the_machines_own_is_refused() -> sortie::Result<()> {
    let device = cpu_with(DeviceOptions::default().with_memory_budget(1 << 20));
    let kept = device.zeros::<u8>(1 << 19)?;
    let error = device.zeros::<u8>(1 << 20).expect_err("over budget");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory { wanted: 1 << 20, budget: 1 << 20 });
    assert_eq!(device.memory_bytes(), 1 << 19);
    drop(kept);
    device.trim();
    assert_eq!(device.memory_bytes(), 0);
    let limit = device.info().limits.buffer_bytes;
    let error = device.zeros::<u32>(1 << 60).expect_err("more than any machine has");
    assert_eq!(error.kind(), ErrorKind::TooLarge { wanted: 1 << 62, limit });
    Ok(())
}

#[test]
fn scratch_that_does_not_fit_the_budget_fails_the_batch_before_it_starts() -> sortie::Result<()> {
    let device = cpu_with(DeviceOptions::default().with_memory_budget(1 << 20));
    let x = device.upload(&[5_u32])?;
    let batch = device.batch();
    let scratch = batch.scratch::<u32>(1 << 20);
    batch.fill(&x, 6);
    batch.fill(scratch, 1);
    assert!(matches!(batch.submit().expect_err("4 MiB of 1").kind(), ErrorKind::OutOfMemory { .. }));
    assert_eq!(x.download()?, [5]);
    Ok(())
}
