//! Traces are what Chrome's format says: read back, and held against its rules.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use serde_json::Value;
use sortie::{BatchConfig, Batcher, ErrorKind, Grid, batcher::Rows, policy::Split};

use crate::{STEP, devices};

/// A trace that follows the rules.
struct Trace {
    /// Category and name of everything that took time, with begin and end in nanoseconds.
    spans: Vec<(String, String, u64, u64)>,
    threads: BTreeSet<String>,
}

impl Trace {
    /// Fails unless it is an object with a list of events; every `B` has its `E` and every `b` its `e`; those of one thread nest; and all times come from one clock.
    fn read(path: &PathBuf) -> Self {
        let text = std::fs::read_to_string(path).expect("the file");
        let whole: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let events = whole["traceEvents"].as_array().expect("a list of events");
        let mut tracks: BTreeMap<(u64, u64), Vec<(u64, usize)>> = BTreeMap::new();
        let mut apart: BTreeMap<(String, u64, String), Vec<(u64, char)>> = BTreeMap::new();
        let mut spans = Vec::new();
        let mut threads = BTreeSet::new();
        for (at, event) in events.iter().enumerate() {
            let number = |key: &str| event[key].as_u64().unwrap_or_else(|| panic!("{key} of {event}"));
            let text = |key: &str| event[key].as_str().unwrap_or_else(|| panic!("{key} of {event}")).to_owned();
            let time = nanoseconds(&event["ts"]);
            match event["ph"].as_str() {
                Some("M") => drop(threads.insert(event["args"]["name"].as_str().expect("a name").to_owned())),
                Some("B" | "E") => tracks.entry((number("pid"), number("tid"))).or_default().push((time, at)),
                Some(phase @ ("b" | "e")) => {
                    let key = (text("cat"), number("id"), text("name"));
                    apart.entry(key).or_default().push((time, if phase == "b" { 'b' } else { 'e' }));
                }
                other => panic!("{other:?} is no phase of ours: {event}"),
            }
        }
        for ((process, thread), mut track) in tracks {
            // Viewers sort by time, and keep the order of the file where it is the same.
            track.sort_by_key(|(time, _)| *time);
            let mut open: Vec<(String, String, u64)> = Vec::new();
            for (time, at) in track {
                let event = &events[at];
                if event["ph"] == "B" {
                    let name = |key: &str| event[key].as_str().expect("text").to_owned();
                    open.push((name("cat"), name("name"), time));
                } else {
                    let (category, name, begin) = open.pop().unwrap_or_else(|| panic!("an E without its B: {event}"));
                    spans.push((category, name, begin, time));
                }
            }
            assert!(open.is_empty(), "process {process}, thread {thread}: a B without its E: {open:?}");
        }
        for ((category, id, name), ends) in apart {
            let [(begin, 'b'), (end, 'e')] = ends[..] else { panic!("{category} {name} {id}: {ends:?}") };
            assert!(begin <= end, "{category} {name} {id}");
            spans.push((category, name, begin, end));
        }
        Self { spans, threads }
    }

    fn of(&self, category: &str) -> Vec<&(String, String, u64, u64)> {
        self.spans.iter().filter(|span| span.0 == category).collect()
    }

    fn count(&self, category: &str, name: &str) -> usize {
        self.of(category).iter().filter(|span| span.1 == name).count()
    }
}

/// Microseconds with three decimals, as they stand there.
fn nanoseconds(time: &Value) -> u64 {
    let micros = time.as_f64().unwrap_or_else(|| panic!("{time} is a time"));
    assert!(micros >= 0.0);
    (micros * 1e3).round() as u64
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("sortie-test-{}-{name}.json", std::process::id()))
}

#[test]
fn a_profile_is_a_trace_of_host_and_device_on_one_clock() -> sortie::Result<()> {
    for (name, device) in devices() {
        for split in [Split::Never, Split::Every(3)] {
            let step = device.kernel(STEP)?;
            let (x, y) = (device.zeros::<f32>(1 << 12)?, device.zeros::<f32>(1 << 12)?);
            let batch = device.batch();
            batch.split_by(split);
            let profile = batch.profile();
            batch.scope("all of \"it\"", |batch| {
                for number in 0..5 {
                    batch.scope(&format!("round {number}"), |batch| {
                        batch.dispatch(&step, &[&x, &y], Grid::items(1 << 12)).label("there\\and\nback");
                        batch.copy(&y, &x);
                    });
                }
            });
            batch.submit()?;
            let profile = profile.wait()?;
            let path = file(&format!("profile-{name}-{split:?}").replace(['(', ')'], ""));
            profile.write_trace(&path)?;
            let trace = Trace::read(&path);
            std::fs::remove_file(&path).expect("it is there");

            for stage in ["plan", "encode"] {
                assert_eq!(trace.count("host", stage), 1, "{name}: {stage}");
            }
            assert_eq!(trace.count("batch", "record"), 1, "{name}");
            assert_eq!(trace.count("host", "submit"), profile.submissions(), "{name}");
            assert_eq!(trace.of("device").len(), profile.submissions(), "{name}");
            let known = profile.steps().iter().filter(|step| step.time().is_some()).count();
            assert_eq!((trace.of("step").len(), known), (10, 10), "{name}: {profile}");
            assert!(trace.count("scope", "all of \"it\"") >= 1 && trace.count("scope", "round 4") >= 1, "{name}");
            // What was handed over began after that, and was done before it was seen to be.
            let submitted = trace.spans.iter().filter(|span| span.1 == "submit").map(|span| span.2).min();
            let begun = trace.of("step").iter().map(|span| span.2).min();
            assert!(submitted <= begun, "{name}: {submitted:?} {begun:?}");
            if profile.clock_slack().is_none_or(|slack| !slack.is_zero()) {
                let done = trace.of("step").iter().map(|span| span.3).max();
                let landed = trace
                    .spans
                    .iter()
                    .filter(|span| ["submit", "wait"].contains(&span.1.as_str()))
                    .map(|span| span.3)
                    .max();
                assert!(done <= landed, "{name}: {done:?} {landed:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_trace_has_all_batches_the_queue_and_those_of_the_batcher() -> sortie::Result<()> {
    for (name, device) in devices() {
        let job = Rows::<u32, u32>::new(
            [1, 1],
            "
            @group(0) @binding(0) var<storage, read> x: array<u32>;
            @group(0) @binding(1) var<storage, read_write> y: array<u32>;
            @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                if id.x < arrayLength(&x) { y[id.x] = x[id.x] + 1u; }
            }",
        );
        let batcher = Batcher::new(&device, job, BatchConfig::default())?;
        let x = device.zeros::<f32>(64)?;
        let path = file(&format!("run-{name}"));
        let trace = device.trace(&path)?;
        let (callers, calls, batches) = (4, 10, 8);
        std::thread::scope(|scope| {
            for caller in 0..callers {
                let batcher = &batcher;
                scope.spawn(move || {
                    for call in 0..calls {
                        assert_eq!(
                            batcher.call_blocking(vec![caller * 100 + call]).expect("an answer"),
                            [caller * 100 + call + 1]
                        );
                    }
                });
            }
        });
        // Two being recorded at once on one thread, and one before the other is submitted.
        for _ in 0..batches / 2 {
            let (first, second) = (device.batch(), device.batch());
            first.fill(&x, 1.0);
            second.fill(&x, 2.0);
            first.submit()?;
            drop(second.submit_async()?);
        }
        assert_eq!(trace.path(), path);
        trace.finish()?;
        let metrics = batcher.metrics();
        let trace = Trace::read(&path);
        std::fs::remove_file(&path).expect("it is there");
        let requests = (callers * calls) as usize;
        assert_eq!(trace.count("queue", "Rows waits"), requests, "{name}");
        let served = trace.count("batcher", "batch of Rows");
        assert_eq!(served as u64, metrics.batches, "{name}");
        assert_eq!(trace.count("host", "plan"), batches + served, "{name}");
        assert_eq!(trace.of("device").len(), batches + served, "{name}");
        assert_eq!(trace.count("batch", "record"), batches + served, "{name}");
        assert!(
            trace.threads.contains("sortie-batcher")
                && trace.threads.iter().any(|thread| device.info().to_string() == *thread),
            "{name}: {:?}",
            trace.threads
        );
        assert!(trace.count("step", "main") >= batches, "{name}");
    }
    Ok(())
}

#[test]
fn a_trace_that_cannot_be_written_says_so() -> sortie::Result<()> {
    let device = sortie::Device::cpu()?;
    let nowhere = std::env::temp_dir().join("sortie-no-such-folder").join("trace.json");
    let error = device.trace(&nowhere).expect_err("there is no such folder");
    assert_eq!(error.kind(), ErrorKind::File);
    assert!(error.to_string().contains("sortie-no-such-folder"), "{error}");
    let batch = device.batch();
    let profile = batch.profile();
    batch.submit()?;
    assert_eq!(profile.wait()?.write_trace(&nowhere).expect_err("nor here").kind(), ErrorKind::File);
    #[cfg(target_os = "linux")]
    {
        let x = device.zeros::<f32>(64)?;
        let trace = device.trace("/dev/full")?;
        let batch = device.batch();
        batch.fill(&x, 1.0);
        batch.submit()?;
        assert_eq!(trace.finish().expect_err("the disk is full").kind(), ErrorKind::File);
    }
    Ok(())
}
