//! A program may end while work is under way and more stands in line.

use std::process::Command;

use crate::cpu;

/// Tells the child process what to do.
const CHILD: &str = "SORTIE_TEST_EXIT_ON_CPU";

#[test]
fn exiting_with_work_in_flight_does_not_crash() {
    let program = std::env::current_exe().expect("this program");
    for round in 0..5 {
        let mut child = Command::new(&program);
        child.args(["--exact", "exit::leaves_work_in_flight", "--nocapture"]).env(CHILD, "1");
        let output = child.output().expect("the child runs");
        assert!(output.status.success(), "round {round}: {:?}", output.status);
    }
}

/// The child: does nothing unless it was asked to.
#[test]
fn leaves_work_in_flight() -> sortie::Result<()> {
    if std::env::var_os(CHILD).is_none() {
        return Ok(());
    }
    let device = cpu();
    let busy = device.zeros::<u32>(1 << 20)?;
    for _ in 0..3 {
        let mut batch = device.batch();
        (1..200).for_each(|value| batch.fill(&busy, value));
        drop(batch.submit_async()?);
    }
    Ok(())
}
