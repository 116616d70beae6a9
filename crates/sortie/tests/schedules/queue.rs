//! The queue keeps order and its bound, loses no submission, and lets its threads end.

use std::{collections::VecDeque, sync::Arc};

use shuttle::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use crate::{
    explore,
    finish::completion::Completion,
    submit::queue::{Queued, SubmitQueue, Turn},
};

enum Item {
    Flight(Leg),
    Write(u64),
}

impl Queued for Item {
    fn counts_in_flight(&self) -> bool {
        matches!(self, Self::Flight(_))
    }
}

struct Leg {
    id: u64,
    completion: Arc<Completion>,
}

/// A device that takes submissions in order and can say which of them are done; it does as much as it is asked to wait for.
#[derive(Default)]
struct Queue {
    taken: Vec<u64>,
    under_way: VecDeque<u64>,
    most: usize,
}

struct Submitter {
    line: SubmitQueue<Item, Leg, u64>,
    queue: Mutex<Queue>,
}

impl Submitter {
    fn depart(&self, leg: Leg, attended: bool) -> u64 {
        let id = leg.id;
        let mut queue = self.queue.lock().expect("no panic");
        queue.taken.push(id);
        queue.under_way.push_back(id);
        queue.most = queue.most.max(queue.under_way.len());
        drop(queue);
        self.line.started(leg, id, attended)
    }

    /// What `poll` does: afterwards this submission and all before it are done.
    fn attend(&self, id: u64, serial: u64) {
        let mut queue = self.queue.lock().expect("no panic");
        if let Some(at) = queue.under_way.iter().position(|taken| *taken == id) {
            queue.under_way.drain(..=at);
        }
        drop(queue);
        for (leg, _) in self.line.finished(serial).0 {
            leg.completion.finish(Ok(()));
        }
    }

    fn run(&self, leg: Leg) {
        let (id, completion) = (leg.id, leg.completion.clone());
        match self.line.take_turn(true) {
            Some(turn) => {
                let serial = self.depart(leg, true);
                drop(turn);
                self.attend(id, serial);
            }
            None => self.line.push([Item::Flight(leg)]),
        }
        assert_eq!(completion.wait(), Ok(()));
    }

    /// What a caller does that submits itself if the device is idle.
    fn submit_here(&self, leg: Leg) {
        match self.line.take_idle_turn() {
            Some(turn) => {
                assert!(self.queue.lock().expect("no panic").under_way.is_empty());
                self.take(Item::Flight(leg));
                drop(turn);
            }
            None => self.line.push([Item::Flight(leg)]),
        }
    }

    fn submit_loop(&self) {
        while let Some((item, turn)) = self.line.next() {
            self.take(item);
            drop(turn);
        }
    }

    /// What a driver without threads does for a thread that has queued something, or made room.
    fn take_all(&self) {
        while let Some((item, turn)) = self.line.next_now() {
            self.take(item);
            drop(turn);
        }
    }

    fn take(&self, item: Item) {
        match item {
            Item::Flight(leg) => drop(self.depart(leg, false)),
            Item::Write(id) => self.queue.lock().expect("no panic").taken.push(id),
        }
    }

    fn wait_loop(&self) {
        while let Some((id, serial)) = self.line.next_unwaited() {
            self.attend(id, serial);
        }
    }
}

/// Three callers, one that blocks, one that submits where the device is idle, and one that does neither, beside the two threads of a device.
fn scenario(in_flight: usize) {
    let submitter = Arc::new(Submitter { line: SubmitQueue::new(in_flight), queue: Mutex::new(Queue::default()) });
    let spawn = |run: fn(&Submitter)| {
        let submitter = submitter.clone();
        thread::spawn(move || run(&submitter))
    };
    let threads = [spawn(Submitter::submit_loop), spawn(Submitter::wait_loop)];
    let leg = |id| {
        let completion = Arc::new(Completion::new());
        completion.submitted();
        Leg { id, completion }
    };
    let blocking = spawn(|submitter| {
        for id in [101, 102] {
            let completion = Arc::new(Completion::new());
            completion.submitted();
            submitter.run(Leg { id, completion });
        }
    });
    let here = spawn(|submitter| {
        for id in [201, 202] {
            let completion = Arc::new(Completion::new());
            completion.submitted();
            submitter.submit_here(Leg { id, completion: completion.clone() });
            assert_eq!(completion.wait(), Ok(()));
        }
    });
    let mut tickets = Vec::new();
    for id in [1, 3] {
        let leg = leg(id);
        tickets.push(leg.completion.clone());
        submitter.line.push([Item::Flight(leg)]);
        match submitter.line.take_turn(false) {
            Some(turn) => {
                submitter.queue.lock().expect("no panic").taken.push(id + 1);
                drop(turn);
            }
            None => submitter.line.push([Item::Write(id + 1)]),
        }
    }
    for ticket in &tickets {
        assert_eq!(ticket.wait(), Ok(()));
    }
    [blocking, here].into_iter().for_each(|caller| caller.join().expect("no panic"));
    submitter.line.close();
    for thread in threads {
        thread.join().expect("no panic");
    }
    let queue = submitter.queue.lock().expect("no panic");
    let of =
        |range: std::ops::Range<u64>| queue.taken.iter().copied().filter(|id| range.contains(id)).collect::<Vec<_>>();
    assert_eq!(of(1..100), [1, 2, 3, 4], "each caller's items arrive in its order");
    assert_eq!(of(100..200), [101, 102]);
    assert_eq!(of(200..300), [201, 202]);
    assert!(queue.most <= in_flight, "{} in flight, {in_flight} allowed", queue.most);
}

#[test]
fn items_leave_in_order_within_the_bound_and_the_threads_end() {
    explore(|| scenario(1));
    explore(|| scenario(2));
}

#[test]
fn closing_with_work_queued_sees_it_home_before_the_threads_end() {
    let scenario = || {
        let submitter = Arc::new(Submitter { line: SubmitQueue::new(1), queue: Mutex::new(Queue::default()) });
        let spawn = |run: fn(&Submitter)| {
            let submitter = submitter.clone();
            thread::spawn(move || run(&submitter))
        };
        let threads = [spawn(Submitter::submit_loop), spawn(Submitter::wait_loop)];
        let tickets: Vec<_> = (0..3)
            .map(|id| {
                let completion = Arc::new(Completion::new());
                completion.submitted();
                submitter.line.push([Item::Flight(Leg { id, completion: completion.clone() })]);
                completion
            })
            .collect();
        submitter.line.close();
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert!(tickets.iter().all(|ticket| ticket.is_done()));
    };
    explore(scenario);
}

/// One caller queues three flights one by one while another pushes, takes turns or reserves too.
#[test]
fn no_other_item_is_submitted_between_those_of_a_reservation() {
    let scenario = || {
        let submitter = Arc::new(Submitter { line: SubmitQueue::new(2), queue: Mutex::new(Queue::default()) });
        let spawn = |run: fn(&Submitter)| {
            let submitter = submitter.clone();
            thread::spawn(move || run(&submitter))
        };
        let threads = [spawn(Submitter::submit_loop), spawn(Submitter::wait_loop)];
        let together = |submitter: &Submitter, ids: [u64; 3]| {
            let legs = ids.map(|id| {
                let completion = Arc::new(Completion::new());
                completion.submitted();
                Leg { id, completion }
            });
            let last = legs[2].completion.clone();
            match submitter.line.reserve() {
                Some(reserved) => legs.into_iter().for_each(|leg| reserved.push([Item::Flight(leg)])),
                None => submitter.line.push(legs.map(Item::Flight)),
            }
            assert_eq!(last.wait(), Ok(()));
        };
        let callers = [spawn(|submitter| {
            let completion = Arc::new(Completion::new());
            completion.submitted();
            submitter.run(Leg { id: 101, completion });
        })];
        let other = {
            let submitter = submitter.clone();
            thread::spawn(move || together(&submitter, [1, 2, 3]))
        };
        together(&submitter, [11, 12, 13]);
        callers.into_iter().chain([other]).for_each(|caller| caller.join().expect("no panic"));
        submitter.line.close();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let taken = submitter.queue.lock().expect("no panic").taken.clone();
        assert_eq!(taken.len(), 7, "{taken:?}");
        for first in [1, 11] {
            let at = taken.iter().position(|id| *id == first).expect("it left");
            assert_eq!(taken[at..at + 3], [first, first + 1, first + 2], "{taken:?}");
        }
    };
    explore(scenario);
}

/// Callers submit for themselves and for each other, and callbacks complete what is in flight.
#[test]
fn without_a_thread_of_its_own_nothing_is_left_in_the_line() {
    let scenario = || {
        let submitter = Arc::new(Submitter { line: SubmitQueue::new(1), queue: Mutex::new(Queue::default()) });
        let callers: Vec<_> = [10, 20]
            .into_iter()
            .map(|first| {
                let submitter = submitter.clone();
                thread::spawn(move || {
                    let tickets = [first, first + 1].map(|id| {
                        let completion = Arc::new(Completion::new());
                        completion.submitted();
                        submitter.line.push([Item::Flight(Leg { id, completion: completion.clone() })]);
                        submitter.take_all();
                        if let Some(turn) = submitter.line.take_turn(false) {
                            submitter.take(Item::Write(id + 100));
                            drop(turn);
                            submitter.take_all();
                        }
                        completion
                    });
                    tickets.into_iter().for_each(|ticket| assert_eq!(ticket.wait(), Ok(())));
                })
            })
            .collect();
        let mut completed = 0;
        while completed < 4 {
            match submitter.line.unattended_now() {
                Some((id, serial)) => {
                    submitter.attend(id, serial);
                    submitter.take_all();
                    completed += 1;
                }
                None => crate::sync::yield_now(),
            }
        }
        callers.into_iter().for_each(|caller| caller.join().expect("no panic"));
        let queue = submitter.queue.lock().expect("no panic");
        assert_eq!(queue.most, 1);
        for first in [10, 20] {
            let at = |id: u64| queue.taken.iter().position(|taken| *taken == id).expect("it left");
            assert!(at(first) < at(first + 1), "{:?}", queue.taken);
        }
    };
    explore(scenario);
}

/// As when the process exits: what is queued after the submit thread has ended is failed by the thread that queued it.
#[test]
fn what_is_queued_while_the_line_closes_for_good_is_not_left_there() {
    struct Exit {
        line: SubmitQueue<Item, Leg, u64>,
        exiting: AtomicBool,
    }
    fn fail((item, turn): (Item, Turn<'_, Item, Leg, u64>)) {
        if let Item::Flight(leg) = item {
            leg.completion.finish(Ok(()));
        }
        drop(turn);
    }
    explore(|| {
        let exit = Arc::new(Exit { line: SubmitQueue::new(1), exiting: AtomicBool::new(false) });
        let submits = {
            let exit = exit.clone();
            thread::spawn(move || std::iter::from_fn(|| exit.line.next()).for_each(fail))
        };
        let quits = {
            let exit = exit.clone();
            thread::spawn(move || {
                exit.exiting.store(true, Ordering::SeqCst);
                exit.line.close();
            })
        };
        for id in [1, 2] {
            let completion = Arc::new(Completion::new());
            completion.submitted();
            exit.line.push([Item::Flight(Leg { id, completion: completion.clone() })]);
            while exit.exiting.load(Ordering::SeqCst)
                && let Some(taken) = exit.line.next_now()
            {
                fail(taken);
            }
            assert_eq!(completion.wait(), Ok(()));
        }
        [submits, quits].into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
}
