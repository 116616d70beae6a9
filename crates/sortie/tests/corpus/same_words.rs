//! Native replays hand the driver what wgpu does: the same SPIR-V, word for word, and equal layouts.
//!
//! The one difference left is the pipeline cache, whose handle wgpu does not show.
#![expect(unsafe_code, reason = "kernels are compiled without checks; none runs")]

use std::collections::HashSet;

use sortie::{Buffer, Device, Grid, Result, Tensor, wgpu::ShaderRuntimeChecks};

use crate::{
    all,
    case::{Case, Need, Step},
    devices,
    drivers::{open, say},
    hooks::{Asked, hooked, taken},
    run,
};

/// Groups in a row: as a dispatch may have them, and more, which takes another variant of the kernel.
const WIDTHS: [u32; 2] = [1, 70_000];

#[test]
fn a_native_replay_hands_the_driver_the_words_and_layouts_that_wgpu_does() {
    for name in ["llvmpipe", "swiftshader"] {
        let Some(like) = open(name) else { continue };
        let device = hooked(&like);
        let (mut seen, mut wrong, mut count) = (HashSet::new(), Vec::new(), 0);
        for case in all() {
            let compiles =
                |need: &&Need| matches!(need, Need::F16 | Need::Int64 | Need::Int64Atomics | Need::Invocations(_));
            let mut needs = case.needs.iter().filter(compiles);
            if let Some(need) = needs.find(|need| !devices::has(name, &like, **need)) {
                say(&format!("SKIPPED on {name}: the words of {} need {need:?}", case.name));
                continue;
            }
            // A kernel that an earlier case has had is compiled already.
            let new = |step: &&Step| seen.insert((case.source.clone(), step.entry, format!("{:?}", case.constants)));
            for step in case.steps.iter().filter(new) {
                for width in WIDTHS {
                    let what = format!("{} of {} on {name}, {width} groups", step.entry, case.name);
                    freeze(&device, &case, step, width).unwrap_or_else(|error| panic!("{what}: {error}"));
                    match &taken(&device)[..] {
                        [wgpu, native] => wrong.extend(difference(wgpu, native).map(|how| format!("{what}: {how}"))),
                        asked => wrong.push(format!("{what}: {} pipelines instead of two", asked.len())),
                    }
                    count += 1;
                }
            }
        }
        assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
        assert!(count >= 360, "{count} kernels on {name}: some have been lost");
    }
}

/// A kernel that each of the checks changes.
const CHECKED: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    var<workgroup> parts: array<u32, 64>;
    @compute @workgroup_size(32) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        var weights = array<u32, 4>(1u, 2u, 3u, 4u);
        for (var at = 0u; at < x[0]; at++) { parts[at] += weights[x[at]] / x[1]; }
        y[id.x] = parts[id.y];
    }";

#[test]
fn so_it_does_with_kernels_that_have_fewer_checks() {
    for name in ["llvmpipe", "swiftshader"] {
        let Some(like) = open(name) else { continue };
        let device = hooked(&like);
        let all = ShaderRuntimeChecks::checked();
        let mut sizes = Vec::new();
        for checks in [
            all,
            ShaderRuntimeChecks { bounds_checks: false, ..all },
            ShaderRuntimeChecks { force_loop_bounding: false, ..all },
            ShaderRuntimeChecks { int_div_checks: false, ..all },
            ShaderRuntimeChecks::unchecked(),
        ] {
            // SAFETY: nothing of it runs.
            let kernel = unsafe { device.module_unchecked(CHECKED, checks) }.and_then(|module| module.only_kernel());
            let kernel = kernel.unwrap_or_else(|error| panic!("{name}: {error}"));
            let [x, y] = [0, 1].map(|_| device.zeros::<u32>(64).expect("memory"));
            let batch = device.batch();
            batch.dispatch(&kernel, &[&x, &y], 64);
            drop(batch.freeze().unwrap_or_else(|error| panic!("{name}: {error}")));
            let asked = taken(&device);
            let [wgpu, native] = &asked[..] else { panic!("{} pipelines instead of two", asked.len()) };
            assert_eq!(difference(wgpu, native), None, "{checks:?} on {name}");
            sizes.push(wgpu.words.len());
        }
        assert!(sizes[1..].iter().all(|size| *size < sizes[0]), "each check is code: {sizes:?} on {name}");
    }
}

#[test]
fn so_it_does_with_generated_kernels() {
    type Make = for<'b> fn(Tensor<'b, f32>) -> Tensor<'b, f32>;
    let makes: [Make; 4] = [|x| x * 2.0, |x| x.softmax(), |x| x.sum(&[0]), |x| x.matmul(x)];
    for name in ["llvmpipe", "swiftshader"] {
        let Some(like) = open(name) else { continue };
        let device = hooked(&like);
        drop(taken(&device));
        for (at, make) in makes.into_iter().enumerate() {
            let (x, y) =
                (device.zeros::<f32>(300 * 300).expect("memory"), device.zeros::<f32>(300 * 300).expect("memory"));
            let batch = device.batch();
            let made = make(batch.tensor(&x, [300, 300]));
            let len: usize = made.shape().iter().product();
            made.store(&y.slice(..len));
            drop(batch.freeze().unwrap_or_else(|error| panic!("{name}: {error}")));
            let asked = taken(&device);
            let [wgpu, native] = &asked[..] else { panic!("{} pipelines instead of two", asked.len()) };
            assert_eq!(difference(wgpu, native), None, "operation {at} on {name}");
        }
    }
}

/// Has one kernel compiled by wgpu and for a native replay. Nothing of it runs.
fn freeze(device: &Device, case: &Case, step: &Step, width: u32) -> Result<()> {
    let buffers =
        case.memory.iter().map(|memory| device.upload(&memory.before)).collect::<Result<Vec<Buffer<u32>>>>()?;
    let kernel = case.kernel(device, step)?;
    let batch = device.batch();
    run::dispatch(&batch, &kernel, step, &buffers, Grid::groups([width, 1, 1]));
    batch.freeze().map(drop)
}

/// What differs first.
fn difference(wgpu: &Asked, native: &Asked) -> Option<String> {
    let at = wgpu.words.iter().zip(&native.words).position(|(a, b)| a != b);
    if at.is_some() || wgpu.words.len() != native.words.len() {
        let lengths = [wgpu.words.len(), native.words.len()];
        return Some(format!("words differ from {at:?} on, of {lengths:?}"));
    }
    (wgpu != native).then(|| format!("{:#?}\ninstead of\n{:#?}", without_words(native), without_words(wgpu)))
}

fn without_words(asked: &Asked) -> Asked {
    Asked { words: Vec::new(), ..asked.clone() }
}
