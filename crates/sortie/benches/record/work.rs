//! What kernels take on the device: native replays against encoded ones, which are to run the same code.
//!
//! Five kernels, each dispatched as often as it takes for at least [`ENOUGH`] of device work. The contenders take turns in one process, each on a device
//! of its own. `sortie-replay` encodes every run; `sortie-replay-again` is the same on another device, a control that must read 1.0×; `sortie-native` has the
//! device's own recording; `sortie` records anew. All of them run in one submission.
//!
//! `wall_ms`: until done. `cpu_ms`: CPU time of the whole process, driver included, which load on the machine changes less.

use std::time::{Duration, Instant};

use sortie::{Batch, Buffer, Device, DeviceOptions, Grid, Kernel, Replay, Split, SubmitPolicy};

use super::{cpu_time, median};

/// Device work of a run, at least.
const ENOUGH: Duration = Duration::from_millis(20);
const ITEMS: usize = 4096;
/// The least and the most dispatches of a run.
const OPS: std::ops::Range<usize> = 2..1 << 14;

/// Each group fills workgroup memory of so many words, and each lane adds some of it up.
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

const LOADS: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        var sum = 0u;
        for (var step = 0u; step < 256u; step++) { sum += x[(id.x * 17u + step * 61u) % arrayLength(&x)]; }
        y[id.x] = sum;
    }";

const ARITHMETIC: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        var value = x[id.x];
        var float = f32(value % 1000u);
        for (var step = 0u; step < 512u; step++) {
            value = value * 1664525u + 1013904223u;
            float = float * 0.5 + f32(value >> 22u);
        }
        y[id.x] = value + u32(float);
    }";

struct Contender {
    name: &'static str,
    device: Device,
    kernel: Kernel,
    buffers: [Buffer<u32>; 2],
    replay: Option<Replay>,
}

impl Contender {
    fn new(name: &'static str, on: &str, source: &str, native_replay: bool) -> Self {
        let policy = Some(SubmitPolicy { split: Split::Never, ..SubmitPolicy::default() });
        let options = DeviceOptions { device: Some(on.into()), native_replay, policy, ..DeviceOptions::default() };
        let device = Device::open_with(options).expect("the device opens");
        let kernel = device.kernel(source).expect("the kernel compiles");
        let data: Vec<u32> = (0..ITEMS as u32).map(|at| at.wrapping_mul(2_654_435_761) >> 20).collect();
        let buffers = [(); 2].map(|()| device.upload(&data).expect("memory"));
        Self { name, device, kernel, buffers, replay: None }
    }

    fn record(&self, ops: usize) -> Batch {
        let mut batch = self.device.batch();
        let [x, y] = &self.buffers;
        for op in 0..ops {
            let bound = if op % 2 == 0 { [x, y] } else { [y, x] };
            batch.dispatch(&self.kernel, &[bound[0], bound[1]], Grid::items(ITEMS));
        }
        batch
    }

    fn freeze(&mut self, ops: usize) {
        self.replay = Some(self.record(ops).freeze().expect("the batch can be replayed"));
    }

    fn run(&self, ops: usize) {
        match &self.replay {
            Some(replay) => replay.run().submit().expect("the run ends well"),
            None => self.record(ops).submit().expect("the batch runs"),
        }
    }

    /// Wall and CPU time of a run, in ms.
    fn measure(&self, ops: usize) -> [f64; 2] {
        let (wall, cpu) = (Instant::now(), cpu_time(libc::CLOCK_PROCESS_CPUTIME_ID));
        self.run(ops);
        [wall.elapsed(), cpu_time(libc::CLOCK_PROCESS_CPUTIME_ID) - cpu].map(|time| time.as_secs_f64() * 1e3)
    }
}

/// Measures all kernels on a device: its name in the report, and to open it by.
pub(super) fn bench(name: &str, on: &str, quick: bool, json: bool) {
    let cases = [
        ("workgroup-256", workgroup(256 / 4)),
        ("workgroup-4096", workgroup(4096 / 4)),
        ("workgroup-16384", workgroup(16_384 / 4)),
        ("loads", LOADS.into()),
        ("arithmetic", ARITHMETIC.into()),
    ];
    if !json {
        println!(
            "\nkernels on {on}, until done\n{:<16} {:>6}  {:<20} {:>9} {:>7} {:>9} {:>7}",
            "case", "n", "contender", "wall ms", "ratio", "cpu ms", "ratio"
        );
    }
    for (case, source) in cases {
        let mut contenders = [
            Contender::new("sortie-replay", on, &source, false),
            Contender::new("sortie-native", on, &source, true),
            Contender::new("sortie-replay-again", on, &source, false),
            Contender::new("sortie", on, &source, false),
        ];
        let ops = enough(&contenders[3]);
        contenders[..3].iter_mut().for_each(|contender| contender.freeze(ops));
        let samples = rounds(&contenders, ops, Duration::from_millis(if quick { 400 } else { 4_000 }));
        check(case, &contenders, ops);
        report([name, case], ops, &contenders, &samples, json);
    }
}

/// How many dispatches are work enough.
fn enough(contender: &Contender) -> usize {
    let mut ops = OPS.start;
    loop {
        let least =
            (0..3).map(|_| contender.measure(ops).into_iter().fold(f64::MAX, f64::min)).fold(f64::MAX, f64::min);
        if least >= ENOUGH.as_secs_f64() * 1e3 || ops >= OPS.end {
            return ops;
        }
        ops *= 2;
    }
}

/// Lets the contenders take turns until the time is up; each goes first equally often.
fn rounds(contenders: &[Contender], ops: usize, budget: Duration) -> Vec<Vec<[f64; 2]>> {
    let mut samples = vec![Vec::new(); contenders.len()];
    contenders.iter().for_each(|contender| contender.run(ops));
    let begin = Instant::now();
    let mut round = 0;
    while round < 5 || begin.elapsed() < budget {
        for turn in 0..contenders.len() {
            let index = (turn + round) % contenders.len();
            samples[index].push(contenders[index].measure(ops));
        }
        round += 1;
    }
    samples
}

/// All contenders do the same with the same data, in one submission a run, and one of them natively.
fn check(case: &str, contenders: &[Contender], ops: usize) {
    let results: Vec<_> = contenders
        .iter()
        .map(|contender| {
            let data: Vec<u32> = (0..ITEMS as u32).collect();
            contender.buffers.iter().for_each(|buffer| buffer.write(&data).expect("a write"));
            let before = contender.device.metrics();
            contender.run(ops);
            let done = contender.device.metrics() - before;
            assert_eq!(done.native_runs, u64::from(contender.name == "sortie-native"), "{case}: {}", contender.name);
            assert_eq!(done.cuts, 0, "{case}: {}", contender.name);
            contender.buffers[0].download().expect("the result")
        })
        .collect();
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{case}: the results differ");
}

fn report([device, case]: [&str; 2], ops: usize, contenders: &[Contender], samples: &[Vec<[f64; 2]>], json: bool) {
    for (contender, own) in contenders.iter().zip(samples) {
        // Load that comes and goes slows a whole round: the ratio is taken within each.
        let [wall, cpu] = [0, 1].map(|which| {
            let base = median(samples[0].iter().map(|sample| sample[which]));
            let ratio = median(own.iter().zip(&samples[0]).map(|(own, base)| own[which] / base[which]));
            (base * ratio, ratio)
        });
        if json {
            for (metric, (value, ratio)) in [("wall_ms", wall), ("cpu_ms", cpu)] {
                println!(
                    "{{\"bench\":\"record\",\"device\":\"{device}\",\"case\":\"{case}\",\"n\":{ops},\"contender\":\"{}\",\"metric\":\"{metric}\",\
                     \"value\":{value:.3},\"baseline\":\"sortie-replay\",\"ratio\":{ratio:.3}}}",
                    contender.name
                );
            }
        } else {
            println!(
                "{case:<16} {ops:>6}  {:<20} {:>9.2} {:>6.2}x {:>9.2} {:>6.2}x",
                contender.name, wall.0, wall.1, cpu.0, cpu.1
            );
        }
    }
}
