//! The submissions of one batch on their way to the line: each leaves as soon as it is encoded, so that the device works on one while the
//! next is encoded.
//!
//! Nothing else may come between them, or a batch would show halves to others. So the first one reserves the line; where somebody else has
//! done so, all wait for the last and go together.

use std::{sync::Arc, time::Duration};

use sortie_plan::Part;

use super::{
    Item, Submitter,
    flight::{Flight, Hold, Leg},
    queue::Reservation,
    wait_point::WaitPoint,
};
use crate::{
    encode::{Commands, Encoded, Route},
    error::Result,
    finish::Landing,
    memory::Block,
    metrics::Count,
};

/// What has become of a batch that was encoded.
#[derive(Debug)]
pub(crate) enum Outbound {
    /// There was nothing to do.
    Nothing,
    /// One submission, ready to go.
    Ready(Flight),
    /// Several, which have been handed over.
    Gone,
}

/// A batch that is being encoded.
pub(crate) struct Departure<'a> {
    submitter: &'a Submitter,
    route: &'a Route,
    /// Until something leaves: nothing is pinned.
    own: Option<Hold>,
    /// From then on.
    shared: Option<Arc<Hold>>,
    reserved: Option<Reservation<'a, Item, Leg, WaitPoint>>,
    waiting: Vec<Flight>,
    /// Submissions so far.
    count: usize,
}

impl<'a> Departure<'a> {
    pub(crate) fn new(submitter: &'a Submitter, route: &'a Route, hold: Hold) -> Self {
        let own = Some(hold);
        Self { submitter, route, own, shared: None, reserved: None, waiting: Vec::new(), count: 0 }
    }

    /// A submission that is not the last.
    pub(crate) fn leave(&mut self, commands: Commands, blocks: impl FnOnce() -> Vec<Option<Arc<Block>>>) {
        let hold = self.hold(blocks);
        self.shared = Some(hold.clone());
        if self.count == 0 {
            hold.completion.submitted();
            self.reserved = self.submitter.line.reserve();
        }
        let flight = self.flight(commands, hold, false);
        self.push(flight);
    }

    /// The last submission, or why there is none.
    pub(crate) fn finish(
        mut self,
        encoded: Result<Encoded>,
        landing: Option<&Arc<Landing>>,
        blocks: impl FnOnce() -> Vec<Option<Arc<Block>>>,
    ) -> Result<Outbound> {
        let (commands, returning) = match encoded {
            Ok(Encoded { commands: None, .. }) => {
                self.let_go();
                return Ok(Outbound::Nothing);
            }
            Ok(Encoded { commands: Some(commands), returning }) => (commands, returning),
            Err(error) if self.count == 0 => {
                self.let_go();
                return Err(error);
            }
            // Those before it have left: it fails when its turn comes, as one that the device refuses.
            Err(error) => (Commands::Refused(error), None),
        };
        let hold = self.hold(blocks);
        if let Some((returning, landing)) = returning.zip(landing) {
            hold.returns(returning, landing.clone());
        }
        self.count();
        let flight = self.flight(commands, hold, true);
        if self.count == 1 {
            return Ok(Outbound::Ready(flight));
        }
        self.push(flight);
        if !self.waiting.is_empty() {
            self.submitter.push(std::mem::take(&mut self.waiting));
        }
        Ok(Outbound::Gone)
    }

    /// What is known of it without looking at any op.
    fn count(&self) {
        let (counters, route) = (&self.submitter.counters, self.route);
        let (cuts, pieces) = (route.cuts(), route.pieces);
        counters.cuts.add(cuts);
        counters.pieces.add(pieces);
        counters.barriers.add(route.barriers);
        counters.fused_ops.add(route.fused_ops);
        counters.uploads.add(route.uploads);
        counters.reads.add(route.reads);
        if cuts > 0 {
            tracing::debug!(target: "sortie", submissions = route.parts.len(), cuts, pieces, "a batch is cut");
        }
    }

    /// What all submissions hold; the first one pins the blocks.
    fn hold(&mut self, blocks: impl FnOnce() -> Vec<Option<Arc<Block>>>) -> Arc<Hold> {
        match (self.shared.take(), self.own.take()) {
            (Some(hold), _) => hold,
            (None, Some(mut hold)) => {
                hold.pin(blocks());
                Arc::new(hold)
            }
            (None, None) => unreachable!("let go only at the end"),
        }
    }

    /// The batch has had no effect: nobody is to hear that it was lost on its way.
    fn let_go(&mut self) {
        if let Some(hold) = self.own.take() {
            hold.let_go();
        }
    }

    fn flight(&mut self, commands: Commands, hold: Arc<Hold>, last: bool) -> Flight {
        let number = self.count;
        self.count += 1;
        let part: Option<&Part> = self.route.parts.get(number);
        let leg = Leg {
            part: u32::try_from(number).unwrap_or(u32::MAX),
            submission: part.map_or(0, |part| part.submission),
            last,
            hold,
            effort: self.route.efforts.get(number).cloned(),
            native: matches!(commands, Commands::Native(_) | Commands::Direct(..)),
            budget: self.route.budget.map(Duration::from_nanos),
            left: None,
            order: 0,
        };
        Flight { commands, leg }
    }

    fn push(&mut self, flight: Flight) {
        match &self.reserved {
            Some(reserved) => reserved.push([Item::Flight(flight)]),
            None => self.waiting.push(flight),
        }
    }
}
