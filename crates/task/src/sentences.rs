//! Samples of tasks whose answers are vectors of texts, and the vectors that are right.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use crate::archive::entry;
use crate::data::texts::{self, Texts, Tokenizer};
use crate::encoder::Encoder;
use crate::files::{Files, OpenError};
use crate::networks::minilm_weights;
use crate::system::{Read, inputs, library};

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
    let vectors = files.made_of("vectors.npy", REVISION, &["texts", "reference"], |out| {
        let array = vectors(&archive, &tokens)?;
        out.write_all(&array).map_err(OpenError::content)
    })?;
    let card = files.card();
    let samples = library(card, Texts::new(inputs(card), tokens))?;
    let references = BTreeMap::from([("vectors".to_owned(), vectors)]);
    Ok(Read { references, ..Read::of(samples) })
}

/// The vectors of the network in an archive as `numpy.save` writes them, a row a text.
fn vectors(archive: &Path, texts: &[Vec<u32>]) -> Result<Vec<u8>, OpenError> {
    let of_archive = |error| OpenError::content(format!("{}: {error}", archive.display()));
    let encoder = Encoder::new(&minilm_weights(archive)?, HEADS).map_err(of_archive)?;
    let vectors = encoder.vectors(texts).map_err(of_archive)?;
    let shape = format!("({}, {})", texts.len(), encoder.hidden());
    let mut header =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}").into_bytes();
    // Elements begin at a multiple of 64, behind ten bytes and a header that ends a line.
    header.resize((header.len() + 11).next_multiple_of(64) - 11, b' ');
    header.push(b'\n');
    let length = u16::try_from(header.len()).expect("headers are of some hundred bytes");
    let mut file = [b"\x93NUMPY\x01\0", &length.to_le_bytes()[..], &header].concat();
    file.extend(vectors.into_iter().flatten().flat_map(f32::to_le_bytes));
    Ok(file)
}
