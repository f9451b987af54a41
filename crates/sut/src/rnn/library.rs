//! A sample library of sequences: what recurrent networks are fed with.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};
use dyno_loadgen::rng::Mt19937;
use dyno_tensors::npy::{Npy, NpyError};

/// Sequences of one width: samples of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequences {
    inputs: usize,
    /// One sequence after the other, steps x inputs each.
    numbers: Vec<f32>,
    /// Where each begins, in steps, and where the last one ends.
    starts: Vec<usize>,
}

/// Why sequences are no samples.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SequencesError {
    /// There is none.
    Empty,
    /// A sequence has no steps.
    NoSteps {
        /// Which.
        sample: usize,
    },
    /// A number is infinite or none.
    NotFinite {
        /// In which sequence.
        sample: usize,
        /// At which of its steps.
        step: usize,
        /// What it is.
        found: f32,
    },
    /// There are not as many numbers as sequences of these lengths have.
    Numbers {
        /// Numbers that there should be.
        expected: usize,
        /// Numbers that there are.
        found: usize,
    },
    /// An array of other dimensions.
    Shape {
        /// The file.
        path: PathBuf,
        /// What it should be.
        expected: String,
        /// What it is.
        found: Vec<usize>,
    },
    /// A length that the samples do not have.
    Length {
        /// Of which sequence.
        sample: usize,
        /// The length.
        length: i64,
        /// The most.
        most: usize,
    },
    /// A file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's message.
        why: String,
    },
    /// A file is no array that is understood.
    Npy {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: NpyError,
    },
}

impl fmt::Display for SequencesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there are no sequences"),
            Self::NoSteps { sample } => {
                write!(f, "sequence {sample} has no steps; each needs at least one")
            }
            Self::NotFinite { sample, step, found } => write!(
                f,
                "sequence {sample} has {found} at step {step}; every number must be finite"
            ),
            Self::Numbers { expected, found } => {
                write!(f, "expected {expected} numbers in all sequences, found {found}")
            }
            Self::Shape { path, expected, found } => {
                write!(f, "{}: expected {expected}, found {found:?}", path.display())
            }
            Self::Length { sample, length, most } => write!(
                f,
                "sequence {sample} has a length of {length}; lengths are from 1 to the {most} steps \
                 of the samples"
            ),
            Self::Unreadable { path, why } => write!(f, "cannot read {}: {why}", path.display()),
            Self::Npy { path, problem } => write!(f, "{}: {problem}", path.display()),
        }
    }
}

impl std::error::Error for SequencesError {}

impl Sequences {
    /// Sequences of these lengths, one after the other, `inputs` (at least 1) numbers a step.
    ///
    /// # Errors
    /// There is none, one has no steps, numbers are missing or not finite.
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

    /// Random numbers in [-1, 1) in sequences of random lengths within `lengths` (from 1 on).
    ///
    /// # Errors
    /// There is none, or one may have no steps.
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

    /// Reads an array `[samples, steps, inputs]`, and their lengths if they differ: an array of
    /// integers `[samples]`.
    ///
    /// # Errors
    /// A file does not read, has other dimensions, or sequences that are none.
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

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Numbers of a step.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Steps of the longest.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    }

    /// A sequence, steps x inputs.
    #[must_use]
    pub fn sequence(&self, at: usize) -> Option<&[f32]> {
        let [start, end] = [*self.starts.get(at)?, *self.starts.get(at + 1)?];
        Some(&self.numbers[start * self.inputs..end * self.inputs])
    }
}

fn read(path: &Path) -> Result<Npy, SequencesError> {
    let bytes = std::fs::read(path).map_err(|why| SequencesError::Unreadable {
        path: path.to_owned(),
        why: why.to_string(),
    })?;
    Npy::parse(&bytes).map_err(|problem| SequencesError::Npy { path: path.to_owned(), problem })
}

/// Sequences of one or more models, those of the first one first.
#[derive(Debug, Clone)]
pub struct SequenceLibrary {
    name: String,
    /// Of each model.
    sets: Vec<Sequences>,
}

impl SequenceLibrary {
    /// The samples of each model.
    #[must_use]
    pub fn new(name: impl Into<String>, sets: Vec<Sequences>) -> Self {
        Self { name: name.into(), sets }
    }

    /// Of each model.
    #[must_use]
    pub fn sets(&self) -> &[Sequences] {
        &self.sets
    }

    /// Which model a sample is for, and its sequence.
    #[must_use]
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

    /// Which model a sample is for, and its steps.
    #[must_use]
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

    fn performance_sample_count(&self) -> usize {
        self.total_sample_count()
    }

    fn load(&self, _samples: &[SampleIndex]) {}

    fn unload(&self, _samples: &[SampleIndex]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_sample_is_told_with_its_place() {
        let new = |numbers: &[f32], lengths: &[usize]| {
            Sequences::new(2, numbers.to_vec(), lengths).map(drop).unwrap_err().to_string()
        };
        assert_eq!(new(&[], &[]), "there are no sequences");
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
