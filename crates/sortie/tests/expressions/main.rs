//! Random kernels, compared between two devices.
//!
//! Tapes of random bytes are read as decisions, and all tapes are valid kernels: shrinking the tape shrinks the kernel. Four families differ
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
fn agree(family: Family, statements: &[u8], results: &[u8]) -> Result<(), TestCaseError> {
    let Some((one, other)) = pair() else { return Ok(()) };
    let kernel = Kernel::read(family, (statements, results));
    compare(&kernel, one, other).map_err(|how| TestCaseError::fail(format!("{how}\n{}", kernel.source)))
}

fn tapes(longest: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..longest)
}

proptest! {
    #![proptest_config(config(900, 1))]
    #[test]
    fn integers_agree_in_every_bit_over_their_whole_range(statements in tapes(900), results in tapes(400)) {
        agree(Family::Integers, &statements, &results)?;
    }
}

proptest! {
    #![proptest_config(config(900, 2))]
    #[test]
    fn floats_that_need_no_rounding_agree_in_every_bit(statements in tapes(900), results in tapes(400)) {
        agree(Family::Exact, &statements, &results)?;
    }
}

proptest! {
    #![proptest_config(config(300, 3))]
    #[test]
    fn rounded_floats_agree_within_the_roundings_that_were_made(results in tapes(250)) {
        agree(Family::Rounded, &[], &results)?;
    }
}

proptest! {
    #![proptest_config(config(200, 4))]
    #[test]
    fn transcendental_functions_agree_within_what_wgsl_allows(results in tapes(120)) {
        agree(Family::Transcendental, &[], &results)?;
    }
}
