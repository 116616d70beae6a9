//! What is known of a device's time depends on what it can tell.

use sortie::{Device, Grid, profile::TimestampTier, wgpu};

use crate::{STEP, drivers, noop};

/// The same adapter as a guest device, opened with these features.
fn guest(device: &Device, features: wgpu::Features) -> Device {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle_from_env());
    let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::VULKAN));
    let adapter = adapters.into_iter().find(|adapter| adapter.get_info().name == device.info().name);
    let adapter = adapter.expect("it was listed");
    let descriptor = wgpu::DeviceDescriptor { required_features: features, ..Default::default() };
    let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).expect("a device");
    Device::from_wgpu(device, queue).expect("a guest")
}

#[test]
fn where_only_passes_are_timed_ops_share_their_time_and_transfers_have_none() -> sortie::Result<()> {
    for device in ["llvmpipe", "swiftshader"].into_iter().filter_map(drivers::open) {
        let tiers = [
            (
                TimestampTier::Inside,
                wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES
                    | wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS
                    | wgpu::Features::TIMESTAMP_QUERY,
            ),
            (TimestampTier::Pass, wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS),
            (TimestampTier::Pass, wgpu::Features::TIMESTAMP_QUERY),
            (TimestampTier::Host, wgpu::Features::empty()),
        ];
        for (tier, features) in tiers {
            let between = features.contains(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS);
            let guest = guest(&device, features);
            let step = guest.kernel(STEP)?;
            let (x, y) = (guest.zeros::<f32>(1 << 16)?, guest.zeros::<f32>(1 << 16)?);
            let batch = guest.batch();
            let profile = batch.profile();
            batch.scope("pass", |batch| {
                batch.dispatch(&step, &[&x, &y], Grid::items(1 << 16));
                batch.dispatch(&step, &[&y, &x], Grid::items(1 << 16));
            });
            batch.copy(&x, &y);
            batch.dispatch(&step, &[&y, &x], Grid::items(1 << 16)).label("alone");
            let read = batch.read(x.slice(..4));
            batch.submit()?;
            let profile = profile.wait()?;
            assert_eq!(read.wait()?, [3.0; 4]);
            let known: Vec<_> = profile.steps().iter().map(|step| step.time().is_some()).collect();
            let expected = match tier {
                TimestampTier::Pass => [false, false, between, true, between],
                TimestampTier::Host => [false; 5],
                _ => [true; 5],
            };
            let what = format!("{} {features:?}\n{profile}", device.info());
            assert_eq!((profile.tier(), &known[..]), (tier, &expected[..]), "{what}");
            let passes: Vec<_> = profile.passes().collect();
            match tier {
                TimestampTier::Pass => {
                    assert!(passes.len() == 1 && passes[0].is_some_and(|time| !time.is_zero()), "{what}");
                    assert_eq!([0, 1, 2].map(|step| profile.steps()[step].pass()), [Some(0), Some(0), None], "{what}");
                    assert!(
                        profile.to_string().contains("pass 0: ") && profile.to_string().contains("in pass 0"),
                        "{what}"
                    );
                }
                _ => assert!(passes.is_empty(), "{what}"),
            }
            assert_eq!(profile.device_time().is_some(), tier != TimestampTier::Host, "{what}");
            assert_eq!(profile.submissions(), 1, "{what}");
            assert!(!profile.total_time().is_zero() && profile.caveats().is_empty(), "{what}");
            let whole = profile.device_time().unwrap_or_default();
            assert!(whole <= profile.total_time(), "{what}");
        }
    }
    Ok(())
}

#[test]
fn what_only_makes_sense_with_timestamps_is_none_without() -> sortie::Result<()> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: wgpu::Backends::NOOP,
        backend_options: wgpu::BackendOptions { noop: wgpu::NoopBackendOptions::enabled(), ..Default::default() },
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let adapter = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::NOOP)).into_iter().next();
    let adapter = adapter.expect("there is one");
    for features in [wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS, wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES] {
        let descriptor = wgpu::DeviceDescriptor { required_features: features, ..Default::default() };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).expect("a device");
        let guest = Device::from_wgpu(device, queue)?;
        let x = guest.zeros::<f32>(64)?;
        let batch = guest.batch();
        let profile = batch.profile();
        batch.fill(&x, 1.0);
        batch.copy(x.slice(..16), x.slice(32..48));
        batch.submit()?;
        assert_eq!(profile.wait()?.tier(), TimestampTier::Host, "{features:?}");
    }
    Ok(())
}

/// wgpu's noop device resolves every timestamp to zero.
#[test]
fn a_device_that_says_nothing_but_zero_says_nothing() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let (x, y) = (device.zeros::<f32>(64)?, device.zeros::<f32>(64)?);
    let batch = device.batch();
    let profile = batch.profile();
    batch.dispatch(&step, &[&x, &y], Grid::items(64));
    batch.dispatch(&step, &[&y, &x], Grid::items(64));
    batch.submit()?;
    let profile = profile.wait()?;
    assert_ne!(profile.tier(), TimestampTier::Host, "it has timestamps");
    assert!(profile.steps().iter().all(|step| step.time().is_none() && step.bytes_per_second().is_none()));
    assert_eq!((profile.device_time(), profile.ops()[0].time()), (None, None));
    let text = profile.to_string();
    assert!(text.matches("n/a").count() >= 3 && !text.contains("device  0"), "{text}");
    Ok(())
}

#[test]
fn the_built_in_cpu_has_one_clock_and_ops_lie_within_their_submission() -> sortie::Result<()> {
    let device = Device::cpu()?;
    let step = device.kernel(STEP)?;
    let (x, y) = (device.zeros::<f32>(1 << 12)?, device.zeros::<f32>(1 << 12)?);
    let batch = device.batch();
    let profile = batch.profile();
    for _ in 0..100 {
        batch.dispatch(&step, &[&x, &y], Grid::items(1 << 12));
        batch.dispatch(&step, &[&y, &x], Grid::items(1 << 12));
    }
    batch.submit()?;
    let profile = profile.wait()?;
    assert_eq!((profile.tier(), profile.clock_slack()), (TimestampTier::Exact, None));
    assert!(profile.steps().iter().all(|step| step.time().is_some()));
    let mut last = std::time::Duration::ZERO;
    for step in profile.steps() {
        let (Some(begin), Some(time)) = (step.begin(), step.time()) else { panic!("both are known") };
        assert!(begin >= last, "one after the other");
        last = begin + time;
    }
    assert!(last <= profile.total_time());
    assert!(profile.device_time().is_some_and(|busy| busy <= profile.stages().submit));
    Ok(())
}
