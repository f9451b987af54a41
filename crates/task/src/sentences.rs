//! Samples of tasks whose answers are vectors of texts, and the vectors that are right.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use dyno_tensors::npy;

use crate::archive::entry;
use crate::data::texts::{self, Texts, Tokenizer};
use crate::encoder::Encoder;
use crate::files::{Files, Of, OpenError};
use crate::networks::minilm_weights;
use crate::open::{Read, inputs, library};

/// Of the references: counts up when what is computed changes.
const REVISION: u32 = 1;

/// Heads of attention of MiniLM-L6.
const HEADS: usize = 12;

/// The file `texts`, cut by the tokenizer of the archive `reference`, with the vectors of
/// its network in full precision. These are computed once, which takes seconds.
pub(crate) fn read(files: &Files<'_>) -> Result<Read, OpenError> {
    let (list, archive) = (files.path("texts")?, files.path("reference")?);
    let texts = texts::read(&list).map_err(OpenError::content)?;
    let tokenizer = entry(&archive, "tokenizer.json").map_err(OpenError::content)?;
    let tokenizer = Tokenizer::read(&tokenizer, &archive).map_err(OpenError::content)?;
    let tokens: Vec<Vec<u32>> = texts.iter().map(|text| tokenizer.tokens(text)).collect();
    let vectors =
        files.made("vectors.npy", REVISION, Of::Files(&["texts", "reference"]), |out| {
            files.say("computing the vectors of the network in full precision, once");
            write_vectors(&archive, &tokens, out)
        })?;
    let card = files.card();
    let samples = library(card, Texts::new(inputs(card), tokens))?;
    let references = BTreeMap::from([("vectors".to_owned(), vectors)]);
    Ok(Read { references, ..Read::of(samples) })
}

/// Writes the vectors of the network in an archive as `numpy.save` does, a row a text.
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
