//! Sentences, one per line, as UTF-8 bytes: their tokenization is timed.

use std::path::Path;

use dyno_loadgen::qsl::SampleIndex;
use dyno_metrics::DataError;
use dyno_sut::tensors::{Elements, SampleTensor, Source};
use dyno_tensors::files;

use super::{SampleSet, inputs, item, library};
use crate::files::{Files, OpenError};

/// The sentences as samples.
#[derive(Debug)]
pub struct Lines {
    sentences: Vec<String>,
    inputs: [String; 1],
}

impl Lines {
    /// Reads the sentences and checks that there are as many translations.
    ///
    /// # Errors
    /// [`DataError`] with file and line: invalid UTF-8, an empty line, or different numbers of
    /// lines.
    pub fn open(sentences: &Path, translations: &Path, input: String) -> Result<Self, DataError> {
        let lines = lines(sentences)?;
        let expected = lines.len();
        let found = self::lines(translations)?.len();
        if expected != found {
            let expected = format!("{expected} lines, as {} has", sentences.display());
            return Err(DataError::malformed(translations, None, expected, found.to_string()));
        }
        Ok(Self { sentences: lines, inputs: [input] })
    }
}

fn lines(path: &Path) -> Result<Vec<String>, DataError> {
    let bytes = files::read(path).map_err(|error| DataError::unreadable(path, &error))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        DataError::malformed(path, None, "one sentence per line in UTF-8", error.to_string())
    })?;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let refused = |line: usize| {
        DataError::malformed(path, line, "one sentence per line", "a line without words")
    };
    match lines.iter().position(|line| line.trim().is_empty()) {
        Some(at) => Err(refused(at + 1)),
        None if lines.is_empty() => Err(refused(1)),
        None => Ok(lines),
    }
}

/// Opens the samples of a card with the files `source` and `target`.
pub(crate) fn read(files: &Files<'_>) -> Result<SampleSet, OpenError> {
    let source = files.path("source")?;
    let target = files.path("target")?;
    let [input] = inputs(files.card());
    let lines = Lines::open(&source, &target, input).map_err(OpenError::content)?;
    library(files.card(), lines).map(SampleSet::new)
}

impl Source for Lines {
    fn name(&self) -> &str {
        "lines"
    }

    fn count(&self) -> usize {
        self.sentences.len()
    }

    fn inputs(&self) -> &[String] {
        &self.inputs
    }

    fn sample(&self, index: SampleIndex) -> Result<Vec<SampleTensor>, String> {
        let bytes = item(&self.sentences, index)?.clone().into_bytes();
        Ok(vec![SampleTensor { shape: vec![bytes.len()], elements: Elements::U8(bytes.into()) }])
    }
}
