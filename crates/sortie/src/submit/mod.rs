//! From commands to completion: the order in which a device is given its work, and what becomes of it.
//!
//! [`SubmitQueue`](queue::SubmitQueue) keeps order and bounds, and is the one lock that threads share here. [`Submitter`] submits what is next and completes what is done, through a
//! [`DeviceQueue`] that each backend implements. A [`Driver`] decides which threads have it do so.

mod device_queue;
mod driver;
mod flight;
mod item;
mod queue;
mod staged;
mod submitter;
mod write;

pub(crate) use self::{
    device_queue::{DeviceQueue, Refused, Seen, Submitted, Waited},
    driver::{Driver, OneThread, TwoThreads},
    flight::{Flight, Hold, Leg, Logged, Pins, Replayed, poisoned},
    item::{QueueItem, Target},
    queue::Reservation,
    submitter::Submitter,
};
