//! `sortie tune` through the built command.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

/// A tuning file of its own, gone at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sortie-tune-{}-{name}.toml", std::process::id()));
        drop(fs::remove_file(&path));
        Self(path)
    }

    fn tune(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sortie"));
        command.args(["tune", "--device", "cpu", "--seconds", "1"]).args(arguments);
        command.env("SORTIE_TUNING", &self.0).env_remove("SORTIE_DEVICE").output().expect("it runs")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

/// What it printed, of a run that succeeded.
fn told(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{out}{}", String::from_utf8_lossy(&output.stderr));
    out
}

#[test]
fn recording_op_by_op_is_compared_with_record_all_and_in_the_verdict() {
    let place = Place::new("dry");
    let out = told(&place.tune(&["--dry-run"]));
    let mut lines = out.lines().skip_while(|line| !line.starts_with("copy + dispatch"));
    let heading = lines.next().unwrap_or_else(|| panic!("{out}"));
    for column in ["a batch each", "one batch, op by op", "one batch, record_all"] {
        assert!(heading.contains(column), "{heading}");
    }
    for items in ["1", "10", "100"] {
        let line = lines.next().unwrap_or_default();
        // The number of pieces, then a time, its unit and a ratio for each way.
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!((words.len(), words[0]), (10, items), "{line}");
        for cell in words[1..].chunks(3) {
            let [time, ratio] = [cell[0], cell[2]].map(|number| number.parse::<f64>().unwrap_or_default());
            assert!(time > 0.0 && ratio > 0.0 && cell[1] == "ms", "{line}");
        }
    }
    assert!(out.contains("Recorded op by op into one batch they take "), "{out}");
    assert!(out.contains("× as long as with `record_all`: "), "{out}");
    assert!(!place.0.exists(), "it was a dry run");
}

#[test]
fn products_are_measured_and_kept_with_the_policy() {
    let place = Place::new("kept");
    let out = told(&place.tune(&[]));
    assert!(out.contains("products by native\n"), "{out}");
    let kept = fs::read_to_string(&place.0).unwrap_or_else(|error| panic!("{error}: {out}"));
    let (_, product) = out.split_once("Products of large matrices: ").unwrap_or_else(|| panic!("{out}"));
    let product = product.lines().next().unwrap_or_default();
    assert!(out.contains("256×256×256, native "), "{out}");
    for line in [format!("product = {product:?}\n"), "split = ".into(), "in_flight = ".into()] {
        assert!(kept.contains(&line), "{kept}");
    }
    assert!(told(&place.tune(&["--dry-run"])).contains(&format!("products by {product}\n")), "the next one finds it");
}
