//! candle, with the BERT of candle-transformers.

use std::{fs, path::Path};

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use sortie_bench::Outcome;

use crate::work::{Encode, Work};

pub(crate) struct Candle {
    model: BertModel,
}

impl Candle {
    pub(crate) fn open(folder: &Path) -> Outcome<Self> {
        let config: Config = serde_json::from_slice(&fs::read(folder.join("config.json"))?)?;
        let weights = fs::read(folder.join("model.safetensors"))?;
        let params = VarBuilder::from_buffered_safetensors(weights, DType::F32, &Device::Cpu)?;
        Ok(Self { model: BertModel::load(params, &config)? })
    }
}

impl Encode for Candle {
    fn embed(&mut self, work: &Work) -> Outcome<Vec<f32>> {
        let shape = (work.rows, work.length);
        let tokens = Tensor::from_slice(&work.tokens, shape, &Device::Cpu)?;
        let is_present = |at: usize| u32::from(at % work.length < work.lengths[at / work.length] as usize);
        let present: Vec<u32> = (0..work.tokens.len()).map(is_present).collect();
        let mask = Tensor::from_slice(&present, shape, &Device::Cpu)?;
        let x = self.model.forward(&tokens, &tokens.zeros_like()?, Some(&mask))?;
        let mask = mask.to_dtype(DType::F32)?;
        let pooled = x.broadcast_mul(&mask.unsqueeze(2)?)?.sum(1)?.broadcast_div(&mask.sum_keepdim(1)?)?;
        let embeddings = pooled.broadcast_div(&pooled.sqr()?.sum_keepdim(1)?.sqrt()?)?;
        Ok(embeddings.flatten_all()?.to_vec1()?)
    }
}
