//! Checks a kernel against the limits of the device.

use super::{
    interface::{BindingKind, Interface},
    parse::Parsed,
};
use crate::{
    error::{Error, ErrorKind, Result},
    info::Limits,
};

/// Private and function memory is in registers or on a driver's stack. WGSL guarantees 8 KiB; beyond this limit,
/// drivers take minutes to compile, hang, or (SwiftShader, at about 400 KB) end the process.
const PRIVATE_BYTES: u64 = 64 << 10;

/// Limits on a kernel with all calls inlined, for a driver's compiler.
struct Most {
    instructions: u64,
    accesses: u64,
    loops: u64,
}

/// Refuses code that grows exponentially or is unrolled by the thousand. Not measured on hardware drivers.
const HARDWARE: Most = Most { instructions: 65_536, accesses: 8_192, loops: 512 };

/// lavapipe's compile time grows with the square of accesses (800 dependent ones take 6 s) and the cube of loops with
/// them (30 take 2.5 s), SwiftShader's with the square of branches (`benches/hostile.rs`). Real kernels need room:
/// vello's `flatten` has 10,600 instructions, the largest generated matrix product 15,200. A source that is slow within
/// these limits exceeds the compile budget.
const SOFTWARE: Most = Most { instructions: 20_000, accesses: 2_048, loops: 64 };

/// Checks the size of a kernel for the driver's compiler.
pub(crate) fn check_size(parsed: &Parsed, software: bool) -> Result<()> {
    let (size, interface) = (&parsed.size, &parsed.interface);
    let most = if software { SOFTWARE } else { HARDWARE };
    let check = |what: &str, wanted: u64, limit: u64| check(&interface.entry, what, wanted, limit);
    let memory = interface.private_bytes.saturating_add(size.temporary_bytes);
    check("bytes of private and function memory, with arrays that are values", memory, PRIVATE_BYTES)?;
    check("instructions after inlining calls", size.instructions, most.instructions)?;
    check("accesses to memory after inlining calls", size.accesses, most.accesses)?;
    check("loops after inlining calls", size.loops, most.loops)
}

fn storage_buffers(interface: &Interface) -> u64 {
    interface.bindings.iter().filter(|binding| matches!(binding.kind, BindingKind::Storage { .. })).count() as u64
}

fn uniform_buffers(interface: &Interface) -> u64 {
    interface.bindings.iter().filter(|binding| binding.kind == BindingKind::Uniform).count() as u64
}

/// Checks that a bind group is left for hidden parameters.
pub(crate) fn check_hidden_group(interface: &Interface, limits: &Limits) -> Result<()> {
    let number = interface.hidden_group();
    if number < limits.bind_groups {
        return Ok(());
    }
    let message = format!(
        "kernel {:?} uses bind group {} and needs one more for hidden parameters, but the device has {}",
        interface.entry,
        number - 1,
        limits.bind_groups
    );
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Checks that a buffer is left for immediates that are not native: a uniform buffer if their layout allows it.
pub(crate) fn check_hidden_immediates(interface: &Interface, limits: &Limits, uniform: bool) -> Result<()> {
    let (what, own, limit) = match uniform {
        true => ("uniform buffers", uniform_buffers(interface), limits.uniform_buffers),
        false => ("storage buffers", storage_buffers(interface), limits.storage_buffers),
    };
    check(&interface.entry, &format!("{what}, one of them for immediates"), own + 1, u64::from(limit))
}

fn check(entry: &str, what: &str, wanted: u64, limit: u64) -> Result<()> {
    if wanted <= limit { Ok(()) } else { Err(Error::too_large(format!("kernel {entry:?}: {what}"), wanted, limit)) }
}

pub(super) fn check_all(interface: &Interface, limits: &Limits) -> Result<()> {
    let check = |what: &str, wanted: u64, limit: u64| check(&interface.entry, what, wanted, limit);
    for (axis, (size, limit)) in ["x", "y", "z"].iter().zip(interface.workgroup.iter().zip(limits.workgroup_size)) {
        check(&format!("workgroup size in {axis}"), u64::from(*size), u64::from(limit))?;
    }
    let invocations = interface.workgroup.iter().map(|size| u64::from(*size)).product();
    check("invocations in a workgroup", invocations, u64::from(limits.workgroup_invocations))?;
    check("bytes of workgroup memory", interface.workgroup_bytes, u64::from(limits.workgroup_bytes))?;
    check("bytes of private and function memory", interface.private_bytes, PRIVATE_BYTES)?;
    check("storage buffers", storage_buffers(interface), u64::from(limits.storage_buffers))?;
    check("uniform buffers", uniform_buffers(interface), u64::from(limits.uniform_buffers))?;
    let numbers = interface.bindings.iter().map(|binding| u64::from(binding.binding) + 1).max().unwrap_or(0);
    check("binding numbers", numbers, u64::from(limits.binding_numbers))?;
    if let Some(last) = interface.bindings.last() {
        check("bind groups", u64::from(last.group) + 1, u64::from(limits.bind_groups))?;
    }
    Ok(())
}
