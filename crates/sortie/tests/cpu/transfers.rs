//! Writes, fills, copies and reads give the right bytes.

use sortie::{Device, ErrorKind};

use crate::cpu;

#[test]
fn odd_lengths_of_small_elements_are_written_and_read_whole() -> sortie::Result<()> {
    let device = cpu();
    for len in 1..10_u8 {
        let data: Vec<u8> = (1..=len).collect();
        let x = device.upload(&data)?;
        assert_eq!(x.download()?, data);
        let y = device.zeros::<u8>(data.len())?;
        let batch = device.batch();
        batch.write(&y, &data);
        let (read, copy) = (batch.read(&y), batch.read(&x));
        batch.submit()?;
        assert_eq!((read.wait()?, copy.wait()?), (data.clone(), data));
    }
    Ok(())
}

#[test]
fn elements_of_every_alignment_come_back_as_they_went() -> sortie::Result<()> {
    fn check<T: bytemuck::Pod + PartialEq + std::fmt::Debug>(device: &Device, data: &[T]) -> sortie::Result<()> {
        let x = device.upload(data)?;
        assert_eq!(x.download()?, data);
        let (batch, half) = (device.batch(), data.len() / 2);
        let (all, some) = (batch.read(&x), batch.read(x.slice(half..)));
        batch.submit()?;
        // Asked twice: once for a copy, once for good.
        assert_eq!(all.wait_timeout(std::time::Duration::MAX)?, data);
        assert_eq!((all.wait()?, some.wait()?), (data.to_vec(), data[half..].to_vec()));
        Ok(())
    }
    let device = cpu();
    check(&device, &[1_u8, 2, 3, 4, 5, 6, 7, 8])?;
    check(&device, &[1_u16, 2, 3, 4])?;
    check(&device, &[1.5_f32, -0.0, 3.0, f32::MAX])?;
    check(&device, &[1_u64 << 40, 2, 3, u64::MAX])?;
    check(&device, &[1.5_f64, -2.5])?;
    check(&device, &[1_u128 << 100, 7])?;
    check(&device, &[[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]])
}

#[test]
fn fills_set_every_element_of_any_size_and_nothing_else() -> sortie::Result<()> {
    fn check<T: bytemuck::Pod + PartialEq + std::fmt::Debug>(device: &Device, value: T) -> sortie::Result<()> {
        for (len, start, end) in [(1, 0, 1), (7, 0, 7), (64, 0, 64), (1000, 4, 996), (20_000, 64, 20_000)] {
            let x = device.zeros::<T>(len)?;
            let batch = device.batch();
            batch.fill(x.slice(start..end), value);
            batch.submit()?;
            let right = |index: usize| if (start..end).contains(&index) { value } else { T::zeroed() };
            let wrong =
                x.download()?.iter().enumerate().find(|(index, found)| **found != right(*index)).map(|(i, _)| i);
            assert_eq!(wrong, None, "{value:?} over {start}..{end} of {len}");
        }
        Ok(())
    }
    let device = cpu();
    check(&device, 7_u8)?;
    check(&device, 0x1234_u16)?;
    check(&device, 1.5_f32)?;
    check(&device, 0_u32)?;
    check(&device, 2.5_f64)?;
    check(&device, [1.0_f32, 2.0, 3.0])?;
    check(&device, [1_u8, 2, 3])?;
    check(&device, [9_u32; 16])?;
    check(&device, [5_u8; 20])?;
    check(&device, [1_u32, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17])?;
    check(&device, [3_u64; 64])
}

#[test]
fn a_fill_is_one_op_whatever_its_pattern() -> sortie::Result<()> {
    let device = cpu();
    let x = device.zeros::<[u32; 17]>(100)?;
    let before = device.metrics();
    let batch = device.batch();
    batch.fill(&x, [1; 17]);
    batch.submit()?;
    let after = device.metrics() - before;
    assert_eq!((after.passes, after.dispatches, after.transfers, after.bytes_written), (1, 1, 0, 0));
    Ok(())
}

#[test]
fn copies_between_and_within_buffers_are_as_if_through_a_third() -> sortie::Result<()> {
    let device = cpu();
    let data: Vec<u32> = (0..100).collect();
    let (x, y) = (device.upload(&data)?, device.zeros::<u32>(100)?);
    let batch = device.batch();
    batch.copy(x.slice(10..20), y.slice(50..60));
    batch.copy(x.slice(0..90), x.slice(10..100));
    batch.copy(x.slice(20..100), x.slice(0..80));
    assert_eq!((batch.num_ops(), batch.num_slots()), (3, 2), "no buffer in between");
    batch.submit()?;
    let mut moved = data.clone();
    moved.copy_within(0..90, 10);
    moved.copy_within(20..100, 0);
    assert_eq!(x.download()?, moved);
    assert_eq!(y.slice(48..62).download()?, [0, 0, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 0, 0]);
    Ok(())
}

#[test]
fn copies_go_both_ways_between_memory_of_any_age() -> sortie::Result<()> {
    let device = cpu();
    let (old, new) = (device.upload(&[1_u32, 2])?, device.upload(&[3_u32, 4])?);
    let batch = device.batch();
    let keep = batch.scratch::<u32>(2);
    batch.copy(&old, keep);
    batch.copy(&new, &old);
    batch.copy(keep, &new);
    batch.submit()?;
    assert_eq!((old.download()?, new.download()?), (vec![3, 4], vec![1, 2]));
    Ok(())
}

#[test]
fn each_read_sees_the_moment_it_was_recorded_at() -> sortie::Result<()> {
    let device = cpu();
    let x = device.zeros::<u32>(2)?;
    let batch = device.batch();
    let mut readings = vec![batch.read(&x)];
    for value in 1..20 {
        match value % 3 {
            0 => batch.write(&x, &[value; 2]),
            1 => batch.fill(&x, value),
            _ => {
                batch.split();
                batch.fill(&x, value);
            }
        }
        readings.push(batch.read(&x));
    }
    batch.submit()?;
    for (value, reading) in (0..).zip(readings) {
        assert_eq!(reading.wait()?, [value; 2]);
    }
    Ok(())
}

#[test]
fn a_misaligned_slice_is_an_error_with_both_figures() -> sortie::Result<()> {
    let device = cpu();
    let x = device.zeros::<u8>(16)?;
    let error = x.slice(1..5).download().expect_err("misaligned");
    assert_eq!(error.kind(), ErrorKind::Shape);
    assert!(error.to_string().contains("1..5"), "{error}");
    assert_eq!(x.slice(..3).write(&[1; 3]).expect_err("misaligned").kind(), ErrorKind::Shape);
    x.slice(12..16).write(&[1; 4])?;
    Ok(())
}

#[test]
fn empty_buffers_and_batches_are_nothing_at_all() -> sortie::Result<()> {
    let device = cpu();
    let (x, y) = (device.zeros::<u32>(0)?, device.upload::<u32>(&[])?);
    let batch = device.batch();
    batch.copy(&x, &y);
    batch.fill(&x, 1);
    let reading = batch.read(&y);
    batch.submit()?;
    assert_eq!(reading.wait()?, []);
    assert_eq!(x.download()?, []);
    device.batch().submit()?;
    device.batch().submit_async()?.wait()
}
