//! What the built-in CPU does not run, it refuses by name and line; nothing in a source ends the process.

use std::{fmt::Write as _, time::Duration};

use sortie::{DeviceOptions, ErrorKind, Grid};

use crate::{cpu, cpu_with};

const OUT: &str = "@group(0) @binding(0) var<storage, read_write> out: array<u32>;\n";
const MAIN: &str = "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n";

/// Compiles, and if that works runs one workgroup; gives the first words.
fn run(source: &str) -> sortie::Result<Vec<u32>> {
    run_within(source, None)
}

/// The same, with a budget.
fn run_within(source: &str, budget: Option<Duration>) -> sortie::Result<Vec<u32>> {
    // Some of these take a second of CPU time to compile, which is longer on a busy machine.
    let compile_budget = Duration::MAX;
    let device = cpu_with(
        DeviceOptions::default().with_kernel_budget(budget).with_compile_budget(compile_budget).with_threads(2),
    );
    let kernel = device.kernel(source)?;
    let out = device.zeros::<u32>(64)?;
    let batch = device.batch();
    batch.dispatch(&kernel, &[&out], Grid::groups([1, 1, 1]));
    batch.submit()?;
    out.download()
}

#[test]
fn what_is_not_covered_is_named_with_its_line() {
    let device = cpu();
    let mut wrong = Vec::new();
    // With the line, where naga says it.
    for (what, line, source) in [
        (
            "texture",
            Some(3),
            "\n\n@group(0) @binding(0) var t: texture_2d<f32>;\n@compute @workgroup_size(1) fn main() { _ = textureLoad(t, vec2<i32>(0), 0); }",
        ),
        (
            "sampler",
            Some(3),
            "\n\n@group(0) @binding(0) var s: sampler;\n@group(0) @binding(1) var t: texture_2d<f32>;\n@compute @workgroup_size(1) fn main() { _ = textureSampleLevel(t, s, vec2<f32>(0.0), 0.0); }",
        ),
        (
            "texture",
            Some(3),
            "\n\n@group(0) @binding(0) var t: texture_storage_2d<r32float, write>;\n@compute @workgroup_size(1) fn main() { textureStore(t, vec2<i32>(0), vec4<f32>(0.0)); }",
        ),
        (
            "f64",
            Some(3),
            "\n@group(0) @binding(0) var<storage, read_write> out: array<f32>;\n@compute @workgroup_size(1) fn main() { var x: f64 = 1.0lf; x += 1.0lf; out[0] = f32(x); }",
        ),
        (
            "FLOAT32_ATOMIC",
            None,
            "\n@group(0) @binding(0) var<storage, read_write> out: array<atomic<f32>>;\n@compute @workgroup_size(1) fn main() { atomicAdd(&out[0], 1.0); }",
        ),
        (
            "acceleration structure `scene`",
            Some(3),
            "enable wgpu_ray_query;\n\n@group(0) @binding(0) var scene: acceleration_structure;\n@compute @workgroup_size(1) fn main() { var q: ray_query; rayQueryInitialize(&q, scene, RayDesc(0u, 255u, 0.0, 1.0, vec3<f32>(0.0), vec3<f32>(1.0))); }",
        ),
    ] {
        let error = device.kernel(source).expect_err(what);
        let message = error.to_string();
        let named = message.contains(what) && line.is_none_or(|line: u32| message.contains(&format!("line {line}")));
        if error.kind() != ErrorKind::Unsupported || !named {
            wrong.push(format!("{what}: {:?}: {message}", error.kind()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn early_returns_by_the_thousand_run() -> sortie::Result<()> {
    let returns: String = (1..3000).fold(String::new(), |mut text, value| {
        let _ = writeln!(text, "if x == {value}u {{ out[id.x] = {value}u; return; }}");
        text
    });
    let found = run(&format!("{OUT}{MAIN}let x = id.x * 50u;\n{returns} out[id.x] = 7u; }}"))?;
    let expected: Vec<u32> = (0..64).map(|id| if (1..3000).contains(&(id * 50)) { id * 50 } else { 7 }).collect();
    assert_eq!(found, expected);
    Ok(())
}

#[test]
fn control_flow_that_would_take_all_the_stack_is_refused() {
    for (functions, levels, open) in [(4, 60, "if x != 999u {"), (100, 60, "if x != 999u {"), (3000, 1, "loop {")] {
        let mut source = String::from(OUT);
        for number in 0..functions {
            let inner = if number == 0 { "x".into() } else { format!("f{}(x + 1u)", number - 1) };
            let (open, close) = (open.repeat(levels), " if r != x { break; } }".repeat(levels));
            let close = if open.contains("loop") { close } else { "}".repeat(levels) };
            let _ =
                writeln!(source, "fn f{number}(x: u32) -> u32 {{ var r = 0u; {open} r = {inner}; {close} return r; }}");
        }
        let _ = write!(source, "{MAIN} out[id.x] = f{}(id.x); }}", functions - 1);
        let error = run(&source).expect_err("too deep");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("levels deep"), "{error}");
    }
}

#[test]
fn as_deep_as_allowed_runs_on_the_stack_of_a_thread() -> sortie::Result<()> {
    let mut source = String::from(OUT);
    for number in 0..3 {
        let inner = if number == 0 { "x".into() } else { format!("f{}(x + 1u)", number - 1) };
        let open: String = (0..60).fold(String::new(), |mut text, level| {
            let _ = write!(text, "for (var i{level} = 0u; i{level} < 1u + (x >> 30u); i{level}++) {{");
            text
        });
        let _ = writeln!(
            source,
            "fn f{number}(x: u32) -> u32 {{ var r = 0u; {open} r = {inner}; {} return r; }}",
            "}".repeat(60)
        );
    }
    let found = run(&format!("{source}{MAIN} out[id.x] = f2(id.x); }}"))?;
    assert_eq!(found, (2..66).collect::<Vec<u32>>());
    Ok(())
}

/// Each function calls the one before twice.
fn doubling(count: u32) -> String {
    let mut source = format!("{OUT}fn f0(x: u32) -> u32 {{ return x * 3u + 1u; }}\n");
    for number in 1..count {
        let before = number - 1;
        let _ = writeln!(source, "fn f{number}(x: u32) -> u32 {{ return f{before}(x) + f{before}(x + 1u); }}");
    }
    let _ = write!(source, "{MAIN} out[id.x] = f{}(id.x); }}", count - 1);
    source
}

#[test]
fn functions_that_double_come_out_right() -> sortie::Result<()> {
    // The sum of 3 (x + k) + 1 over all ways to choose k of n.
    let expected: Vec<u32> = (0..64_u32).map(|x| ((3 * x + 1) << 15) + 3 * 15 * (1 << 14)).collect();
    assert_eq!(run(&doubling(16))?, expected);
    Ok(())
}

#[test]
fn functions_that_double_for_ever_are_stopped_without_a_loop() {
    let budget = Some(Duration::from_millis(200));
    assert_eq!(run_within(&doubling(50), budget).expect_err("for ever").kind(), ErrorKind::Timeout);
}

#[test]
fn functions_that_double_with_variables_of_their_own_are_refused() {
    let mut source = format!("{OUT}fn f0(p: ptr<function, u32>) {{ *p = *p * 3u + 1u; }}\n");
    for number in 1..40 {
        let before = number - 1;
        let _ = writeln!(
            source,
            "fn f{number}(p: ptr<function, u32>) {{ var a = *p; var b = *p + 1u; f{before}(&a); f{before}(&b); *p = a + b; }}"
        );
    }
    let _ = write!(source, "{MAIN} var v = id.x; f39(&v); out[id.x] = v; }}");
    let error = run(&source).expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("instructions"), "{error}");
}

#[test]
fn calls_do_not_each_keep_an_array_of_their_own() -> sortie::Result<()> {
    let mut source = format!(
        "{OUT}fn f(i: u32) -> u32 {{ var b: array<u32, 16000>; b[i % 16000u] = 1u; return b[i * 2u % 16000u] + b[i]; }}\n{MAIN} var s = 0u;"
    );
    for number in 0..400 {
        let _ = write!(source, "s += f(id.x + {number}u);");
    }
    source += "out[id.x] = s; }";
    // What one call left there the next does not find.
    assert_eq!(run(&source)?, (0..64).map(|id| if id == 0 { 401 } else { 400 }).collect::<Vec<u32>>());
    Ok(())
}

#[test]
fn values_too_large_to_take_apart_are_refused() {
    let source = format!(
        "@group(0) @binding(1) var<storage> big: array<f32, 30000000>;\n{OUT}{MAIN} let all = big; out[0] = u32(all[id.x]); }}"
    );
    let error = cpu().kernel(&source).expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("4 MiB") && error.to_string().contains("line 4"), "{error}");
}

#[test]
fn ten_thousand_cases_run() -> sortie::Result<()> {
    let cases: String = (0..10_000).fold(String::new(), |mut text, case| {
        let _ = writeln!(text, "case {case}u: {{ if i == 1u {{ continue; }} s += {case}u * 7u; }}");
        text
    });
    let found = run(&format!(
        "{OUT}{MAIN} var s = 0u; for (var i = 0u; i < 3u; i++) {{ switch id.x * 200u {{ {cases} default: {{ s = 1u; break; }} }} }} out[id.x] = s; }}"
    ))?;
    let expected: Vec<u32> = (0..64).map(|id| if id * 200 < 10_000 { id * 200 * 14 } else { 1 }).collect();
    assert_eq!(found, expected);
    Ok(())
}
