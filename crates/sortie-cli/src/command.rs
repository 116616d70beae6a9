//! The command line.

use std::io::Write;

use clap::{Parser, Subcommand};

use crate::{
    bench::Bench, demo::Demo, devices, embed::Embed, map::Map, profile::Profile, run::Run, tune::Tune, warm::Warm,
};

/// Many small GPU operations, one submission.
///
/// SORTIE_DEVICE chooses the device: part of its name, its index in `sortie devices`, or `cpu`. Without it, the best
/// GPU is opened, else the built-in CPU.
#[derive(Debug, Parser)]
#[command(name = "sortie", version)]
pub(crate) struct Sortie {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the devices and their limits; * marks the one that would be opened
    Devices,
    /// Do the same work one submission at a time, batched, fused and replayed; check the answers; show it as a page
    Demo(Demo),
    /// Measure the cost of an op by the number of ops in a submission
    Bench(Bench),
    /// Run a kernel on data from files, or generated, and keep its buffers in files
    Run(Run),
    /// Run a kernel on data from files, or generated, and print its profile
    Profile(Profile),
    /// Run a file that may be larger than memory through a kernel, window by window, into another file
    ///
    /// The kernel has two storage bindings, of which it reads the first and writes the second, or one that it changes
    /// in place. It runs one invocation for each row.
    Map(Map),
    /// Embed lines of text with a BERT-style model, and write the embeddings or print the lines nearest to a question
    Embed(Embed),
    /// Measure the best submit policy and matrix product of this device, and save them for programs that open it
    Tune(Tune),
    /// Compile kernels into the device's pipeline cache, so that programs that use them start faster
    ///
    /// Grids of more than 65,535 workgroups in a dimension use a variant of a kernel that is compiled when a program
    /// first needs it. How much time is saved depends on the driver.
    Warm(Warm),
}

impl Sortie {
    /// Runs the verb and writes its result to `out`.
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
        match &self.verb {
            Verb::Devices => devices::list(out),
            Verb::Demo(demo) => demo.run(out),
            Verb::Bench(bench) => bench.run(out),
            Verb::Run(run) => run.run(out),
            Verb::Profile(profile) => profile.run(out),
            Verb::Map(map) => map.run(out),
            Verb::Embed(embed) => embed.run(out),
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
