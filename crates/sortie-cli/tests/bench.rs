//! `sortie bench` through the built command.

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sortie"));
    command.args(["bench", "--quick", "--device", "cpu", "--items", "16"]).args(arguments).env_remove("SORTIE_DEVICE");
    command.output().expect("it runs")
}

fn told(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_contender_has_a_line_of_json_at_every_length_and_a_curve() {
    let svg = std::env::temp_dir().join(format!("sortie-bench-{}.svg", std::process::id()));
    let output = bench(&["--json", "--svg", &svg.to_string_lossy()]);
    let out = told(&output.stdout);
    assert!(output.status.success(), "{out}{}", told(&output.stderr));
    // Seven contenders, and lengths of 1, 4 and so on to 4,096.
    assert_eq!(out.lines().count(), 7 * 7, "{out}");
    for line in out.lines() {
        assert!(line.starts_with("{\"bench\":\"curve\",\"device\":\"sortie CPU") && line.ends_with('}'), "{line}");
        let ratio =
            line.rsplit_once("\"ratio\":").and_then(|(_, ratio)| ratio.trim_end_matches('}').parse::<f64>().ok());
        assert!(ratio.is_some_and(|ratio| ratio > 0.0), "{line}");
    }
    let picture = std::fs::read_to_string(&svg).expect("a picture");
    drop(std::fs::remove_file(&svg));
    assert!(picture.starts_with("<?xml") && picture.trim_end().ends_with("</svg>"));
    assert_eq!(picture.matches("<polyline ").count(), 5);
    assert_eq!(picture.matches("<circle ").count(), 5 * 7);
}

#[test]
fn a_table_is_printed_without_json() {
    let output = bench(&[]);
    let out = told(&output.stdout);
    assert!(output.status.success() && out.contains("again/batched") && !out.contains('{'), "{out}");
}

#[test]
fn the_noop_device_is_refused() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_sortie")).args(["bench", "--device", "noop"]).output().expect("it runs");
    assert!(!output.status.success() && told(&output.stderr).contains("noop"), "{}", told(&output.stderr));
}
