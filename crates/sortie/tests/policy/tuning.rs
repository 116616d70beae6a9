//! What the tuning file says about how a device is given its work.

use std::{fs, path::PathBuf, time::Duration};

use sortie::{
    Device, DeviceOptions, ErrorKind,
    device::TuningFile,
    policy::{Split, SubmitPolicy},
    tune::{Strategy, TuneReport},
};

/// The default of the built-in CPU.
const CPU: SubmitPolicy = SubmitPolicy { split: Split::Never, in_flight: 2 };

/// A file of its own for a test, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sortie-policy-{name}-{}.toml", std::process::id()));
        drop(fs::remove_file(&path));
        Self(path)
    }

    fn options(&self) -> DeviceOptions {
        DeviceOptions::default().with_device("cpu").with_tuning(TuningFile::At(self.0.clone()))
    }

    fn policy(&self) -> sortie::Result<SubmitPolicy> {
        Ok(Device::open_with(self.options())?.policy())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

#[test]
fn a_device_opens_with_the_settings_of_the_file_unless_options_override_them() -> sortie::Result<()> {
    let scratch = Scratch::new("read");
    let device = Device::open_with(scratch.options())?;
    let name = format!("{}, {}", device.info().name, device.info().driver);
    for (split, in_flight, expected) in [
        ("every 64 ops", "3", Some((Split::Every(64), 3))),
        ("never split", "1", Some((Split::Never, 1))),
        ("adaptive, 12.5 ms", "2", Some((Split::Adaptive { budget: Duration::from_micros(12_500) }, 2))),
        ("adaptive, 0 ms", "2", Some((Split::Adaptive { budget: Duration::ZERO }, 2))),
        ("every 0 ops", "2", None),
        ("often", "2", None),
        ("every 64 ops", "0", None),
        ("every 64 ops", "two", None),
    ] {
        let text = format!("[{name:?}]\nsplit = {split:?}\nin_flight = {in_flight:?}\nproduct = \"no such way\"\n");
        fs::write(&scratch.0, text).expect("a writable folder");
        let expected = expected.map_or(CPU, |(split, in_flight)| SubmitPolicy { split, in_flight });
        assert_eq!(scratch.policy()?, expected, "{split}, {in_flight}");
    }
    for text in [
        "not toml at all [",
        "split = \"every 64 ops\"",
        "[\"another device\"]\nsplit = \"never split\"\nin_flight = \"1\"",
    ] {
        fs::write(&scratch.0, text).expect("a writable folder");
        assert_eq!(scratch.policy()?, CPU, "{text}");
    }
    fs::write(&scratch.0, format!("[{name:?}]\nsplit = \"never split\"\nin_flight = \"1\"\n"))
        .expect("a writable folder");
    let own = SubmitPolicy { split: Split::Every(5), in_flight: 4 };
    assert_eq!(Device::open_with(scratch.options().with_policy(own))?.policy(), own);
    Ok(())
}

#[test]
fn findings_are_saved_without_changing_those_of_other_devices() -> sortie::Result<()> {
    let scratch = Scratch::new("kept");
    fs::write(&scratch.0, "[\"another device\"]\nsplit = \"never split\"\nin_flight = \"1\"\n")
        .expect("a writable folder");
    let mut told = Vec::new();
    let findings = TuneReport::measure(&scratch.options(), Duration::from_millis(200), |done| told.push(done))?;
    assert!(told.is_sorted() && told.last() == Some(&1.0), "{told:?}");
    for work in ["small", "medium", "large"] {
        let of = |way| findings.timings().iter().filter(|timing| timing.work.name == work && timing.way == way).count();
        assert_eq!(
            [of(Strategy::Cut(Split::Never)), of(Strategy::Depth(2))],
            [2, 2],
            "{work}: a baseline and a control each"
        );
        assert_eq!(
            [of(Strategy::Cut(Split::Every(8))), of(Strategy::Cut(Split::default())), of(Strategy::Depth(3))],
            [1; 3],
            "{work}"
        );
    }
    assert!(findings.timings().iter().all(|timing| timing.ratio > 0.0 && timing.time > Duration::ZERO));
    assert_eq!(findings.churn().iter().map(|churn| churn.items).collect::<Vec<_>>(), [1, 10, 100]);
    for churn in findings.churn() {
        assert!([churn.one_by_one, churn.op_by_op, churn.together].iter().all(|time| *time > Duration::ZERO));
        assert!([churn.ratio, churn.op_by_op_ratio, churn.control].iter().all(|ratio| *ratio > 0.0), "{churn:?}");
    }
    assert!(findings.to_string().contains(&findings.verdict()));
    assert_eq!(findings.save()?, scratch.0);
    assert_eq!(scratch.policy()?, findings.policy());
    let kept = fs::read_to_string(&scratch.0).expect("what was kept");
    assert!(kept.contains("another device") && kept.contains("never split"), "{kept}");
    assert!(kept.contains(&format!("product = {:?}\n", findings.products().fastest())), "{kept}");
    Ok(())
}

#[test]
#[cfg(unix)]
fn a_link_that_was_put_where_the_file_is_written_is_not_followed() -> sortie::Result<()> {
    let scratch = Scratch::new("link");
    let findings = TuneReport::measure(&scratch.options(), Duration::from_millis(1), |_| {})?;
    let precious = Scratch::new("precious");
    fs::write(&precious.0, "precious").expect("a writable folder");
    // Names that can be guessed: the file itself, and the one that it was once written to first.
    let guessed = Scratch(scratch.0.with_extension(format!("{}.tmp", std::process::id())));
    for link in [&scratch, &guessed] {
        drop(fs::remove_file(&link.0));
        std::os::unix::fs::symlink(&precious.0, &link.0).expect("a link");
    }
    findings.save()?;
    assert_eq!(fs::read_to_string(&precious.0).expect("it is there"), "precious");
    assert!(fs::symlink_metadata(&scratch.0).is_ok_and(|about| about.is_file()));
    assert_eq!(scratch.policy()?, findings.policy());
    Ok(())
}

#[test]
fn there_is_nothing_to_measure_on_a_device_that_runs_nothing() {
    let options = DeviceOptions::default().with_device("noop");
    let error = TuneReport::measure(&options, Duration::from_secs(1), |_| {}).expect_err("it runs nothing");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
