//! From encoded commands to the submit queue.

mod hand_over;

pub(crate) use self::hand_over::{HandOver, Outbound};
