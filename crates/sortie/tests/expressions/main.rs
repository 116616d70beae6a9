//! Random kernels, compared between two devices.
//!
//! A tape of random bytes is read as decisions, and every tape is a valid kernel: shrinking the tape shrinks the kernel. Four families differ
//! in what may be compared: integers over their whole range and floats that are exact by construction must agree in every bit, rounded
//! floats and transcendental functions within a tolerance that the generator derives with the kernel.
//!
//! The seed is fixed, so a run is the same every time. `SORTIE_CASES=full` runs ten times as many cases.

mod compare;
mod devices;
mod exact;
mod expression;
mod family;
mod function;
mod integer;
mod kernel;
mod rounded;
mod scope;
mod statement;
mod tape;
mod types;

use proptest::{prelude::*, test_runner::RngSeed};

use crate::{compare::compare, devices::pair, family::Family, kernel::Kernel};

fn config(full: u32, seed: u64) -> ProptestConfig {
    let all = std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full");
    ProptestConfig {
        cases: if all { full } else { full.div_ceil(10) },
        rng_seed: RngSeed::Fixed(0x5027_1e00 + seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Both devices run the kernel that a tape tells, and agree.
fn agree(family: Family, tape: &[u8]) -> Result<(), TestCaseError> {
    let Some((one, other)) = pair() else { return Ok(()) };
    let kernel = Kernel::read(family, tape);
    compare(&kernel, one, other).map_err(|how| TestCaseError::fail(format!("{how}\n{}", kernel.source)))
}

fn tapes(longest: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..longest)
}

proptest! {
    #![proptest_config(config(900, 1))]
    #[test]
    fn integers_agree_in_every_bit_over_their_whole_range(tape in tapes(700)) {
        agree(Family::Integers, &tape)?;
    }
}

proptest! {
    #![proptest_config(config(900, 2))]
    #[test]
    fn floats_that_need_no_rounding_agree_in_every_bit(tape in tapes(700)) {
        agree(Family::Exact, &tape)?;
    }
}

proptest! {
    #![proptest_config(config(300, 3))]
    #[test]
    fn rounded_floats_agree_within_the_roundings_that_were_made(tape in tapes(250)) {
        agree(Family::Rounded, &tape)?;
    }
}

proptest! {
    #![proptest_config(config(200, 4))]
    #[test]
    fn transcendental_functions_agree_within_what_wgsl_allows(tape in tapes(120)) {
        agree(Family::Transcendental, &tape)?;
    }
}
