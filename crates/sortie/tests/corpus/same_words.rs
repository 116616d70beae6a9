//! Native replays hand the driver what wgpu does: the same SPIR-V, word for word, and equal layouts.
//!
//! The one difference left is the pipeline cache, whose handle wgpu does not show.

use std::collections::HashSet;

use sortie::{Buffer, Device, Grid, Result};

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
            let compiles = |need: &&Need| matches!(need, Need::F16 | Need::Invocations(_));
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
