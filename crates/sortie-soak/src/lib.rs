//! The reliability campaign: programs that attack the library and check what comes back.
//!
//! Every part runs in child processes, because crashes, hangs and panics are among the failures that it looks for. The
//! parent counts runs and failures and prints a table. A failure names its seed and the command that repeats it.
//!
//! | module | noun |
//! |---|---|
//! | [`command`] | the command line |
//! | [`part`] | [`Part`](part::Part): one attack, and its outcome |
//! | [`report`] | [`Report`](report::Report): what a child process reports to its parent |
//! | [`child`] | a child process: started, watched, judged |
//! | [`campaign`] | parts run on devices for a given time |
//! | [`summary`] | the table at the end |
//! | [`memory`], [`panics`], [`devices`] | resident memory, a panic counter, opening devices |
//! | [`program`] | a random program and its expected results, for the part `programs` and for `fuzz/` |
//! | [`parts`] | one file per part, and the list of all of them |

// Whether a device may cross threads follows from wgpu's types, which nest deep.
#![recursion_limit = "256"]

pub mod campaign;
pub mod child;
pub mod command;
pub mod devices;
pub mod memory;
pub mod panics;
pub mod part;
pub mod parts;
pub mod program;
pub mod report;
pub mod summary;
