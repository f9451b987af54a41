//! Manifests of speech data sets, which contain the reference transcripts.

use std::path::Path;

use dyno_tensors::files;
use serde::Deserialize;

use super::super::DataError;

/// An utterance of a manifest.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Utterance {
    /// Reference transcript.
    pub transcript: String,
    /// Duration in seconds.
    pub original_duration: f64,
    /// Audio files, the original recording first. Scoring does not need them.
    #[serde(default)]
    pub files: Vec<AudioFile>,
}

/// An audio file of an utterance.
// The name `Recorded` is part of error messages.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(expecting = "struct Recorded")]
pub struct AudioFile {
    /// Path in the folder of the data set.
    pub fname: String,
}

/// Reads the transcripts of a manifest, in the order of the samples. They are in lower case, and
/// characters without a number in answers are removed. Utterances longer than `longest_seconds` are
/// not samples.
///
/// # Errors
/// [`DataError`] if the file cannot be read or is not in the format.
///
/// ```
/// use dyno_metrics::speech::read_transcripts;
///
/// let json = r#"[
///     {"transcript": "It's ON!", "original_duration": 2.5},
///     {"transcript": "a long one", "original_duration": 20.0}
/// ]"#;
/// let file = tempfile::NamedTempFile::new().unwrap();
/// std::fs::write(&file, json).unwrap();
/// assert_eq!(read_transcripts(file.path(), 15.0).unwrap(), ["it's on"]);
/// ```
pub fn read_transcripts(path: &Path, longest_seconds: f64) -> Result<Vec<String>, DataError> {
    let is_known = |letter| matches!(letter, ' ' | 'a'..='z' | '\'');
    let text = |transcript: String| {
        // The lower case of other alphabets may contain letters of this one.
        let mut text = if transcript.is_ascii() { transcript } else { transcript.to_lowercase() };
        text.make_ascii_lowercase();
        text.retain(is_known);
        text
    };
    Ok(read(path, longest_seconds)?.into_iter().map(text).collect())
}

/// Reads the unchanged transcripts of a manifest, without utterances longer than `longest_seconds`.
pub fn read(path: &Path, longest_seconds: f64) -> Result<Vec<String>, DataError> {
    let utterances = read_utterances(path, longest_seconds)?;
    Ok(utterances.into_iter().map(|utterance| utterance.transcript).collect())
}

/// Reads the utterances of a manifest, in the order of the samples, without those longer than
/// `longest_seconds`.
///
/// # Errors
/// [`DataError`] if the file cannot be read or is not in the format.
///
/// ```
/// use dyno_metrics::speech::read_utterances;
///
/// let json = r#"[
///     {"transcript": "It's ON!", "original_duration": 2.5},
///     {"transcript": "a long one", "original_duration": 20.0}
/// ]"#;
/// let file = tempfile::NamedTempFile::new().unwrap();
/// std::fs::write(&file, json).unwrap();
/// let utterances = read_utterances(file.path(), 15.0).unwrap();
/// assert_eq!(utterances.len(), 1);
/// assert_eq!(utterances[0].transcript, "It's ON!");
/// ```
pub fn read_utterances(path: &Path, longest_seconds: f64) -> Result<Vec<Utterance>, DataError> {
    let bytes = files::read(path).map_err(|error| DataError::unreadable(path, &error))?;
    let mut utterances: Vec<Utterance> = serde_json::from_slice(&bytes).map_err(|error| {
        let expected = "a list of objects with transcript and original_duration";
        DataError::malformed(path, error.line(), expected, error.to_string())
    })?;
    utterances.retain(|utterance| utterance.original_duration <= longest_seconds);
    Ok(utterances)
}
