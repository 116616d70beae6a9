//! A corpus of WGSL kernels, each with a reference in plain Rust that knows no device.
//!
//! Every case runs on every device at hand. Integers must have the reference's bits, floats come within a tolerance that the case states
//! with its cause, and the devices agree with the first of them by the same measure. A device that lacks what a case needs is named.
#![expect(clippy::manual_is_multiple_of, reason = "a reference says `%` where its kernel does")]

mod case;
mod devices;
mod dice;
#[path = "../drivers/mod.rs"]
mod drivers;
#[cfg(not(any(target_vendor = "apple", target_family = "wasm")))]
mod hooks;
mod run;
#[cfg(not(any(target_vendor = "apple", target_family = "wasm")))]
mod same_words;
mod subgroups;
mod tolerance;
mod word;

macro_rules! subjects {
    ($($subject:ident)*) => {
        $(mod $subject;)*

        /// One test for each subject.
        mod every_device_agrees_with_the_reference {
            $(
                #[test]
                fn $subject() {
                    crate::run::run_all(stringify!($subject), &crate::$subject::cases());
                }
            )*
        }

        fn all() -> Vec<case::Case> {
            let mut cases = Vec::new();
            $(cases.extend($subject::cases());)*
            cases
        }
    };
}

subjects! {
    integers math floats geometry vectors matrices halves
    layouts variables functions control ids atomics waits groups bounds shapes large
    linear orders images numbers texts physics reach longs
}

#[test]
fn the_mistakes_that_are_there_are_found_and_no_others() {
    run::check_all(&all(), true);
    run::check_all(&all(), false);
}

#[test]
fn every_case_runs_on_at_least_one_device() {
    let devices = devices::devices();
    if devices.is_empty() {
        return drivers::say("SKIPPED: no device, no corpus");
    }
    for case in all() {
        let runs =
            |(name, device): &(&str, sortie::Device)| case.needs.iter().all(|need| devices::has(name, device, *need));
        assert!(devices.iter().any(runs), "no device runs {}", case.name);
    }
}

#[test]
fn the_corpus_is_large_and_its_names_are_unique() {
    let mut names: Vec<_> = all().iter().map(|case| case.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a name is used twice");
    assert!(count >= 180, "{count} cases: some have been lost");
}
