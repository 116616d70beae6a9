//! What a piece of a kernel can name.

use crate::{family::Family, function::Function, tape::Tape, types::Type};

/// A name in scope.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) mutable: bool,
}

/// An array that is indexed dynamically.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) len: usize,
}

/// The tape, and what has been declared so far.
pub(crate) struct Scope<'a> {
    pub(crate) family: Family,
    pub(crate) tape: Tape<'a>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) arrays: Vec<Array>,
    pub(crate) functions: Vec<Function>,
    /// Loops around the statement being made.
    pub(crate) loops: usize,
    /// What the function being made returns; `None` in the entry point.
    pub(crate) returns: Option<Type>,
    names: usize,
}

impl<'a> Scope<'a> {
    /// With an empty tape.
    pub(crate) fn new(family: Family) -> Self {
        Self {
            family,
            tape: Tape::new(&[]),
            variables: Vec::new(),
            arrays: Vec::new(),
            functions: Vec::new(),
            loops: 0,
            returns: None,
            names: 0,
        }
    }

    /// A name that nothing else has.
    pub(crate) fn fresh(&mut self, stem: &str) -> String {
        self.names += 1;
        format!("{stem}{}", self.names)
    }

    /// One of the variables that qualify.
    pub(crate) fn variable(&mut self, wanted: impl Fn(&Variable) -> bool) -> Option<Variable> {
        let fit: Vec<_> = self.variables.iter().filter(|variable| wanted(variable)).cloned().collect();
        if fit.is_empty() { None } else { Some(fit[self.tape.pick(fit.len())].clone()) }
    }

    pub(crate) fn declare(&mut self, name: &str, ty: Type, mutable: bool) {
        self.variables.push(Variable { name: name.into(), ty, mutable });
    }
}
