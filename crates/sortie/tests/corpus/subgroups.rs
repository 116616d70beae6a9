//! Subgroup and quad operations: every operation, in uniform and divergent control flow, in subgroups of which only a part exists.
//!
//! Which invocations form a subgroup, and how many there are in one, is up to the device: the kernel writes that down beside its results, and the
//! reference starts from there.

use std::collections::BTreeMap;

use sortie::{Device, Grid, Result};

use crate::{devices::devices, dice::words, drivers::say};

/// The operations of an invocation: in WGSL, of `v`, `lane` and `size`, and in Rust, of what is active.
struct Operation {
    source: &'static str,
    reference: fn(&Active<'_>) -> Option<u32>,
}

/// The active invocations of a subgroup as one of them sees them.
struct Active<'a> {
    size: u32,
    lane: u32,
    /// Values by lane.
    values: &'a BTreeMap<u32, u32>,
}

impl Active<'_> {
    /// `None`: of a lane that is not active, a value may be anything.
    fn of(&self, lane: u32) -> Option<u32> {
        self.values.get(&lane).copied()
    }

    fn own(&self) -> u32 {
        self.values[&self.lane]
    }

    fn fold(&self, start: u32, change: impl Fn(u32, u32) -> u32) -> Option<u32> {
        Some(self.values.values().fold(start, |all, value| change(all, *value)))
    }

    fn scan(&self, start: u32, inclusive: bool, change: impl Fn(u32, u32) -> u32) -> Option<u32> {
        let before = self.values.range(..self.lane).fold(start, |all, (_, value)| change(all, *value));
        Some(if inclusive { change(before, self.own()) } else { before })
    }
}

fn signed(value: u32) -> i32 {
    value.cast_signed() - 500
}

const OPERATIONS: &[Operation] = &[
    Operation { source: "subgroupAdd(v)", reference: |active| active.fold(0, u32::wrapping_add) },
    Operation { source: "subgroupMul(v | 1u)", reference: |active| active.fold(1, |all, v| all.wrapping_mul(v | 1)) },
    Operation { source: "subgroupMin(v)", reference: |active| active.fold(u32::MAX, u32::min) },
    Operation { source: "subgroupMax(v)", reference: |active| active.fold(0, u32::max) },
    Operation { source: "subgroupAnd(v)", reference: |active| active.fold(u32::MAX, |all, v| all & v) },
    Operation { source: "subgroupOr(v)", reference: |active| active.fold(0, |all, v| all | v) },
    Operation { source: "subgroupXor(v)", reference: |active| active.fold(0, |all, v| all ^ v) },
    Operation {
        source: "bitcast<u32>(subgroupMin(i32(v) - 500))",
        reference: |active| active.values.values().map(|v| signed(*v)).min().map(i32::cast_unsigned),
    },
    Operation {
        source: "bitcast<u32>(subgroupMax(i32(v) - 500))",
        reference: |active| active.values.values().map(|v| signed(*v)).max().map(i32::cast_unsigned),
    },
    Operation { source: "u32(subgroupAdd(f32(v)))", reference: |active| active.fold(0, |all, v| all + v) },
    Operation { source: "u32(subgroupMin(f32(v)))", reference: |active| active.fold(u32::MAX, u32::min) },
    Operation { source: "u32(subgroupMax(f32(v)))", reference: |active| active.fold(0, u32::max) },
    Operation {
        source: "u32(subgroupMul(f32(1u + v % 2u)))",
        reference: |active| active.fold(1, |all, v| all * (1 + v % 2)),
    },
    Operation { source: "subgroupInclusiveAdd(v)", reference: |active| active.scan(0, true, u32::wrapping_add) },
    Operation { source: "subgroupExclusiveAdd(v)", reference: |active| active.scan(0, false, u32::wrapping_add) },
    Operation {
        source: "subgroupInclusiveMul(v | 1u)",
        reference: |active| active.scan(1, true, |all, v| all.wrapping_mul(v | 1)),
    },
    Operation {
        source: "subgroupExclusiveMul(v | 1u)",
        reference: |active| active.scan(1, false, |all, v| all.wrapping_mul(v | 1)),
    },
    Operation {
        source: "u32(subgroupInclusiveAdd(f32(v)))",
        reference: |active| active.scan(0, true, |all, v| all + v),
    },
    Operation {
        source: "u32(subgroupExclusiveAdd(f32(v)))",
        reference: |active| active.scan(0, false, |all, v| all + v),
    },
    Operation {
        source: "u32(subgroupAll(v % 4u != 3u))",
        reference: |active| Some(u32::from(active.values.values().all(|v| v % 4 != 3))),
    },
    Operation {
        source: "u32(subgroupAny(v % 4u == 3u))",
        reference: |active| Some(u32::from(active.values.values().any(|v| v % 4 == 3))),
    },
    Operation {
        source: "subgroupBallot(v % 2u == 1u).x",
        reference: |active| Some(active.values.iter().map(|(lane, v)| (v % 2) << lane).sum()),
    },
    Operation {
        source: "subgroupBallot(true).x",
        reference: |active| Some(active.values.keys().map(|lane| 1 << lane).sum()),
    },
    Operation { source: "subgroupBroadcastFirst(v)", reference: |active| active.values.values().next().copied() },
    Operation { source: "subgroupBroadcast(v, 2u)", reference: |active| active.of(2) },
    Operation {
        source: "subgroupShuffle(v, (lane * 3u + 1u) % size)",
        reference: |active| active.of((active.lane * 3 + 1) % active.size),
    },
    Operation { source: "subgroupShuffleUp(v, 1u)", reference: |active| active.of(active.lane.checked_sub(1)?) },
    Operation { source: "subgroupShuffleDown(v, 2u)", reference: |active| active.of(active.lane + 2) },
    Operation { source: "subgroupShuffleXor(v, 1u)", reference: |active| active.of(active.lane ^ 1) },
    Operation {
        source: "bitcast<u32>(subgroupShuffleXor(vec2<f32>(f32(v), -1.5), 2u).x)",
        reference: |active| active.of(active.lane ^ 2).map(|v| (v as f32).to_bits()),
    },
    Operation { source: "quadBroadcast(v, 1u)", reference: |active| active.of(active.lane / 4 * 4 + 1) },
    Operation { source: "quadSwapX(v)", reference: |active| active.of(active.lane ^ 1) },
    Operation { source: "quadSwapY(v)", reference: |active| active.of(active.lane ^ 2) },
    Operation { source: "quadSwapDiagonal(v)", reference: |active| active.of(active.lane ^ 3) },
];

/// Control flow around the operations, and whether an invocation with one value runs them together with one with another.
struct Flow {
    name: &'static str,
    source: &'static str,
    together: fn(u32, u32) -> bool,
    runs: fn(u32) -> bool,
}

const FLOWS: &[Flow] = &[
    Flow { name: "uniform", source: "operations(at, v, lane, size);", together: |_, _| true, runs: |_| true },
    Flow {
        name: "if",
        source: "if v % 3u != 0u { operations(at, v, lane, size); }",
        together: |_, other| other % 3 != 0,
        runs: |v| v % 3 != 0,
    },
    Flow {
        name: "both sides",
        source: "if v % 3u != 0u { operations(at, v, lane, size); } else { operations(at, v, lane, size); }",
        together: |own, other| (own % 3 == 0) == (other % 3 == 0),
        runs: |_| true,
    },
    Flow {
        name: "early return",
        source: "if v % 4u == 1u { return; } operations(at, v, lane, size);",
        together: |_, other| other % 4 != 1,
        runs: |v| v % 4 != 1,
    },
    // What an invocation finds last, it finds with those that stay as long.
    Flow {
        name: "loop",
        source: "for (var i = 0u; i < v % 4u; i++) { operations(at, v, lane, size); }",
        together: |own, other| other % 4 >= own % 4,
        runs: |v| v % 4 > 0,
    },
    Flow {
        name: "switch",
        source: "switch v % 3u { case 1u: { operations(at, v, lane, size); } case 2u: { } default: { operations(at, v, lane, size); } }",
        together: |own, other| own % 3 == other % 3,
        runs: |v| v % 3 != 2,
    },
];

/// What an invocation writes of itself: lane, subgroup, size of the subgroup, and subgroups.
const OWN: usize = 4;
const GROUPS: u32 = 3;

fn source(flow: &Flow, invocations: u32) -> String {
    let each = OPERATIONS.len() + OWN;
    let operations: String =
        OPERATIONS.iter().zip(OWN..).map(|(op, number)| format!("y[at + {number}u] = {};\n", op.source)).collect();
    format!(
        "@group(0) @binding(0) var<storage, read> x: array<u32>;
        @group(0) @binding(1) var<storage, read_write> y: array<u32>;
        fn operations(at: u32, v: u32, lane: u32, size: u32) {{ {operations} }}
        @compute @workgroup_size({invocations})
        fn main(@builtin(local_invocation_index) index: u32, @builtin(workgroup_id) group: vec3<u32>,
                @builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_id) subgroup: u32,
                @builtin(subgroup_size) size: u32, @builtin(num_subgroups) count: u32) {{
            let number = group.x * {invocations}u + index;
            let at = number * {each}u;
            y[at] = lane;
            y[at + 1u] = subgroup;
            y[at + 2u] = size;
            y[at + 3u] = count;
            let v = x[number];
            {}
        }}",
        flow.source
    )
}

fn run(device: &Device, source: &str, x: &[u32]) -> Result<Vec<u32>> {
    let kernel = device.kernel(source)?;
    let y = device.zeros::<u32>(x.len() * (OPERATIONS.len() + OWN))?;
    let x = device.upload(x)?;
    let batch = device.batch();
    batch.dispatch(&kernel, &[&x, &y], Grid::groups([GROUPS, 1, 1]));
    batch.submit()?;
    y.download()
}

/// All differences of one kernel on one device.
fn differences(name: &str, device: &Device, flow: &Flow, invocations: u32) -> Vec<String> {
    let x: Vec<u32> = words(400, (invocations * GROUPS) as usize).iter().map(|word| word % 1000).collect();
    let y = match run(device, &source(flow, invocations), &x) {
        Ok(y) => y,
        Err(error) => return vec![error.to_string()],
    };
    let rows: Vec<&[u32]> = y.chunks(OPERATIONS.len() + OWN).collect();
    let limits = device.info().limits;
    let mut wrong = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let [lane, subgroup, size, count, ref results @ ..] = **row else { unreachable!("longer") };
        let group = number as u32 / invocations;
        let subgroups = invocations.div_ceil(size.max(1));
        // lavapipe does not count a partial one.
        let counted = count == subgroups || name == "llvmpipe" && count == invocations / size.max(1);
        let sized = (limits.subgroup_min_size..=limits.subgroup_max_size).contains(&size);
        if !sized || !counted || lane >= size || subgroup >= subgroups {
            wrong.push(format!("invocation {number}: lane {lane} of subgroup {subgroup} of {count}, size {size}"));
        }
        if !(flow.runs)(x[number]) {
            continue;
        }
        let first = (group * invocations) as usize;
        let together = (first..first + invocations as usize).filter(|other| {
            rows[*other][1] == subgroup && (flow.runs)(x[*other]) && (flow.together)(x[number], x[*other])
        });
        let values = together.map(|other| (rows[other][0], x[other])).collect();
        let active = Active { size, lane, values: &values };
        for (op, found) in OPERATIONS.iter().zip(results) {
            let expected = (op.reference)(&active);
            if expected.is_some_and(|expected| expected != *found) {
                wrong.push(format!("invocation {number}, lane {lane}: {} is {found}, not {expected:?}", op.source));
            }
        }
    }
    wrong
}

#[test]
fn every_subgroup_operation_takes_the_active_invocations_of_its_subgroup() {
    let mut wrong = Vec::new();
    for (name, device) in devices() {
        if device.info().limits.subgroup_max_size == 0 {
            say(&format!("SKIPPED on {name}: it has no subgroups"));
            continue;
        }
        for invocations in [32, 64, 128, 256, 20, 1, 35, 100] {
            for flow in FLOWS {
                let found = differences(name, device, flow, invocations);
                if let Some(first) = found.first() {
                    let (flow, count) = (flow.name, found.len());
                    wrong.push(format!("{name}, {flow}, {invocations} invocations: {count} differ: {first}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Sums over a workgroup, first in subgroups and then over them, as kernels for GPUs have it: the same for any size of subgroups.
#[test]
fn sums_in_two_stages_do_not_depend_on_the_size_of_subgroups() -> Result<()> {
    for (name, device) in devices() {
        if device.info().limits.subgroup_max_size == 0 {
            say(&format!("SKIPPED on {name}: it has no subgroups"));
            continue;
        }
        for [width, height] in [[100, 1], [256, 1], [16, 8], [5, 7]] {
            let source = format!(
                "@group(0) @binding(0) var<storage, read> x: array<u32>;
                @group(0) @binding(1) var<storage, read_write> y: array<u32>;
                var<workgroup> all: atomic<u32>;
                @compute @workgroup_size({width}, {height})
                fn main(@builtin(local_invocation_index) index: u32, @builtin(workgroup_id) group: vec3<u32>) {{
                    let at = group.x * {}u + index;
                    let sum = subgroupAdd(x[at]);
                    if subgroupBroadcastFirst(index) == index {{ atomicAdd(&all, sum); }}
                    workgroupBarrier();
                    y[at] = atomicLoad(&all);
                }}",
                width * height
            );
            let each = width * height;
            let x = words(401, 7 * each);
            let sums = x.chunks(each).map(|x| x.iter().fold(0_u32, |sum, x| sum.wrapping_add(*x)));
            let expected: Vec<u32> = sums.flat_map(|sum| std::iter::repeat_n(sum, each)).collect();
            let kernel = device.kernel(&source)?;
            let (x, y) = (device.upload(&x)?, device.zeros::<u32>(7 * each)?);
            let batch = device.batch();
            batch.dispatch(&kernel, &[&x, &y], Grid::groups([7, 1, 1]));
            batch.submit()?;
            assert_eq!(y.download()?, expected, "{name}, {width} by {height}");
        }
    }
    Ok(())
}
