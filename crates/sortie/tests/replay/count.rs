//! What runs cost, counted.

use sortie::{Device, Grid};

use crate::{ADD, drivers};

fn open(name: &str) -> Device {
    let options = drivers::uncut().with_device(name);
    Device::open_with(options).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn thousands_of_runs_make_nothing() {
    let runs = if std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full") { 10_000 } else { 1_000 };
    for name in ["noop", "cpu"] {
        let device = open(name);
        let add = device.kernel(ADD).expect("a kernel");
        let batch = device.batch();
        let (x_input, x) = batch.input::<u32>([64]);
        let between = batch.scratch::<u32>(64);
        for by in 0..10_u32 {
            batch.dispatch(&add, &[&x, &between], Grid::items(64)).immediates(&[by, 1]);
        }
        let out = batch.output(between);
        let replay = batch.freeze().expect("a replay");
        let fly = |read: bool| {
            let mut run = replay.run();
            run.write(x_input, &[3; 64]);
            let reading = read.then(|| run.read(out));
            run.submit().unwrap_or_else(|error| panic!("{name}: {error}"));
            drop(reading);
        };
        for _ in 0..3 {
            fly(true);
        }
        let before = device.metrics();
        for at in 0..runs {
            fly(at % 2 == 0);
        }
        let made = device.metrics() - before;
        assert_eq!(
            [made.buffers_created, made.bind_groups_created, made.pipelines_created, made.plans_made],
            [0; 4],
            "{name}"
        );
        assert_eq!([made.submissions, made.batches], [runs; 2], "{name}");
        assert_eq!(made.dispatches, 10 * runs, "{name}");
        assert_eq!([made.uploads, made.reads, made.in_flight], [runs, runs / 2, 0], "{name}");
        assert_eq!(made.bytes_read, runs / 2 * 256, "{name}: what nobody asked for is not read");
    }
}
