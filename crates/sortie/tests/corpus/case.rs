//! One kernel with its inputs and what must come out.

use std::borrow::Cow;

use sortie::{Device, Kernel, Result};

use crate::{
    tolerance::{EXACT, Tolerance},
    word::{Word, Words},
};

/// One kernel, or several in a row, with its memory before and after.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) source: Cow<'static, str>,
    pub(crate) constants: Vec<(String, f64)>,
    pub(crate) steps: Vec<Step>,
    pub(crate) memory: Vec<Memory>,
    pub(crate) needs: Vec<Need>,
    /// What `check_races` says about it: part of the message.
    pub(crate) mistake: Option<&'static str>,
}

impl Case {
    /// The kernel of a step.
    pub(crate) fn kernel(&self, device: &Device, step: &Step) -> Result<Kernel> {
        let module = device.module(&self.source)?;
        self.constants.iter().fold(module, |module, (name, value)| module.with(name, *value)).kernel(step.entry)
    }
}

/// One dispatch of a case.
pub(crate) struct Step {
    pub(crate) entry: &'static str,
    pub(crate) size: Size,
    pub(crate) immediates: Vec<u32>,
    /// Which of the case's buffers it binds; `None`: all of them.
    pub(crate) binds: Option<Vec<usize>>,
}

#[derive(Clone, Copy)]
pub(crate) enum Size {
    Items([u32; 3]),
    Groups([u32; 3]),
}

/// A buffer of a case.
pub(crate) struct Memory {
    pub(crate) before: Vec<u32>,
    /// `None`: an input, which is not checked afterwards.
    pub(crate) after: Option<Vec<Word>>,
    pub(crate) tolerance: Tolerance,
}

/// What a device must have for a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// `enable f16`.
    F16,
    /// `i64` and `u64`.
    Int64,
    /// All atomics on them.
    Int64Atomics,
    /// More than 65,535 iterations in one invocation: lavapipe silently stops there.
    LongLoops,
    /// Loops that wait for other workgroups end when these get on, and not before: on lavapipe, only without threads.
    Waiting,
    /// This many workgroups, each of which starts when all before it have: SwiftShader starts up to 16 that way.
    InOrder(u32),
    /// This many invocations in a workgroup.
    Invocations(u32),
}

impl Case {
    /// A case of the entry point of the same name.
    pub(crate) fn new(name: &'static str, source: impl Into<Cow<'static, str>>) -> Self {
        let step = Step { entry: name, size: Size::Groups([1; 3]), immediates: Vec::new(), binds: None };
        Self {
            name,
            source: source.into(),
            constants: Vec::new(),
            steps: vec![step],
            memory: Vec::new(),
            needs: Vec::new(),
            mistake: None,
        }
    }

    /// The entry point, where it has another name than the case.
    pub(crate) fn entry(mut self, entry: &'static str) -> Self {
        self.step().entry = entry;
        self
    }

    pub(crate) fn constant(mut self, name: &str, value: f64) -> Self {
        self.constants.push((name.into(), value));
        self
    }

    pub(crate) fn items(mut self, items: [u32; 3]) -> Self {
        self.step().size = Size::Items(items);
        self
    }

    pub(crate) fn groups(mut self, groups: [u32; 3]) -> Self {
        self.step().size = Size::Groups(groups);
        self
    }

    pub(crate) fn immediates(mut self, words: &impl Words) -> Self {
        self.step().immediates = words.words();
        self
    }

    pub(crate) fn binds(mut self, binds: &[usize]) -> Self {
        self.step().binds = Some(binds.to_vec());
        self
    }

    /// Another dispatch after those before; what follows is said of it.
    pub(crate) fn then(mut self, entry: &'static str) -> Self {
        self.steps.push(Step { entry, size: Size::Groups([1; 3]), immediates: Vec::new(), binds: None });
        self
    }

    /// A buffer that is only read.
    pub(crate) fn input(mut self, data: &impl Words) -> Self {
        self.memory.push(Memory { before: data.words(), after: None, tolerance: EXACT });
        self
    }

    /// A buffer of zeros that must become this.
    pub(crate) fn output<W: Into<Word>>(self, after: impl IntoIterator<Item = W>) -> Self {
        let after: Vec<Word> = after.into_iter().map(Into::into).collect();
        let before = vec![0_u32; after.len()];
        self.change(&before, after)
    }

    /// A buffer that must become this.
    pub(crate) fn change<W: Into<Word>>(mut self, before: &impl Words, after: impl IntoIterator<Item = W>) -> Self {
        let (before, after) = (before.words(), after.into_iter().map(Into::into).collect::<Vec<_>>());
        assert_eq!(before.len(), after.len(), "{}: a buffer keeps its length", self.name);
        self.memory.push(Memory { before, after: Some(after), tolerance: EXACT });
        self
    }

    /// How near the last buffer must come.
    pub(crate) fn within(mut self, tolerance: Tolerance) -> Self {
        self.memory.last_mut().expect("a buffer before its tolerance").tolerance = tolerance;
        self
    }

    pub(crate) fn needs(mut self, need: Need) -> Self {
        self.needs.push(need);
        self
    }

    /// What `check_races` says about a kernel that is wrong on purpose, or counts on the zeros that workgroup memory starts with.
    pub(crate) fn mistake(mut self, message: &'static str) -> Self {
        self.mistake = Some(message);
        self
    }

    fn step(&mut self) -> &mut Step {
        self.steps.last_mut().expect("a case has a step")
    }
}
