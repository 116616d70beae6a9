//! The `soak` command as it is typed.

use std::process::{Command, Output};

fn soak(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_soak")).args(arguments).output().expect("soak runs")
}

/// What the self-check with this seed prints, and whether the command succeeds.
fn checked(seed: &str) -> (String, bool) {
    let output = soak(&["self-check", "--runs", "1", "--seed", seed]);
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
}

#[test]
fn every_way_to_fail_is_noticed_and_named_with_its_seed() {
    let failures =
        ["planted", "1 panics", "killed by SIGABRT at the failure", "hung: no end after 10 s", "the exit took 3"];
    for (seed, failure) in failures.into_iter().enumerate() {
        let (printed, success) = checked(&seed.to_string());
        assert!(!success && printed.contains(failure), "seed {seed}: {printed}");
        assert!(printed.contains(&format!("repeat: soak self-check --device cpu --seed {seed}")), "{printed}");
    }
}

#[test]
fn a_clean_run_succeeds_and_is_counted() {
    let (printed, success) = checked("5");
    assert!(success && printed.contains("| self-check | cpu    |    1 |          1 |      0 |"), "{printed}");
}

#[test]
fn the_list_has_every_part_of_a_campaign() {
    let output = soak(&["list"]);
    let list = String::from_utf8_lossy(&output.stdout);
    let parts = ["loss", "waiting", "growth", "overload", "exits", "memory-limit", "kernels", "programs", "files"];
    for part in parts {
        assert!(list.lines().any(|line| line.starts_with(&format!("{part} "))), "{part}: {list}");
    }
}

#[test]
fn an_unknown_part_is_refused_with_the_names_of_the_others() {
    let output = soak(&["lost"]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && printed.contains("loss-baseline"), "{printed}");
}
