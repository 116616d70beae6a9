//! Several devices behind one batcher.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use sortie::{
    Batch, BatchConfig, Batcher, Device, ErrorKind, Fleet,
    batcher::{Answers, BatchSizing, DeviceJob},
};

use crate::{Gate, Triple, devices, one, tripled};

/// Gives numbers back, and says how many rows each device has had.
#[derive(Default)]
struct Echo {
    prepared: AtomicUsize,
    rows: Arc<[AtomicUsize; 3]>,
    /// Closed, the first device waits.
    gate: Arc<Gate>,
}

impl DeviceJob for Echo {
    type Input = u32;
    type Output = u32;
    type Ready = usize;

    fn prepare(&self, _: &Device) -> sortie::Result<usize> {
        Ok(self.prepared.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, who: &mut usize, _: &Batch, inputs: &[u32]) -> sortie::Result<Answers<u32>> {
        self.rows[*who].fetch_add(inputs.len(), Ordering::Relaxed);
        if *who == 0 {
            self.gate.pass();
        }
        let answers = inputs.iter().copied().map(Ok).collect();
        Ok(Box::new(move || Ok(answers)))
    }
}

fn cpus(count: usize) -> Fleet {
    Fleet::new((0..count).map(|_| Device::cpu().expect("the CPU"))).expect("some")
}

#[test]
fn a_fleet_of_nothing_is_refused() {
    assert_eq!(Fleet::new([]).expect_err("none").kind(), ErrorKind::NoDevice);
}

#[test]
fn everything_there_is_can_be_opened() {
    let fleet = Device::fleet().expect("at least the CPU");
    assert_eq!(fleet.devices().len(), Device::list().len());
    let names: Vec<_> = fleet.devices().iter().map(|device| device.info().name.clone()).collect();
    let expected: Vec<_> = Device::list().into_iter().map(|info| info.name).collect();
    assert_eq!(names, expected);
}

#[test]
fn all_devices_of_a_fleet_give_the_same_answers() {
    // Each of them twice.
    let all = devices().into_iter().chain(devices()).map(|(_, device)| device);
    let fleet = Fleet::new(all).expect("some");
    let batcher = Batcher::new(&fleet, Triple::default(), BatchConfig::default().with_max_batch_size(16));
    let batcher = batcher.expect("a batcher");
    let mut rounds = 0;
    // Which device has a batch is a matter of which ones are busy: until each has had one.
    while rounds == 0 || batcher.worker_metrics().iter().any(|share| share.batches == 0) {
        assert!(rounds < 1000, "{:?}", batcher.worker_metrics());
        rounds += 1;
        std::thread::scope(|scope| {
            for thread in 0..16_u32 {
                let batcher = batcher.clone();
                scope.spawn(move || {
                    for number in thread * 1000..thread * 1000 + 50 {
                        assert_eq!(batcher.call_blocking(one(number)).expect("an answer"), tripled(&[number]));
                    }
                });
            }
        });
    }
    let (metrics, shares) = (batcher.metrics(), batcher.worker_metrics());
    assert_eq!((metrics.requests, metrics.failed), (800 * rounds, 0), "{metrics:?}");
    let (rows, batches) = (shares.iter().map(|share| share.rows).sum(), shares.iter().map(|share| share.batches).sum());
    assert_eq!((metrics.rows, metrics.batches), (rows, batches), "{shares:?}");
    assert!(shares.len() == fleet.devices().len() && shares.iter().all(|share| share.up), "{shares:?}");
}

#[test]
fn the_others_go_on_without_one_that_does_not_answer() {
    let job = Echo::default();
    let (gate, rows) = (job.gate.clone(), job.rows.clone());
    gate.set(true);
    let batcher = Batcher::new(cpus(2), job, BatchConfig::default()).expect("a batcher");
    // Until one of them gets to the first device.
    let mut asked = Vec::new();
    while rows[0].load(Ordering::Relaxed) == 0 {
        asked.push(batcher.call(7).send());
        std::thread::yield_now();
    }
    (0..100).for_each(|number| assert_eq!(batcher.call_blocking(number).expect("an answer"), number));
    assert!(rows[1].load(Ordering::Relaxed) >= 100);
    gate.set(false);
    asked.into_iter().for_each(|asked| assert_eq!(asked.wait().expect("late"), 7));
}

#[test]
fn a_lost_device_is_reopened_while_the_others_continue() {
    for (name, device) in devices() {
        let Some((wgpu, _)) = device.wgpu() else { continue };
        wgpu.destroy();
        let fleet = Fleet::new([device.clone(), Device::cpu().expect("the CPU")]).expect("two");
        // What was made before cannot be used: the job is prepared anew.
        let Ok(batcher) = Batcher::new(&fleet, Triple::default(), BatchConfig::default()) else {
            panic!("{name}: kernels are prepared without the device's help")
        };
        let mut lost = 0;
        for number in 0..50 {
            match batcher.call_blocking(one(number)) {
                Ok(answer) => assert_eq!(answer, tripled(&[number]), "{name}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{name}: {error}");
                    lost += 1;
                }
            }
        }
        assert!(lost <= 1, "{name}: {lost} requests were lost");
        // It is opened again while the other one answers.
        while batcher.metrics().reopened < lost {
            std::thread::yield_now();
        }
    }
}

#[test]
fn with_the_last_device_the_batcher_is_over() {
    for (name, device) in devices() {
        let Some((wgpu, queue)) = device.wgpu() else { continue };
        // A guest cannot be opened again.
        let guest = Device::from_wgpu(wgpu.clone(), queue.clone()).expect("a guest");
        let batcher = Batcher::new(&guest, Triple::default(), BatchConfig::default()).expect("a batcher");
        assert_eq!(batcher.call_blocking(one(1)).expect("an answer"), [4], "{name}");
        wgpu.destroy();
        assert_eq!(batcher.call_blocking(one(2)).expect_err("lost").kind(), ErrorKind::DeviceLost, "{name}");
        let error = batcher.call_blocking(one(3)).expect_err("nobody is left");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
    }
}

#[test]
fn a_target_sets_the_size_of_batches() {
    for (name, device) in devices() {
        let sizing = BatchSizing::Target { p99: std::time::Duration::from_millis(200) };
        let config = BatchConfig::default().with_sizing(sizing);
        let batcher = Batcher::new(&device, Triple::default(), config).expect("a batcher");
        assert_eq!(batcher.metrics().batch_size, 1, "{name}: nothing is known yet");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        runtime.block_on(async {
            let ask = |number: u32| {
                let batcher = batcher.clone();
                tokio::spawn(async move {
                    for request in 0..20 {
                        let number = number * 100 + request;
                        assert_eq!(batcher.call(one(number)).await.expect("an answer"), tripled(&[number]));
                    }
                })
            };
            for asked in (0..200).map(ask).collect::<Vec<_>>() {
                asked.await.expect("no panic");
            }
        });
        let metrics = batcher.metrics();
        assert!(metrics.batch_size > 1, "{name}: {metrics:?}");
        assert_eq!((metrics.requests, metrics.blocked_requests), (4000, 0), "{name}: {metrics:?}");
    }
}
