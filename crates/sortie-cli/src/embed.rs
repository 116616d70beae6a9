//! `sortie embed`: embeddings of lines of text, by a model in a folder, through a batcher.
//!
//! Lines are read, tokenised and sent while earlier ones are computed. A fixed number of tokens is in
//! flight at most, which bounds the memory; answers are written in the order of their lines.

use std::{
    collections::VecDeque,
    error::Error,
    fs::File,
    io::{self, BufRead, BufReader, Write},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Instant,
};

use indicatif::ProgressBar;
use sortie::{
    BatchConfig, Batcher, Device,
    batcher::{OnDevice, ResponseFuture, Sequences},
};
use sortie_nn::{Encoder, EncoderConfig};
use tokenizers::{Tokenizer, TruncationParams};

use crate::{
    device::DeviceArgs,
    embeddings::Embeddings,
    input,
    lines::{Line, Lines},
    number,
    output::refuse_overwriting,
    progress,
};

/// Tokens under way: enough for full batches of each length.
const MAX_TOKENS: usize = 1 << 16;

type Job = OnDevice<Sequences<u32, f32>>;
type Text = Lines<Box<dyn BufRead>>;

/// Embed lines of text.
#[derive(Debug, clap::Args)]
pub(crate) struct Embed {
    /// The folder of a BERT-style model: config.json, model.safetensors and tokenizer.json. `scripts/minilm` fetches one
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// The text, one sentence on each line; standard input if not given
    file: Option<PathBuf>,
    /// Where embeddings go: OUT.npy or OUT.jsonl. The file appears only when it is complete. Without it, JSON lines are
    /// printed
    #[arg(long, value_name = "OUT.npy|.jsonl")]
    output: Option<PathBuf>,
    /// Print the lines nearest to this text instead
    #[arg(long, value_name = "TEXT", conflicts_with = "output")]
    query: Option<String>,
    /// How many of them
    #[arg(long, value_name = "N", default_value = "5", requires = "query")]
    top: NonZeroUsize,
    /// Cut lines that have more tokens than the model has positions, instead of failing
    #[arg(long)]
    truncate: bool,
    /// Leave out empty lines, instead of failing
    #[arg(long)]
    skip_empty: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

/// A line whose embedding is being computed.
struct Pending {
    line: Line,
    tokens: usize,
    answer: ResponseFuture<Job>,
}

impl Embed {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
        if let (Some(output), Some(file)) = (&self.output, &self.file) {
            refuse_overwriting(output, [("the text", &**file)], "--output")?;
        }
        let config = EncoderConfig::open(self.model.join("config.json"))?;
        let tokenizer = self.tokenizer(&config)?;
        let (mut lines, bytes) = self.lines()?;
        let device = self.device.open()?;
        let settings = BatchConfig::throughput().with_queue_capacity(2 * MAX_TOKENS);
        let batcher = Batcher::new(&device, <Encoder>::job(&self.model)?, settings)?;

        let mut sink = match &self.query {
            None => Embeddings::create(self.output.as_deref(), config.width, out)?,
            Some(query) => {
                let query =
                    batcher.call_blocking(tokens(&tokenizer, query)?).map_err(|error| format!("--query: {error}"))?;
                Embeddings::Nearest { query, top: self.top.get(), nearest: Vec::new(), out }
            }
        };
        let bar = match bytes {
            Some(bytes) => progress::bar(bytes, "{bar:40} {percent:>3} % of {total_bytes}, {msg}, {eta} left"),
            None => progress::bar(0, "{spinner} {msg}"),
        };
        let done = self.embed_all(&batcher, &tokenizer, &mut lines, &mut sink, &bar);
        bar.finish_and_clear();
        let (done, start) = done?;
        sink.finish()?;
        summary(done, start, &device);
        Ok(())
    }

    /// Returns how many lines there were, and when the first was sent.
    fn embed_all(
        &self,
        batcher: &Batcher<Job>,
        tokenizer: &Tokenizer,
        lines: &mut Text,
        sink: &mut Embeddings<'_>,
        bar: &ProgressBar,
    ) -> Result<(u64, Instant), Box<dyn Error>> {
        let (start, mut done) = (Instant::now(), 0);
        let (mut pending, mut under_way) = (VecDeque::<Pending>::new(), 0);
        let mut finish = |lines: &Text, next: Pending| -> Result<(), Box<dyn Error>> {
            let number = next.line.number;
            let embedding = next.answer.wait().map_err(|error| lines.at(number, &crate::error::chain(&error)))?;
            sink.take(next.line, &embedding)?;
            done += 1;
            bar.set_position(lines.bytes());
            bar.set_message(rate(done, start));
            Ok(())
        };
        while let Some(line) = lines.next_line()? {
            if line.text.trim().is_empty() {
                if self.skip_empty {
                    continue;
                }
                return Err(lines.at(line.number, &"it is empty; --skip-empty leaves such lines out").into());
            }
            let tokens = tokens(tokenizer, &line.text).map_err(|error| lines.at(line.number, &error))?;
            let count = tokens.len();
            while under_way + count > MAX_TOKENS
                && let Some(next) = pending.pop_front()
            {
                under_way -= next.tokens;
                finish(lines, next)?;
            }
            under_way += count;
            pending.push_back(Pending { line, tokens: count, answer: batcher.call(tokens).send() });
        }
        for next in pending {
            finish(lines, next)?;
        }
        Ok((done, start))
    }

    /// Without padding, which is the batcher's, and without truncation, unless it was asked for.
    fn tokenizer(&self, config: &EncoderConfig) -> Result<Tokenizer, String> {
        let path = self.model.join("tokenizer.json");
        let wrong = |error: tokenizers::Error| input::named(&path, &error);
        input::data(&path)?;
        let mut tokenizer = Tokenizer::from_file(&path).map_err(wrong)?;
        tokenizer.with_padding(None);
        let limit = self.truncate.then(|| TruncationParams { max_length: config.positions, ..Default::default() });
        tokenizer.with_truncation(limit).map_err(wrong)?;
        Ok(tokenizer)
    }

    /// The text, and its length if it is a file.
    fn lines(&self) -> Result<(Text, Option<u64>), String> {
        let Some(path) = &self.file else {
            return Ok((Lines::new(Box::new(BufReader::new(io::stdin())), "standard input".into()), None));
        };
        // Not `input::data`: the text may come through a FIFO.
        let file = File::open(path).map_err(|error| input::named(path, &error))?;
        let about = file.metadata().map_err(|error| input::named(path, &error))?;
        let name = crate::terminal::name(Path::new(path));
        Ok((Lines::new(Box::new(BufReader::new(file)), name), about.is_file().then_some(about.len())))
    }
}

fn tokens(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, String> {
    let encoding = tokenizer.encode_fast(text, true).map_err(|error| error.to_string())?;
    Ok(encoding.get_ids().to_vec())
}

fn rate(lines: u64, start: Instant) -> String {
    format!("{}, {:.1}/s", number::counted(lines, "line"), lines as f64 / start.elapsed().as_secs_f64())
}

/// On stderr: stdout may have the embeddings.
fn summary(done: u64, start: Instant, device: &Device) {
    // The command has succeeded even if stderr is closed.
    drop(writeln!(io::stderr(), "{} on {}", rate(done, start), device.info()));
}
