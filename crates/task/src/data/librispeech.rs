//! LibriSpeech in the form of the benchmark RNN-T: a folder of recordings and a manifest in the
//! order of the samples.
//!
//! Source: `pytorch/parts/manifest.py`, `pytorch/QSL.py` and `pytorch/utils/preprocessing_utils.py`
//! of the reference's benchmark. Utterances longer than 15 s are omitted, the first of several
//! files is the recording, and its path begins at the folder that holds `dev-clean-wav`.

use std::path::{Path, PathBuf};

use dyno_loadgen::qsl::SampleIndex;
use dyno_metrics::DataError;
use dyno_metrics::speech::{LONGEST_SECONDS, Utterance, read_utterances};
use dyno_sut::tensors::{Elements, SampleTensor, Source};

use super::pictures::MissingFiles;
use super::recording::{RATE, Recording};
use super::{FileError, SampleSet, inputs, item, library};
use crate::files::{Files, OpenError};

/// Tolerance of a recording's duration, in seconds, because the manifest rounds.
const DURATION_TOLERANCE: f64 = 0.01;
/// Missing files that an error names, at most.
const NAMED: usize = 5;
const GET: &str = "dev-clean.tar.gz, and convert it as described in the card";

/// The recordings; each is in memory only while its sample is loaded.
#[derive(Debug)]
pub struct Librispeech {
    recordings: Vec<PathBuf>,
    inputs: [String; 1],
}

impl Librispeech {
    /// Finds the recording of each utterance and reads its header. The folder is `dev-clean-wav` or
    /// the one above it; recordings may also be LibriSpeech's own FLAC files.
    ///
    /// # Errors
    /// [`FileError`], which names the file.
    pub fn open(folder: &Path, manifest: &Path, input: String) -> Result<Self, FileError> {
        let utterances =
            read_utterances(manifest, LONGEST_SECONDS).map_err(FileError::from_text)?;
        let refused = |expected: &str, found: String| {
            FileError::from_text(DataError::malformed(manifest, None, expected, found))
        };
        if utterances.is_empty() {
            let expected = format!("utterances of at most {LONGEST_SECONDS} s");
            return Err(refused(&expected, "none".to_owned()));
        }
        let mut recordings = Vec::with_capacity(utterances.len());
        let mut gone = Vec::new();
        for (at, utterance) in utterances.iter().enumerate() {
            let first = utterance.files.first();
            let name = first.map(|file| file.fname.as_str()).filter(|name| is_below(name));
            let name = name.ok_or_else(|| {
                let found = first.map_or("none", |file| &file.fname);
                let found = format!("{found} at utterance {at}");
                refused("files with an fname below the folder for each utterance", found)
            })?;
            match place(folder, name) {
                Some(path) => recordings.push(path),
                None => gone.push(name.to_owned()),
            }
        }
        if !gone.is_empty() {
            let missing = gone.len();
            let total = utterances.len();
            gone.truncate(NAMED);
            let folder = folder.to_owned();
            let missing = MissingFiles { folder, missing, total, files: gone, get: GET };
            return Err(FileError::from_text(missing));
        }
        for (path, utterance) in recordings.iter().zip(&utterances) {
            fits(path, utterance)?;
        }
        Ok(Self { recordings, inputs: [input] })
    }
}

/// Whether a relative path stays within the folder.
fn is_below(name: &str) -> bool {
    let mut parts = Path::new(name).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// Returns the path of the recording of this name, if it exists.
fn place(folder: &Path, name: &str) -> Option<PathBuf> {
    let name = Path::new(name);
    let without_first: PathBuf = name.components().skip(1).collect();
    let places = [folder.join(name), folder.join(without_first)];
    let mut places =
        places.into_iter().flat_map(|path| [path.clone(), path.with_extension("flac")]);
    places.find(|path| path.is_file())
}

/// Checks that the duration of a recording is that of the utterance.
fn fits(path: &Path, utterance: &Utterance) -> Result<(), FileError> {
    let recording = Recording::open(path)?;
    let found = recording.count() as f64 / f64::from(RATE);
    let expected = utterance.original_duration;
    if (found - expected).abs() <= DURATION_TOLERANCE {
        return Ok(());
    }
    let expected = format!("{expected:.3} s from the manifest");
    Err(FileError::new(path, expected, format!("{found:.3} s")))
}

/// Opens the samples of a card with the files `audio` and `manifest`.
pub(crate) fn read(files: &Files<'_>) -> Result<SampleSet, OpenError> {
    let folder = files.path("audio")?;
    let manifest = files.path("manifest")?;
    let [input] = inputs(files.card());
    let recordings = Librispeech::open(&folder, &manifest, input);
    library(files.card(), recordings.map_err(OpenError::content)?).map(SampleSet::new)
}

impl Source for Librispeech {
    fn name(&self) -> &str {
        "librispeech"
    }

    fn count(&self) -> usize {
        self.recordings.len()
    }

    fn inputs(&self) -> &[String] {
        &self.inputs
    }

    fn sample(&self, index: SampleIndex) -> Result<Vec<SampleTensor>, String> {
        let path = item(&self.recordings, index)?;
        let values = Recording::open(path).and_then(Recording::read);
        let values = values.map_err(|error| error.to_string())?;
        let shape = vec![values.len()];
        Ok(vec![SampleTensor { shape, elements: Elements::F32(values.into()) }])
    }
}
