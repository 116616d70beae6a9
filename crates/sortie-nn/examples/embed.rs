//! Embeds sentences with a real model, through a batcher, and prints those nearest to a question.
//!
//! `cargo run --release -p sortie-nn --example embed -- "$(scripts/minilm)"`
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use sortie::{BatchConfig, Batcher, Device};
use sortie_nn::Encoder;
use tokenizers::Tokenizer;

const SENTENCES: [&str; 6] = [
    "The cat sleeps on the sofa.",
    "Interest rates rose again this quarter.",
    "A kitten is napping on the couch.",
    "The parser reads one token at a time.",
    "It will rain in the north tomorrow.",
    "The central bank tightened its policy.",
];

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let Some(folder) = std::env::args().nth(1) else {
        println!("no model: pass the folder that scripts/minilm prints");
        return Ok(());
    };
    let device = Device::open()?;
    let batcher = Batcher::new(&device, <Encoder>::job(&folder)?, BatchConfig::default())?;
    let mut tokenizer = Tokenizer::from_file(format!("{folder}/tokenizer.json"))?;
    tokenizer.with_padding(None); // the batcher pads

    let embed =
        |text: &str| Ok::<_, tokenizers::Error>(batcher.call(tokenizer.encode(text, true)?.get_ids().to_vec()).send());
    let question = embed("Where is the cat?")?.wait()?;
    let answers = SENTENCES.map(embed); // all are under way
    for (sentence, answer) in SENTENCES.iter().zip(answers) {
        let score: f32 = answer?.wait()?.iter().zip(&question).map(|(x, y)| x * y).sum();
        println!("{score:6.3}  {sentence}");
    }
    println!("on {}, {} batches", device.info(), batcher.metrics().batches);
    Ok(())
}
