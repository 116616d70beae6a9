//! Looks for mistakes that lockstep execution hides.

use std::sync::{Mutex, MutexGuard, PoisonError};

use naga::Span;
use rustc_hash::{FxHashMap, FxHashSet};

use super::straight::Lanes;
use crate::{
    Finding,
    code::{Access, Root},
    program::Program,
};

/// Watches every access of a run.
#[derive(Debug)]
pub(crate) struct Checker {
    state: Mutex<State>,
    /// What buffers are called.
    names: Vec<String>,
}

#[derive(Debug, Default)]
struct State {
    workgroup: FxHashMap<usize, Word>,
    storage: FxHashMap<(u32, usize), Word>,
    /// The workgroup at hand, and how many barriers it has passed, for workgroup memory and for buffers.
    group: u64,
    barriers: [u32; 2],
    seen: FxHashSet<(Kind, Option<std::ops::Range<usize>>)>,
    findings: Vec<Finding>,
}

/// What has happened to a word.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    written: Option<Touch>,
    read: Option<Touch>,
    /// Somebody else read it too, in the same stretch.
    read_by_many: bool,
}

/// Who touched it, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Touch {
    group: u64,
    lane: u32,
    barriers: u32,
    atomic: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Race,
    OutOfBounds,
    Unwritten,
    Barrier,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Read,
    Write,
    Atomic,
}

impl Checker {
    pub(crate) fn new(program: &Program) -> Self {
        let names =
            program.slots().iter().map(|slot| format!("@group({}) @binding({})", slot.group, slot.binding)).collect();
        Self { state: Mutex::default(), names }
    }

    pub(crate) fn findings(self) -> Vec<Finding> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).findings
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next workgroup starts.
    pub(crate) fn workgroup(&self) {
        let mut state = self.state();
        state.workgroup.clear();
        state.barriers = [0; 2];
        state.group += 1;
    }

    pub(crate) fn barrier(&self, all: bool, flags: naga::Barrier, span: Span) {
        let mut state = self.state();
        if !all {
            let group = state.group - 1;
            state.find(Kind::Barrier, span, || {
                format!("workgroup {group} reaches a barrier with only some of its invocations")
            });
        }
        state.barriers[0] += u32::from(flags.contains(naga::Barrier::WORK_GROUP));
        state.barriers[1] += u32::from(flags.contains(naga::Barrier::STORAGE));
    }

    pub(super) fn load(&self, lanes: &Lanes<'_, '_>, access: &Access) {
        self.access(lanes, access, Act::Read);
    }

    pub(super) fn store(&self, lanes: &Lanes<'_, '_>, access: &Access) {
        self.access(lanes, access, Act::Write);
    }

    pub(super) fn atomic(&self, lanes: &Lanes<'_, '_>, access: &Access) {
        self.access(lanes, access, Act::Atomic);
    }

    fn access(&self, lanes: &Lanes<'_, '_>, access: &Access, act: Act) {
        let root = access.address.root;
        let units = match root {
            Root::Slot(slot) => lanes.views[slot as usize].len() as usize,
            Root::Workgroup => lanes.workgroup_words as usize,
            Root::Immediate => lanes.immediates.len(),
            Root::Local(local) => lanes.local_words[local as usize] as usize,
        };
        let half = usize::from(access.address.half);
        let mut state = self.state();
        let row = lanes.width;
        lanes.addresses(access, |y, x, at| {
            let lane = y * row + x;
            let offsets =
                access.parts.iter().map(|part| part.offset as usize).chain(access.parts.is_empty().then_some(0));
            for offset in offsets {
                let word = at.map(|at| (at + offset) >> half).filter(|word| *word < units);
                let Some(word) = word else {
                    let verb = if act == Act::Read { "reads" } else { "writes" };
                    let place = self.place(root);
                    let group = state.group - 1;
                    let end = units << half;
                    state.find(Kind::OutOfBounds, access.span, || {
                        let which = at.map_or_else(|| "an element".into(), |at| format!("word {}", at + offset));
                        format!("invocation {lane} of workgroup {group} {verb} {which} of {place}, which has {end}")
                    });
                    continue;
                };
                if matches!(root, Root::Workgroup | Root::Slot(_)) {
                    state.touch(root, word, lane, act, access.span, &|| self.place(root));
                }
            }
        });
    }

    fn place(&self, root: Root) -> String {
        match root {
            Root::Slot(slot) => self.names[slot as usize].clone(),
            Root::Immediate => "the immediates".into(),
            Root::Workgroup => "workgroup memory".into(),
            Root::Local(_) => "an array".into(),
        }
    }
}

impl State {
    fn find(&mut self, kind: Kind, span: Span, message: impl FnOnce() -> String) {
        if self.seen.insert((kind, span.to_range())) {
            self.findings.push(Finding { message: message(), span });
        }
    }

    fn touch(&mut self, root: Root, at: usize, lane: u32, act: Act, span: Span, place: &dyn Fn() -> String) {
        let group = self.group - 1;
        let (mut word, barriers) = match root {
            Root::Workgroup => (self.workgroup.get(&at).copied().unwrap_or_default(), self.barriers[0]),
            Root::Slot(slot) => (self.storage.get(&(slot, at)).copied().unwrap_or_default(), self.barriers[1]),
            Root::Immediate | Root::Local(_) => return,
        };
        let touch = Touch { group, lane, barriers, atomic: act == Act::Atomic };
        if root == Root::Workgroup && act == Act::Read && word.written.is_none() {
            self.find(Kind::Unwritten, span, || {
                format!("invocation {lane} of workgroup {group} reads word {at} of workgroup memory, which nobody has written")
            });
        }
        // Within a workgroup a barrier separates; between workgroups nothing does.
        let conflicts = |other: Touch| {
            let apart = other.group == group && (other.lane == lane || other.barriers != barriers);
            !(apart || other.atomic && touch.atomic)
        };
        let writer = word.written.filter(|other| conflicts(*other));
        let reader = word
            .read
            .filter(|other| act != Act::Read && (conflicts(*other) || word.read_by_many && other.barriers == barriers));
        if let Some(other) = writer.or(reader) {
            let did = if writer.is_some() { "wrote" } else { "read" };
            let does = if act == Act::Read { "reads" } else { "writes" };
            self.find(Kind::Race, span, || {
                let place = place();
                let between = if other.group == group { "with no barrier between" } else { "in another workgroup" };
                format!(
                    "invocation {lane} of workgroup {group} {does} word {at} of {place}, which invocation {} of workgroup {} {did} {between}",
                    other.lane, other.group
                )
            });
        }
        match act {
            Act::Read => {
                let same = word.read.is_some_and(|other| other.group == group && other.barriers == barriers);
                word.read_by_many = same && (word.read_by_many || word.read.is_some_and(|other| other.lane != lane));
                word.read = Some(touch);
            }
            Act::Write | Act::Atomic => word.written = Some(touch),
        }
        match root {
            Root::Workgroup => drop(self.workgroup.insert(at, word)),
            Root::Slot(slot) => drop(self.storage.insert((slot, at), word)),
            Root::Immediate | Root::Local(_) => {}
        }
    }
}
