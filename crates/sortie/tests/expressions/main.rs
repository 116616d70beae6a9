//! Random kernels, compared between two devices.
//!
//! Tapes of random bytes are read as decisions, and all tapes are valid kernels: shrinking the tape shrinks the kernel. Four families differ
//! in what may be compared: integers over their whole range and floats that are exact by construction must agree in every bit, rounded
//! floats and transcendental functions within a tolerance that the generator derives with the kernel.
//!
//! The seed is fixed, so a run is the same every time. `SORTIE_CASES=full` runs ten times as many cases.

mod compare;
mod devices;
#[path = "../drivers/mod.rs"]
mod drivers;
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

use crate::{compare::compare, devices::pair, family::Family, kernel::Kernel, tape::Tapes};

fn config(full: u32, seed: u64) -> ProptestConfig {
    let all = std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full");
    ProptestConfig {
        cases: if all { full } else { full.div_ceil(10) },
        rng_seed: RngSeed::Fixed(0x5027_1e00 + seed),
        failure_persistence: None,
        // A step of shrinking costs as much as a case: a minute or two for a kernel that can be read.
        max_shrink_iters: 3_000,
        ..ProptestConfig::default()
    }
}

/// Both devices run the kernel that a tape tells, and agree.
fn agree(family: Family, tapes: &Tapes) -> Result<(), TestCaseError> {
    let Some((one, other)) = pair() else { return Ok(()) };
    let kernel = Kernel::read(family, tapes);
    compare(&kernel, one, other).map_err(|how| TestCaseError::fail(format!("{how}\n{}", kernel.source)))
}

proptest! {
    #![proptest_config(config(900, 1))]
    #[test]
    fn integers_agree_in_every_bit_over_their_whole_range(tapes in Tapes::programs()) {
        agree(Family::Integers, &tapes)?;
    }
}

proptest! {
    #![proptest_config(config(900, 2))]
    #[test]
    fn floats_that_need_no_rounding_agree_in_every_bit(tapes in Tapes::programs()) {
        agree(Family::Exact, &tapes)?;
    }
}

proptest! {
    #![proptest_config(config(300, 3))]
    #[test]
    fn rounded_floats_agree_within_the_roundings_that_were_made(tapes in Tapes::expressions(120)) {
        agree(Family::Rounded, &tapes)?;
    }
}

proptest! {
    #![proptest_config(config(200, 4))]
    #[test]
    fn transcendental_functions_agree_within_what_wgsl_allows(tapes in Tapes::expressions(40)) {
        agree(Family::Transcendental, &tapes)?;
    }
}
