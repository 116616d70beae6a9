//! Each caller gets its own answer.

use std::time::Duration;

use sortie::{Batch, BatchConfig, Batcher, Device, ErrorKind, Job, RowReplays, Rows, Tensor};

use crate::{Ask, Triple, devices, one, tripled};

/// Tasks, and requests of each: a tenth of what is run with `SORTIE_CASES=full`.
fn load() -> (u32, u32) {
    if std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full") { (1000, 100) } else { (200, 50) }
}

#[test]
fn many_tasks_get_each_their_own_answers() {
    let (tasks, requests) = load();
    for (name, device) in devices() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        let batcher = Batcher::new(&device, Triple::default(), BatchConfig::default()).expect("a batcher");
        let made = runtime.block_on(async {
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
            let warm = device.metrics().buffers_created;
            let all: Vec<_> = (0..tasks).map(ask).collect();
            for task in all {
                task.await.expect("no panic");
            }
            device.metrics().buffers_created - warm
        });
        let metrics = batcher.metrics();
        assert_eq!(metrics.requests, u64::from(tasks * requests), "{name}: {metrics:?}");
        assert_eq!(metrics.rejected + metrics.expired + metrics.canceled + metrics.failed, 0, "{name}: {metrics:?}");
        assert_eq!(
            metrics.batches,
            metrics.full + metrics.waited + metrics.idle + metrics.closing,
            "{name}: {metrics:?}"
        );
        assert!(metrics.batches < metrics.requests / 4, "{name}: they were put together, {metrics:?}");
        // Sizes of batches differ, so there are buffers of several classes; but not one for each batch.
        assert!(made < metrics.batches / 2 + 64, "{name}: {made} buffers for {metrics:?}");
        assert_eq!(metrics.queued_rows, 0, "{name}");
    }
}

#[test]
fn replays_over_rows_answer_as_live_batches_do() {
    for (name, device) in devices() {
        let layer = || {
            RowReplays::<f32, f32>::new([3, 2], |device: &Device| {
                let weights = device.upload(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
                Ok(move |batch: &mut Batch, x: Tensor<f32>| {
                    let w = batch.tensor(&weights, [3, 2]);
                    let y = batch.matmul(x, w);
                    batch.relu(y)
                })
            })
        };
        let config = BatchConfig { max_batch_size: 40, ..BatchConfig::default() };
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
        assert_eq!(batcher.call_blocking(vec![1.0]).expect_err("no row").kind(), &ErrorKind::Input);
        let before = device.metrics();
        (0..20).for_each(|rows| drop(batcher.call_blocking(input(rows)).expect("an answer")));
        let did = device.metrics() - before;
        assert_eq!((did.plans_made, did.buffers_created, did.bind_groups_created), (0, 0, 0), "{name}: {did:?}");
        // Recorded live it is the same.
        let job = layer();
        let mut ready = job.prepare(&device).expect("ready");
        let mut batch = device.batch();
        let answers = job.record(&mut ready, &mut batch, vec![input(5), input(2)]).expect("recorded");
        batch.submit().expect("it runs");
        let answers: Vec<_> =
            answers().expect("answers").into_iter().map(|answer| answer.expect("an answer")).collect();
        assert_eq!(answers, [expected(&input(5)), expected(&input(2))], "{name}");
    }
}

/// As many callers as there are tasks, each of which asks again when it has its answer.
async fn closed_loop(batcher: &Batcher<Triple>, tasks: u32, requests: u32) {
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
    for (name, device) in devices() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        // Enough callers for four full batches at any time, and time for them to come: this machine may have other things to do.
        let (max_batch_size, max_wait) = (tasks as usize / 4, Duration::from_millis(50));
        let config = BatchConfig { max_batch_size, max_wait, greedy: false, ..BatchConfig::default() };
        let batcher = Batcher::new(&device, Triple::default(), config).expect("a batcher");
        let mut before = device.metrics();
        for warm in [false, true, true] {
            let begin = batcher.metrics();
            runtime.block_on(closed_loop(&batcher, tasks, requests));
            let (metrics, after) = (batcher.metrics(), device.metrics());
            let batches = metrics.batches - begin.batches;
            let fill = f64::from(tasks * requests) / (batches * u64::from(tasks / 4)) as f64;
            assert!(fill >= 0.9, "{name}: {fill} in {batches} batches; {metrics:?}");
            let did = after - before;
            assert_eq!(
                (did.submissions, did.transfers),
                (batches, 2 * batches),
                "{name}: one submission, one upload, one read for each batch"
            );
            // A size of batch that has not been seen before, at the beginning or the end, is planned, bound and may be given memory.
            let [sizes, made] = [did.plans_made, did.buffers_created.max(did.bind_groups_created)];
            assert!(
                !warm || (made <= 3 * sizes && sizes <= batches / 10 && did.pipelines_created == 0),
                "{name}: {did:?}"
            );
            before = after;
        }
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
fn an_empty_request_is_answered_without_a_flight() {
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
        let config = BatchConfig { max_batch_size: 10, queue_capacity: Some(25), ..BatchConfig::default() };
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
        assert_eq!(error.kind(), &ErrorKind::Input, "{name}");
    }
}
