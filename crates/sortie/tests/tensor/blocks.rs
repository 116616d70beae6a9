//! What is computed block by block, or row by row: the same at every edge.

use sortie::{Device, Tensor, half::f16};

use crate::{exactly, halves, on_all, recording, some};

#[test]
fn chains_are_the_same_at_the_edges_of_blocks() {
    for (rows, columns) in [(1, 1023), (33, 31), (41, 25), (1025, 1), (5, 3277), (3, 16_385), (70, 1001)] {
        let (x, w, b) = (some(rows * columns, 1), some(columns, 2), some(rows, 3));
        let at = |row: usize, column: usize| x[row * columns + column] * w[column] + b[row];
        let cells = || (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let expected: Vec<f32> = cells().map(|(row, column)| at(row, column)).collect();
        let record = recording(|batch| {
            let (x, w) = (batch.tensor_from(&x, [rows, columns]), batch.tensor_from(&w, [columns]));
            let b = batch.tensor_from(&b, [rows, 1]);
            x * w + b
        });
        on_all(&format!("a chain over {rows} × {columns}"), record, exactly(&expected));
        let expected: Vec<f32> = (0..columns)
            .flat_map(|column| (0..rows).map(move |row| (row, column)))
            .map(|(row, column)| at(row, column))
            .collect();
        let turned = recording(|batch| record(batch).transpose() * 1.0);
        on_all(&format!("and turned, {rows} × {columns}"), turned, exactly(&expected));
        let inner = columns - columns / 2;
        let expected: Vec<f32> =
            cells().filter(|(_, column)| *column >= columns / 2).map(|(row, column)| at(row, column)).collect();
        let halved = recording(|batch| {
            record(batch).slice(&[0..rows, columns / 2..columns]) + batch.tensor_from(&vec![0.0; inner], [inner])
        });
        on_all(&format!("and cut, {rows} × {columns}"), halved, exactly(&expected));
    }
}

#[test]
fn rows_and_tables_are_the_same_at_the_edges_of_blocks() {
    let (rows, columns) = (37, 257);
    let table = some(rows * columns, 5);
    let chosen: Vec<u32> = (0..91).map(|at| at * 17 % 40).collect();
    let row = |row: u32| (0..columns).map(move |column| (row as usize, column));
    let cell = |(row, column): (usize, usize)| if row < rows { table[row * columns + column] } else { 0.0 };
    let expected: Vec<f32> = chosen.iter().flat_map(|chosen| row(*chosen)).map(cell).collect();
    on_all(
        "rows of a table",
        |batch| {
            let (table, chosen) = (batch.tensor_from(&table, [rows, columns]), batch.tensor_from(&chosen, [91]));
            table.gather(chosen)
        },
        exactly(&expected),
    );
    let other = some(rows * 100, 6);
    let expected: Vec<f32> = table.chunks(columns).zip(other.chunks(100)).flat_map(|(a, b)| [a, b].concat()).collect();
    on_all(
        "side by side",
        |batch| {
            let (table, other) = (batch.tensor_from(&table, [rows, columns]), batch.tensor_from(&other, [rows, 100]));
            table.concat(&[other], 1)
        },
        exactly(&expected),
    );
}

/// Large enough that an invocation computes several rows.
#[test]
fn what_all_rows_share_is_loaded_once_for_some_of_them() {
    for (rows, columns) in [(67, 1024), (4, 65_536), (131_075, 4), (1030, 129)] {
        let (x, w, b) = (some(rows * columns, 1), some(columns, 2), some(rows, 3));
        let at = |at: usize| x[at] * w[at % columns].abs() + b[at / columns];
        let expected: Vec<f32> = (0..rows * columns).map(at).collect();
        on_all(
            &format!("{rows} rows of {columns}"),
            |batch| {
                let (x, w) = (batch.tensor_from(&x, [rows, columns]), batch.tensor_from(&w, [columns]));
                let b = batch.tensor_from(&b, [rows, 1]);
                let w = w.broadcast([rows, columns]);
                let w = w.abs();
                let y = x * w;
                y + b
            },
            exactly(&expected),
        );
    }
    let (rows, columns) = (40, 1026);
    let half = |x: &f32| f16::from_f32(*x);
    let (x, w): (Vec<f16>, Vec<f16>) =
        (some(rows * columns, 1).iter().map(half).collect(), some(columns, 2).iter().map(half).collect());
    let expected: Vec<f16> =
        (0..rows * columns).map(|at| f16::from_f32(x[at].to_f32() * w[at % columns].to_f32())).collect();
    on_all(
        "rows of halves",
        |batch| {
            let (x, w) = (batch.tensor_from(&x, [rows, columns]), batch.tensor_from(&w, [columns]));
            x * w
        },
        halves(&expected),
    );
}

type Twice = (&'static str, for<'b> fn(Tensor<'b, f32>, Tensor<'b, f32>) -> Tensor<'b, f32>);

/// The built-in CPU computes chains natively, but what a reduction reads in a kernel.
#[test]
fn functions_have_the_same_bits_natively_and_in_a_kernel() {
    let table: [Twice; 24] = [
        ("neg", |x, _| -x),
        ("abs", |x, _| x.abs()),
        ("exp", |x, _| x.exp()),
        ("log", |x, _| x.log()),
        ("sqrt", |x, _| x.sqrt()),
        ("rsqrt", |x, _| x.rsqrt()),
        ("sin", |x, _| x.sin()),
        ("cos", |x, _| x.cos()),
        ("tanh", |x, _| x.tanh()),
        ("sigmoid", |x, _| x.sigmoid()),
        ("relu", |x, _| x.relu()),
        ("swish", |x, _| x.swish()),
        ("gelu", |x, _| x.gelu()),
        ("gelu_tanh", |x, _| x.gelu_tanh()),
        ("scale", |x, _| x * (-1.7)),
        ("clamp", |x, _| x.clamp(-0.5, 2.0)),
        ("add", |x, y| x + y),
        ("sub", |x, y| x - y),
        ("mul", |x, y| x * y),
        ("div", |x, y| x / y),
        ("pow", |x, y| x.pow(y)),
        ("minimum", |x, y| x.minimum(y)),
        ("maximum", |x, y| x.maximum(y)),
        ("less", |x, y| {
            let truth = x.less(y);
            truth.cast()
        }),
    ];
    let special = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40, 88.9, -104.0, 3e38, 2.5];
    let x: Vec<f32> = special.iter().flat_map(|x| special.map(|_| *x)).chain(some(2000, 1)).collect();
    let y: Vec<f32> = special.iter().flat_map(|_| special).chain(some(2000, 9)).collect();
    let device = Device::cpu().unwrap_or_else(|error| panic!("the built-in CPU: {error}"));
    for (name, apply) in table {
        let batch = device.batch();
        let (a, b) = (batch.tensor_from(&x, [x.len(), 1]), batch.tensor_from(&y, [y.len(), 1]));
        let native = apply(a, b);
        let native = batch.read(native);
        let in_kernel = apply(a, b);
        let in_kernel = in_kernel.max(&[1]);
        let in_kernel = batch.read(in_kernel);
        batch.submit().unwrap_or_else(|error| panic!("{name}: {error}"));
        let bits = |reading: sortie::Reading<f32>| -> Vec<u32> {
            let found = reading.wait().unwrap_or_else(|error| panic!("{name}: {error}"));
            found.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
        };
        let (native, in_kernel) = (bits(native), bits(in_kernel));
        for at in 0..x.len() {
            assert_eq!(native[at], in_kernel[at], "{name}({}, {})", x[at], y[at]);
        }
    }
}
