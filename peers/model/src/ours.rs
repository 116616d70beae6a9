//! sortie.

use std::{collections::HashMap, path::Path};

use sortie::{Device, Input, Output, Replay};
use sortie_bench::Outcome;
use sortie_nn::Encoder;

use crate::work::{Encode, Work};

/// The encoder, and its replays by shape, if it runs replays.
pub(crate) struct Ours {
    device: Device,
    encoder: Encoder,
    replays: Option<HashMap<[usize; 2], Frozen>>,
}

struct Frozen {
    replay: Replay,
    tokens: Input<u32>,
    lengths: Input<u32>,
    embeddings: Output<f32>,
}

impl Ours {
    pub(crate) fn open(device: &Device, folder: &Path, is_replay: bool) -> Outcome<Self> {
        let encoder = <Encoder>::open(folder, device)?;
        Ok(Self { device: device.clone(), encoder, replays: is_replay.then(HashMap::new) })
    }
}

impl Encode for Ours {
    fn embed(&mut self, work: &Work) -> Outcome<Vec<f32>> {
        let Self { device, encoder, replays } = self;
        let shape = [work.rows, work.length];
        let Some(replays) = replays else {
            let batch = device.batch();
            let tokens = batch.tensor_from(&work.tokens, shape);
            let embeddings = encoder.embed(tokens, batch.tensor_from(&work.lengths, [work.rows])).read();
            batch.submit()?;
            return Ok(embeddings.wait()?);
        };
        if !replays.contains_key(&shape) {
            let batch = device.batch();
            let (tokens, of_tokens) = batch.input::<u32>(shape);
            let (lengths, of_lengths) = batch.input::<u32>([work.rows]);
            let embeddings = encoder.embed(of_tokens, of_lengths).output();
            replays.insert(shape, Frozen { replay: batch.freeze()?, tokens, lengths, embeddings });
        }
        let frozen = &replays[&shape];
        let mut run = frozen.replay.run();
        run.write(frozen.tokens, &work.tokens);
        run.write(frozen.lengths, &work.lengths);
        let embeddings = run.read(frozen.embeddings);
        run.submit()?;
        Ok(embeddings.wait()?)
    }
}
