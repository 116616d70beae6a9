//! What a device publishes through the `metrics` facade.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use sortie::{Device, DeviceOptions, metrics::Metrics};

/// Adds up what is published, by name and label.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    sums: BTreeMap<String, f64>,
    about: BTreeMap<String, String>,
    /// Calls that changed something.
    calls: usize,
    /// Whether the next call panics.
    panics: bool,
}

struct Entry {
    book: Book,
    name: String,
}

impl Entry {
    fn add(&self, value: f64) {
        let mut pages = self.book.0.lock().expect("no panic");
        if std::mem::take(&mut pages.panics) {
            // Let go of first: it is not to be poisoned.
            drop(pages);
            panic!("on purpose");
        }
        pages.calls += 1;
        *pages.sums.entry(self.name.clone()).or_default() += value;
    }
}

impl CounterFn for Entry {
    fn increment(&self, value: u64) {
        self.add(value as f64);
    }

    fn absolute(&self, _: u64) {
        unreachable!("devices of the same name would overwrite each other");
    }
}

impl GaugeFn for Entry {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, _: f64) {
        unreachable!("devices of the same name would overwrite each other");
    }
}

impl HistogramFn for Entry {
    fn record(&self, _: f64) {
        unreachable!("a device publishes no histogram");
    }
}

impl Book {
    fn entry(&self, key: &Key) -> Arc<Entry> {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        self.0.lock().expect("no panic").sums.entry(name.clone()).or_default();
        Arc::new(Entry { book: self.clone(), name })
    }

    /// Opens a device that publishes here.
    fn open(&self, name: &str) -> Device {
        let options = DeviceOptions::default().with_device(name);
        metrics::with_local_recorder(self, || Device::open_with(options)).expect("it opens anywhere")
    }

    fn sum(&self, figure: &str, device: &str) -> f64 {
        let name = format!("sortie_device_{figure}{{device={device}}}");
        *self.0.lock().expect("no panic").sums.get(&name).unwrap_or_else(|| panic!("{name} is not published"))
    }

    fn calls(&self) -> usize {
        self.0.lock().expect("no panic").calls
    }

    fn describe(&self, name: &KeyName, about: SharedString) {
        self.0.lock().expect("no panic").about.insert(name.as_str().into(), about.into_owned());
    }
}

impl Recorder for Book {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, about: SharedString) {
        self.describe(&name, about);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, about: SharedString) {
        self.describe(&name, about);
    }

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

/// Each figure by name, as the table has them, and its name on the facade.
fn figures(metrics: &Metrics) -> Vec<(String, f64)> {
    let of = |line: &str| {
        let (name, value) = line.split_once(' ').expect("two columns");
        let gauge = ["in_flight", "staged_bytes", "retained_bytes", "recorded_bytes", "run_memory_bytes"]
            .contains(&name)
            || name.starts_with("pool_bytes_");
        let value = value.trim().replace(',', "").parse().expect("a number");
        (if gauge { name.into() } else { format!("{name}_total") }, value)
    };
    metrics.to_string().lines().map(of).collect()
}

fn work(device: &Device) -> sortie::Result<()> {
    let x = device.upload(&[1.0_f32; 1000])?;
    let batch = device.batch();
    let a = batch.tensor(&x, [1000]);
    let b = a.exp();
    let b = -b;
    b.store(&x);
    batch.write(x.slice(..4), &[1.0; 4]);
    drop(batch.read(&x));
    batch.split();
    batch.fill(&x, 0.0);
    let ticket = batch.submit_async()?;
    ticket.wait()?;
    // The last thing that happens, on this thread.
    let batch = device.batch();
    let scratch = batch.scratch::<f32>(64);
    batch.fill(x.slice(..64), 1.0);
    batch.copy(x.slice(..64), scratch);
    drop(batch.read(scratch));
    batch.submit()
}

#[test]
fn a_recorder_gets_the_values_of_the_snapshot() -> sortie::Result<()> {
    for name in ["noop", "cpu"] {
        let book = Book::default();
        let device = book.open(name);
        work(&device)?;
        let x = device.zeros::<u32>(1)?;
        x.download()?;
        let metrics = device.metrics();
        for (figure, value) in figures(&metrics) {
            assert_eq!(book.sum(&figure, &device.info().name), value, "{figure} on {name}");
        }
        assert!(
            metrics.fused_ops == 1 && metrics.barriers > 0 && metrics.uploads == 1 && metrics.reads == 3,
            "{metrics}"
        );
        assert!(metrics.pool_bytes_live > 0 && metrics.pool_bytes_idle > 0, "{metrics}");
    }
    Ok(())
}

#[test]
fn every_figure_is_explained() {
    let book = Book::default();
    let device = book.open("cpu");
    let about = std::mem::take(&mut book.0.lock().expect("no panic").about);
    for (figure, _) in figures(&device.metrics()) {
        let text = about.get(&format!("sortie_device_{figure}")).unwrap_or_else(|| panic!("{figure}"));
        assert!(text.ends_with('.') && text.trim() == text, "{figure}: {text:?}");
    }
}

#[test]
fn devices_of_the_same_name_add_up_and_take_what_they_had_with_them() -> sortie::Result<()> {
    let book = Book::default();
    let devices = [book.open("cpu"), book.open("cpu")];
    let name = devices[0].info().name.clone();
    let kept = devices.each_ref().map(|device| device.zeros::<u8>(256).expect("memory"));
    devices.iter().try_for_each(work)?;
    // Of each: what is kept, and what its last batch read.
    let live = 2.0 * (256.0 + 4096.0);
    assert_eq!((book.sum("batches_total", &name), book.sum("pool_bytes_live", &name)), (4.0, live));
    drop((kept, devices));
    // Their threads end by themselves, when they have seen that no handle is left.
    let pool = ["pool_bytes_live", "pool_bytes_idle", "pool_bytes_peak", "pool_bytes_wasted"];
    for gauge in ["in_flight", "staged_bytes", "retained_bytes"].into_iter().chain(pool) {
        while book.sum(gauge, &name) != 0.0 {
            std::thread::yield_now();
        }
    }
    assert_eq!(book.sum("batches_total", &name), 4.0, "what was done stays done");
    Ok(())
}

#[test]
fn a_recorder_is_called_for_batches_and_not_for_ops() -> sortie::Result<()> {
    let book = Book::default();
    let device = book.open("cpu");
    let x = device.zeros::<u32>(64)?;
    let calls = |ops: u32| -> sortie::Result<usize> {
        let before = book.calls();
        let batch = device.batch();
        (0..ops).for_each(|value| batch.fill(&x, value));
        batch.submit()?;
        Ok(book.calls() - before)
    };
    calls(10)?;
    assert_eq!(calls(10)?, calls(1000)?);
    Ok(())
}

#[test]
fn a_recorder_that_panics_keeps_no_answer_back() -> sortie::Result<()> {
    let book = Book::default();
    let device = book.open("cpu");
    let x = device.zeros::<f32>(64)?;
    for _ in 0..2 {
        book.0.lock().expect("no panic").panics = true;
        let batch = device.batch();
        batch.fill(&x, 1.0);
        batch.submit_async()?.wait()?;
    }
    assert_eq!(x.download()?, [1.0; 64], "and the device is as good as before");
    Ok(())
}
