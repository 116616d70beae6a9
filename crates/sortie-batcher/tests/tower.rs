//! A batcher as a `tower` service.

use std::{
    future::{Future, poll_fn},
    task::{Context, Poll, Waker},
};

use sortie_batcher::{BatchConfig, Batcher, Error, ErrorKind, Overload, batch_fn};
use tower_service::Service;

/// Doubles the answers of the service beneath it, as a layer of `tower` would.
#[derive(Clone)]
struct Doubled<S>(S);

impl<S: Service<u32, Response = u32, Future: Send + 'static>> Service<u32> for Doubled<S> {
    type Response = u32;
    type Error = S::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<u32, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, input: u32) -> Self::Future {
        let answer = self.0.call(input);
        Box::pin(async { Ok(2 * answer.await?) })
    }
}

async fn ask<S: Service<u32>>(mut service: S, input: u32) -> Result<S::Response, S::Error> {
    poll_fn(|cx| service.poll_ready(cx)).await?;
    service.call(input).await
}

#[tokio::test]
async fn a_batcher_serves_many_tasks_beneath_a_layer() -> Result<(), Error> {
    let squares = batch_fn(|numbers: &[u32]| numbers.iter().map(|x| x * x).collect());
    let service = Doubled(Batcher::new([()], squares, BatchConfig::default())?);
    let tasks: Vec<_> = (0..100).map(|number| tokio::spawn(ask(service.clone(), number))).collect();
    for (number, task) in (0..100).zip(tasks) {
        assert_eq!(task.await.expect("no panic")?, 2 * number * number);
    }
    Ok(())
}

#[tokio::test]
async fn a_closed_batcher_is_not_ready() -> Result<(), Error> {
    let same = batch_fn(|numbers: &[u32]| numbers.to_vec());
    let batcher = Batcher::new([()], same, BatchConfig::default())?;
    assert_eq!(ask(batcher.clone(), 1).await?, 1);
    batcher.close();
    let error = ask(batcher, 1).await.expect_err("it is closed");
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Canceled, "the batcher has been closed"));
    Ok(())
}

#[test]
fn a_full_queue_is_ready_and_rejects_the_request() -> Result<(), Error> {
    let same = batch_fn(|numbers: &[u32]| numbers.to_vec());
    let config = BatchConfig::default().with_queue_capacity(1).with_overload(Overload::Reject);
    // Nobody drives its worker.
    let (mut batcher, _worker) = Batcher::without_driver([()], same, config)?;
    let _queued = batcher.call(1).send();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(batcher.poll_ready(&mut cx), Poll::Ready(Ok(()))));
    let rejected = Service::call(&mut batcher, 2).wait();
    assert_eq!(rejected.map_err(|error| error.kind()), Err(ErrorKind::Overloaded));
    Ok(())
}
