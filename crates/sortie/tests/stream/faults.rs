//! What goes wrong ends a stream once, says where, and leaves nothing behind.

use std::{
    error::Error as _,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
};

use sortie::{
    Device, DeviceOptions, ErrorKind, Stream,
    stream::{Sink, Source},
};

use super::{kernel, noop, numbers, on_all, triple, tripled};

/// Fails after this many bytes.
struct Torn<'a>(&'a [u8]);

impl io::Read for Torn<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            return Err(io::Error::other("the cable is torn"));
        }
        self.0.read(into)
    }
}

#[test]
fn a_source_that_fails_ends_it_after_the_windows_before() {
    on_all(|name, device| {
        let all = numbers(160);
        let mut out = Vec::new();
        let source = Source::reader(Torn(sortie::bytemuck::cast_slice(&all)));
        let error = triple(device).window(256).run(source, &mut out).expect_err("it is torn");
        assert_eq!(error.kind(), ErrorKind::Source, "{name}");
        assert_eq!(error.to_string(), "window 2, from element 128 on: the source failed");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("the cable is torn"));
        assert_eq!(out, tripled(&all[..128]), "{name}");
        Ok(())
    });
}

#[test]
fn a_failing_sink_ends_the_stream_and_the_source_is_not_read_further() {
    on_all(|name, device| {
        let (mut asked, mut taken) = (0, 0);
        let chunks = std::iter::repeat_with(|| {
            asked += 1;
            vec![7_u32; 64]
        });
        let sink = Sink::each(|_: &[u32]| {
            taken += 1;
            if taken == 4 { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(()) }
        });
        let error = triple(device).window(256).run(Source::chunks(chunks), sink).expect_err("it is full");
        assert_eq!(error.kind(), ErrorKind::Sink, "{name}");
        assert_eq!(error.to_string(), "window 3, from element 192 on: the sink failed");
        // Two in flight: the fourth was taken when the fifth had been brought.
        assert_eq!((taken, asked), (4, 5), "{name}");
        Ok(())
    });
}

#[test]
fn a_sink_that_fails_to_flush_fails_the_stream() {
    struct Full;
    impl io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }
    let error = triple(&noop()).run(&numbers(10), Sink::writer(Full)).expect_err("it is full");
    assert_eq!(error.kind(), ErrorKind::Sink);
}

#[test]
fn a_part_of_a_row_is_an_error_with_both_figures() {
    on_all(|name, device| {
        let mut out = Vec::new();
        let stream = Stream::<u32, u32>::record(device, |_, x| (x + x).read()).rows([3, 3]).window(120);
        let error = stream.run(&numbers(100), &mut out).expect_err("33 rows and a third");
        assert_eq!(error.kind(), ErrorKind::Shape);
        let told = "window 3, from element 90 on: the source ends after 100 elements, which is not a whole number of rows of 3";
        assert_eq!((error.to_string().as_str(), out.len()), (told, 90), "{name}");
        Ok(())
    });
}

#[test]
fn a_part_of_an_element_is_an_error_with_both_figures() {
    let error = triple(&noop()).window(8).run(Source::bytes(&[0; 15]), &mut Vec::new()).expect_err("a byte is missing");
    assert_eq!(error.kind(), ErrorKind::Shape);
    let told =
        "window 1, from element 2 on: the source ends in the middle of an element: 15 bytes are no whole number of 4";
    assert_eq!(error.to_string(), told);
}

#[test]
fn an_error_is_returned_once_and_then_nothing() {
    let mut windows = triple(&noop()).window(8).over(Source::bytes(&[0; 15]));
    assert!(windows.next().is_some_and(|window| window.is_ok()));
    assert!(windows.next().is_some_and(|window| window.is_err()));
    assert!(windows.next().is_none() && windows.next().is_none());
}

#[test]
fn what_the_device_refuses_names_the_window_and_the_users_line() {
    let options = DeviceOptions::default().with_memory_budget(1 << 20);
    let device = Device::cpu_with(options).expect("the built-in CPU");
    let stream = triple(&device).rows([1 << 18, 1 << 18]);
    let error = stream.run(&vec![0; 1 << 20], &mut Vec::new()).expect_err("more than the budget");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory { wanted: 4 << 20, budget: 1 << 20 }, "{error}");
    let message = "stream: 2 windows in flight of one row each take 4194304 bytes; the memory budget of 1048576 bytes";
    assert!(error.to_string().contains(message), "{error}");
    assert!(error.location().is_some_and(|at| at.file().ends_with("stream/main.rs")), "{error}");
}

#[test]
fn windows_fit_the_memory_budget() -> sortie::Result<()> {
    let data: Vec<u32> = (0..1 << 24).collect();
    let options = crate::installed::uncut().with_memory_budget(32 << 20);
    let mut devices = vec![("cpu", Device::cpu_with(options.clone())?)];
    for driver in ["llvmpipe", "swiftshader"] {
        devices.extend(crate::installed::open_with(driver, options.clone()).map(|device| (driver, device)));
    }
    for (name, device) in devices {
        let kept = device.zeros::<u32>(1 << 20)?;
        let mut sum = 0_u64;
        for window in triple(&device).over(&data) {
            sum += window?.iter().map(|x| u64::from(*x)).sum::<u64>();
        }
        let expected: u64 = data.iter().map(|x| u64::from(3 * x + 1)).sum();
        assert_eq!(sum, expected, "{name}");
        // A recording with large intermediate results.
        let stream = Stream::<u32, u32>::record(&device, |_, x| (x + x.transpose().transpose()).sum(&[0, 1]).read());
        let sums: u64 = stream.over(&data).map(|window| window.map(|sum| u64::from(sum[0]))).sum::<Result<_, _>>()?;
        let all = data.iter().fold(0_u32, |sum, x| sum.wrapping_add(2 * x));
        assert_eq!(sums as u32, all, "{name}");
        drop(kept);
    }
    Ok(())
}

#[test]
fn a_mistake_in_a_recording_has_its_own_line() {
    let stream = Stream::<f32, f32>::record(&noop(), |_, x| x.matmul(x).read()).rows([3, 3]);
    let error = stream.run(&[0.0; 6], &mut Vec::new()).expect_err("[2, 3] by [2, 3]");
    assert_eq!(error.kind(), ErrorKind::Shape);
    assert!(error.location().is_some_and(|at| at.file().ends_with("stream/faults.rs")), "{error}");
}

#[test]
fn a_kernel_that_fails_ends_it_there() {
    // Every window is slower than no time at all.
    let options = DeviceOptions::default().with_kernel_budget(std::time::Duration::ZERO);
    let device = Device::cpu_with(options).expect("the built-in CPU");
    let endless = kernel(
        &device,
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(1) fn main() { while x[0] != 1u { x[1] += 1u; } }",
    );
    let mut windows = Stream::<u32, u32>::kernel(&device, &endless).window(16).over(Source::items(2..100));
    let error = windows.next().expect("an answer").expect_err("it never ends");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().starts_with("window 0, "), "{error}");
    assert!(windows.next().is_none());
}

#[test]
fn kernels_unsuitable_for_streams_are_refused_before_the_source_is_read() {
    let device = noop();
    let with = |bindings: &str| {
        let used = ["x", "y", "z"].into_iter().filter(|name| bindings.contains(&format!(" {name}:")));
        let written = |name: &str| bindings.contains(&format!("read_write> {name}:"));
        let access = |name| if written(name) { format!("{name}[0] = 1u;") } else { format!("_ = &{name};") };
        let uses: String = used.map(access).collect();
        format!("{bindings} @compute @workgroup_size(1) fn main() {{ {uses} }}")
    };
    let read = "@group(0) @binding(0) var<storage, read> x: array<u32>;";
    let written = "@group(0) @binding(1) var<storage, read_write> y: array<u32>;";
    let third = "@group(0) @binding(2) var<storage, read> z: array<u32>;";
    let cases = [
        (with(""), "has 0 bindings"),
        (with(read), "is never written"),
        (with(&written.replace("read_write", "read")), "is never written"),
        (with(written).replace("y[0] = 1u", "_ = y[0]"), "is never written"),
        (with(&format!("{read}{}", third.replace("binding(2)", "binding(1)"))), "the second binding"),
        (with(&format!("{read}{written}{third}")), "has 3 bindings"),
    ];
    for (source, told) in cases {
        let unasked = Source::items(std::iter::from_fn(|| -> Option<u32> { panic!("it was asked") }));
        let stream = Stream::<u32, u32>::kernel(&device, &kernel(&device, &source));
        let error = stream.run(unasked, &mut Vec::new()).expect_err(&source);
        assert_eq!(error.kind(), ErrorKind::Bindings);
        assert!(error.to_string().contains(told), "{error}");
    }
    let in_place = kernel(&device, &with(written));
    let error = Stream::<u32, u32>::kernel(&device, &in_place).rows([2, 1]).window_rows().expect_err("another width");
    assert!(error.to_string().contains("2 elements of 4 bytes before and 1 of 4 after"), "{error}");
}

#[test]
fn a_row_that_the_device_cannot_bind_is_an_error_with_both_figures() {
    let device = noop();
    let error = triple(&device).rows([1 << 40, 1]).window_rows().expect_err("4 TiB");
    assert!(matches!(error.kind(), ErrorKind::TooLarge { wanted, .. } if wanted == 1 << 42), "{error}");
}

#[test]
fn a_panic_passes_through_and_leaves_the_device_usable() {
    on_all(|name, device| {
        let mut recorded = 0;
        let stream = Stream::<u32, u32>::record(device, |_, x| {
            recorded += 1;
            assert!(recorded < 3, "as was asked for");
            (x + x).read()
        });
        let mut windows = stream.window(256).over(Source::items(0..1000));
        let outcome = catch_unwind(AssertUnwindSafe(|| windows.by_ref().count()));
        assert!(outcome.is_err(), "{name}");
        assert!(windows.next().is_none(), "{name}");
        let sink = Sink::each(|_: &[u32]| -> io::Result<()> { panic!("as was asked for") });
        assert!(catch_unwind(AssertUnwindSafe(|| triple(device).run(&numbers(1000), sink))).is_err(), "{name}");
        let (all, mut out) = (numbers(1000), Vec::new());
        triple(device).run(&all, &mut out)?;
        assert_eq!(out, tripled(&all), "{name}");
        Ok(())
    });
}

#[test]
fn dropped_early_it_leaves_the_device_usable() {
    on_all(|name, device| {
        for taken in 0..3 {
            let windows = triple(device).window(256).in_flight(4).over(Source::items(0..));
            assert_eq!(windows.take(taken).filter(Result::is_ok).count(), taken, "{name}");
        }
        let (all, mut out) = (numbers(1000), Vec::new());
        triple(device).run(&all, &mut out)?;
        assert_eq!(out, tripled(&all), "{name}");
        Ok(())
    });
}
