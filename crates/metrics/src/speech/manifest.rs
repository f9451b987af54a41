//! What was said: the manifest of a data set of speech.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::super::DataError;

/// An utterance of a manifest.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Utterance {
    /// What was said.
    pub transcript: String,
    /// In seconds.
    pub original_duration: f64,
    /// What it was recorded in, the recording itself first; scoring needs none.
    #[serde(default)]
    pub files: Vec<AudioFile>,
}

/// A file of an utterance.
// The name is part of error messages.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(expecting = "struct Recorded")]
pub struct AudioFile {
    /// Its place in the folder of the data set.
    pub fname: String,
}

/// The transcripts of a manifest, in the order of the samples: lower case, without
/// characters that answers have no number for. Utterances longer than so many
/// seconds are no samples.
///
/// # Errors
/// The file does not read, or is not of the format.
pub fn read_transcripts(path: &Path, longest_seconds: f64) -> Result<Vec<String>, DataError> {
    let is_known = |letter| matches!(letter, ' ' | 'a'..='z' | '\'');
    let text = |transcript: String| {
        // Letters of other alphabets may become some of this one.
        let mut text = if transcript.is_ascii() { transcript } else { transcript.to_lowercase() };
        text.make_ascii_lowercase();
        text.retain(is_known);
        text
    };
    Ok(read(path, longest_seconds)?.into_iter().map(text).collect())
}

/// The transcripts of a manifest as they stand there, without utterances that are
/// longer.
pub fn read(path: &Path, longest_seconds: f64) -> Result<Vec<String>, DataError> {
    let utterances = read_utterances(path, longest_seconds)?;
    Ok(utterances.into_iter().map(|utterance| utterance.transcript).collect())
}

/// The utterances of a manifest, in the order of the samples, without those that are
/// longer than so many seconds.
///
/// # Errors
/// As [`read_transcripts`].
pub fn read_utterances(path: &Path, longest_seconds: f64) -> Result<Vec<Utterance>, DataError> {
    let bytes = fs::read(path).map_err(|error| DataError::unreadable(path, &error))?;
    let mut utterances: Vec<Utterance> = serde_json::from_slice(&bytes).map_err(|error| {
        let expected = "a list of objects with transcript and original_duration";
        DataError::malformed(path, error.line(), expected, error.to_string())
    })?;
    utterances.retain(|utterance| utterance.original_duration <= longest_seconds);
    Ok(utterances)
}
