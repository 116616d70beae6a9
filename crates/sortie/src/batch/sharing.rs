//! Buffers that a dispatch binds several times, to read parts of them and to write others.
//!
//! Invariant: the parts that a dispatch writes overlap nothing else that it binds, and wgpu accepts the bindings: in one
//! dispatch, it allows a buffer that is bound to be written no other use.

use smallvec::SmallVec;
use sortie_plan::{Access, Mode};

use super::{Bind, dispatch::describe};
use crate::{
    error::{Error, ErrorKind, Result},
    kernel::{BindingKind, Kernel},
};

/// Whether a dispatch writes a buffer that it has bound twice.
#[inline]
pub(super) fn shares_memory(accesses: &[Access]) -> bool {
    let shared =
        |one: &Access, other: &Access| one.slot == other.slot && (one.mode, other.mode) != (Mode::Read, Mode::Read);
    match accesses {
        [] | [_] => false,
        [one, other] => shared(one, other),
        _ => (1..accesses.len()).any(|at| accesses[..at].iter().any(|earlier| shared(earlier, &accesses[at]))),
    }
}

/// The form of a kernel that reads and writes parts of one buffer through several bindings: what it reads there must be
/// declared `read_write` too.
#[cold]
pub(super) fn sharing(kernel: &Kernel, bindings: &[&dyn Bind], accesses: &[Access]) -> Result<Kernel> {
    // Empty bindings have no access.
    let bound = kernel
        .interface()
        .bindings
        .iter()
        .enumerate()
        .zip(bindings)
        .filter(|(_, bound)| bound.place().elements.exact() > 0);
    let bound: Vec<_> = bound.map(|(takes, _)| takes).collect();
    let name = |at: usize| bound.get(at).map_or("the indirect grid".into(), |(_, takes)| describe(takes));
    let mut widened: SmallVec<[usize; 4]> = SmallVec::new();
    for (at, one) in accesses.iter().enumerate() {
        for (earlier, other) in accesses[..at].iter().enumerate().filter(|(_, other)| other.slot == one.slot) {
            let mistake = |how: &str, hint: &str| aliasing(&name(earlier), &name(at), how, hint);
            let reader = match [one.mode, other.mode] {
                [Mode::Read, Mode::Read] => continue,
                [Mode::Read, _] => Some(at),
                [_, Mode::Read] => Some(earlier),
                _ => None,
            };
            if one.start < other.end && other.start < one.end {
                return Err(mistake(
                    "overlapping parts of one buffer",
                    "bind parts that do not overlap, or use one binding",
                ));
            }
            let Some(reader) = reader else { continue };
            match bound.get(reader) {
                Some((binding, takes)) if takes.kind != BindingKind::Uniform => widened.push(*binding),
                _ => return Err(mistake("one buffer", "uniforms and indirect grids must be in another buffer")),
            }
        }
    }
    widened.sort_unstable();
    widened.dedup();
    Ok(if widened.is_empty() { kernel.clone() } else { kernel.with_writable(&widened) })
}

fn aliasing(one: &str, other: &str, how: &str, hint: &str) -> Error {
    let message = format!("{one} and {other} are bound to {how} and at least one of them writes it: {hint}");
    Error::new(ErrorKind::Bindings, message)
}

#[cfg(test)]
mod tests {
    use sortie_plan::SlotId;

    use super::*;

    #[test]
    fn a_buffer_is_shared_if_it_is_bound_twice_and_written() {
        let access = |slot, mode| Access { slot: SlotId(slot), mode, start: 0, end: 8 };
        let (read, write) = (access(0, Mode::Read), access(0, Mode::ReadWrite));
        let elsewhere = access(1, Mode::ReadWrite);
        assert!(!shares_memory(&[read, read]));
        assert!(!shares_memory(&[read, elsewhere]) && !shares_memory(&[read, elsewhere, read]));
        assert!(shares_memory(&[read, write]) && shares_memory(&[write, elsewhere, write]));
    }
}
