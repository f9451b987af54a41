//! A recording with the turns of its speakers, for voice activity detectors that run every 32 ms:
//! the inputs of each step, and whether it contains speech.

pub mod states;

use std::io::Write as _;
use std::path::Path;

use dyno_sut::tensors::{Elements, Tensor, TensorLibrary};
use dyno_tensors::files;

use super::recording::{RATE, Recording};
use super::{FileError, SampleSet};
use crate::files::{CacheKey, Files, OpenError};

use states::StateNetwork;

/// New samples of a step.
pub const STEP: usize = 512;
/// Samples of the previous step that precede them.
pub const CONTEXT: usize = 64;
/// Size of a state: outputs and cells of the LSTM.
pub const STATE: usize = 2 * WIDE;
/// Width of the LSTM.
const WIDE: usize = 128;

/// Reads the values of a recording, scaled to [-1, 1).
///
/// # Errors
/// [`FileError`] if the file has another format.
pub fn recording(path: &Path) -> Result<Vec<f32>, FileError> {
    Recording::open(path).and_then(Recording::read)
}

/// Returns the input of each step: the end of the previous step (zeros before the first), then its
/// own values. An incomplete step at the end is dropped.
pub fn steps(recording: &[f32]) -> Vec<[f32; CONTEXT + STEP]> {
    let mut context = [0.0; CONTEXT];
    let (steps, _) = recording.as_chunks::<STEP>();
    let step = |new: &[f32; STEP]| {
        let mut step = [0.0; CONTEXT + STEP];
        step[..CONTEXT].copy_from_slice(&context);
        step[CONTEXT..].copy_from_slice(new);
        context.copy_from_slice(&new[STEP - CONTEXT..]);
        step
    };
    steps.iter().map(step).collect()
}

/// Returns for each step whether at least half of it is speech, by a file of turns in NIST's RTTM
/// format.
///
/// # Errors
/// [`FileError`] if the file is malformed.
pub fn spoken(path: &Path, steps: usize) -> Result<Vec<bool>, FileError> {
    let text = files::read_to_string(path).map_err(|error| FileError::from_problem(path, error))?;
    let mut is_speech = vec![false; steps * STEP];
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let turn = turn(line).ok_or_else(|| {
            let found: String = line.chars().take(80).collect();
            let expected = "SPEAKER, a name, a channel, begin and duration in seconds";
            FileError::from_line(path, at + 1, format!("expected {expected}, found {found}"))
        })?;
        let position =
            |seconds: f64| ((seconds * f64::from(RATE)).round() as usize).min(steps * STEP);
        is_speech[position(turn.0)..position(turn.0 + turn.1)].fill(true);
    }
    let (each, _) = is_speech.as_chunks::<STEP>();
    Ok(each.iter().map(|step| 2 * step.iter().filter(|one| **one).count() >= STEP).collect())
}

/// Parses the begin and the duration of a turn, in seconds.
fn turn(line: &str) -> Option<(f64, f64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let ["SPEAKER", _, _, begin, duration, ..] = fields[..] else { return None };
    let seconds =
        |text: &str| text.parse().ok().filter(|seconds: &f64| (0.0..1e9).contains(seconds));
    Some((seconds(begin)?, seconds(duration)?))
}

/// Returns the result of [`spoken`], or an error if all steps are of one kind.
fn distinct_steps(path: &Path, steps: usize) -> Result<Vec<bool>, FileError> {
    let spoken = spoken(path, steps)?;
    let found = match (spoken.contains(&true), spoken.contains(&false)) {
        (true, true) => return Ok(spoken),
        (true, false) => "speech",
        (false, _) => "silence",
    };
    let expected = "turns that leave speech and silence in the recording";
    Err(FileError::new(path, expected, format!("only {found}")))
}

/// Opens the samples of a card with the files `recording`, `turns` and `weights`, and derives their
/// labels for the method `roc-auc`.
pub(crate) fn read(files: &Files<'_>) -> Result<SampleSet, OpenError> {
    let [wave, turns, weights] = ["recording", "turns", "weights"].map(|name| files.path(name));
    let wave = wave?;
    let turns = turns?;
    let weights = weights?;
    let values = recording(&wave).map_err(OpenError::content)?;
    let steps = steps(&values);
    if steps.is_empty() {
        let expected = format!("{STEP} values of a step at least");
        return Err(OpenError::content(FileError::new(&wave, expected, values.len())));
    }
    let spoken = distinct_steps(&turns, steps.len()).map_err(OpenError::content)?;
    let states =
        files.derive("states.f32", 1, CacheKey::Files(&["recording", "weights"]), |file| {
            let network = StateNetwork::read(&weights).map_err(OpenError::content)?;
            files.report_progress("computing the states of the stream, once");
            let bytes = network.states(&steps).into_iter().flat_map(f32::to_le_bytes);
            file.write_all(&bytes.collect::<Vec<u8>>()).map_err(OpenError::content)
        })?;
    let states = files::read(&states).map_err(OpenError::io_at(&states))?;
    let states = states.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let samples = samples(&steps, states).map_err(OpenError::content)?;
    // The method takes many predictions per sample; here each sample has one.
    let labels = files.derive("labels", 1, CacheKey::Files(&["recording", "turns"]), |file| {
        let line = |is_speech: &bool| if *is_speech { "1\n" } else { "0\n" };
        let text: String = spoken.iter().map(line).collect();
        file.write_all(text.as_bytes()).map_err(OpenError::content)
    })?;
    let counts = files.derive("counts", 1, CacheKey::Files(&["recording"]), |file| {
        let text: String = (0..steps.len()).map(|at| format!("{at},{},1\n", at + 1)).collect();
        file.write_all(text.as_bytes()).map_err(OpenError::content)
    })?;
    let references = [("day_23", labels), ("trace", counts)];
    let references = references.map(|(need, path)| (need.to_owned(), path)).into();
    Ok(SampleSet { references, ..SampleSet::new(samples) })
}

/// Returns the steps as samples of the packaged model: `input`, `sr`, and the state before each
/// step as `state`.
///
/// # Errors
/// [`FileError`] if there are no steps, or not one state per step.
pub fn samples(
    steps: &[[f32; CONTEXT + STEP]],
    states: Vec<f32>,
) -> Result<TensorLibrary, FileError> {
    let tensor = |name: &str, sample_shape: &[usize], elements| Tensor {
        name: name.to_owned(),
        sample_shape: sample_shape.to_vec(),
        elements,
    };
    let tensors = vec![
        tensor("input", &[CONTEXT + STEP], Elements::F32(steps.as_flattened().to_vec().into())),
        tensor("state", &[2, 1, WIDE], Elements::F32(states.into())),
        tensor("sr", &[], Elements::I64(vec![i64::from(RATE); steps.len()].into())),
    ];
    TensorLibrary::new("speech-steps", tensors, None).map_err(FileError::from_text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::data::recording::write_wave;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("dyno-speech-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_step_begins_with_the_end_of_the_one_before() {
        let path = scratch("steps.wav");
        let values: Vec<i16> = (0..1500).collect();
        write_wave(&path, RATE, &values);
        let values = recording(&path).unwrap();
        assert_eq!((values[0], values[1499]), (0.0, 1499.0 / 32_768.0));
        let steps = steps(&values);
        assert_eq!((steps.len(), steps[0][..CONTEXT].to_vec()), (2, vec![0.0; CONTEXT]));
        assert_eq!(steps[0][CONTEXT..], values[..STEP]);
        assert_eq!(steps[1][..], values[STEP - CONTEXT..2 * STEP]);
        let library = samples(&steps, vec![0.5; 2 * STATE]).unwrap();
        let sample = library.sample(1).unwrap();
        let shapes: Vec<_> = sample.iter().map(|(name, one)| (*name, one.shape.clone())).collect();
        assert_eq!(shapes, [("input", vec![576]), ("state", vec![2, 1, 128]), ("sr", vec![])]);
        assert!(samples(&steps, vec![0.5; STATE]).is_err());
        write_wave(&path, 8000, &[0; 9]);
        let error = recording(&path).unwrap_err().to_string();
        assert!(error.ends_with("found 1 of 8000 Hz and 16 bits"), "{error}");
        fs::write(&path, b"RIFF").unwrap();
        let error = recording(&path).unwrap_err().to_string();
        assert!(error.contains("expected a WAVE or FLAC file: "), "{error}");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_step_is_speech_if_half_of_it_is_in_a_turn() {
        let path = scratch("turns.rttm");
        // Speech in the four steps of 32 ms: half of the first, the second in two turns, a little
        // of the third, and time after the end.
        let turns = "SPEAKER s 1 0.016 0.026 <NA> <NA> a <NA> <NA>\n\n\
                     SPEAKER s 1 0.040 0.030 <NA> <NA> b <NA> <NA>\n\
                     SPEAKER s 1 9.0 1.0 <NA> <NA> b <NA> <NA>\n";
        fs::write(&path, turns).unwrap();
        assert_eq!(spoken(&path, 4).unwrap(), [true, true, false, false]);
        fs::write(&path, "SPEAKER s 1 0.016 0.026\nSPEAKER s 1 -1 2\n").unwrap();
        let error = spoken(&path, 4).unwrap_err().to_string();
        assert!(error.ends_with("duration in seconds, found SPEAKER s 1 -1 2"), "{error}");
        assert!(error.contains("turns.rttm:2: "), "{error}");
        for (turn, found) in [("9 1", "only silence"), ("0 9", "only speech")] {
            fs::write(&path, format!("SPEAKER s 1 {turn}")).unwrap();
            let error = distinct_steps(&path, 4).unwrap_err().to_string();
            assert!(error.ends_with(&format!("in the recording, found {found}")), "{error}");
        }
        fs::remove_file(&path).unwrap();
    }
}
