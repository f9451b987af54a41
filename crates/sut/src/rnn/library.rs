//! Sample library of sequences, the input of recurrent networks.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::rng::Mt19937;
use dyno_tensors::npy::{Npy, NpyError};
use thiserror::Error;

/// Sequences of one width: the samples of one model.
///
/// ```
/// use dyno_sut::rnn::{Sequences, SequencesError};
///
/// let numbers = vec![0.0, 0.1, 0.2, 0.3, 0.4, 0.5];
/// let sequences = Sequences::new(2, numbers, &[1, 2])?;
/// assert_eq!((sequences.count(), sequences.longest()), (2, 2));
/// assert_eq!(sequences.sequence(1), Some(&[0.2, 0.3, 0.4, 0.5][..]));
/// assert_eq!(Sequences::random(2, 1..=4, 0, 1), Err(SequencesError::Empty));
/// # Ok::<(), SequencesError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Sequences {
    inputs: usize,
    /// All sequences, steps x inputs each.
    numbers: Vec<f32>,
    /// First step of each sequence, and the end of the last one.
    starts: Vec<usize>,
}

/// Error: sequences are invalid or cannot be read.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SequencesError {
    /// There are no sequences.
    #[error("no sequences")]
    Empty,
    /// A sequence has no steps.
    #[error("sequence {sample} has no steps; each needs at least one")]
    NoSteps {
        /// Number of the sequence.
        sample: usize,
    },
    /// A number is infinite or NaN.
    #[error("sequence {sample} has {found} at step {step}; every number must be finite")]
    NotFinite {
        /// Number of the sequence.
        sample: usize,
        /// Step in the sequence.
        step: usize,
        /// The number.
        found: f32,
    },
    /// The count of numbers does not match the lengths.
    #[error("expected {expected} numbers in all sequences, found {found}")]
    Numbers {
        /// Expected count.
        expected: usize,
        /// Actual count.
        found: usize,
    },
    /// An array has another shape.
    #[error("{}: expected {expected}, found {found:?}", .path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// Expected shape.
        expected: String,
        /// Actual shape.
        found: Vec<usize>,
    },
    /// A length is not between 1 and the steps of the samples.
    #[error(
        "sequence {sample} has a length of {length}; lengths are from 1 to the {most} steps of the \
         samples"
    )]
    Length {
        /// Number of the sequence.
        sample: usize,
        /// The length.
        length: i64,
        /// Maximum length.
        most: usize,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {why}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Message of the operating system.
        why: String,
    },
    /// A file is not a supported array.
    #[error("{}: {problem}", .path.display())]
    Npy {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: NpyError,
    },
}

impl Sequences {
    /// Returns sequences of these lengths with `inputs` numbers per step.
    ///
    /// # Errors
    /// [`SequencesError`] if there are no sequences, a sequence has no steps, or numbers are
    /// missing or not finite.
    ///
    /// # Panics
    /// If `inputs` is 0.
    pub fn new(
        inputs: usize,
        numbers: Vec<f32>,
        lengths: &[usize],
    ) -> Result<Self, SequencesError> {
        assert!(inputs > 0, "a step without numbers is none");
        if lengths.is_empty() {
            return Err(SequencesError::Empty);
        }
        let mut starts = vec![0];
        for (sample, length) in lengths.iter().enumerate() {
            if *length == 0 {
                return Err(SequencesError::NoSteps { sample });
            }
            starts.push(starts[sample] + length);
        }
        let expected = starts[lengths.len()] * inputs;
        if numbers.len() != expected {
            return Err(SequencesError::Numbers { expected, found: numbers.len() });
        }
        if let Some(at) = numbers.iter().position(|x| !x.is_finite()) {
            let step = at / inputs;
            let sample = starts.partition_point(|start| *start <= step) - 1;
            let step = step - starts[sample];
            return Err(SequencesError::NotFinite { sample, step, found: numbers[at] });
        }
        Ok(Self { inputs, numbers, starts })
    }

    /// Returns sequences of random numbers in [-1, 1), with random lengths within `lengths`.
    ///
    /// # Errors
    /// [`SequencesError`] if `count` is 0 or a length is 0.
    pub fn random(
        inputs: usize,
        lengths: RangeInclusive<usize>,
        count: usize,
        seed: u64,
    ) -> Result<Self, SequencesError> {
        let mut rng = Mt19937::new(seed);
        let span = lengths.end().saturating_sub(*lengths.start()) + 1;
        let mut length = || lengths.start() + (rng.canonical() * span as f64) as usize;
        let lengths: Vec<usize> = (0..count).map(|_| length()).collect();
        let total = lengths.iter().sum::<usize>() * inputs;
        let numbers = (0..total).map(|_| (2.0 * rng.canonical() - 1.0) as f32).collect();
        Self::new(inputs, numbers, &lengths)
    }

    /// Reads an array `[samples, steps, inputs]`. Sequences of different lengths need a second
    /// array: the length of each sample, as integers `[samples]`.
    ///
    /// # Errors
    /// [`SequencesError`] if a file cannot be read, an array has another shape, or sequences are
    /// invalid.
    pub fn open(
        inputs: usize,
        samples: &Path,
        lengths: Option<&Path>,
    ) -> Result<Self, SequencesError> {
        let array = read(samples)?;
        let [count, steps, _] = match array.shape[..] {
            [count, steps, width] if width == inputs => [count, steps, width],
            _ => {
                return Err(SequencesError::Shape {
                    path: samples.to_owned(),
                    expected: format!("[samples, steps, {inputs}]"),
                    found: array.shape,
                });
            }
        };
        let all = array.elements.to_f32();
        let Some(path) = lengths else {
            return Self::new(inputs, all.into_owned(), &vec![steps; count]);
        };
        let array = read(path)?;
        let integers = array.elements.to_i64().filter(|all| all.len() == count);
        let Some(integers) = integers else {
            let expected = format!("{count} integers, the length of each sample");
            return Err(SequencesError::Shape {
                path: path.to_owned(),
                expected,
                found: array.shape,
            });
        };
        let (mut numbers, mut of) = (Vec::new(), Vec::new());
        for (sample, (length, own)) in
            integers.iter().zip(all.chunks_exact((steps * inputs).max(1))).enumerate()
        {
            let fits = usize::try_from(*length).ok().filter(|length| (1..=steps).contains(length));
            let Some(steps) = fits else {
                return Err(SequencesError::Length { sample, length: *length, most: steps });
            };
            numbers.extend_from_slice(&own[..steps * inputs]);
            of.push(steps);
        }
        Self::new(inputs, numbers, &of)
    }

    /// Returns the number of sequences.
    pub fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the numbers per step.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Returns the steps of the longest sequence.
    pub fn longest(&self) -> usize {
        self.starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    }

    /// Returns a sequence, steps x inputs; `None` if it does not exist.
    pub fn sequence(&self, at: usize) -> Option<&[f32]> {
        let [start, end] = [*self.starts.get(at)?, *self.starts.get(at + 1)?];
        Some(&self.numbers[start * self.inputs..end * self.inputs])
    }
}

fn read(path: &Path) -> Result<Npy, SequencesError> {
    let bytes = dyno_tensors::files::read(path).map_err(|why| SequencesError::Unreadable {
        path: path.to_owned(),
        why: why.to_string(),
    })?;
    Npy::parse(&bytes).map_err(|problem| SequencesError::Npy { path: path.to_owned(), problem })
}

/// Sequences of one or more models. Sample indices count the sequences of the first model first.
///
/// ```
/// use dyno_sut::rnn::{SequenceLibrary, Sequences};
///
/// let sets = vec![Sequences::random(1, 3..=3, 2, 0)?, Sequences::random(2, 1..=4, 5, 1)?];
/// let library = SequenceLibrary::new("two models", sets);
/// assert_eq!(library.length(1), Some((0, 3)));
/// assert_eq!(library.length(2).map(|(model, _)| model), Some(1));
/// # Ok::<(), dyno_sut::rnn::SequencesError>(())
/// ```
#[derive(Debug, Clone)]
pub struct SequenceLibrary {
    name: String,
    /// Sequences of each model.
    sets: Vec<Sequences>,
}

impl SequenceLibrary {
    /// Returns a library with the sequences of each model.
    pub fn new(name: impl Into<String>, sets: Vec<Sequences>) -> Self {
        Self { name: name.into(), sets }
    }

    /// Returns the sequences of each model.
    pub fn sets(&self) -> &[Sequences] {
        &self.sets
    }

    /// Returns the model of a sample, and its sequence.
    pub fn sample(&self, index: u64) -> Option<(usize, &[f32])> {
        let mut at = usize::try_from(index).ok()?;
        for (model, set) in self.sets.iter().enumerate() {
            if at < set.count() {
                return Some((model, set.sequence(at)?));
            }
            at -= set.count();
        }
        None
    }

    /// Returns the model of a sample, and its number of steps.
    pub fn length(&self, index: u64) -> Option<(usize, usize)> {
        let (model, sequence) = self.sample(index)?;
        Some((model, sequence.len() / self.sets[model].inputs))
    }
}

impl SampleLibrary for SequenceLibrary {
    fn name(&self) -> &str {
        &self.name
    }

    fn total_sample_count(&self) -> usize {
        self.sets.iter().map(Sequences::count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_sample_is_told_with_its_place() {
        let new = |numbers: &[f32], lengths: &[usize]| {
            Sequences::new(2, numbers.to_vec(), lengths).map(drop).unwrap_err().to_string()
        };
        assert_eq!(new(&[], &[]), "no sequences");
        assert_eq!(new(&[1.0; 4], &[2, 0]), "sequence 1 has no steps; each needs at least one");
        assert_eq!(new(&[1.0; 5], &[1, 2]), "expected 6 numbers in all sequences, found 5");
        let nan = [0.0, 0.0, 0.0, 0.0, 0.0, f32::NAN];
        assert_eq!(new(&nan, &[1, 2]), "sequence 1 has NaN at step 1; every number must be finite");
        assert!(new(&[f32::INFINITY; 2], &[1]).contains("sequence 0 has inf at step 0"));
    }

    #[test]
    fn samples_are_counted_on_from_model_to_model() {
        let one = Sequences::random(1, 3..=3, 2, 0).unwrap();
        let other = Sequences::random(2, 1..=4, 5, 1).unwrap();
        let library = SequenceLibrary::new("two", vec![one, other.clone()]);
        assert_eq!(library.total_sample_count(), 7);
        assert_eq!(library.length(1), Some((0, 3)));
        assert_eq!(library.sample(2), Some((1, other.sequence(0).unwrap())));
        assert_eq!((library.sample(7), library.length(u64::MAX)), (None, None));
        assert!((1..=4).contains(&other.longest()));
    }
}
