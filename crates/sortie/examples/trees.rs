//! Recorded for one tree, run for all: a recursive network over random binary trees, joined by the planner.
//!
//! Each tree records its own operations, in its own shape. With `Planning::join` the products of all nodes that are
//! ready at the same time are one product. Checked against plain Rust.
//!
//! `cargo run -p sortie --example trees`

#![expect(clippy::print_stdout, reason = "an example")]

use sortie::{Batch, Buffer, Device, DeviceOptions, Result, Tensor, device::Planning};

const WIDTH: usize = 16;

/// A binary tree over words.
enum Tree {
    Leaf(u32),
    Node(Box<Tree>, Box<Tree>),
}

/// A tree with this number of leaves; a seed chooses its splits.
fn tree(leaves: u32, seed: u32) -> Tree {
    if leaves == 1 {
        return Tree::Leaf(seed % 50);
    }
    let left = 1 + seed % (leaves - 1);
    let next = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) >> 3;
    Tree::Node(Box::new(tree(left, next)), Box::new(tree(leaves - left, next / 7 + 1)))
}

/// Weights: whole numbers over a power of two, so that no order of additions shows.
fn weights(rows: usize, seed: usize) -> Vec<f32> {
    (0..rows * WIDTH).map(|at| ((at * 31 + seed) % 9) as f32 / 4.0 - 1.0).collect()
}

/// The cell of a node: of each element, that of one child or the other, as both decide.
fn record<'b>(batch: &'b Batch, model: &[Buffer<f32>; 3], tree: &Tree) -> Tensor<'b, f32> {
    let [words, left, right] = model;
    match tree {
        Tree::Leaf(word) => {
            let index = batch.tensor_from(&[*word], [1]);
            batch.tensor(words, [50, WIDTH]).gather(index)
        }
        Tree::Node(one, two) => {
            let (one, two) = (record(batch, model, one), record(batch, model, two));
            let sum = one.matmul(batch.tensor(left, [WIDTH, WIDTH])) + two.matmul(batch.tensor(right, [WIDTH, WIDTH]));
            sum.greater(0.0).select(one, two)
        }
    }
}

/// The same in plain Rust.
fn expected(model: &[Vec<f32>; 3], tree: &Tree) -> Vec<f32> {
    let [words, left, right] = model;
    match tree {
        Tree::Leaf(word) => words[*word as usize * WIDTH..][..WIDTH].to_vec(),
        Tree::Node(one, two) => {
            let (one, two) = (expected(model, one), expected(model, two));
            let product = |x: &[f32], by: &[f32], column: usize| -> f32 {
                (0..WIDTH).map(|row| x[row] * by[row * WIDTH + column]).sum()
            };
            let sum = |column| product(&one, left, column) + product(&two, right, column);
            (0..WIDTH).map(|column| if sum(column) > 0.0 { one[column] } else { two[column] }).collect()
        }
    }
}

fn main() -> Result<()> {
    let trees: Vec<Tree> = (0..64).map(|number| tree(10 + number % 21, number * 7919 + 3)).collect();
    let data = [weights(50, 1), weights(WIDTH, 2), weights(WIDTH, 5)];
    for join in [false, true] {
        let planning = Planning { join, ..Planning::default() };
        let device = Device::open_with(DeviceOptions::default().with_planning(planning))?;
        let [words, left, right] = &data;
        let model = [device.upload(words)?, device.upload(left)?, device.upload(right)?];
        let batch = device.batch();
        let readings: Vec<_> = trees.iter().map(|tree| record(&batch, &model, tree).read()).collect();
        let plan = batch.plan()?;
        println!("join {join}: {} dispatches, {} groups, on {}", plan.dispatches(), plan.groups(), device.info().name);
        batch.submit()?;
        for (reading, tree) in readings.into_iter().zip(&trees) {
            assert_eq!(reading.wait()?, expected(&data, tree));
        }
    }
    Ok(())
}
