//! The profile of a scope.

use std::{ops::Range, time::Duration};

use super::{OpProfile, ScopeOutline, StepProfile, step::Totals};

/// A scope of a batch and everything recorded in it, including inner scopes.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let batch = device.batch();
/// let profile = batch.profile();
/// let x = batch.tensor_from(&[1.0_f32; 64], [8, 8]);
/// let y = batch.scope("layer", |_| x.matmul(x).relu()).read();
/// batch.submit()?;
/// let profile = profile.wait()?;
/// let layer = &profile.scopes()[0];
/// assert_eq!((layer.path(), layer.ops(), layer.is_complete()), ("layer", 1..3, true));
/// println!("{}: {:?}, {:?} bytes a second", layer.label(), layer.time(), layer.bytes_per_second());
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScopeProfile {
    outline: ScopeOutline,
    path: String,
    depth: usize,
    ops: Range<usize>,
    totals: Totals,
    straddling: usize,
    record: Option<Duration>,
}

impl ScopeProfile {
    pub(super) fn all(outlines: Vec<ScopeOutline>, ops: &[OpProfile], steps: &[StepProfile]) -> Vec<Self> {
        let mut scopes: Vec<Self> = Vec::with_capacity(outlines.len());
        for outline in outlines {
            let outer = outline.outer.and_then(|outer| scopes.get(outer));
            let path = outer.map_or_else(|| outline.label.clone(), |outer| format!("{}/{}", outer.path, outline.label));
            let depth = outer.map_or(0, |outer| outer.depth + 1);
            let own = outline.start.min(ops.len())..outline.end.min(ops.len());
            let record = ops[own.clone()].iter().map(OpProfile::record).sum::<Option<Duration>>();
            let totals = Totals::default();
            scopes.push(Self { outline, path, depth, ops: own, totals, straddling: 0, record });
        }
        for step in steps {
            // All scopes around any of its ops. If a scope is in the list, so are its outer scopes.
            let mut seen: Vec<usize> = Vec::new();
            for op in step.ops() {
                let mut scope = ops.get(*op).and_then(OpProfile::scope);
                while let Some(number) = scope.filter(|number| !seen.contains(number)) {
                    seen.push(number);
                    scope = scopes[number].outline.outer;
                }
            }
            for number in seen {
                let scope = &mut scopes[number];
                match step.ops().iter().all(|op| scope.ops.contains(op)) {
                    true => scope.totals.add(step),
                    false => scope.straddling += 1,
                }
            }
        }
        scopes
    }

    getters! { self:
        /// Its name.
        label: &str = &self.outline.label;

        /// Its name with those of the outer scopes: `layer/attention`.
        path: &str = &self.path;

        /// The enclosing scope, by number.
        outer: Option<usize> = self.outline.outer;

        /// Number of enclosing scopes.
        depth: usize = self.depth;

        /// Its ops, by number.
        ops: Range<usize> = self.ops.clone();

        /// Number of steps that ran only ops of this scope.
        steps: usize = self.totals.steps;

        /// Number of steps that ran both ops of this scope and ops outside it (fused across its border). Their time
        /// counts only in scopes that contain all of their ops.
        straddling: usize = self.straddling;

        /// Device time of those of [`ScopeProfile::steps`] whose time is known.
        time: Option<Duration> = self.totals.time;

        /// Whether [`ScopeProfile::time`] is complete: no step straddles the border, and the time of every step is
        /// known.
        is_complete: bool = self.straddling == 0 && self.totals.unknown == 0;

        /// Bytes of the bindings of its steps.
        bytes: u64 = self.totals.bytes;

        /// Floating-point operations of its steps, as far as known.
        flops: u64 = self.totals.flops;

        /// Bytes per second.
        bytes_per_second: Option<f64> = self.totals.bytes_per_second();

        /// Floating-point operations per second.
        flops_per_second: Option<f64> = self.totals.flops_per_second();

        /// Host time spent encoding its steps.
        encode: Duration = self.totals.encode;

        /// Time spent recording its ops; `None` if it is not known for all of them.
        record: Option<Duration> = self.record;
    }
}
