//! What recording costs: the CPU time of `n` small dispatches from recording to completion, against hand-written wgpu.
//!
//! All contenders take turns in one process, each on a device of its own (wgpu's cost of a pass depends on what its
//! device has done before). `wgpu-best` is what an expert writes by hand: one encoder, one pass, bind groups made once,
//! nothing set twice. `wgpu-best-again` is the same code on another device, a control that must read 1.0×. `sortie`
//! records every run; `sortie-replay` has recorded once and encodes every run; `sortie-native` is a native replay, on
//! Vulkan.
//!
//! `cpu_us_per_op`: CPU time of the whole process on noop; of the calling thread on a real driver, whose own threads run
//! the kernels. `total_allocs_per_op`: heap allocations.
//!
//! `direct.rs` has native replays submitted to Vulkan's queue against the same submitted through wgpu's. `work.rs` has
//! larger kernels, with workgroup memory, loads and arithmetic: native replays against encoded ones, until done.
//!
//! `cargo bench -p sortie --bench record [-- --quick] [--json] [--only chain,immediates,direct,work]`

#![expect(clippy::print_stderr, reason = "a missing driver is named on stderr")]
#![expect(unsafe_code, reason = "setting an environment variable")]

mod direct;
mod work;

use std::time::Duration;

use sortie::{Batch, Buffer, Device, DeviceOptions, Grid, Kernel, Replay};
use sortie_bench::{Args, Case, Clock, Contender, Cost, CountingAllocator, Outcome, Report, Rounds};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const ITEMS: usize = 1024;
const STEP: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] = x[id.x] + 1u; }
    }
";
const ADD: &str = "
    var<immediate> amount: vec4<u32>;
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] = x[id.x] + amount.x; }
    }
";

/// `chain`: every op reads what the one before wrote. `immediates`: the same, each with immediates of its own.
#[derive(Clone, Copy, PartialEq)]
enum Ops {
    Chain,
    Immediates,
}

impl Ops {
    fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Immediates => "immediates",
        }
    }

    fn source(self) -> &'static str {
        match self {
            Self::Chain => STEP,
            Self::Immediates => ADD,
        }
    }

    fn amount(self, op: usize) -> [u32; 4] {
        [u32::try_from(op % 7).unwrap_or(0), 0, 0, 0]
    }
}

trait Runner {
    /// Records and runs `n` ops, until they are done.
    fn run(&mut self, n: usize) -> Outcome<()>;
    /// The first element of the buffer that an even number of ops ends in.
    fn result(&self) -> Outcome<u32>;
}

struct Sortie {
    device: Device,
    kernel: Kernel,
    x: Buffer<u32>,
    y: Buffer<u32>,
    case: Ops,
}

impl Sortie {
    fn new(device: Device, case: Ops) -> sortie::Result<Self> {
        let kernel = device.kernel(case.source())?;
        let (x, y) = (device.zeros(ITEMS)?, device.zeros(ITEMS)?);
        Ok(Self { device, kernel, x, y, case })
    }

    fn record(&self, n: usize) -> Batch {
        let batch = self.device.batch();
        let (mut from, mut to) = (&self.x, &self.y);
        for op in 0..n {
            let dispatch = batch.dispatch(&self.kernel, &[from, to], Grid::items(ITEMS));
            if self.case == Ops::Immediates {
                dispatch.immediates(&self.case.amount(op));
            }
            std::mem::swap(&mut from, &mut to);
        }
        batch
    }
}

impl Runner for Sortie {
    fn run(&mut self, n: usize) -> Outcome<()> {
        Ok(self.record(n).submit()?)
    }

    fn result(&self) -> Outcome<u32> {
        Ok(self.x.download()?[0])
    }
}

/// The same, recorded in the first run.
struct Replayed {
    sortie: Sortie,
    replay: Option<Replay>,
}

impl Replayed {
    fn new(device: &str, native_replay: bool, case: Ops) -> sortie::Result<Self> {
        let options = DeviceOptions::default().with_device(device).with_native_replay(native_replay);
        Ok(Self { sortie: Sortie::new(Device::open_with(options)?, case)?, replay: None })
    }
}

impl Runner for Replayed {
    fn run(&mut self, n: usize) -> Outcome<()> {
        let replay = match &mut self.replay {
            Some(replay) => replay,
            none => none.insert(self.sortie.record(n).freeze()?),
        };
        Ok(replay.run().submit()?)
    }

    fn result(&self) -> Outcome<u32> {
        self.sortie.result()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum How {
    /// One pass, bind groups made once, the pipeline set once.
    Best,
    /// One pass, a new bind group for every op.
    NewGroups,
    /// An encoder, a pass and a submission for every op, bind groups made once.
    SubmitPerOp,
}

struct Wgpu {
    how: How,
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
    buffers: [wgpu::Buffer; 2],
    groups: [wgpu::BindGroup; 2],
    case: Ops,
}

impl Wgpu {
    fn new(device: &str, how: How, case: Ops) -> Outcome<Self> {
        // Opened the same way, so that features and limits are the same; nothing else of sortie is used.
        let opened = open(device)?;
        let (device, queue) = opened.wgpu().ok_or("not a wgpu device")?;
        let (device, queue) = (device.clone(), queue.clone());
        let entry = |binding, read_only| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Storage { read_only },
                has_dynamic_offset: false,
                min_binding_size: wgpu::BufferSize::new(4),
            },
            count: None,
        };
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &[entry(0, true), entry(1, false)],
        });
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(case.source().into()),
        });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: if case == Ops::Immediates { 16 } else { 0 },
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let buffers = [(); 2].map(|()| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: ITEMS as u64 * 4,
                usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: false,
            })
        });
        let groups = [group(&device, &layout, &buffers, 0), group(&device, &layout, &buffers, 1)];
        Ok(Self { how, device, queue, pipeline, layout, buffers, groups, case })
    }

    fn dispatch(&self, pass: &mut wgpu::ComputePass<'_>, op: usize, group: &wgpu::BindGroup) {
        pass.set_bind_group(0, group, &[]);
        if self.case == Ops::Immediates {
            pass.set_immediates(0, bytemuck::cast_slice(&self.case.amount(op)));
        }
        pass.dispatch_workgroups((ITEMS / 64) as u32, 1, 1);
    }

    fn one_pass(&self, n: usize) {
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&self.pipeline);
        for op in 0..n {
            if self.how == How::NewGroups {
                let group = group(&self.device, &self.layout, &self.buffers, op % 2);
                self.dispatch(&mut pass, op, &group);
            } else {
                self.dispatch(&mut pass, op, &self.groups[op % 2]);
            }
        }
        drop(pass);
        self.queue.submit([encoder.finish()]);
    }
}

impl Runner for Wgpu {
    fn run(&mut self, n: usize) -> Outcome<()> {
        match self.how {
            How::Best | How::NewGroups => self.one_pass(n),
            How::SubmitPerOp => {
                for op in 0..n {
                    let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
                    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                    pass.set_pipeline(&self.pipeline);
                    self.dispatch(&mut pass, op, &self.groups[op % 2]);
                    drop(pass);
                    self.queue.submit([encoder.finish()]);
                }
            }
        }
        self.device.poll(wgpu::PollType::wait_indefinitely())?;
        Ok(())
    }

    fn result(&self) -> Outcome<u32> {
        let guest = Device::from_wgpu(self.device.clone(), self.queue.clone())?;
        let x: Buffer<u32> = guest.import(self.buffers[0].clone())?;
        Ok(x.download()?[0])
    }
}

fn group(
    device: &wgpu::Device,
    layout: &wgpu::BindGroupLayout,
    buffers: &[wgpu::Buffer; 2],
    from: usize,
) -> wgpu::BindGroup {
    let entry =
        |binding, buffer: usize| wgpu::BindGroupEntry { binding, resource: buffers[buffer].as_entire_binding() };
    let entries = [entry(0, from), entry(1, 1 - from)];
    device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries })
}

fn open(name: &str) -> sortie::Result<Device> {
    Device::open_with(DeviceOptions::default().with_device(name))
}

fn main() -> Outcome<()> {
    let args = Args::read(&[]);
    // Small ops on lavapipe are dominated by futex calls of its thread pool: measure without it.
    // SAFETY: no other thread runs yet in this process.
    unsafe { std::env::set_var("LP_NUM_THREADS", "0") };
    let list = Device::list();
    let found = |driver: &str| {
        let found = list.iter().any(|info| info.name.to_lowercase().contains(driver) && info.backend == "vulkan");
        if !found {
            eprintln!("no {driver} on this machine (scripts/drivers installs it)");
        }
        found
    };
    let drivers: Vec<&str> = ["llvmpipe", "swiftshader"].into_iter().filter(|driver| found(driver)).collect();
    let mut report = Report::new("record", args.json);
    let small = ["noop"].into_iter().chain(drivers.iter().copied().filter(|driver| *driver == "llvmpipe"));
    for device in small {
        for case in [Ops::Chain, Ops::Immediates].into_iter().filter(|case| args.selects(case.name())) {
            for n in [1, 10, 100, 1_000, 10_000] {
                bench(device, case, n, args.quick, &mut report)?;
            }
        }
    }
    for device in drivers {
        if args.selects("direct") {
            direct::bench(device, args.quick, &mut report)?;
        }
        if args.selects("work") {
            work::bench(device, args.quick, &mut report)?;
        }
    }
    Ok(())
}

fn bench(device: &str, case: Ops, n: usize, quick: bool, report: &mut Report) -> Outcome<()> {
    let noop = device == "noop";
    let mut contenders: Vec<(&str, Box<dyn Runner>)> = vec![
        ("wgpu-best", Box::new(Wgpu::new(device, How::Best, case)?)),
        ("sortie", Box::new(Sortie::new(open(device)?, case)?)),
        ("sortie-replay", Box::new(Replayed::new(device, false, case)?)),
        ("wgpu-best-again", Box::new(Wgpu::new(device, How::Best, case)?)),
        ("wgpu-new-groups", Box::new(Wgpu::new(device, How::NewGroups, case)?)),
    ];
    // A round of 10,000 takes a second on a driver, and its cost per op does not change any more.
    if !quick || n <= 1_000 {
        contenders.push(("wgpu-submit-per-op", Box::new(Wgpu::new(device, How::SubmitPerOp, case)?)));
    }
    if !noop {
        contenders.push(("sortie-native", Box::new(Replayed::new(device, true, case)?)));
    }
    for (_, contender) in &mut contenders {
        // Twice: the first run compiles and plans, the second finds caches filled and ends where it began.
        contender.run(n)?;
        contender.run(n)?;
    }
    let clock = if noop { Clock::Process } else { Clock::Thread };
    let rounds = Rounds::within(Duration::from_millis(if quick { 250 } else { 3_500 }), 3);
    let samples = rounds.run(contenders.len(), |at, _| {
        let cost = Cost::of(clock, || contenders[at].1.run(n))?;
        Ok([cost.cpu_us, cost.wall_us, cost.allocations].map(|total| total / n as f64))
    })?;
    if !noop {
        // All contenders have done the same ops, so they have the same result.
        let expected = contenders[0].1.result()?;
        for (name, contender) in &contenders {
            assert_eq!(contender.result()?, expected, "{name}");
        }
    }
    let metrics = ["cpu_us_per_op", "total_us_per_op", "total_allocs_per_op"];
    let names: Vec<&str> = contenders.iter().map(|(name, _)| *name).collect();
    let case = Case { device, case: case.name(), n, metrics };
    report.rows(&case, &Contender::all(&names), &samples);
    Ok(())
}
