//! A search over text, served to a thousand tasks: a scan of all documents costs little more for many queries than for one, so queries that come together share a scan.
//!
//! No GPU, and no thread for a caller: tasks of an executor await their answers.
//!
//! `cargo run --release -p sortie-batcher --example search`

#![expect(clippy::print_stdout, reason = "an example")]

use std::{
    collections::HashMap,
    future::{Ready, ready},
    sync::Arc,
    time::{Duration, Instant},
};

use sortie_batcher::{BatchConfig, Batcher, Error, ErrorKind, Job, Priority};

const DOCUMENTS: usize = 20_000;
const TASKS: usize = 1_000;
const QUERIES: usize = 5;
/// What documents are made of.
const WORDS: [&str; 16] = [
    "batch", "queue", "worker", "device", "kernel", "row", "answer", "deadline", "caller", "future", "thread", "lock",
    "waker", "slab", "clock", "driver",
];

/// Words that a document is to have; the most matches win.
type Query = Vec<&'static str>;

/// The document that matches best, and how many words it has in common with the query.
type Hit = (usize, usize);

/// Finds the best document for each of many queries in one scan.
struct Search;

/// What one worker keeps: all documents, as numbers of words.
struct Index {
    words: HashMap<&'static str, u32>,
    documents: Arc<Vec<Vec<u32>>>,
}

impl Job for Search {
    type Input = Query;
    type Output = Hit;
    type Worker = Index;
    type Answers = Vec<Result<Hit, Error>>;
    type Running = Ready<Result<Self::Answers, Error>>;
    type Error = Error;

    /// On the caller's thread: a wrong query costs nobody else anything.
    fn check(&self, query: &Query) -> Result<(), Error> {
        if query.is_empty() { Err(Error::input("a query of no words")) } else { Ok(()) }
    }

    fn start(&self, index: &mut Index, queries: &mut [Query]) -> Result<Self::Running, Error> {
        // Which queries want a word, so that a document is read once for all of them.
        let mut wanted = vec![Vec::new(); index.words.len()];
        for (number, query) in queries.iter().enumerate() {
            for word in query.iter().filter_map(|word| index.words.get(word)) {
                wanted[*word as usize].push(number);
            }
        }
        let mut best = vec![(0, 0); queries.len()];
        let mut matches = vec![0; queries.len()];
        for (document, words) in index.documents.iter().enumerate() {
            matches.fill(0);
            words.iter().flat_map(|word| &wanted[*word as usize]).for_each(|query| matches[*query] += 1);
            for (best, matches) in best.iter_mut().zip(&matches) {
                if *matches > best.1 {
                    *best = (document, *matches);
                }
            }
        }
        Ok(ready(Ok(best.into_iter().map(Ok).collect())))
    }
}

/// Documents of some words each, the same every time.
fn index() -> Index {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut document = || (0..WORDS.len() as u32).filter(|_| random() % 4 == 0).collect();
    let documents = Arc::new((0..DOCUMENTS).map(|_| document()).collect());
    Index { words: WORDS.into_iter().zip(0..).collect(), documents }
}

/// What a task asks for.
fn query(task: usize, number: usize) -> Query {
    (0..3).map(|word| WORDS[(task + 5 * number + word * (task % 5 + 1)) % WORDS.len()]).collect()
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let index = index();
    let documents = index.documents.clone();
    let batcher = Batcher::new([index], Search, BatchConfig::default().with_max_batch_size(256))?;

    let start = Instant::now();
    let ask = |task: usize| {
        let batcher = batcher.clone();
        tokio::spawn(async move {
            let mut hits = Vec::new();
            for number in 0..QUERIES {
                let query = query(task, number);
                hits.push((query.clone(), batcher.call(query).await?));
            }
            Ok::<_, Error>(hits)
        })
    };
    let mut answered = 0;
    for task in (0..TASKS).map(ask).collect::<Vec<_>>() {
        for (query, (document, matches)) in task.await.map_err(Error::other)?? {
            // Each task has the answer to its own query.
            let found =
                query.iter().filter(|word| documents[document].iter().any(|own| WORDS[*own as usize] == **word));
            assert_eq!(matches, found.count(), "{query:?}: document {document}");
            answered += 1;
        }
    }
    let (time, metrics) = (start.elapsed(), batcher.metrics());
    println!("{answered} queries over {DOCUMENTS} documents in {time:.0?}, in {} scans", metrics.batches);
    println!("99 % waited {:?} or less, and were answered {:?} later", metrics.wait.p99, metrics.service.p99);

    // A query that is wrong fails by itself; one that comes too late is not run.
    assert_eq!(batcher.call(Vec::new()).await.map_err(|error| error.kind()), Err(ErrorKind::Input));
    let urgent = batcher.call(vec!["queue", "waker"]).within(Duration::from_millis(500)).priority(Priority::High);
    let (document, matches) = urgent.await?;
    println!("document {document} has {matches} of the words queue and waker");
    Ok(())
}
