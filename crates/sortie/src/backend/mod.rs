//! What carries plans out: the seam between plans and devices.

pub(crate) mod interpret;
