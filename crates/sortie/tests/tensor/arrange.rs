//! The same elements, arranged otherwise.

use sortie::half::f16;

use crate::{
    devices, exactly,
    map::{at, indices},
    on_all, some,
};

fn counted(shape: &[usize]) -> Vec<u32> {
    (0..shape.iter().product::<usize>() as u32).collect()
}

#[test]
fn permuted_sliced_and_stretched_tensors_are_read_where_they_lie() {
    let shape = [3, 4, 5];
    let data = counted(&shape);
    for axes in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1], [2, 0, 1]] {
        let to: Vec<usize> = axes.iter().map(|axis| shape[*axis]).collect();
        let expected: Vec<u32> = indices(&to)
            .map(|index| {
                let mut own = [0; 3];
                axes.iter().zip(&index).for_each(|(axis, index)| own[*axis] = *index);
                data[at(&shape, &own)] + 1
            })
            .collect();
        on_all(
            &format!("permuted {axes:?}"),
            |batch| {
                let (x, one) = (batch.tensor_from(&data, shape), batch.tensor_from(&[1_u32], [1]));
                let x = x.permute(&axes);
                assert_eq!(x.shape(), to);
                (x + one)
            },
            exactly(&expected),
        );
    }
    let expected: Vec<u32> = indices(&[2, 2, 3]).map(|i| data[at(&shape, &[i[0] + 1, i[1] + 2, i[2] + 1])]).collect();
    on_all(
        "a slice",
        |batch| {
            let x = batch.tensor_from(&data, shape);
            x.slice(&[1..3, 2..4, 1..4])
        },
        exactly(&expected),
    );
    // A view of a view of a view, then reshaped, which needs memory.
    let expected: Vec<u32> = indices(&[5, 2, 3]).map(|i| data[at(&shape, &[i[2], i[1] + 1, i[0]])] * 3).collect();
    on_all(
        "views of views",
        |batch| {
            let x = batch.tensor_from(&data, shape);
            let x = x.permute(&[2, 1, 0]);
            let x = x.slice(&[0..5, 1..3]);
            let x = x.reshape([30]);
            (x * 3)
        },
        exactly(&expected),
    );
    on_all(
        "stretched",
        |batch| {
            let x = batch.tensor_from(&[1_u32, 2, 3], [3, 1]);
            x.broadcast([2, 3, 2])
        },
        exactly(&[1_u32, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3]),
    );
    on_all(
        "empty",
        |batch| {
            let x = batch.tensor_from(&data, shape);
            x.slice(&[1..1])
        },
        exactly::<u32>(&[]),
    );
}

#[test]
fn pieces_are_put_together_along_any_axis() {
    for axis in 0..3 {
        let shapes = [3, 1, 2, 0].map(|length| {
            let mut shape = [2, 4, 3];
            shape[axis] = length;
            shape
        });
        let parts: Vec<Vec<u32>> = (0..)
            .zip(&shapes)
            .map(|(number, shape)| counted(shape).iter().map(|x| x + number * 100).collect())
            .collect();
        let mut whole = [2, 4, 3];
        whole[axis] = 6;
        let expected: Vec<u32> = indices(&whole)
            .map(|index| {
                let (part, start) =
                    [(0, 0), (1, 3), (2, 4)].into_iter().rev().find(|(_, start)| index[axis] >= *start).expect("some");
                let mut own = index.clone();
                own[axis] -= start;
                parts[part][at(&shapes[part], &own)]
            })
            .collect();
        on_all(
            &format!("concat along {axis}"),
            |batch| {
                let all: Vec<_> =
                    parts.iter().zip(&shapes).map(|(part, shape)| batch.tensor_from(part, shape)).collect();
                CONCAT_TODO(&all, axis)
            },
            exactly(&expected),
        );
    }
}

#[test]
fn rows_are_looked_up_and_those_that_are_not_there_are_zero() {
    let table: Vec<f32> = (0..5 * 6).map(|x| x as f32).collect();
    let indices = [4_u32, 0, 7, 2, 2, u32::MAX];
    let row =
        |index: &u32| (0..6).map(|at| if *index < 5 { (index * 6 + at) as f32 + 0.5 } else { 0.5 }).collect::<Vec<_>>();
    on_all(
        "gather",
        |batch| {
            let (table, rows) = (batch.tensor_from(&table, [5, 6]), batch.tensor_from(&indices, [2, 3]));
            let half = batch.tensor_from(&[0.5_f32], [1]);
            let found = table.gather(rows);
            assert_eq!(found.shape(), [2, 3, 6]);
            (found + half)
        },
        exactly(&indices.iter().flat_map(row).collect::<Vec<_>>()),
    );
}

#[test]
fn what_is_stored_is_there_for_what_follows_and_what_was_there_for_what_came_before() {
    for (name, device) in crate::devices() {
        let run = || -> sortie::Result<()> {
            let state = device.upload(&[1.0_f32, 2.0, 3.0, 4.0])?;
            let batch = device.batch();
            let before = batch.tensor(&state, [4]);
            let doubled = before * 2.0;
            doubled.store(&state);
            let after = batch.tensor(&state, [4]);
            let sum = after + doubled;
            let tripled = sum * 3.0;
            tripled.store(&state);
            batch.fill(state.slice(..2), 7.0);
            let last = batch.tensor(&state, [4]);
            let last = -last;
            let (doubled, last) = (batch.read(doubled), batch.read(last));
            batch.submit()?;
            assert_eq!(doubled.wait()?, [2.0, 4.0, 6.0, 8.0], "{name}");
            assert_eq!(last.wait()?, [-7.0, -7.0, -36.0, -48.0], "{name}");
            assert_eq!(state.download()?, [7.0, 7.0, 36.0, 48.0], "{name}");
            Ok(())
        };
        run().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn scalars_are_no_part_of_a_plan() {
    let fresh = crate::drivers::cpu().map(|device| ("a device of its own".to_owned(), device));
    for (name, device) in crate::devices().iter().chain(&fresh) {
        for by in [2.0_f32, 3.0] {
            let batch = device.batch();
            let x = batch.tensor_from(&[1.0_f32, 2.0, 3.0, 4.0, 5.0], [5, 1, 1]);
            let x = x * by;
            let x = x.clamp(by, 2.5 * by);
            let reading = batch.read(x);
            batch.submit().unwrap_or_else(|error| panic!("{name}: {error}"));
            let found = reading.wait().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(found, [1.0, 2.0, 2.5, 2.5, 2.5].map(|x| x * by), "{name}");
        }
    }
    assert_eq!(fresh.map(|(_, device)| device.metrics().plans_made), Some(1));
}

#[test]
fn a_kernel_of_ones_own_reads_and_changes_tensors_in_its_turn() {
    const ADD: &str = "
        @group(0) @binding(0) var<storage, read_write> x: array<f32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x < arrayLength(&x) { x[id.x] += 100.0; }
        }";
    for (name, device) in crate::devices() {
        let run = || -> sortie::Result<()> {
            let kernel = device.kernel(ADD)?;
            let batch = device.batch();
            let x = batch.tensor_from(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
            let y = x * 2.0;
            let before = -y;
            batch.dispatch(&kernel, &[&y], sortie::Grid::items(4));
            let after = y + before;
            let (y, before, after) = (batch.read(y), batch.read(before), batch.read(after));
            batch.submit()?;
            assert_eq!(y.wait()?, [102.0, 104.0, 106.0, 108.0], "{name}");
            assert_eq!(before.wait()?, [-2.0, -4.0, -6.0, -8.0], "{name}");
            assert_eq!(after.wait()?, [100.0; 4], "{name}");
            Ok(())
        };
        run().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn a_view_of_a_reshaped_view_reads_what_is_there() {
    let data: Vec<u32> = (0..12).collect();
    // Transposed, seen as another shape, transposed again.
    let once: Vec<u32> = (0..12).map(|at| data[at % 3 * 4 + at / 3]).collect();
    let twice: Vec<u32> = (0..12).map(|at| once[at % 2 * 6 + at / 2]).collect();
    on_all(
        "a view of a reshaped view",
        |batch| {
            let x = batch.tensor_from(&data, [3, 4]);
            let x = x.transpose();
            let x = x.reshape([2, 6]);
            x.transpose()
        },
        exactly(&twice),
    );
}

/// A device binds buffers at multiples of 32 or 256 bytes; tensors start anywhere.
#[test]
fn slices_of_buffers_are_tensors_wherever_they_start() {
    let data = some(1000, 4);
    let halves: Vec<f16> = data.iter().map(|x| f16::from_f32(*x)).collect();
    for (name, device) in devices() {
        let buffer = device.upload(&data).unwrap_or_else(|error| panic!("{name}: {error}"));
        let small = device.upload(&halves).unwrap_or_else(|error| panic!("{name}: {error}"));
        for start in [0, 1, 3, 64, 65, 131] {
            let batch = device.batch();
            let x = batch.tensor(buffer.slice(start..start + 60), [6, 10]);
            let twice = x + x;
            let twice = batch.read(twice);
            let turned = x.transpose();
            let product = turned.matmul(x);
            let product = batch.read(product);
            let chosen = batch.tensor_from(&[5, 0, 3], [3]);
            let rows = x.gather(chosen);
            let rows = batch.read(rows);
            let total = x.max(&[0, 1]);
            let total = batch.read(total);
            let h = batch.tensor(small.slice(2 * start..2 * start + 34), [2, 17]);
            let h = h.cast::<f32>();
            let h = batch.read(h);
            batch.submit().unwrap_or_else(|error| panic!("{name}, from {start}: {error}"));
            let own = &data[start..start + 60];
            let wait = |reading: sortie::Reading<f32>| reading.wait().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(wait(twice), own.iter().map(|x| x + x).collect::<Vec<_>>(), "{name}, from {start}");
            assert_eq!(wait(rows), [&own[50..], &own[..10], &own[30..40]].concat(), "{name}, from {start}");
            assert_eq!(wait(total), [own.iter().copied().fold(f32::MIN, f32::max)], "{name}, from {start}");
            assert_eq!(
                wait(h),
                halves[2 * start..2 * start + 34].iter().map(|x| x.to_f32()).collect::<Vec<_>>(),
                "{name}"
            );
            for (at, found) in wait(product).into_iter().enumerate() {
                let sum: f32 = (0..6).map(|row| own[row * 10 + at / 10] * own[row * 10 + at % 10]).sum();
                assert!((found - sum).abs() < 1e-4, "{name}, from {start}: [{at}] is {found} instead of {sum}");
            }
        }
    }
}

#[test]
fn rows_in_a_row_are_a_view_in_any_shape() {
    let data = some(80, 2);
    let expected: Vec<f32> = data[20..50].iter().map(|x| x * 2.0).collect();
    on_all(
        "rows 2 to 4 as one",
        |batch| {
            let x = batch.tensor_from(&data, [8, 10]);
            let rows = x.slice(&[2..5]);
            let flat = rows.reshape([30]);
            (flat * 2.0)
        },
        exactly(&expected),
    );
    let columns: Vec<f32> = (0..24).map(|at| data[at / 3 * 10 + 4 + at % 3] * 2.0).collect();
    on_all(
        "columns 4 to 6, which are not",
        |batch| {
            let x = batch.tensor_from(&data, [8, 10]);
            let columns = x.slice(&[0..8, 4..7]);
            let flat = columns.reshape([24]);
            (flat * 2.0)
        },
        exactly(&columns),
    );
}

/// Not a copy of what was there when it was named: writes go through it, and it shows what others write.
#[test]
fn a_tensor_of_a_slice_is_the_memory_wherever_it_starts() {
    for (name, device) in devices() {
        for start in [0_usize, 64, 1, 3] {
            let range = start..start + 4;
            let buffers = || device.zeros::<u32>(128).unwrap_or_else(|error| panic!("{name}: {error}"));
            let (x, y, z) = (buffers(), buffers(), buffers());
            let batch = device.batch();
            let t = batch.tensor(x.slice(range.clone()), [4]);
            batch.fill(&x, 9);
            let doubled = t + t;
            let joined = t.concat(&[doubled], 0);
            batch.fill(&x, 3);
            let (direct, doubled, joined) = (batch.read(t), batch.read(doubled), batch.read(joined));
            let t = batch.tensor(y.slice(range.clone()), [2, 2]);
            batch.fill(t, 5);
            let ones = batch.tensor_from(&[1_u32; 4], [4]);
            let twos = ones + ones;
            let t = batch.tensor(z.slice(range.clone()), [4]);
            twos.store(t);
            batch.submit().unwrap_or_else(|error| panic!("{name}, from {start}: {error}"));
            let wait = |reading: sortie::Reading<u32>| reading.wait().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!((wait(direct), wait(doubled)), (vec![3; 4], vec![18; 4]), "{name}, from {start}");
            assert_eq!(wait(joined), [9, 9, 9, 9, 18, 18, 18, 18], "{name}, from {start}");
            let (y, z) = (y.download().expect("data"), z.download().expect("data"));
            assert_eq!((&y[range.clone()], &z[range.clone()]), (&[5; 4][..], &[2; 4][..]), "{name}, from {start}");
            assert_eq!(y.iter().sum::<u32>() + z.iter().sum::<u32>(), 28, "{name}, from {start}: and nothing else");
        }
    }
}
