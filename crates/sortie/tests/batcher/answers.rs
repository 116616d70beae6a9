//! Each caller gets its own answer.

use std::{sync::atomic::Ordering, time::Duration};

use sortie::{
    BatchConfig, Batcher, ErrorKind,
    batcher::{DeviceJob, OnDevice, RowReplays, Rows},
};

use crate::{Ask, Triple, devices, one, tripled};

/// Tasks, and requests of each: a tenth of what is run with `SORTIE_CASES=full`.
fn load() -> (u32, u32) {
    if std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full") { (1000, 100) } else { (200, 50) }
}

/// Batches whose memory has not come back, at most: those under way, and those whose upload buffers another thread's poll is about to give back. A thread can be stopped
/// just before it does, so it is a matter of threads; a device has two of its own beside the batcher's.
const AT_ONCE: u64 = 2 * 4;

/// Maximum buffers for batches of at most `rows` rows: per size class one to write through, one to work in and one to
/// read through. However busy the machine is, no more are created.
fn most_buffers(rows: u64) -> u64 {
    // Classes are 256 bytes apart, up to 4 KiB; then eighths.
    let classes = (4 * rows).div_ceil(256);
    assert!(classes <= 16, "small batches");
    3 * AT_ONCE * classes
}

#[test]
fn many_tasks_get_each_their_own_answers() {
    let (tasks, requests) = load();
    for (name, device) in devices() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        let job = Triple::default();
        let (gate, most) = (job.gate.clone(), job.most.clone());
        let config = BatchConfig::default().with_max_batch_size(256).with_queue_capacity(usize::MAX);
        let before = device.metrics();
        let batcher = Batcher::new(&device, job, config).expect("a batcher");
        // Until all have asked, so that there is something to put together.
        gate.set(true);
        runtime.block_on(async {
            let ask = |task: u32| {
                let batcher = batcher.clone();
                tokio::spawn(async move {
                    for request in 0..requests {
                        let number = task * 1000 + request;
                        // Some have several rows.
                        let numbers: Vec<u32> = (0..=number % 3).map(|row| number + row * 7).collect();
                        let answer = batcher.call(Ask::Numbers(numbers.clone())).await.expect("an answer");
                        assert_eq!(answer, tripled(&numbers));
                    }
                })
            };
            let all: Vec<_> = (0..tasks).map(ask).collect();
            while batcher.metrics().requests < u64::from(tasks) {
                tokio::task::yield_now().await;
            }
            gate.set(false);
            for task in all {
                task.await.expect("no panic");
            }
        });
        let (metrics, did) = (batcher.metrics(), device.metrics() - before);
        assert_eq!(metrics.requests, u64::from(tasks * requests), "{name}: {metrics:?}");
        assert_eq!(metrics.rejected + metrics.expired + metrics.canceled + metrics.failed, 0, "{name}: {metrics:?}");
        assert_eq!(
            metrics.batches,
            metrics.full + metrics.waited + metrics.idle + metrics.closing,
            "{name}: {metrics:?}"
        );
        // The first batch waited at the gate, and the next one took as many of the others as fit: 85 of three rows each.
        let most = most.load(Ordering::Relaxed);
        assert!(most >= 85, "{name}: {most} together, {metrics:?}");
        assert!(did.buffers_created <= most_buffers(256), "{name}: {did:?}");
        assert_eq!(metrics.queued_rows, 0, "{name}");
    }
}

#[test]
fn replays_over_rows_answer_as_live_batches_do() {
    for (name, device) in devices() {
        let layer = || {
            RowReplays::<f32, f32>::new(
                [3, 2],
                |device| device.upload(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]),
                |weights, x| x.matmul(x.batch().tensor(weights, [3, 2])).relu(),
            )
        };
        let config = BatchConfig::default().with_max_batch_size(40);
        let batcher = Batcher::new(&device, layer(), config).expect("a batcher");
        let input = |rows: u32| (0..3 * rows).map(|at| (at % 17) as f32).collect::<Vec<f32>>();
        let expected = |x: &[f32]| {
            let row = |x: &[f32]| [x[0] + 3.0 * x[1] + 5.0 * x[2], 2.0 * x[0] + 4.0 * x[1] + 6.0 * x[2]];
            x.chunks(3).flat_map(row).collect::<Vec<f32>>()
        };
        for rows in [1, 0, 16, 17, 40, 41, 100] {
            assert_eq!(
                batcher.call_blocking(input(rows)).expect("an answer"),
                expected(&input(rows)),
                "{name}, {rows} rows"
            );
        }
        assert_eq!(batcher.call_blocking(vec![1.0]).expect_err("no row").kind(), ErrorKind::Input);
        let before = device.metrics();
        (0..20).for_each(|rows| drop(batcher.call_blocking(input(rows)).expect("an answer")));
        let did = device.metrics() - before;
        assert_eq!((did.plans_made, did.buffers_created, did.bind_groups_created), (0, 0, 0), "{name}: {did:?}");
        // Recorded live it is the same.
        let job = layer();
        let mut ready = job.prepare(&device).expect("ready");
        let batch = device.batch();
        let answers = job.record(&mut ready, &batch, &[input(5), input(2)]).expect("recorded");
        batch.submit().expect("it runs");
        let answers: Vec<_> =
            answers().expect("answers").into_iter().map(|answer| answer.expect("an answer")).collect();
        assert_eq!(answers, [expected(&input(5)), expected(&input(2))], "{name}");
    }
}

/// As many callers as there are tasks, each of which asks again when it has its answer.
async fn closed_loop(batcher: &Batcher<OnDevice<Triple>>, tasks: u32, requests: u32) {
    let ask = |task: u32| {
        let batcher = batcher.clone();
        tokio::spawn(async move {
            for number in (0..requests).map(|request| task * 1000 + request) {
                assert_eq!(batcher.call(one(number)).await.expect("an answer"), tripled(&[number]));
            }
        })
    };
    for task in (0..tasks).map(ask).collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
}

#[test]
fn batches_are_as_full_as_the_load_allows_and_a_warm_batcher_makes_nothing_on_the_device() {
    let (tasks, requests) = load();
    let size = u64::from(tasks / 4);
    for (name, device) in devices() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        // Enough callers for four full batches at any time, and time for them to come.
        let (max_batch_size, max_wait) = (tasks as usize / 4, Duration::from_millis(300));
        let config =
            BatchConfig::default().with_max_batch_size(max_batch_size).with_max_wait(max_wait).with_greedy(false);
        let begin = device.metrics();
        let batcher = Batcher::new(&device, Triple::default(), config).expect("a batcher");
        for warm in [false, true, true] {
            let (before, start) = (device.metrics(), batcher.metrics());
            runtime.block_on(closed_loop(&batcher, tasks, requests));
            let (metrics, did) = (batcher.metrics(), device.metrics() - before);
            let [batches, full, waited] =
                [metrics.batches - start.batches, metrics.full - start.full, metrics.waited - start.waited];
            // On a busy machine callers may be late; then, and at the end, a batch has waited long enough and leaves with those who are there.
            assert_eq!(batches, full + waited, "{name}: {metrics:?}");
            let left = u64::from(tasks * requests).checked_sub(full * size);
            assert!(left.is_some_and(|rows| (waited..=waited * size).contains(&rows)), "{name}: {metrics:?}");
            assert!(full >= waited, "{name}: {metrics:?}");
            assert_eq!(
                (did.submissions, did.transfers),
                (batches, 2 * batches),
                "{name}: one submission, one upload, one read for each batch: {did:?}"
            );
            assert!(!warm || did.pipelines_created == 0, "{name}: {did:?}");
        }
        // Over all rounds, whatever was under way at the same time: a plan for each number of rows, and a bind group for each of these and each buffer.
        let (did, batches) = (device.metrics() - begin, batcher.metrics().batches);
        assert!(did.plans_made <= size, "{name}: {did:?}");
        assert!(did.buffers_created <= most_buffers(size) && most_buffers(size) < batches / 4, "{name}: {did:?}");
        assert!(did.bind_groups_created <= did.plans_made * did.buffers_created, "{name}: {did:?}");
    }
}

#[test]
fn threads_may_block_and_kinds_never_mix() {
    for (name, device) in devices() {
        let batcher = Batcher::new(&device, Triple::default(), BatchConfig::latency()).expect("a batcher");
        std::thread::scope(|scope| {
            for thread in 0..8_u32 {
                let batcher = batcher.clone();
                scope.spawn(move || {
                    for request in 0..25 {
                        let number = thread * 100 + request;
                        let input = if number % 2 == 0 { one(number) } else { Ask::Odd(number) };
                        assert_eq!(batcher.call_blocking(input).expect("an answer"), tripled(&[number]), "{name}");
                    }
                });
            }
        });
        assert_eq!(batcher.metrics().requests, 200, "{name}");
    }
}

#[test]
fn an_empty_request_is_answered_without_a_batch() {
    let device = sortie::Device::cpu().expect("the CPU");
    let batcher = Batcher::new(&device, Triple::default(), BatchConfig::default()).expect("a batcher");
    assert_eq!(batcher.call_blocking(Ask::Numbers(Vec::new())).expect("an answer"), []);
    assert_eq!(batcher.metrics().batches, 0);
}

#[test]
fn a_request_too_large_for_a_batch_is_cut_and_put_together_again() {
    const SUM: &str = "
        @group(0) @binding(0) var<storage, read> x: array<u32>;
        @group(0) @binding(1) var<storage, read_write> y: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            if 2u * id.x < arrayLength(&y) {
                y[2u * id.x] = x[3u * id.x] + x[3u * id.x + 1u];
                y[2u * id.x + 1u] = x[3u * id.x + 2u];
            }
        }";
    for (name, device) in devices() {
        let config = BatchConfig::default().with_max_batch_size(10).with_queue_capacity(25);
        let batcher = Batcher::new(&device, Rows::<u32, u32>::new([3, 2], SUM), config).expect("a batcher");
        std::thread::scope(|scope| {
            for rows in [0_u32, 1, 9, 10, 11, 25, 26, 133] {
                let batcher = batcher.clone();
                scope.spawn(move || {
                    let x: Vec<u32> = (0..rows * 3).map(|at| at * at + rows).collect();
                    let expected: Vec<u32> = x.chunks(3).flat_map(|row| [row[0] + row[1], row[2]]).collect();
                    assert_eq!(batcher.call_blocking(x).expect("an answer"), expected, "{name}, {rows} rows");
                });
            }
        });
        let error = batcher.call_blocking(vec![1; 4]).expect_err("no whole rows");
        assert_eq!(error.kind(), ErrorKind::Input, "{name}");
    }
}
