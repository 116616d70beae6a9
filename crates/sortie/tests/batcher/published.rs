//! What a batcher publishes through the `metrics` facade.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use sortie::{BatchConfig, Batcher, Device};

use crate::{Ask, Triple, one};

/// Keeps what is published, by name and label.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<BTreeMap<String, Vec<f64>>>>);

struct Entry {
    book: Book,
    name: String,
}

impl Entry {
    fn add(&self, value: f64) {
        self.book.0.lock().expect("no panic").entry(self.name.clone()).or_default().push(value);
    }
}

impl CounterFn for Entry {
    fn increment(&self, value: u64) {
        self.add(value as f64);
    }

    fn absolute(&self, value: u64) {
        self.add(value as f64);
    }
}

impl GaugeFn for Entry {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, value: f64) {
        self.add(value);
    }
}

impl HistogramFn for Entry {
    fn record(&self, value: f64) {
        self.add(value);
    }
}

impl Book {
    fn entry(&self, key: &Key) -> Arc<Entry> {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Arc::new(Entry { book: self.clone(), name: format!("{}{{{}}}", key.name(), labels.join(",")) })
    }

    fn values(&self, name: &str) -> Vec<f64> {
        self.0
            .lock()
            .expect("no panic")
            .get(&format!("sortie_batcher_{name}{{job=Triple}}"))
            .cloned()
            .unwrap_or_default()
    }
}

impl Recorder for Book {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.entry(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.entry(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.entry(key))
    }
}

#[test]
fn a_recorder_gets_the_count_of_isolated_requests() {
    let book = Book::default();
    let (device, job) = (Device::cpu().expect("the CPU"), Triple::default());
    let config = BatchConfig::default().with_max_batch_size(4).with_greedy(false).with_max_wait(Duration::MAX);
    let batcher = metrics::with_local_recorder(&book, || Batcher::new(&device, job, config)).expect("a batcher");
    let calls: Vec<_> = [one(0), one(1), Ask::Panic, one(3)].map(|ask| batcher.call(ask).send()).into();
    let failed = calls.into_iter().filter_map(|call| call.wait().err()).count();
    assert_eq!(failed, 1);
    let total = |name: &str| book.values(name).iter().sum::<f64>();
    // With two, then with one of them.
    assert_eq!((total("failed_total"), total("retries_total"), total("isolated_total")), (1.0, 4.0, 1.0));
    assert_eq!(total("prepared_total"), 3.0);
}

#[test]
fn a_recorder_gets_the_values_of_the_snapshot() {
    let book = Book::default();
    let device = Device::cpu().expect("the CPU");
    let batcher =
        metrics::with_local_recorder(&book, || Batcher::new(&device, Triple::default(), BatchConfig::default()));
    let batcher = batcher.expect("a batcher");
    (0..5).for_each(|number| drop(batcher.call_blocking(one(number)).expect("an answer")));
    let metrics = batcher.metrics();
    let total = |name: &str| book.values(name).iter().sum::<f64>();
    assert_eq!(total("requests_total"), metrics.requests as f64);
    assert_eq!((total("rows_total"), total("batch_rows")), (5.0, 5.0));
    assert_eq!(total("batches_total"), metrics.batches as f64);
    assert_eq!(total("idle_total"), metrics.idle as f64);
    assert_eq!(book.values("wait_seconds").len(), 5);
    assert_eq!(book.values("service_seconds").len() as u64, metrics.batches);
    assert_eq!(book.values("queued_rows").last(), Some(&0.0));
    assert_eq!(book.values("batch_size").last(), Some(&1024.0));
    assert_eq!(total("rejected_total") + total("expired_total") + total("canceled_total") + total("failed_total"), 0.0);
}
