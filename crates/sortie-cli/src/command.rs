//! What can be asked on the command line.

use std::io::Write;

use clap::{Parser, Subcommand};

use crate::{bench::Bench, demo::Demo, devices, map::Map, profile::Profile, tune::Tune, warm::Warm};

/// Many small GPU operations, one submission.
///
/// SORTIE_DEVICE chooses the device: a part of its name, its index in `sortie devices`, or `cpu`. Otherwise it is the best GPU, else the
/// built-in CPU.
#[derive(Debug, Parser)]
#[command(name = "sortie", version)]
pub(crate) struct Sortie {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the devices that can compute, with their limits; * marks the one that would be opened
    Devices,
    /// Do the same work one submission at a time, batched, fused and replayed; check the answers; and show it as a page
    Demo(Demo),
    /// Measure what an op costs by how many of them share a submission
    Bench(Bench),
    /// Run a kernel on data from files, or made up, and print what it took
    Profile(Profile),
    /// Run a file that may be larger than memory through a kernel, window by window, into another file
    Map(Map),
    /// Measure how this device is best given its work, and keep that for programs that open it
    Tune(Tune),
    /// Compile kernels into the device's pipeline cache, so that the programs which use them start faster
    ///
    /// Grids of more than 65,535 workgroups in a dimension use a variant of a kernel that is compiled when one first asks for it. How much is saved is up to the driver.
    Warm(Warm),
}

impl Sortie {
    /// Runs it, with the answer going to `out`.
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
        match &self.verb {
            Verb::Devices => devices::list(out),
            Verb::Demo(demo) => demo.run(out),
            Verb::Bench(bench) => bench.run(out),
            Verb::Profile(profile) => profile.run(out),
            Verb::Map(map) => map.run(out),
            Verb::Tune(tune) => tune.run(out),
            Verb::Warm(warm) => warm.run(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Sortie::command().debug_assert();
    }

    #[test]
    fn no_ops_and_no_items_are_refused_when_parsed() {
        let lines = [["demo", "--ops"], ["demo", "--items"], ["demo", "--requests"], ["bench", "--items"]];
        for [verb, option] in lines {
            let line = ["sortie", verb, option, "0"];
            let error = Sortie::try_parse_from(line).expect_err("0 is out of range");
            assert_eq!(error.kind(), clap::error::ErrorKind::ValueValidation);
        }
    }
}
