//! Profiles of replays, of batchers, and of everything that a device does.

use std::sync::{Arc, Mutex};

use sortie::{BatchConfig, Batcher, Device, Grid, batcher::Rows, policy::Split, profile::Profile};

use crate::{STEP, devices};

#[test]
fn a_run_of_a_replay_is_profiled_encoded_and_says_so() -> sortie::Result<()> {
    for (name, device) in devices() {
        let step = device.kernel(STEP)?;
        let (y, z) = (device.zeros::<f32>(64)?, device.zeros::<f32>(64)?);
        let batch = device.batch();
        let (x_input, x) = batch.input::<f32>([64]);
        batch.scope("there", |batch| {
            batch.dispatch(&step, &[&x, &y], Grid::items(64)).label("one");
        });
        batch.dispatch(&step, &[&y, &z], Grid::items(64));
        let out = batch.output(&z);
        // However long a run takes, the next one is native again.
        batch.split_by(Split::Never);
        let replay = batch.freeze()?;
        let run = |profiled: bool| -> sortie::Result<(sortie::metrics::Metrics, Option<Profile>)> {
            let before = device.metrics();
            let mut run = replay.run();
            let profile = profiled.then(|| run.profile());
            run.write(x_input, &[40.0; 64]);
            let read = run.read(out);
            run.submit()?;
            assert_eq!(read.wait()?, [42.0; 64], "{name}");
            Ok((device.metrics() - before, profile.map(sortie::Reading::wait).transpose()?))
        };
        let (without, _) = run(false)?;
        let (with, profile) = run(true)?;
        let profile = profile.expect("asked for");
        assert_eq!(with.submissions, without.submissions, "{name}");
        let native = without.native_runs > 0;
        assert_eq!((with.native_runs, native), (0, name != "cpu"), "{name}");
        assert_eq!(profile.caveats().len(), usize::from(native), "{name}: {:?}", profile.caveats());
        assert_eq!(profile.ops()[0].label(), "one", "{name}");
        assert_eq!(profile.scopes()[0].path(), "there", "{name}");
        let names: Vec<_> = profile.steps().iter().map(sortie::profile::StepProfile::name).collect();
        for part in ["input of the run", "step", "output of the run"] {
            assert!(names.contains(&part), "{name}: {part} in {names:?}");
        }
        assert!(profile.steps().iter().any(|step| step.time().is_some()), "{name}: {profile}");
        let (after, _) = run(false)?;
        assert_eq!(after.native_runs, without.native_runs, "{name}: what was profiled goes its own way again");
    }
    Ok(())
}

/// Profiles of all that runs until the closure returns.
fn watched(device: &Device, run: impl FnOnce() -> sortie::Result<()>) -> sortie::Result<Vec<Profile>> {
    let profiles = Arc::new(Mutex::new(Vec::new()));
    let told = profiles.clone();
    let watch = device.watch(move |profile| told.lock().expect("no panic").push(profile.clone()))?;
    run()?;
    watch.finish();
    Ok(std::mem::take(&mut *profiles.lock().expect("no panic")))
}

#[test]
fn whoever_watches_a_device_hears_of_everything_until_the_watch_ends() -> sortie::Result<()> {
    for (name, device) in devices() {
        let x = device.zeros::<f32>(64)?;
        let fill = || -> sortie::Result<()> {
            let batch = device.batch();
            batch.fill(&x, 1.0);
            // Still under way when the watch is told to end.
            drop(batch.submit_async()?);
            Ok(())
        };
        fill()?;
        let profiles = watched(&device, || (0..20).try_for_each(|_| fill()))?;
        assert_eq!(profiles.len(), 20, "{name}");
        assert!(profiles.iter().all(|profile| profile.ops().len() == 1 && profile.stages().record.is_some()), "{name}");
        fill()?;
        assert_eq!(watched(&device, || x.download().map(drop))?.len(), 1, "{name}: a download is a batch of one read");
    }
    Ok(())
}

#[test]
fn a_failed_batch_holds_up_no_watch() -> sortie::Result<()> {
    for (name, device) in devices() {
        let x = device.zeros::<f32>(64)?;
        let profiles = watched(&device, || {
            let batch = device.batch();
            let profile = batch.profile();
            batch.copy(&x, x.slice(..4));
            batch.submit().expect_err("64 elements into 4");
            assert!(profile.wait().is_err());
            let batch = device.batch();
            batch.fill(&x, 1.0);
            let ticket = batch.submit_async()?;
            ticket.cancel();
            drop(ticket.wait());
            drop(device.batch());
            Ok(())
        })?;
        assert!(profiles.len() <= 1, "{name}");
    }
    Ok(())
}

#[test]
fn batches_begun_before_the_watch_are_profiled_and_replays_frozen_under_it_have_no_recording_times()
-> sortie::Result<()> {
    for (name, device) in devices() {
        let x = device.zeros::<f32>(64)?;
        let early = device.batch();
        early.fill(&x, 1.0);
        let profiles = watched(&device, || {
            early.submit()?;
            let batch = device.batch();
            batch.fill(&x, 2.0);
            batch.freeze()?.run().submit()
        })?;
        assert_eq!(profiles.len(), 2, "{name}");
        assert!(profiles.iter().all(|profile| profile.stages().record.is_none()), "{name}");
        assert!(profiles.iter().all(|profile| profile.ops()[0].record().is_none()), "{name}");
    }
    Ok(())
}

#[test]
fn whoever_panics_or_ends_its_own_watch_holds_up_nobody() -> sortie::Result<()> {
    let device = Device::cpu()?;
    let x = device.zeros::<f32>(64)?;
    let fill = || -> sortie::Result<()> {
        let batch = device.batch();
        batch.fill(&x, 1.0);
        batch.submit()
    };
    let watch = device.watch(|_| panic!("on purpose"))?;
    fill()?;
    fill()?;
    watch.finish();

    let own: Arc<Mutex<Option<sortie::profile::Watch>>> = Arc::default();
    let (held, (told, ended)) = (own.clone(), std::sync::mpsc::channel());
    *own.lock().expect("no panic") = Some(device.watch(move |_| {
        let watch = held.lock().expect("no panic").take();
        told.send(watch.map(sortie::profile::Watch::finish).is_some()).ok();
    })?);
    fill()?;
    assert_eq!(ended.recv(), Ok(true));
    fill()
}

/// To be kept anywhere.
#[test]
fn all_of_it_may_cross_threads() {
    fn both<T: Send + Sync>() {}
    both::<Profile>();
    both::<sortie::profile::Watch>();
    both::<sortie::profile::Trace>();
    both::<sortie::Reading<Profile>>();
}

#[test]
fn what_a_batcher_flies_is_profiled_too() -> sortie::Result<()> {
    for (name, device) in devices() {
        let job = Rows::<f32, f32>::new(
            [1, 1],
            "
            @group(0) @binding(0) var<storage, read> x: array<f32>;
            @group(0) @binding(1) var<storage, read_write> y: array<f32>;
            @compute @workgroup_size(64) fn double(@builtin(global_invocation_id) id: vec3<u32>) {
                if id.x < arrayLength(&x) { y[id.x] = 2.0 * x[id.x]; }
            }",
        );
        let batcher = Batcher::new(&device, job, BatchConfig::default())?;
        let profiles = watched(&device, || {
            for number in 0..5_u8 {
                assert_eq!(batcher.call_blocking(vec![f32::from(number)])?, [f32::from(2 * number)]);
            }
            Ok(())
        })?;
        assert_eq!(profiles.len(), 5, "{name}");
        assert!(profiles.iter().all(|profile| profile.steps().iter().any(|step| step.name() == "double")), "{name}");
    }
    Ok(())
}
