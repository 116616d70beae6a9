//! What a stream takes: memory that does not grow with the data, and nothing new once it is warm.

use std::{
    cell::{Cell, RefCell},
    convert::Infallible,
};

use sortie::{
    Device, Stream,
    stream::{Progress, Sink, Source},
};

use super::{devices, noop, numbers, triple};

const WINDOW: usize = 64 << 10;

/// Endless, and there only once.
fn chunks(windows: usize) -> Source<'static, u32> {
    let chunk = numbers(WINDOW as u32 / 4);
    Source::chunks((0..windows).map(move |_| chunk.clone()))
}

/// Processes this many windows, and returns the peak memory of the device.
fn peak(device: &Device, stream: Stream<'_, u32, u32>, windows: usize) -> u64 {
    let mut peak = 0;
    let sink = Sink::each(|_: &[u32]| {
        peak = peak.max(device.memory_bytes());
        Ok::<(), Infallible>(())
    });
    stream.window(WINDOW).run(chunks(windows), sink).unwrap_or_else(|error| panic!("{error}"));
    peak
}

/// Windows in flight, unless a stream is told otherwise.
const IN_FLIGHT: u64 = 2;

/// What a run of a hundred windows makes on a device: no more than the windows in flight need, however many there are. How much of it the first few make is a matter of chance,
/// since a window that is done before the next is brought leaves its memory to it.
fn check_made(what: &str, device: &Device, stream: impl Fn() -> Stream<'static, u32, u32>) {
    let before = device.metrics();
    peak(device, stream(), 10);
    let first = device.metrics() - before;
    peak(device, stream(), 90);
    let made = device.metrics() - before;
    assert_eq!((made.batches, made.submissions), (100, 100), "{what}");
    assert_eq!([made.pipelines_created, made.plans_made], [first.pipelines_created, first.plans_made], "{what}");
    // Input and output, and what each goes through; an upload's may come back a window late.
    assert!(made.buffers_created <= 4 * IN_FLIGHT + 1, "{} buffers: {what}", made.buffers_created);
    // Which input meets which output is for the pool to say.
    let pairs = 2 * IN_FLIGHT * (2 * IN_FLIGHT - 1);
    assert!(made.bind_groups_created <= pairs, "{} bind groups: {what}", made.bind_groups_created);
}

#[test]
fn a_stream_makes_no_more_than_the_windows_in_flight_need() {
    for (name, device) in devices().into_iter().chain([("noop", noop())]) {
        check_made(&format!("a kernel on {name}"), &device, || triple(&device));
        let recording = || Stream::record(&device, |_, x| (x + x).read());
        check_made(&format!("a recording on {name}"), &device, recording);
        let batch = device.batch();
        let (input, x) = batch.input::<u32>([WINDOW / 4]);
        let y = (x + x).output();
        let replay = batch.freeze().unwrap_or_else(|error| panic!("{name}: {error}"));
        check_made(&format!("a replay on {name}"), &device, || Stream::replay(&replay, input, y));
    }
}

#[test]
fn memory_of_the_device_is_bounded_by_the_windows_in_flight() {
    for in_flight in [1, 2, 5] {
        for (name, device) in [("cpu", Device::cpu().expect("the built-in CPU")), ("noop", noop())] {
            let stream = || triple(&device).in_flight(in_flight);
            let long = peak(&device, stream(), 200);
            // Input and output of each, and what its input is staged in.
            assert!(long <= (3 * in_flight * WINDOW) as u64, "{long} bytes, {in_flight} in flight on {name}");
        }
    }
}

#[test]
fn the_next_windows_are_brought_before_the_last_is_taken_and_no_more_than_may_be() {
    for in_flight in 1..5 {
        let device = noop();
        let (brought, taken) = (Cell::new(0), Cell::new(0));
        let ahead = RefCell::new(Vec::new());
        let chunks = (0..20).map(|_| {
            brought.set(brought.get() + 1);
            vec![0_u32; 64]
        });
        let sink = Sink::each(|_: &[u32]| {
            ahead.borrow_mut().push(brought.get() - taken.get());
            taken.set(taken.get() + 1);
            Ok::<(), Infallible>(())
        });
        let done = triple(&device).window(256).in_flight(in_flight).run(Source::chunks(chunks), sink);
        assert_eq!(done.expect("nothing goes wrong").windows, 20);
        let expected: Vec<_> = (0..20).map(|window| in_flight.min(20 - window)).collect();
        assert_eq!(ahead.into_inner(), expected, "{in_flight} in flight");
    }
}

#[test]
fn progress_is_reported_after_every_window_and_adds_up() {
    let told = RefCell::new(Vec::<Progress>::new());
    let taken = Cell::new(0);
    let stream = triple(&noop()).window(400).on_progress(|progress| {
        assert_eq!(progress.elements_out, taken.get());
        told.borrow_mut().push(*progress);
    });
    let sink = Sink::each(|window: &[u32]| {
        taken.set(taken.get() + window.len() as u64);
        Ok::<(), Infallible>(())
    });
    let done = stream.run(Source::reader(&[0; 1000][..]).of_len(250), sink).expect("nothing goes wrong");
    let told = told.into_inner();
    let windows: Vec<_> = told.iter().map(|progress| (progress.windows, progress.elements_in)).collect();
    assert_eq!(windows, [(1, 100), (2, 200), (3, 250)]);
    assert_eq!(told.last(), Some(&done));
    assert_eq!((done.fraction(), done.bytes_in, done.bytes_out), (Some(1.0), 1000, 1000));
    assert!(told.is_sorted_by_key(|progress| progress.elapsed));
}

#[test]
fn a_source_knows_its_length_where_it_can() {
    let total = |source: Source<'_, u32>| triple(&noop()).over(source).progress().total;
    assert_eq!(total(Source::slice(&[1, 2])), Some(2));
    assert_eq!(total(Source::items(0..5)), Some(5));
    assert_eq!(total(Source::items((0..5).filter(|number| *number > 1))), None);
    assert_eq!(total(Source::chunks([[1, 2]])), None);
    assert_eq!(total(Source::reader(&[0; 8][..])), None);
    assert_eq!(total(Source::bytes(&[0; 8])), Some(2));
}

#[test]
fn a_window_is_no_larger_than_the_device_can_bind() {
    for (name, device) in devices() {
        let most = device.info().limits.binding_bytes.min(device.info().limits.buffer_bytes);
        let rows = triple(&device).rows([1, 4]).window(usize::MAX).window_rows().expect("there is one");
        let most = most.min(u32::MAX.into());
        assert!(rows as u64 * 16 <= most && (rows as u64 + 1) * 16 + 4 > most, "{rows} of {most} on {name}");
        assert_eq!(triple(&device).rows([100, 1]).window(1).window_rows().ok(), Some(1), "{name}");
    }
}
