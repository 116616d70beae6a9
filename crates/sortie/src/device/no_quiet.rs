//! Replaces `quiet.rs` on platforms without a Wayland compositor.

pub(super) fn only_software() -> bool {
    false
}
