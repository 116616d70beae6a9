//! What comes out, of every source, through everything, into every sink.

use std::{convert::Infallible, io};

use sortie::{
    Stream,
    half::f16,
    stream::{Sink, Source},
};

use super::{kernel, numbers, on_all, triple, tripled};

/// Gives few bytes at a time, and none now and then.
struct Dribble<'a> {
    rest: &'a [u8],
    calls: usize,
}

impl io::Read for Dribble<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.calls += 1;
        if self.calls.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let count = into.len().min(1 + self.calls % 7).min(self.rest.len());
        let (now, rest) = self.rest.split_at(count);
        into[..count].copy_from_slice(now);
        self.rest = rest;
        Ok(count)
    }
}

#[test]
fn every_source_gives_the_same_in_order_with_a_shorter_last_window() {
    on_all(|name, device| {
        let all = numbers(1000);
        let bytes: &[u8] = sortie::bytemuck::cast_slice(&all);
        let shifted = [&[0], bytes].concat();
        let sources = [
            ("a slice", Source::slice(&all)),
            ("bytes", Source::bytes(bytes)),
            ("misaligned bytes", Source::bytes(&shifted[1..])),
            ("items", Source::items(all.iter().copied())),
            ("small chunks", Source::chunks(all.chunks(7))),
            ("large chunks", Source::chunks(all.chunks(333).map(<[u32]>::to_vec))),
            ("chunks, some empty", Source::chunks([&all[..10], &[], &all[10..10], &all[10..]])),
            ("a reader", Source::reader(bytes)),
            ("a reader of few bytes", Source::reader(Dribble { rest: bytes, calls: 0 })),
        ];
        for (kind, source) in sources {
            let mut out = Vec::new();
            let done = triple(device).window(4 * 64).run(source, &mut out)?;
            assert_eq!(out, tripled(&all), "{kind} on {name}");
            assert_eq!((done.windows, done.elements_in, done.elements_out), (16, 1000, 1000), "{kind} on {name}");
            assert_eq!((done.bytes_in, done.bytes_out), (4000, 4000), "{kind} on {name}");
        }
        Ok(())
    });
}

#[test]
fn every_sink_gets_the_same() {
    on_all(|name, device| {
        let all = numbers(200);
        let (mut vector, mut written, mut each) = (Vec::new(), Vec::new(), Vec::new());
        triple(device).window(100).run(&all, &mut vector)?;
        triple(device).window(100).run(&all, Sink::writer(io::BufWriter::new(&mut written)))?;
        let sink = Sink::each(|window: &[u32]| {
            each.push(window.to_vec());
            Ok::<(), Infallible>(())
        });
        triple(device).window(100).run(&all, sink)?;
        assert_eq!(vector, tripled(&all), "{name}");
        assert_eq!(written, sortie::bytemuck::cast_slice::<u32, u8>(&vector), "{name}");
        assert_eq!(each, vector.chunks(25).map(<[u32]>::to_vec).collect::<Vec<_>>(), "{name}");
        Ok(())
    });
}

#[test]
fn rows_may_grow_or_shrink_and_change_their_type() {
    on_all(|name, device| {
        let pairs = kernel(
            device,
            "@group(0) @binding(0) var<storage, read> x: array<vec2<i32>>;
            @group(0) @binding(1) var<storage, read_write> y: array<f32>;
            @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                if id.x < arrayLength(&x) { for (var i = 0u; i < 3u; i++) { y[3u * id.x + i] = f32(x[id.x].x) + f32(i) * f32(x[id.x].y); } }
            }",
        );
        let all: Vec<i32> = (-300..300).collect();
        let mut out = Vec::new();
        // 100 bytes are 12 rows and a half.
        let mut stream = Stream::<i32, f32>::kernel(device, &pairs).rows([2, 3]).window(100);
        assert_eq!(stream.window_rows()?, 12);
        let done = stream.run(&all, &mut out)?;
        let of = |pair: &[i32]| [0, 1, 2].map(|i| (pair[0] + i * pair[1]) as f32);
        assert_eq!(out, all.chunks(2).flat_map(of).collect::<Vec<_>>(), "{name}");
        assert_eq!((done.windows, done.elements_out), (25, 900));
        Ok(())
    });
}

#[test]
fn a_kernel_of_one_binding_works_in_place() {
    on_all(|name, device| {
        let in_place = kernel(
            device,
            "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                if id.x < arrayLength(&x) { x[id.x] = 3u * x[id.x] + 1u; }
            }",
        );
        let (all, mut out) = (numbers(500), Vec::new());
        Stream::<u32, u32>::kernel(device, &in_place).window(333).run(&all, &mut out)?;
        assert_eq!(out, tripled(&all), "{name}");
        Ok(())
    });
}

#[test]
fn what_a_kernel_does_not_write_is_zero_in_every_window() {
    on_all(|name, device| {
        let some = kernel(
            device,
            "@group(0) @binding(0) var<storage, read> x: array<u32>;
            @group(0) @binding(1) var<storage, read_write> y: array<u32>;
            @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                if id.x < arrayLength(&y) && x[id.x] != 0u { y[id.x] = x[id.x]; }
            }",
        );
        let all: Vec<u32> = (0..640).map(|at| u32::from(at / 64 % 2 == 0)).collect();
        let mut out = Vec::new();
        Stream::<u32, u32>::kernel(device, &some).window(256).run(&all, &mut out)?;
        assert_eq!(out, all, "{name}");
        Ok(())
    });
}

#[test]
fn a_recording_may_use_tensors_kernels_and_what_lies_on_the_device() {
    on_all(|name, device| {
        let weights = device.upload(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
        let stream =
            Stream::<f32, f32>::record(device, |batch, x| x.matmul(batch.tensor(&weights, [3, 2])).relu().read());
        let all: Vec<f32> = (0..300).map(|at| (at % 11) as f32 - 5.0).collect();
        let mut out = Vec::new();
        stream.rows([3, 2]).window(12 * 16).run(&all, &mut out)?;
        let row = |x: &[f32]| {
            let dot = |w: [f32; 3]| x.iter().zip(w).map(|(x, w)| x * w).sum::<f32>().max(0.0);
            [dot([1.0, 3.0, 5.0]), dot([2.0, 4.0, 6.0])]
        };
        // Small whole numbers: exact in any order.
        assert_eq!(out, all.chunks(3).flat_map(row).collect::<Vec<_>>(), "{name}");
        Ok(())
    });
}

#[test]
fn a_recording_may_make_one_number_of_a_window() {
    on_all(|name, device| {
        let all = numbers(1000);
        let sums = Stream::<u32, u32>::record(device, |_, x| x.sum(&[0, 1]).read()).window(4 * 300);
        let windows: Vec<Vec<u32>> = sums.over(&all).collect::<Result<_, _>>()?;
        let expected = all.chunks(300).map(|window| vec![window.iter().fold(0_u32, |sum, x| sum.wrapping_add(*x))]);
        assert_eq!(windows, expected.collect::<Vec<_>>(), "{name}");
        Ok(())
    });
}

#[test]
fn elements_of_two_bytes_go_through_whatever_their_number() {
    on_all(|name, device| {
        for len in [1, 2, 9, 10, 11, 31] {
            let all: Vec<f16> = (0..len).map(|at| f16::from_f32(at as f32)).collect();
            let mut out = Vec::new();
            Stream::<f16, f16>::record(device, |_, x| (x + x).read()).window(11).run(&all, &mut out)?;
            let expected: Vec<f16> = (0..len).map(|at| f16::from_f32(2.0 * at as f32)).collect();
            assert_eq!(out, expected, "{len} on {name}");
        }
        Ok(())
    });
}

#[test]
fn a_replay_determines_the_windows_and_padding_of_the_last_is_not_output() {
    on_all(|name, device| {
        let batch = device.batch();
        let (input, x) = batch.input::<f32>([8, 2]);
        let y = x.exp().sum(&[1]).output();
        assert_eq!((y.len(), y.is_empty()), (8, false));
        let replay = batch.freeze()?;
        let stream = || Stream::replay(&replay, input, y).in_flight(3);
        assert_eq!(stream().window_rows()?, 8);
        for rows in [0, 1, 8, 16, 43] {
            let mut out = Vec::new();
            let done = stream().run(&vec![0.0; 2 * rows], &mut out)?;
            assert_eq!((out, done.windows), (vec![2.0; rows], rows.div_ceil(8) as u64), "{rows} rows on {name}");
        }
        Ok(())
    });
}

#[test]
fn an_empty_source_has_an_empty_output() {
    on_all(|_, device| {
        let mut out = Vec::new();
        let done = triple(device).run(&[], &mut out)?;
        assert_eq!((done.windows, done.fraction(), out.len()), (0, Some(1.0), 0));
        assert!(triple(device).over(Source::reader(io::empty())).next().is_none());
        Ok(())
    });
}
