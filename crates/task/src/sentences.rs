//! Samples of tasks whose answers are sentence embeddings, and the reference embeddings.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use dyno_tensors::npy;

use crate::archive::entry;
use crate::data::texts::{self, Texts, Tokenizer};
use crate::data::{SampleSet, inputs, library};
use crate::encoder::Encoder;
use crate::files::{CacheKey, Files, OpenError};
use crate::networks::minilm_weights;

/// Revision of the references: increases when their computation changes.
const REVISION: u32 = 1;

/// Attention heads of MiniLM-L6.
const HEADS: usize = 12;

/// Opens the file `texts`, tokenized by the tokenizer in the archive `reference`, with the
/// reference vectors of the archive's network in full precision. These are computed once, which
/// takes seconds.
pub(crate) fn read(files: &Files<'_>) -> Result<SampleSet, OpenError> {
    let list = files.path("texts")?;
    let archive = files.path("reference")?;
    let texts = texts::read(&list).map_err(OpenError::content)?;
    let tokenizer = entry(&archive, "tokenizer.json").map_err(OpenError::content)?;
    let tokenizer = Tokenizer::read(&tokenizer, &archive).map_err(OpenError::content)?;
    let tokens: Vec<Vec<u32>> = texts.iter().map(|text| tokenizer.tokens(text)).collect();
    let vectors =
        files.derive("vectors.npy", REVISION, CacheKey::Files(&["texts", "reference"]), |out| {
            files.report_progress("computing the vectors of the network in full precision, once");
            write_vectors(&archive, &tokens, out)
        })?;
    let card = files.card();
    let samples = library(card, Texts::new(inputs(card), tokens))?;
    let references = BTreeMap::from([("vectors".to_owned(), vectors)]);
    Ok(SampleSet { references, ..SampleSet::new(samples) })
}

/// Writes the vectors of the archive's network in the format of `numpy.save`, one row per text.
fn write_vectors(
    archive: &Path,
    texts: &[Vec<u32>],
    out: &mut impl Write,
) -> Result<(), OpenError> {
    let of_archive = |error| OpenError::content(format!("{}: {error}", archive.display()));
    let encoder = Encoder::new(&minilm_weights(archive)?, HEADS).map_err(of_archive)?;
    let vectors = encoder.vectors(texts).map_err(of_archive)?.concat();
    npy::write(out, &[texts.len(), encoder.hidden()], &vectors).map_err(OpenError::content)
}
