//! All inputs of an invocation, for workgroups and grids of every shape.

use crate::case::Case;

const KERNELS: &str = include_str!("kernels/ids.wgsl");

fn ids(name: &'static str, size: [u32; 3], groups: [u32; 3]) -> Case {
    let mut expected = Vec::new();
    for group in points(groups) {
        for (local, index) in points(size).into_iter().zip(0..) {
            let global: [u32; 3] = std::array::from_fn(|axis| group[axis] * size[axis] + local[axis]);
            expected.extend([global, local, group, groups].concat());
            expected.push(index + 1000);
        }
    }
    let [x, y, z] = size.map(f64::from);
    let case = Case::new(name, KERNELS).entry("ids").constant("x", x).constant("y", y).constant("z", z);
    case.groups(groups).output(expected)
}

/// All points of a box, x fastest.
fn points([x, y, z]: [u32; 3]) -> Vec<[u32; 3]> {
    (0..x * y * z).map(|at| [at % x, at / x % y, at / x / y]).collect()
}

fn ids_in_a_struct() -> Case {
    let (size, groups) = ([4, 3, 2], [3, 2, 5]);
    let all: [u32; 3] = std::array::from_fn(|axis| size[axis] * groups[axis]);
    let expected: Vec<u32> = points(all)
        .into_iter()
        .map(|global| {
            let local: [u32; 3] = std::array::from_fn(|axis| global[axis] % size[axis]);
            (local[0] + 4 * (local[1] + 3 * local[2])) * 100 + groups[2]
        })
        .collect();
    Case::new("ids_in_a_struct", KERNELS).groups(groups).output(expected)
}

fn many_groups() -> Case {
    let groups = 70_001;
    let expected: Vec<u32> = (0..groups).map(|group| group * 3 + groups).collect();
    Case::new("many_groups", KERNELS).constant("x", 1.0).groups([groups, 1, 1]).output(expected)
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        ids("ids_3_5_2", [3, 5, 2], [4, 2, 3]),
        ids("ids_7_1_1", [7, 1, 1], [13, 1, 1]),
        ids("ids_1_1_1", [1, 1, 1], [5, 7, 3]),
        ids("ids_1_64_1", [1, 64, 1], [3, 2, 2]),
        ids("ids_16_16_1", [16, 16, 1], [3, 2, 1]),
        ids("ids_8_8_4", [8, 8, 4], [2, 1, 3]),
        ids("ids_1_1_64", [1, 1, 64], [2, 3, 2]),
        ids("ids_256_1_1", [256, 1, 1], [5, 1, 1]),
        ids("ids_5_1_3", [5, 1, 3], [1, 11, 1]),
        ids_in_a_struct(),
        many_groups(),
    ]
}
