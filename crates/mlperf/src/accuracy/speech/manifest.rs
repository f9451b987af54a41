//! What was said: the manifest of a data set of speech.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::super::DataError;
use super::LABELS;

#[derive(Deserialize)]
struct Utterance {
    transcript: String,
    original_duration: f64,
}

/// The transcripts of a manifest, in the order of the samples: lower case, without
/// characters that answers have no number for. Utterances longer than so many
/// seconds are no samples.
///
/// # Errors
/// The file does not read, or is not of the format.
pub fn read_transcripts(path: &Path, longest_seconds: f64) -> Result<Vec<String>, DataError> {
    let is_known = |letter: &char| u8::try_from(*letter).is_ok_and(|byte| LABELS.contains(&byte));
    let text = |transcript: String| transcript.to_lowercase().chars().filter(is_known).collect();
    Ok(read(path, longest_seconds)?.into_iter().map(text).collect())
}

/// The transcripts of a manifest as they stand there, without utterances that are
/// longer.
pub fn read(path: &Path, longest_seconds: f64) -> Result<Vec<String>, DataError> {
    let bytes = fs::read(path).map_err(|error| DataError::unreadable(path, &error))?;
    let utterances: Vec<Utterance> = serde_json::from_slice(&bytes).map_err(|error| {
        let expected = "a list of objects with transcript and original_duration";
        DataError::malformed(path, error.line(), expected, error.to_string())
    })?;
    let is_short = |utterance: &Utterance| utterance.original_duration <= longest_seconds;
    Ok(utterances.into_iter().filter(is_short).map(|utterance| utterance.transcript).collect())
}
