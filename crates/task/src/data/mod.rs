//! Data sets: in their publishers' formats, as tables of facts, and generated from seeds.

pub mod aggregation;
pub(crate) mod bpe;
pub mod captions;
pub mod clip;
pub mod coco;
pub mod criteo;
pub mod digit_boxes;
pub mod igbh;
pub mod imagenet;
pub mod karate;
pub mod kits19;
pub mod librispeech;
pub mod lines;
pub mod mnist;
pub mod movielens;
pub mod named;
pub mod part;
pub mod pictures;
pub mod prompts;
pub mod recording;
pub mod shapes3d;
pub mod speech;
pub mod squad;
pub(crate) mod table;
pub mod texts;
pub mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::qsl::SampleIndex;
use dyno_sut::tensors::{Source, TensorLibrary};
use thiserror::Error;

use crate::card::Card;
use crate::features::FeatureNetworks;
use crate::files::OpenError;

/// Error: the files of a data set cannot be used. The text names the file, what was expected and what was
/// found.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct FileError(String);

impl FileError {
    fn new(path: &Path, expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self::from_problem(path, format!("expected {expected}, found {found}"))
    }

    /// Returns the error of a whole file.
    fn from_problem(path: &Path, problem: impl fmt::Display) -> Self {
        Self(format!("{}: {problem}", path.display()))
    }

    /// Returns the error of a line, which counts from 1.
    fn from_line(path: &Path, line: usize, problem: impl fmt::Display) -> Self {
        Self(format!("{}:{line}: {problem}", path.display()))
    }

    /// Returns the error that another reader has described.
    fn from_text(text: impl fmt::Display) -> Self {
        Self(text.to_string())
    }

    fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::new(path, "a file that can be read", error)
    }
}

/// Returns the entry of a list for a sample.
///
/// # Errors
/// The index is beyond the list.
pub(crate) fn item<T>(all: &[T], index: SampleIndex) -> Result<&T, String> {
    let found = usize::try_from(index).ok().and_then(|index| all.get(index));
    found.ok_or_else(|| format!("expected a sample below {}, found {index}", all.len()))
}

/// Samples with the references that were derived from their files.
pub(crate) struct SampleSet {
    pub samples: TensorLibrary,
    /// Files of references by the name of the method's need.
    pub references: BTreeMap<String, PathBuf>,
    /// Networks that compute the features of answers that are images.
    pub networks: Option<FeatureNetworks>,
    /// Remarks on the samples for the reader of the result.
    pub remarks: Vec<String>,
}

impl SampleSet {
    pub(crate) fn new(samples: TensorLibrary) -> Self {
        Self { samples, references: BTreeMap::new(), networks: None, remarks: Vec::new() }
    }
}

/// Returns the names of a card's `N` inputs.
///
/// # Panics
/// Panics if the card has another number of inputs.
pub(crate) fn inputs<const N: usize>(card: &Card) -> [String; N] {
    all(card, card.data.inputs.iter().map(|input| input.name.clone()).collect())
}

/// Converts a list to `N` names; panics if it has another number.
pub(crate) fn all<const N: usize>(card: &Card, names: Vec<String>) -> [String; N] {
    names.try_into().unwrap_or_else(|_| panic!("{} feeds {N} inputs", card.name))
}

/// Returns a sample library of a source; the card states how many samples fit in memory.
pub(crate) fn library(
    card: &Card,
    source: impl Source + 'static,
) -> Result<TensorLibrary, OpenError> {
    let held = usize::try_from(card.data.performance_samples).unwrap_or(usize::MAX);
    let held = NonZero::new(held).unwrap_or(NonZero::<usize>::MIN);
    TensorLibrary::from_source(Arc::new(source), held, None).map_err(OpenError::content)
}
