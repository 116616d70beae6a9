//! What a kernel asks for, held against what the device has.

use super::interface::{BindingKind, Interface};
use crate::{
    device::Limits,
    error::{Error, Result},
};

/// Private and function memory lies in registers or on a driver's stack. WGSL promises 8 KiB; past this, drivers take minutes to compile,
/// hang, or (SwiftShader, at some 400 KB) end the process.
const PRIVATE_BYTES: u64 = 64 << 10;

pub(super) fn storage_buffers(interface: &Interface) -> u64 {
    interface.bindings.iter().filter(|binding| matches!(binding.kind, BindingKind::Storage { .. })).count() as u64
}

pub(super) fn check(entry: &str, what: &str, wanted: u64, limit: u64) -> Result<()> {
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
    if let Some(last) = interface.bindings.last() {
        check("bind groups", u64::from(last.group) + 1, u64::from(limits.bind_groups))?;
    }
    Ok(())
}
