//! What stands for `quiet.rs` where no compositor is asked for its GPU.

pub(super) fn only_software() -> bool {
    false
}
