//! Text generation token by token, with several samples per call.
//!
//! Prompts of different lengths are padded on the left and masked. If the model takes no mask, only
//! prompts of one length share a call. A finished sample leaves the calls at once, and its answer
//! is handed over.

use std::path::PathBuf;

use dyno_loadgen::sut::ResponseId;
use dyno_metrics::payload::{Element, element_named};
use dyno_sut::engine::Answers;
use dyno_sut::onnx::ort::CallableModel;
use dyno_sut::tensors::SampleTensor;

use super::beam::TextSearch;
use super::decoder::{Decoder, DecoderOutput, TokenBatch};
use super::{LoadedSample, Pipeline, PipelineLoader};
use crate::files::{Files, OpenError};
use crate::system::{BeamSettings, GenerationRules, LengthLimits};

/// File names in a folder that optimum writes; the first that exists is used.
const FILE_NAMES: [&str; 2] = ["model.onnx", "decoder_model_merged.onnx"];

struct GenerationPipeline {
    decoder: Decoder,
    rules: GenerationRules,
    element: Element,
}

/// A sample that is being answered.
struct ActiveSample {
    id: ResponseId,
    prompt: Vec<i64>,
    search: TextSearch,
}

/// Opens the decoder `model` of the card. Answers are arrays of the element type that the card
/// judges.
pub(crate) fn open(
    files: &Files<'_>,
    rules: &GenerationRules,
) -> Result<PipelineLoader, OpenError> {
    let path = onnx_file(files.path("model")?)?;
    let rules = rules.clone();
    assert!(!rules.length.ends.is_empty(), "cards name an end");
    let element = files.card().quality.as_ref().and_then(|quality| quality.element.as_deref());
    let element = element.and_then(element_named).unwrap_or(Element::I64);
    Ok(Box::new(move |open| {
        let decoder = Decoder::from_model(open(&path)?.into_callable())?;
        if decoder.has_one_row()
            && let Some(BeamSettings { count, .. }) = &rules.beams
        {
            return Err(decoder.model().unfit(format!(
                "it has a place for one row only; expected any number, of which {count} are the \
                 beams of a prompt"
            )));
        }
        Ok(Box::new(GenerationPipeline { decoder, rules, element }))
    }))
}

/// Returns the ONNX file, which may be in a folder.
fn onnx_file(path: PathBuf) -> Result<PathBuf, OpenError> {
    if !path.is_dir() {
        return Ok(path);
    }
    let found = FILE_NAMES.iter().map(|name| path.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| {
        let names = FILE_NAMES.join(", ");
        let path = path.display();
        OpenError::content(format!("{path}: expected a folder with one of {names}, found none"))
    })
}

impl Pipeline for GenerationPipeline {
    fn models(&self) -> Vec<&CallableModel> {
        vec![self.decoder.model()]
    }

    fn answer(&self, batch: &[LoadedSample], answers: &mut Answers) -> Result<(), String> {
        let mut all = batch
            .iter()
            .map(|sample| self.activate(sample, self.rules.length.most))
            .collect::<Result<Vec<ActiveSample>, String>>()?;
        if self.decoder.takes_padding() {
            return self.generate(all, answers);
        }
        let mut failed = Ok(());
        all.sort_by_key(|live| live.prompt.len());
        while let Some(first) = all.first() {
            let length = first.prompt.len();
            let others = all.iter().position(|live| live.prompt.len() != length);
            let rest = all.split_off(others.unwrap_or(all.len()));
            // Samples of another call may still be answered.
            failed = failed.and(self.generate(std::mem::replace(&mut all, rest), answers));
        }
        failed
    }

    fn try_out(&self, first: &LoadedSample) -> Result<(), String> {
        // One call without previous tokens and one with them.
        let live = self.activate(first, self.rules.length.most.min(2))?;
        self.generate(vec![live], &mut Answers::new())
    }

    /// With beams, no token is certain before the end.
    fn is_streaming(&self) -> bool {
        self.rules.beams.is_none()
    }

    fn takes_one(&self) -> bool {
        self.decoder.has_one_row()
    }
}

impl GenerationPipeline {
    fn activate(&self, sample: &LoadedSample, most: usize) -> Result<ActiveSample, String> {
        let tokens = |tensor: &SampleTensor| {
            let all = tensor.elements.to_i64().map(std::borrow::Cow::into_owned);
            all.ok_or_else(|| format!("expected tokens, found {}", tensor.elements.element()))
        };
        let prompt = tokens(&sample.inputs[0])?;
        if prompt.is_empty() {
            return Err("expected a prompt of at least one token, found none".into());
        }
        let stops = sample.inputs.get(1).map(tokens).transpose()?;
        let stop: &[i64] = match stops.as_deref() {
            Some([1]) => &self.rules.stop,
            _ => &[],
        };
        let length = LengthLimits { most, ..self.rules.length.clone() };
        let search = TextSearch::new(&length, self.rules.beams.as_ref(), &prompt, stop);
        Ok(ActiveSample { id: sample.sample.id, prompt, search })
    }

    fn generate(&self, mut live: Vec<ActiveSample>, answers: &mut Answers) -> Result<(), String> {
        let longest = live.iter().map(|live| live.prompt.len()).max().unwrap_or(0);
        let named = |why: String| format!("{}: {why}", self.decoder.model().name());
        let mut last_output: Option<DecoderOutput> = None;
        let mut made = 0;
        while !live.is_empty() {
            let beams = if made == 0 { 1 } else { self.beams() };
            let reads = self.reads(&live, longest, made);
            let mut now = self.decoder.call(&reads, last_output.as_ref())?;
            // The previous cache is not needed any more.
            drop(last_output.take());
            let parents = now.scores(reads.rows, |rows| {
                let each = live.iter_mut().zip(rows.chunks(beams));
                each.map(|(live, rows)| live.search.step(rows)).collect::<Result<Vec<_>, _>>()
            });
            let parents = parents.map_err(named)?;
            made += 1;
            let mut next = Vec::new();
            let mut picked = Vec::new();
            for (at, (live, parents)) in live.into_iter().zip(parents).enumerate() {
                if made == 1
                    && let (None, Some(first)) = (&self.rules.beams, live.search.last().next())
                {
                    answers.first_token(live.id, &self.bytes(&[first]));
                }
                if live.search.is_done() {
                    self.end(live, answers);
                } else {
                    // Before the first token, one row stands for all beams.
                    picked.extend(parents.iter().map(|beam| at * beams + beam.min(&(beams - 1))));
                    next.push(live);
                }
            }
            if !next.is_empty() {
                now.pick(&picked, reads.rows).map_err(named)?;
            }
            last_output = Some(now);
            live = next;
        }
        Ok(())
    }

    fn beams(&self) -> usize {
        self.rules.beams.as_ref().map_or(1, |beams| beams.count)
    }

    /// Returns the tokens of the next call: the prompts, or after `made` tokens the last token of
    /// each beam.
    fn reads(&self, live: &[ActiveSample], longest: usize, made: usize) -> TokenBatch {
        let pad = self.rules.length.ends[0];
        let mut reads = TokenBatch::default();
        for ActiveSample { prompt, search, .. } in live {
            let length = prompt.len();
            let padding = longest - length;
            let mut row = |last: Option<i64>| {
                reads.rows += 1;
                reads.mask.extend(std::iter::repeat_n(0, padding));
                // The current token counts as well.
                reads.mask.extend(std::iter::repeat_n(1, length + made));
                if let Some(last) = last {
                    reads.tokens.push(last);
                    reads.positions.push((length + made - 1) as i64);
                } else {
                    reads.tokens.extend(std::iter::repeat_n(pad, padding));
                    reads.tokens.extend(prompt);
                    // Positions of padding are those of `generate`.
                    reads.positions.extend(std::iter::repeat_n(1, padding));
                    reads.positions.extend(0..length as i64);
                }
            };
            if made == 0 {
                row(None);
            } else {
                search.last().for_each(|last| row(Some(last)));
            }
        }
        reads
    }

    /// Hands over an answer: the text after the prompt.
    fn end(&self, ActiveSample { id, search, .. }: ActiveSample, answers: &mut Answers) {
        let mut text = search.text();
        while text.last().is_some_and(|last| self.rules.cut.contains(last)) {
            text.pop();
        }
        answers.push_tokens(id, &self.bytes(&text), text.len() as i64);
        answers.hand_over();
    }

    fn bytes(&self, tokens: &[i64]) -> Vec<u8> {
        tokens
            .iter()
            .flat_map(|token| token.to_le_bytes()[..self.element.size()].to_vec())
            .collect()
    }
}
