//! Kernels that run into themselves are found out, with their line and the user's.

use std::panic::Location;

use sortie::{Bind, Device, DeviceOptions, ErrorKind, Grid};

use crate::cpu_with;

fn watched() -> Device {
    cpu_with(DeviceOptions::default().with_check_races(true).with_check_unwritten(true))
}

#[test]
fn two_invocations_that_write_one_word_are_named_with_the_line() -> sortie::Result<()> {
    let device = watched();
    let kernel = device.kernel(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(64)
        fn collide(@builtin(global_invocation_id) id: vec3<u32>) {
            x[0] = id.x;
        }",
    )?;
    let x = device.zeros::<u32>(64)?;
    let batch = device.batch();
    let line = Location::caller().line() + 1;
    batch.dispatch(&kernel, &[&x], Grid::items(64)).label("collision");
    let error = batch.submit().expect_err("a race");
    assert_eq!((error.kind(), error.op(), error.label()), (ErrorKind::Race, Some(0), Some("collision")));
    assert_eq!(error.location().map(Location::line), Some(line));
    assert!(error.to_string().contains("\"collide\"") && error.to_string().contains("at line 4"), "{error}");
    assert_eq!(x.download().expect_err("it had begun").kind(), ErrorKind::Poisoned);
    Ok(())
}

#[test]
fn a_kernel_without_fault_gives_the_answer_it_always_gives() -> sortie::Result<()> {
    let device = watched();
    let kernel = device.kernel(
        "var<workgroup> half: array<u32, 64>;
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
            half[i] = x[id.x];
            workgroupBarrier();
            x[id.x] = half[63u - i];
        }",
    )?;
    let data: Vec<u32> = (0..256).collect();
    let x = device.upload(&data)?;
    let batch = device.batch();
    batch.dispatch(&kernel, &[&x], Grid::items(256));
    batch.submit()?;
    let expected: Vec<u32> = data.chunks(64).flat_map(|group| group.iter().rev().copied()).collect();
    assert_eq!(x.download()?, expected);
    Ok(())
}

/// A kernel with one mistake, where the mistake stands, and what is said about it.
struct Mistake {
    /// `!` marks the line that must be named.
    source: &'static str,
    said: &'static str,
}

/// Runs over four workgroups of 64 with one buffer of 256 words.
fn message(source: &str) -> sortie::Result<()> {
    let device = watched();
    let kernel = device.kernel(source)?;
    let x = device.zeros::<u32>(256)?;
    let batch = device.batch();
    let all: [&dyn Bind; 1] = [&x];
    // Some do without.
    batch.dispatch(&kernel, &all[..kernel.num_bindings()], Grid::groups([4, 1, 1]));
    batch.submit().map(drop)
}

#[test]
fn every_kind_of_mistake_is_named_with_its_line() {
    const HEAD: &str = "
        var<workgroup> w: array<u32, 64>;
        var<workgroup> count: atomic<u32>;
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32, @builtin(workgroup_id) group: vec3<u32>) {";
    let mistakes = [
        Mistake {
            source: "w[i] = i;
                x[id.x] = w[63u - i]; // !
            }",
            said: "wrote with no barrier between",
        },
        Mistake {
            source: "w[i] = i;
                workgroupBarrier();
                let other = w[63u - i];
                w[i] = other; // !
            }",
            said: "read with no barrier between",
        },
        Mistake {
            source: "x[id.x] = i;
                workgroupBarrier();
                w[i] = x[id.x ^ 1u]; // !
            }",
            said: "wrote with no barrier between",
        },
        Mistake {
            source: "w[i] = i;
                storageBarrier();
                x[id.x] = w[63u - i]; // !
            }",
            said: "wrote with no barrier between",
        },
        Mistake {
            source: "if i == 0u {
                    x[0] += group.x; // !
                }
            }",
            said: "in another workgroup",
        },
        Mistake {
            source: "if i == 0u { x[group.x] = 7u; }
                storageBarrier();
                w[i] = x[(group.x + 3u) % 4u]; // !
            }",
            said: "in another workgroup",
        },
        Mistake {
            source: "if i < 32u { w[i] = 1u; }
                workgroupBarrier();
                x[id.x] = w[i]; // !
            }",
            said: "which no invocation has written",
        },
        Mistake {
            source: "w[i] = 1u;
                if i < 32u {
                    workgroupBarrier(); // !
                }
                x[id.x] = w[i];
            }",
            said: "only some of its invocations",
        },
        Mistake {
            source: "w[i] = 1u;
                for (var k = 0u; k < i; k++) {
                    workgroupBarrier(); // !
                }
                x[id.x] = w[i];
            }",
            said: "only some of its invocations",
        },
        Mistake {
            source: "if i == 5u { return; }
                w[i] = 1u;
                workgroupBarrier(); // !
                x[id.x] = w[i];
            }",
            said: "only some of its invocations",
        },
        Mistake {
            source: "x[id.x + 1u] = 1u; // !
            }",
            said: "writes past the end of @group(0) @binding(0), which has 256 words",
        },
        Mistake {
            source: "let v = x[id.x * 2u]; // !
                if v == 77u { x[id.x] = 1u; }
            }",
            said: "reads past the end of @group(0) @binding(0), which has 256 words",
        },
        Mistake {
            source: "w[i * 2u] = 1u; // !
            }",
            said: "of workgroup memory, which has",
        },
        Mistake {
            source: "var a = array<u32, 4>(1u, 2u, 3u, 4u);
                x[id.x] = a[i]; // !
            }",
            said: "of an array, which has",
        },
    ];
    let mut wrong = Vec::new();
    for Mistake { source, said } in mistakes {
        let source = format!("{HEAD}\n{source}");
        let line = source.lines().position(|line| line.contains("// !")).map_or(0, |line| line + 1);
        match message(&source) {
            Ok(()) => wrong.push(format!("not found: {said} at line {line}")),
            Err(error) => {
                let text = error.to_string();
                let right = text.contains(said) && text.contains(&format!("at line {line}"));
                if error.kind() != ErrorKind::Race || !right {
                    wrong.push(format!("{said} at line {line}: {:?} {text}", error.kind()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn atomics_race_with_plain_access_to_the_same_memory_only() {
    let head = "
        struct Cell { value: atomic<u32> }
        @group(0) @binding(0) var<storage, read_write> x: array<Cell>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {";
    for clean in [
        "atomicAdd(&x[0].value, 1u); }",
        "if id.x == 70u { atomicStore(&x[1].value, 1u); } else { atomicMax(&x[1].value, atomicLoad(&x[1].value)); } }",
    ] {
        message(&format!("{head}{clean}")).unwrap_or_else(|error| panic!("{clean}: {error}"));
    }
    // In workgroup memory, the initial zeros count as written by no invocation.
    let error = message(
        "var<workgroup> n: atomic<u32>;
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            x[id.x] = atomicLoad(&n);
        }",
    );
    assert!(error.is_err_and(|error| error.to_string().contains("no invocation has written")));
}

#[test]
fn reads_of_workgroup_memory_that_was_never_written_are_reported_only_if_asked() -> sortie::Result<()> {
    let source = "var<workgroup> w: array<u32, 64>;
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
            if i < 32u { w[i] = 1u; }
            workgroupBarrier();
            x[id.x] = w[i] + 2u;
        }";
    for check_unwritten in [false, true] {
        let device = cpu_with(DeviceOptions::default().with_check_races(true).with_check_unwritten(check_unwritten));
        let kernel = device.kernel(source)?;
        let x = device.zeros::<u32>(64)?;
        let batch = device.batch();
        batch.dispatch(&kernel, &[&x], Grid::groups([1, 1, 1]));
        match (batch.submit(), check_unwritten) {
            (Ok(_), false) => assert_eq!(x.download()?, [[3; 32], [2; 32]].concat()),
            (Err(error), true) => {
                assert!(error.to_string().contains("which no invocation has written"), "{error}");
            }
            (outcome, _) => panic!("asked {check_unwritten}: {outcome:?}"),
        }
    }
    Ok(())
}

#[test]
fn clean_kernels_are_not_accused() {
    for source in [
        // All invocations write, one barrier, all read, one barrier, all write.
        "for (var r = 0u; r < 3u; r++) {
            w[i] = r + i;
            workgroupBarrier();
            let other = w[(i + 1u) % 64u];
            workgroupBarrier();
            x[id.x] = other;
        }",
        // A barrier in uniform control flow.
        "w[i] = 1u;
        if group.x < 2u { workgroupBarrier(); x[id.x] = w[63u - i]; }",
        // One lane writes for all.
        "if i == 0u { w[0] = group.x; }
        let all = workgroupUniformLoad(&w[0]);
        x[id.x] = all;",
        // Storage as scratch of one's own workgroup.
        "x[id.x] = i;
        storageBarrier();
        let other = x[group.x * 64u + 63u - i];
        storageBarrier();
        x[id.x] = other;",
    ] {
        let source = format!(
            "var<workgroup> w: array<u32, 64>;
            @group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(64)
            fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32, @builtin(workgroup_id) group: vec3<u32>) {{
            {source} }}"
        );
        message(&source).unwrap_or_else(|error| panic!("{source}: {error}"));
    }
}
