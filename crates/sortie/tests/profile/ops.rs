//! What a profile says of each op and each scope.

use sortie::{Batch, DeviceOptions, Grid, Record, device::Planning, policy::Split};

use crate::{STEP, devices, drivers};

struct Twice<'a>(&'a sortie::Kernel, &'a sortie::Buffer<f32>, &'a sortie::Buffer<f32>);

impl Record<'_> for Twice<'_> {
    type Output = ();

    fn label(&self) -> &str {
        "twice"
    }

    fn record(&self, batch: &Batch) {
        batch.dispatch(self.0, &[self.1, self.2], Grid::items(self.1.len())).label("there").flops(64);
        batch.dispatch(self.0, &[self.2, self.1], Grid::items(self.1.len()));
    }
}

#[test]
fn every_op_has_its_own_scope_label_line_and_kernel() -> sortie::Result<()> {
    for (name, device) in devices() {
        let step = device.kernel(STEP)?;
        let (x, y) = (device.zeros::<f32>(64)?, device.zeros::<f32>(64)?);
        let batch = device.batch();
        let profile = batch.profile();
        batch.fill(&x, 1.0);
        batch.scope("outer", |batch| {
            batch.record_all(&[&Twice(&step, &x, &y), &Twice(&step, &x, &y)]);
            batch.barrier();
            batch.copy(&x, &y);
        });
        let line = line!() + 1;
        drop(batch.read(&y));
        batch.submit()?;
        let profile = profile.wait()?;

        let ops = profile.ops();
        let whats: Vec<_> = ops.iter().map(sortie::profile::OpProfile::what).collect();
        assert_eq!(whats, ["fill", "dispatch", "dispatch", "dispatch", "dispatch", "copy", "read"], "{name}");
        assert_eq!((ops[1].label(), ops[2].label(), ops[1].kernel()), ("there", "", Some("step")), "{name}");
        assert_eq!((ops[6].number(), ops[6].location().line()), (6, line), "{name}");
        assert!(ops[6].location().file().ends_with("ops.rs"), "{name}");
        let paths: Vec<_> = profile.scopes().iter().map(|scope| (scope.path(), scope.depth(), scope.ops())).collect();
        assert_eq!(paths, [("outer", 0, 1..6), ("outer/twice", 1, 1..3), ("outer/twice", 1, 3..5)], "{name}");
        assert_eq!(
            ops.iter().map(sortie::profile::OpProfile::scope).collect::<Vec<_>>(),
            [None, Some(1), Some(1), Some(2), Some(2), Some(0), None]
        );
        for scope in profile.scopes() {
            assert_eq!((scope.steps(), scope.straddling()), (scope.ops().len(), 0), "{name}");
            let sum = scope.ops().map(|op| ops[op].time()).sum::<Option<std::time::Duration>>();
            assert!(scope.time().is_some() && (!scope.is_complete() || scope.time() == sum), "{name}: {scope:?}");
        }
        // What is bound, and what the user says is computed.
        let there = &profile.steps()[ops[1].steps()[0]];
        assert_eq!(
            (there.bytes_read(), there.bytes_written(), there.flops()),
            (256, 256, Some(64)),
            "{name}: what is declared read_write is only written"
        );
        assert_eq!(profile.steps()[ops[2].steps()[0]].flops(), None, "{name}");
        assert!(ops.iter().all(|op| op.record().is_some()) && profile.stages().record.is_some(), "{name}");
        let text = profile.to_string();
        for part in ["outer", "  twice", "#1 there", "step", "GB/s"] {
            assert!(text.contains(part), "{name}: {part:?} in {text}");
        }
    }
    Ok(())
}

#[test]
fn fused_operations_know_their_kernel_and_each_other() -> sortie::Result<()> {
    for (name, device) in devices() {
        let weights = device.upload(&vec![0.5_f32; 64 * 32])?;
        let out = device.zeros::<f32>(16 * 32)?;
        let batch = device.batch();
        let profile = batch.profile();
        let x = batch.tensor_from(&[1.0_f32; 16 * 64], [16, 64]); // 0
        let w = batch.tensor(&weights, [64, 32]);
        let y = batch.scope("product", |_| x.matmul(w)); // 1
        let line = line!() + 1;
        let y = batch.scope("tail", |_| y.gelu()); // 2
        let y = y * 2.0; // 3
        y.store(&out); // 4
        batch.submit()?;
        let profile = profile.wait()?;
        let ops = profile.ops();
        assert_eq!(ops.len(), 5);
        assert_eq!(ops[2].location().line(), line, "{name}: an operation has the line of its caller");
        let product = &profile.steps()[ops[1].steps()[0]];
        assert_eq!((product.name(), product.ops()), ("matmul+gelu+mul+copy", &[1, 2, 3, 4][..]), "{name}");
        assert_eq!(ops[2].fused_with(), [1, 3, 4], "{name}");
        assert_eq!(product.flops(), Some(2 * 16 * 64 * 32 + 2 * 16 * 32), "{name}");
        // No scope holds all of it: none claims its time.
        assert!(profile.scopes().iter().all(|scope| scope.time().is_none() && scope.straddling() == 1), "{name}");
        assert!(profile.to_string().contains("#1–4"), "{name}: {profile}");
        assert_eq!(product.bytes_read(), 4 * (16 * 64 + 64 * 32), "{name}");
        assert!(product.flops_per_second().is_some(), "{name}: {product:?}");
    }
    Ok(())
}

#[test]
fn views_belong_to_the_kernel_that_reads_through_them() -> sortie::Result<()> {
    for (name, device) in devices() {
        let batch = device.batch();
        let profile = batch.profile();
        let x = batch.tensor_from(&[1.0_f32; 12], [3, 4]);
        let t = x.transpose();
        let y = t.exp();
        let _ = x.relu(); // unused
        let y = batch.read(y);
        batch.submit()?;
        let profile = profile.wait()?;
        assert_eq!(profile.ops()[1].fused_with(), [2], "{name}");
        assert_eq!(profile.ops()[1].kernel(), profile.ops()[2].kernel(), "{name}");
        assert_eq!(y.wait()?.len(), 12);
    }
    Ok(())
}

#[test]
fn unfused_every_operation_has_a_step_of_its_own() -> sortie::Result<()> {
    let options = || DeviceOptions::default().with_planning(Planning { fuse: false, ..Planning::default() });
    let gpu = ["llvmpipe", "swiftshader"].into_iter().filter_map(|driver| drivers::open_with(driver, options()));
    for device in gpu.chain([sortie::Device::cpu_with(options())?]) {
        let batch = device.batch();
        let profile = batch.profile();
        let x = batch.tensor_from(&[1.0_f32; 64], [64]);
        let y = x.exp();
        let y = y.relu();
        drop(batch.read(y));
        batch.submit()?;
        let profile = profile.wait()?;
        let names: Vec<_> = profile.steps().iter().map(sortie::profile::StepProfile::name).collect();
        assert_eq!(names, ["write", "exp", "relu", "read"], "{}", device.info());
        assert!(profile.ops().iter().all(|op| op.fused_with().is_empty()));
    }
    Ok(())
}

#[test]
fn asked_last_it_tells_all_but_the_time_of_recording() -> sortie::Result<()> {
    for (name, device) in devices() {
        let x = device.zeros::<f32>(64)?;
        let batch = device.batch();
        batch.fill(&x, 1.0);
        let profile = batch.profile();
        let again = batch.profile();
        batch.fill(&x, 2.0);
        batch.submit()?;
        let profile = profile.wait()?;
        assert_eq!(profile.stages().record, None, "{name}");
        let recorded: Vec<_> = profile.ops().iter().map(|op| op.record().is_some()).collect();
        assert_eq!(recorded, [false, true], "{name}: the second was recorded after it was asked for");
        assert_eq!(pollster::block_on(again)?.ops().len(), 2, "{name}: a reading is a future, too");
    }
    Ok(())
}

#[test]
fn what_does_nothing_has_no_step_and_an_empty_batch_an_empty_profile() -> sortie::Result<()> {
    for (name, device) in devices() {
        let step = device.kernel(STEP)?;
        let (x, y) = (device.zeros::<f32>(64)?, device.zeros::<f32>(64)?);
        let batch = device.batch();
        let profile = batch.profile();
        batch.dispatch(&step, &[&x, &y], Grid::items(0));
        batch.copy(x.slice(..0), y.slice(..0));
        batch.submit()?;
        let profile = profile.wait()?;
        assert_eq!((profile.ops().len(), profile.steps().len()), (2, 0), "{name}");
        assert_eq!((profile.ops()[0].kernel(), profile.ops()[0].time()), (None, None), "{name}");

        let batch = device.batch();
        let profile = batch.profile();
        batch.submit()?;
        let profile = profile.wait()?;
        assert_eq!((profile.ops().len(), profile.steps().len(), profile.submissions()), (0, 0, 0), "{name}");
        assert!(profile.to_string().starts_with("0 ops"), "{name}: {profile}");
    }
    Ok(())
}

const FLOPS: u64 = 1 << 20;

#[test]
fn a_divided_dispatch_is_one_op_of_several_steps() -> sortie::Result<()> {
    for (name, device) in devices().into_iter().filter(|(name, _)| *name != "cpu") {
        let step = device.kernel(STEP)?;
        let items = 1 << 22;
        let (x, y) = (device.zeros::<f32>(items)?, device.zeros::<f32>(items)?);
        let run = |budget: std::time::Duration| -> sortie::Result<sortie::profile::Profile> {
            let batch = device.batch();
            batch.split_by(Split::Adaptive { budget });
            let profile = batch.profile();
            batch.dispatch(&step, &[&x, &y], Grid::items(items)).flops(FLOPS);
            batch.copy(&y, &x);
            drop(batch.read(x.slice(..4)));
            batch.submit()?;
            profile.wait()
        };
        let profile = run(std::time::Duration::from_millis(1))?;
        let op = &profile.ops()[0];
        assert!(op.steps().len() > 1 && profile.submissions() >= op.steps().len(), "{name}: {profile}");
        let flops: u64 = profile.steps().iter().filter_map(sortie::profile::StepProfile::flops).sum();
        assert!(flops <= FLOPS && flops > FLOPS * 9 / 10, "{name}: {flops} of {FLOPS}");
        let whats: Vec<_> = profile.ops().iter().map(|op| (op.what(), op.kernel())).collect();
        let expected = [("dispatch", Some("step")), ("copy", Some("copy")), ("read", Some("read"))];
        assert_eq!(whats, expected, "{name}: what follows a divided dispatch keeps its name");
        let moved = profile.steps().iter().filter(|step| step.name() == "step");
        let bytes: u64 = moved.map(sortie::profile::StepProfile::bytes).sum();
        let whole = 2 * 4 * items as u64;
        assert!(bytes <= whole && bytes > whole * 9 / 10, "{name}: {bytes} of {whole}");
    }
    Ok(())
}

#[test]
fn fences_are_no_ops_wherever_they_stand() -> sortie::Result<()> {
    for (name, device) in devices() {
        let x = device.zeros::<f32>(64)?;
        let batch = device.batch();
        let profile = batch.profile();
        batch.barrier();
        batch.split();
        batch.fill(&x, 1.0);
        batch.split();
        batch.copy(x.slice(..4), x.slice(4..8));
        batch.barrier();
        batch.submit()?;
        let profile = profile.wait()?;
        let ops: Vec<_> = profile.ops().iter().map(|op| (op.number(), op.what(), op.kernel())).collect();
        assert_eq!(ops, [(0, "fill", Some("fill")), (1, "copy", Some("copy"))], "{name}");
    }
    Ok(())
}

#[test]
fn ops_of_a_kernel_are_in_their_order_whatever_was_stored_where() -> sortie::Result<()> {
    for (name, device) in devices() {
        let (a, b) = (device.zeros::<f32>(64)?, device.zeros::<f32>(64)?);
        let batch = device.batch();
        let profile = batch.profile();
        let x = batch.tensor_from(&[1.0_f32; 64], [64]);
        let y = x.exp();
        let z = y.relu();
        z.store(&a);
        y.store(&b);
        batch.submit()?;
        let profile = profile.wait()?;
        let all =
            profile.steps().iter().find(|step| step.ops().len() > 1).unwrap_or_else(|| panic!("{name}: {profile}"));
        assert!(all.ops().is_sorted(), "{name}: {:?}", all.ops());
    }
    Ok(())
}

#[test]
fn a_profile_of_a_batch_that_fails_is_that_error() -> sortie::Result<()> {
    for (_, device) in devices() {
        let batch = device.batch();
        let profile = batch.profile();
        let x = batch.tensor_from(&[1.0_f32; 4], [5]);
        drop(batch.read(x));
        let error = batch.submit().expect_err("4 elements are not 5");
        assert_eq!(profile.wait().map(|_| ()).expect_err("the same").to_string(), error.to_string());

        let batch = device.batch();
        let profile = batch.profile();
        assert_eq!(
            profile.wait_timeout(std::time::Duration::ZERO).expect_err("not submitted").kind(),
            sortie::ErrorKind::NotSubmitted
        );
        drop(batch);
        assert_eq!(profile.wait().expect_err("dropped").kind(), sortie::ErrorKind::Canceled);
        let batch = device.batch();
        drop(batch.profile());
        let error = batch.freeze().expect_err("a profile is of one batch");
        assert!(error.to_string().contains("profile"), "{error}");
    }
    Ok(())
}
