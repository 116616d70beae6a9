//! A batch costs no allocation of its own, and a request a part of one: answers share slabs of 256.

#![expect(unsafe_code, reason = "counting allocations takes a global allocator")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use sortie_batcher::{Action, BatchConfig, Batcher, Error, Job};

/// Adds one, in a future that is ready the second time it is polled.
struct Increment;

struct Running {
    numbers: [u32; 4],
    count: usize,
    polled: bool,
}

impl Job for Increment {
    type Input = u32;
    type Output = u32;
    type Worker = ();
    type Answers = std::iter::Map<std::iter::Take<std::array::IntoIter<u32, 4>>, fn(u32) -> Result<u32, Error>>;
    type Running = Running;
    type Error = Error;

    fn start(&self, (): &mut (), inputs: &mut [u32]) -> Result<Running, Error> {
        let mut numbers = [0; 4];
        numbers[..inputs.len()].copy_from_slice(inputs);
        Ok(Running { numbers, count: inputs.len(), polled: false })
    }
}

impl Future for Running {
    type Output = Result<<Increment as Job>::Answers, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if !std::mem::replace(&mut self.polled, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let add: fn(u32) -> Result<u32, Error> = |number| Ok(number + 1);
        Poll::Ready(Ok(self.numbers.into_iter().take(self.count).map(add)))
    }
}

#[test]
fn a_warm_batcher_allocates_for_a_slab_of_answers_and_nothing_else() -> Result<(), Error> {
    let config = BatchConfig::default().with_max_batch_size(4);
    let (batcher, mut workers) = Batcher::without_driver([()], Increment, config)?;
    let mut ask = |number: u32| {
        let responses = [0, 1, 2, 3].map(|more| batcher.call(number + more).send());
        while !matches!(workers[0].step(false), Action::Wait(_)) {}
        for (more, response) in (0..).zip(responses) {
            assert_eq!(response.wait().ok(), Some(number + more + 1));
        }
    };
    (0..300).for_each(&mut ask);
    let before = ALLOCS.get();
    (0..640).for_each(&mut ask);
    let slabs = 640 * 4 / 256;
    // The slab and its two lists.
    assert_eq!(ALLOCS.get() - before, 3 * slabs, "for 640 batches");
    assert_eq!(batcher.metrics().batches, 940);
    Ok(())
}

thread_local! {
    static ALLOCS: Cell<usize> = const { Cell::new(0) };
}

/// Counts the allocations of each thread.
struct Counting;

// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCS.set(ALLOCS.get() + 1);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCS.set(ALLOCS.get() + 1);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
