//! From commands to completion: the order in which a device is given its work, and what becomes of it.
//!
//! [`SubmitQueue`](queue::SubmitQueue) keeps order and bounds, and is the one lock that threads share here. [`Submitter`] submits what is next and completes what is done, through a
//! [`DeviceQueue`] that each backend implements. A [`Driver`] decides which threads have it do so.

mod device_queue;
mod driver;
mod here;
mod item;
mod queue;
mod staged_bytes;
mod submission;
mod submitter;
mod write;

pub(crate) use self::{
    device_queue::{DeviceQueue, Refused, Seen, Submitted, Waited},
    driver::{Driver, OneThread, TwoThreads},
    here::Here,
    item::{QueueItem, WriteTarget},
    queue::Reservation,
    submission::{BatchState, Pins, ProfiledBatch, ReadySubmission, Submission, poisoned},
    submitter::Submitter,
};
