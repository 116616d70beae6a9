//! What kernels take on the device: native replays against encoded ones, which must run the same code.
//!
//! Five kernels, each dispatched as often as it takes for at least [`MIN_WORK`] of device work. `sortie-replay` encodes
//! every run; `sortie-replay-again` is the same on another device, a control that must read 1.0×; `sortie-native` is a
//! native replay; `sortie` records every run. Every run is one submission.
//!
//! `wall_ms`: until done. `cpu_ms`: CPU time of the whole process, driver included, which load on the machine changes
//! less.

use std::time::Duration;

use sortie::{
    Batch, Buffer, Device, DeviceOptions, Grid, Kernel, Replay,
    policy::{Split, SubmitPolicy},
};
use sortie_bench::{Case, Clock, Contender, Cost, Outcome, Report, Rounds};

/// Device work of a run, at least.
const MIN_WORK: Duration = Duration::from_millis(20);
const ITEMS: usize = 4096;
const MIN_OPS: usize = 2;
const MAX_OPS: usize = 1 << 14;

/// Each group fills workgroup memory of `words` words, and each lane adds some of them up.
fn workgroup(words: usize) -> String {
    format!(
        "@group(0) @binding(0) var<storage, read> x: array<u32>;
        @group(0) @binding(1) var<storage, read_write> y: array<u32>;
        var<workgroup> kept: array<u32, {words}>;
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{
            for (var at = lane; at < {words}u; at += 64u) {{ kept[at] = x[(id.x + at) % arrayLength(&x)]; }}
            workgroupBarrier();
            var sum = 0u;
            for (var step = 0u; step < 64u; step++) {{ sum += kept[(lane * 7u + step) % {words}u]; }}
            y[id.x] = sum;
        }}"
    )
}

const LOADS: &str = include_str!("loads.wgsl");

const ARITHMETIC: &str = include_str!("arithmetic.wgsl");

struct Kernels {
    device: Device,
    kernel: Kernel,
    buffers: [Buffer<u32>; 2],
    replay: Option<Replay>,
}

impl Kernels {
    fn new(device: &str, source: &str, native_replay: bool) -> sortie::Result<Self> {
        let policy = Some(SubmitPolicy { split: Split::Never, ..SubmitPolicy::default() });
        let options =
            DeviceOptions::default().with_device(device).with_native_replay(native_replay).with_policy(policy);
        let device = Device::open_with(options)?;
        let data: Vec<u32> = (0..ITEMS as u32).map(|at| at.wrapping_mul(2_654_435_761) >> 20).collect();
        let buffers = [device.upload(&data)?, device.upload(&data)?];
        Ok(Self { kernel: device.kernel(source)?, device, buffers, replay: None })
    }

    fn record(&self, ops: usize) -> Batch {
        let batch = self.device.batch();
        for op in 0..ops {
            let (x, y) = (&self.buffers[op % 2], &self.buffers[(op + 1) % 2]);
            batch.dispatch(&self.kernel, &[x, y], Grid::items(ITEMS));
        }
        batch
    }

    fn run(&self, ops: usize) -> sortie::Result<()> {
        match &self.replay {
            Some(replay) => replay.run().submit(),
            None => self.record(ops).submit(),
        }
    }

    /// Wall and CPU time of a run, in ms.
    fn measure(&self, ops: usize) -> sortie::Result<[f64; 2]> {
        let cost = Cost::of(Clock::Process, || self.run(ops))?;
        Ok([cost.wall_us / 1e3, cost.cpu_us / 1e3])
    }
}

/// Measures all kernels on a device.
pub(super) fn bench(device: &str, quick: bool, report: &mut Report) -> Outcome<()> {
    let cases = [
        ("workgroup-256", workgroup(256 / 4)),
        ("workgroup-4096", workgroup(4096 / 4)),
        ("workgroup-16384", workgroup(16_384 / 4)),
        ("loads", LOADS.into()),
        ("arithmetic", ARITHMETIC.into()),
    ];
    let names = ["sortie-replay", "sortie-native", "sortie-replay-again", "sortie"];
    for (case, source) in cases {
        let open = |name: &str| Kernels::new(device, &source, name == "sortie-native");
        let mut contenders = names.into_iter().map(open).collect::<sortie::Result<Vec<_>>>()?;
        let n = enough_ops(&contenders[3])?;
        for contender in &mut contenders[..3] {
            contender.replay = Some(contender.record(n).freeze()?);
        }
        contenders.iter().try_for_each(|contender| contender.run(n))?;
        let rounds = Rounds::within(Duration::from_millis(if quick { 400 } else { 4_000 }), 5);
        let samples = rounds.run(contenders.len(), |at, _| Ok(contenders[at].measure(n)?))?;
        check(case, &names, &contenders, n)?;
        report.rows(&Case { device, case, n, metrics: ["wall_ms", "cpu_ms"] }, &Contender::all(&names), &samples);
    }
    Ok(())
}

/// How many dispatches take at least [`MIN_WORK`].
fn enough_ops(contender: &Kernels) -> sortie::Result<usize> {
    let mut ops = MIN_OPS;
    while ops < MAX_OPS {
        let times = [contender.measure(ops)?, contender.measure(ops)?, contender.measure(ops)?];
        if times.as_flattened().iter().copied().fold(f64::MAX, f64::min) >= MIN_WORK.as_secs_f64() * 1e3 {
            break;
        }
        ops *= 2;
    }
    Ok(ops)
}

/// All contenders have the same result from the same data, in one submission per run, and one of them is native.
fn check(case: &str, names: &[&str], contenders: &[Kernels], ops: usize) -> sortie::Result<()> {
    let mut results = Vec::new();
    for (name, contender) in names.iter().zip(contenders) {
        let data: Vec<u32> = (0..ITEMS as u32).collect();
        contender.buffers.iter().try_for_each(|buffer| buffer.write(&data))?;
        let before = contender.device.metrics();
        contender.run(ops)?;
        let done = contender.device.metrics() - before;
        assert_eq!((done.native_runs, done.cuts), (u64::from(*name == "sortie-native"), 0), "{case}: {name}");
        results.push(contender.buffers[0].download()?);
    }
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{case}: the results differ");
    Ok(())
}
