//! Finds data races and other mistakes that lockstep execution hides.

use std::sync::{Mutex, MutexGuard, PoisonError};

use naga::Span;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Checks, RaceReport, straight::Lanes};
use crate::{
    code::{Access, Root},
    compiled::Compiled,
};

/// Watches every access of a run.
#[derive(Debug)]
pub(crate) struct Checker {
    state: Mutex<State>,
    /// Names of buffers.
    names: Vec<String>,
    checks: Checks,
}

#[derive(Debug, Default)]
struct State {
    workgroup: FxHashMap<usize, WordHistory>,
    storage: FxHashMap<(u32, usize), WordHistory>,
    /// The current workgroup, and the barriers it has passed, for workgroup memory and for buffers.
    group: u64,
    barriers: [u32; 2],
    seen: FxHashSet<(ReportKind, Option<std::ops::Range<usize>>)>,
    findings: Vec<RaceReport>,
}

/// The last accesses to a word.
#[derive(Clone, Copy, Debug, Default)]
struct WordHistory {
    written: Option<AccessRecord>,
    read: Option<AccessRecord>,
    /// Several invocations read it since the last barrier.
    read_by_many: bool,
    /// The last accesses of an earlier workgroup.
    written_before: Option<AccessRecord>,
    read_before: Option<AccessRecord>,
}

/// Which invocation accessed a word, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AccessRecord {
    group: u64,
    lane: u32,
    barriers: u32,
    atomic: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ReportKind {
    Race,
    OutOfBounds,
    Unwritten,
    Barrier,
}

/// The kind of an access.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessKind {
    Read,
    Write,
}

impl Checker {
    pub(crate) fn new(code: &Compiled, checks: Checks) -> Self {
        let names =
            code.slots.iter().map(|slot| format!("@group({}) @binding({})", slot.group, slot.binding)).collect();
        Self { state: Mutex::default(), names, checks }
    }

    pub(crate) fn findings(self) -> Vec<RaceReport> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).findings
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the next workgroup.
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
            state.find(ReportKind::Barrier, span, || {
                format!("workgroup {group} reaches a barrier with only some of its invocations")
            });
        }
        // Subgroup barriers count for the whole workgroup: races with other subgroups are not found.
        let orders = |memory| flags.intersects(memory | naga::Barrier::SUB_GROUP);
        state.barriers[0] += u32::from(orders(naga::Barrier::WORK_GROUP));
        state.barriers[1] += u32::from(orders(naga::Barrier::STORAGE));
    }

    pub(super) fn access(&self, lanes: &Lanes<'_, '_>, access: &Access, act: AccessKind, atomic: bool) {
        let root = access.address.root;
        let units = match root {
            Root::Buffer(slot) => lanes.views[slot as usize].len() as usize,
            Root::Workgroup => lanes.code.workgroup_words as usize,
            Root::Immediate => lanes.immediates.len(),
            Root::Local(local) => lanes.code.file.locals[local as usize].words as usize,
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
                    let verb = if act == AccessKind::Read { "reads" } else { "writes" };
                    let place = self.place(root);
                    let group = state.group - 1;
                    state.find(ReportKind::OutOfBounds, access.span, || {
                        format!("invocation {lane} of workgroup {group} {verb} past the end of {place}, which has {units} words")
                    });
                    continue;
                };
                if matches!(root, Root::Workgroup | Root::Buffer(_)) {
                    let touch = AccessRecord { group: state.group - 1, lane, barriers: 0, atomic };
                    if self.checks.unwritten && act == AccessKind::Read {
                        state.unwritten(root, word, touch, access.span);
                    }
                    state.touch(root, word, act, touch, access.span, &|| self.place(root));
                }
            }
        });
    }

    fn place(&self, root: Root) -> String {
        match root {
            Root::Buffer(slot) => self.names[slot as usize].clone(),
            Root::Immediate => "the immediates".into(),
            Root::Workgroup => "workgroup memory".into(),
            Root::Local(_) => "an array".into(),
        }
    }
}

impl State {
    fn find(&mut self, kind: ReportKind, span: Span, message: impl FnOnce() -> String) {
        if self.seen.insert((kind, span.to_range())) {
            self.findings.push(RaceReport { message: message(), span });
        }
    }

    /// Reports a read of workgroup memory that no invocation has written.
    fn unwritten(&mut self, root: Root, at: usize, touch: AccessRecord, span: Span) {
        let AccessRecord { group, lane, .. } = touch;
        if root == Root::Workgroup && self.workgroup.get(&at).is_none_or(|word| word.written.is_none()) {
            self.find(ReportKind::Unwritten, span, || {
                format!("invocation {lane} of workgroup {group} reads word {at} of workgroup memory, which no invocation has written")
            });
        }
    }

    fn touch(
        &mut self,
        root: Root,
        at: usize,
        act: AccessKind,
        touch: AccessRecord,
        span: Span,
        place: &dyn Fn() -> String,
    ) {
        let AccessRecord { group, lane, .. } = touch;
        let (mut word, barriers) = match root {
            Root::Workgroup => (self.workgroup.get(&at).copied().unwrap_or_default(), self.barriers[0]),
            Root::Buffer(slot) => (self.storage.get(&(slot, at)).copied().unwrap_or_default(), self.barriers[1]),
            Root::Immediate | Root::Local(_) => return,
        };
        let touch = AccessRecord { barriers, ..touch };
        let earlier = |other: Option<AccessRecord>| other.filter(|other| other.group != group);
        word.written_before = earlier(word.written).or(word.written_before);
        word.read_before = earlier(word.read).or(word.read_before);
        // A barrier orders accesses within a workgroup; nothing orders those of different workgroups.
        let conflicts = |other: AccessRecord| {
            let apart = other.group == group && (other.lane == lane || other.barriers != barriers);
            !(apart || other.atomic && touch.atomic)
        };
        let writer = word.written.filter(|other| conflicts(*other));
        let writer = writer.or(word.written_before.filter(|other| conflicts(*other)));
        let reader = word
            .read
            .filter(|other| conflicts(*other) || word.read_by_many && other.barriers == barriers && !touch.atomic)
            .or(word.read_before.filter(|other| conflicts(*other)))
            .filter(|_| act == AccessKind::Write);
        if let Some(other) = writer.or(reader) {
            let did = if writer.is_some() { "wrote" } else { "read" };
            let does = if act == AccessKind::Read { "reads" } else { "writes" };
            self.find(ReportKind::Race, span, || {
                let place = place();
                let between = if other.group == group { "with no barrier between" } else { "in another workgroup" };
                format!(
                    "invocation {lane} of workgroup {group} {does} word {at} of {place}, which invocation {} of workgroup {} {did} {between}",
                    other.lane, other.group
                )
            });
        }
        match act {
            AccessKind::Read => {
                let same = word.read.is_some_and(|other| other.group == group && other.barriers == barriers);
                word.read_by_many = same && (word.read_by_many || word.read.is_some_and(|other| other.lane != lane));
                word.read = Some(touch);
            }
            AccessKind::Write => word.written = Some(touch),
        }
        match root {
            Root::Workgroup => drop(self.workgroup.insert(at, word)),
            Root::Buffer(slot) => drop(self.storage.insert((slot, at), word)),
            Root::Immediate | Root::Local(_) => {}
        }
    }
}
