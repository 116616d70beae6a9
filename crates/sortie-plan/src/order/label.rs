//! A position in the order of one submission: a phase, and a wave within it.
//!
//! Phases alternate between the lanes, so a compute phase is one compute pass and a transfer phase is one run of
//! copies. Ops with the same label run concurrently.
//!
//! Invariant: [`Phases::after`] is monotonic in its label. Therefore an op that must come after many others only needs
//! the greatest of their labels, and hazard tracking needs no edge lists.

use crate::Lane;

/// A position in the order, which the derived comparison gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Label {
    pub(crate) phase: u32,
    pub(crate) wave: u32,
}

/// Which phases belong to which lane: even ones to the lane that begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Phases {
    pub(crate) first: Lane,
}

impl Phases {
    pub(crate) fn lane(self, phase: u32) -> Lane {
        match (self.first, phase.is_multiple_of(2)) {
            (first, true) => first,
            (Lane::Compute, false) => Lane::Transfer,
            (Lane::Transfer, false) => Lane::Compute,
        }
    }

    /// The first label of `lane`.
    pub(crate) fn start(self, lane: Lane) -> Label {
        let zero = Label { phase: 0, wave: 0 };
        self.not_before(zero, lane)
    }

    /// The first label of `lane` that is not before `label`.
    pub(crate) fn not_before(self, label: Label, lane: Lane) -> Label {
        if self.lane(label.phase) == lane { label } else { Label { phase: label.phase + 1, wave: 0 } }
    }

    /// The first label of `lane` that is past `label`.
    pub(crate) fn after(self, label: Label, lane: Lane) -> Label {
        let next = Label { wave: label.wave + 1, ..label };
        self.not_before(next, lane)
    }
}

#[cfg(test)]
mod tests {
    use super::{Label, Phases};
    use crate::Lane;

    const LANES: [Lane; 2] = [Lane::Compute, Lane::Transfer];

    const fn at(phase: u32, wave: u32) -> Label {
        Label { phase, wave }
    }

    #[test]
    fn an_op_of_the_same_lane_is_in_the_next_wave_and_one_of_the_other_lane_in_the_next_phase() {
        let phases = Phases { first: Lane::Compute };
        let table = [
            (at(0, 0), Lane::Compute, at(0, 1)),
            (at(0, 3), Lane::Transfer, at(1, 0)),
            (at(1, 2), Lane::Transfer, at(1, 3)),
            (at(1, 2), Lane::Compute, at(2, 0)),
        ];
        for (label, lane, next) in table {
            assert_eq!(phases.after(label, lane), next, "{lane:?} after {label:?}");
        }
    }

    #[test]
    fn the_lane_that_begins_has_phase_zero_and_the_other_phase_one() {
        for first in LANES {
            let phases = Phases { first };
            for lane in LANES {
                let start = at(u32::from(lane != first), 0);
                assert_eq!(phases.start(lane), start);
                assert_eq!(phases.lane(start.phase), lane);
            }
        }
    }

    #[test]
    fn a_later_label_never_makes_for_an_earlier_successor() {
        let labels: Vec<Label> = (0..4).flat_map(|phase| (0..3).map(move |wave| at(phase, wave))).collect();
        for first in LANES {
            for lane in LANES {
                let phases = Phases { first };
                let after: Vec<Label> = labels.iter().map(|l| phases.after(*l, lane)).collect();
                assert!(after.is_sorted());
                assert!(labels.iter().zip(&after).all(|(label, next)| label < next));
            }
        }
    }
}
