//! What goes wrong goes wrong for the requests that cause it alone.

use super::*;

fn eight() -> BatchConfig {
    BatchConfig::default()
        .with_max_batch_size(8)
        .with_max_wait(std::time::Duration::from_secs(3600))
        .with_queue_capacity(1000)
}

#[test]
fn a_request_that_fails_its_batch_in_whatever_way_fails_alone() {
    for (culprit, kind, resets) in [
        (Ask::FailStart, ErrorKind::Input, 0),
        (Ask::PanicStart, ErrorKind::JobPanicked, 3),
        (Ask::FailRun, ErrorKind::Input, 0),
        (Ask::PanicRun, ErrorKind::JobPanicked, 3),
        (Ask::TooMany, ErrorKind::Shape, 0),
    ] {
        let (batcher, mut worker, connection) = service(Doubler::default(), eight());
        let mut asks: Vec<Ask> = (0..8).map(Ask::Double).collect();
        asks[7] = culprit;
        let responses = send(&batcher, &asks);
        steps(&mut worker);
        let mut expected: Vec<_> = (0..8).map(|number| Ok(2 * number)).collect();
        expected[7] = Err(kind);
        assert_eq!(kinds(responses), expected, "{culprit:?}");
        let metrics = batcher.metrics();
        assert_eq!((metrics.failed, metrics.retries, metrics.isolated), (1, 6, 1), "{culprit:?}");
        // With 8, 4, 2 and 1 requests; after the last there is nothing left to be started.
        assert_eq!(
            (connection.reset.load(Ordering::Relaxed), metrics.prepared),
            (resets, resets as u64),
            "{culprit:?}"
        );
    }
}

#[test]
fn a_failure_that_concerns_all_requests_is_not_tried_again() {
    let (batcher, mut worker, connection) = service(Doubler::default(), eight());
    let responses = send(&batcher, &[Ask::Double(1), Ask::Refuse, Ask::Double(3)]);
    steps(&mut worker);
    assert_eq!(kinds(responses), [Err(ErrorKind::Overloaded); 3]);
    let metrics = batcher.metrics();
    assert_eq!((metrics.failed, metrics.retries, connection.started.load(Ordering::Relaxed)), (1, 0, 1));
}

#[test]
fn a_failed_worker_recovers_and_continues() {
    let (batcher, mut worker, connection) = service(Doubler { reconnects: true, ..Doubler::default() }, eight());
    let responses = send(&batcher, &[Ask::Double(1), Ask::Disconnect]);
    let done = steps(&mut worker);
    assert!(done.contains(&Action::Recover), "{done:?}");
    assert_eq!(kinds(responses), [Err(ErrorKind::Other); 2]);
    let responses = send(&batcher, &[Ask::Double(4)]);
    steps(&mut worker);
    assert_eq!(kinds(responses), [Ok(8)]);
    assert_eq!((connection.reconnected.load(Ordering::Relaxed), batcher.metrics().reopened), (1, 1));
}

#[test]
fn with_the_last_worker_the_batcher_is_closed_with_its_error() {
    let (batcher, mut worker, _) = service(Doubler::default(), eight());
    // Nine make two batches, and one request waits.
    let mut asks = vec![Ask::Double(1); 17];
    asks[0] = Ask::Disconnect;
    let responses = send(&batcher, &asks);
    assert_eq!(steps(&mut worker).last(), Some(&Action::End));
    let kinds = kinds(responses);
    // The second batch was under way, and is seen through.
    assert_eq!(kinds[..8], [Err(ErrorKind::Other); 8]);
    assert_eq!(kinds[8..16], [Ok(2); 8]);
    assert_eq!(kinds[16], Err(ErrorKind::Other));
    let error = batcher.call_blocking(Ask::Double(1)).expect_err("it is closed");
    assert_eq!(error.downcast_ref::<std::io::Error>().map(ToString::to_string).as_deref(), Some("connection reset"));
    assert_eq!(worker.step(true), Action::End, "also when it is asked again");
}

#[test]
fn a_worker_that_is_dropped_fails_what_it_has_and_what_waits() {
    let (batcher, mut worker, _) = service(Doubler::default(), eight());
    let responses = send(&batcher, &[Ask::Double(1); 9]);
    assert!(matches!(worker.step(false), Action::Start { capacity: 8, .. }));
    drop(worker);
    assert_eq!(kinds(responses), [Err(ErrorKind::Canceled); 9]);
    assert_eq!(batcher.call_blocking(Ask::Double(1)).expect_err("nobody is left").kind(), ErrorKind::Canceled);
}

#[test]
fn a_batcher_needs_a_worker() {
    let error = Batcher::new(Vec::new(), Doubler::default(), eight()).expect_err("none");
    assert_eq!(error.kind(), ErrorKind::Input);
}
