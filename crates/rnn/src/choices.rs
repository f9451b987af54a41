//! Tuned choices, kept in a text file with one line per machine, layer shape, precision, thread
//! count and build.
//!
//! A line is `KEY chunk=N sides=N rows=N units=N ns=N`. Lines that begin with `#` are comments.
//! Precision and activations are part of the key only.
//!
//! ```
//! use std::path::Path;
//!
//! use dyno_rnn::choices::Choices;
//!
//! // A missing file has no choices.
//! let choices = Choices::read(Path::new("no-such-file"))?;
//! assert!(choices.is_empty());
//! # Ok::<(), dyno_rnn::choices::ChoicesError>(())
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dyno_kernels::{Isa, Team};
use thiserror::Error;

use crate::cost::LayerShape;
use crate::machine::Machine;
use crate::plan::{Choice, PackedWeights};
use crate::tuner::{Constraints, Effort, Goal, RankedChoice, TuneError, choices, rank, tune};

/// Choices by key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choices {
    lines: BTreeMap<String, StoredChoice>,
}

/// Stored part of one choice.
#[derive(Clone, Copy, Debug, PartialEq)]
struct StoredChoice {
    /// Chunk, sides, rows and units.
    parts: [usize; 4],
    ns: f64,
}

/// Error of reading or writing a file of choices.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ChoicesError {
    /// The file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// A line is malformed.
    #[error(
        "{}:{line}: {what}; delete the line or the file to tune its plans again",
        path.display()
    )]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// What was expected.
        what: &'static str,
    },
}

const NAMES: [&str; 5] = ["chunk", "sides", "rows", "units", "ns"];

/// Returns the key under which the choice for a goal is stored.
pub fn key(goal: &Goal<'_>, machine: &Machine, isa: Isa) -> String {
    let LayerShape { cell, inputs, units, width, phases, directions, batch, steps } =
        LayerShape::from_layer(goal.layer, goal.batch, goal.steps);
    let kind = match (goal.layer.is_plain(), phases) {
        (true, _) => String::new(),
        (false, 1) => ",options".to_owned(),
        (false, _) => format!(",options,width={width}"),
    };
    let cell = match cell.gates() {
        4 => "lstm",
        3 => "gru",
        _ => "rnn",
    };
    let Constraints { chunk, sides, rows, units: by_units } = goal.forced;
    let forced = [chunk, sides, rows, by_units];
    let key = format!(
        "{};{cell}{kind},{inputs}x{units}x{batch}x{steps},directions={directions};{:?},{:?};threads={};forced={};{isa};{}",
        machine.identity(),
        goal.base.precision,
        goal.base.tanh,
        goal.threads,
        forced.map(|part| part.map_or("-".to_owned(), |part| part.to_string())).join("."),
        env!("CARGO_PKG_VERSION"),
    );
    key.split_whitespace().collect::<Vec<_>>().join("_")
}

impl Choices {
    /// Reads a file of choices; a missing file has none.
    ///
    /// # Errors
    /// The file cannot be read, or a line is not a choice.
    pub fn read(path: &Path) -> Result<Self, ChoicesError> {
        let text = match dyno_tensors::files::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(ChoicesError::File { path: path.to_owned(), error }),
        };
        let mut lines = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, choice) = parse(line).map_err(|what| ChoicesError::Line {
                path: path.to_owned(),
                line: index + 1,
                what,
            })?;
            lines.insert(key, choice);
        }
        Ok(Self { lines })
    }

    /// Writes the file. It replaces an existing one atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), ChoicesError> {
        let mut text =
            String::from("# Plans of `dyno rnn`, as they were timed. Delete what you distrust.\n");
        for (key, StoredChoice { parts: [chunk, sides, rows, units], ns }) in &self.lines {
            text += &format!(
                "{key} chunk={chunk} sides={sides} rows={rows} units={units} ns={ns:.0}\n"
            );
        }
        let beside = path.with_extension(format!("{}.tmp", std::process::id()));
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
        written.map_err(|error| ChoicesError::File { path: path.to_owned(), error })
    }

    /// Returns the choice stored for a key, with the precision and activations of `base`, and its
    /// nanoseconds.
    pub fn get(&self, key: &str, base: &Choice) -> Option<(Choice, f64)> {
        let StoredChoice { parts: [chunk, sides, rows, units], ns } = *self.lines.get(key)?;
        Some((Choice { chunk, sides, rows, units, ..*base }, ns))
    }

    /// Stores a choice and its nanoseconds.
    pub fn keep(&mut self, key: String, choice: &Choice, ns: f64) {
        let parts = [choice.chunk, choice.sides, choice.rows, choice.units];
        self.lines.insert(key, StoredChoice { parts, ns });
    }

    /// Number of choices.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are no choices.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

/// Error of [`choose`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ChooseError {
    /// Tuning failed.
    #[error("{0}")]
    Tune(#[from] TuneError),
    /// The file of choices is unusable.
    #[error("{0}")]
    Choices(#[from] ChoicesError),
}

/// Ranks the choices for a goal, the best first. The stored choice of the file at `path` comes
/// first; without one, the choices are tuned and the best is stored.
///
/// # Errors
/// The file is unusable, no choice satisfies the constraints, or a plan does not run.
pub fn choose(
    path: &Path,
    goal: &Goal<'_>,
    packed: &[PackedWeights],
    machine: &Machine,
    isa: Isa,
    team: &mut Team,
    effort: Effort,
) -> Result<Vec<RankedChoice>, ChooseError> {
    let mut file = Choices::read(path)?;
    let key = key(goal, machine, isa);
    // Ignores a stored choice that is impossible, such as one edited by hand.
    let stored = file.get(&key, &goal.base).filter(|(choice, _)| choices(goal).contains(choice));
    if let Some((choice, ns)) = stored {
        let mut all = rank(goal, machine);
        if let Some(at) = all.iter().position(|ranked| ranked.choice == choice) {
            all[at].measured_ns = Some(ns);
            all[..=at].rotate_right(1);
        }
        return Ok(all);
    }
    let all = tune(goal, packed, machine, isa, team, effort)?;
    if let Some((first, ns)) = all.first().and_then(|first| Some((first, first.measured_ns?))) {
        file.keep(key, &first.choice, ns);
        file.write(path)?;
    }
    Ok(all)
}

fn parse(line: &str) -> Result<(String, StoredChoice), &'static str> {
    let mut words = line.split_whitespace();
    let key = words.next().ok_or("expected a key")?;
    let mut numbers = [0.0; 5];
    for (number, name) in numbers.iter_mut().zip(NAMES) {
        let word = words.next().ok_or("expected chunk, sides, rows, units and ns")?;
        let (found, value) = word.split_once('=').ok_or("expected name=number")?;
        if found != name {
            return Err("expected chunk, sides, rows, units and ns in this order");
        }
        *number = value
            .parse::<f64>()
            .ok()
            .filter(|n| *n >= 1.0)
            .ok_or("expected a number of at least 1")?;
    }
    if words.next().is_some() {
        return Err("expected nothing after ns");
    }
    let [chunk, sides, rows, units, ns] = numbers;
    let parts = [chunk, sides, rows, units].map(|number: f64| number as usize);
    Ok((key.to_owned(), StoredChoice { parts, ns }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{Cell, Directions, Layer, Weights};
    use dyno_kernels::{Precision, Tanh};

    const BASE: Choice = Choice {
        precision: Precision::Bf16,
        tanh: Tanh::Fitted76,
        chunk: 1,
        sides: 1,
        rows: 1,
        units: 1,
    };

    #[test]
    fn what_is_written_is_read_again() {
        let path = std::env::temp_dir().join(format!("dyno-choices-{}.txt", std::process::id()));
        assert_eq!(Choices::read(&path).unwrap(), Choices::default());
        let mut choices = Choices::default();
        let choice = Choice { chunk: 16, rows: 2, ..BASE };
        choices.keep("a;b".to_owned(), &choice, 12_345.0);
        choices.write(&path).unwrap();
        let read = Choices::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(
            (read.get("a;b", &BASE), read.get("c", &BASE)),
            (Some((choice, 12_345.0)), None)
        );
        assert_eq!((read.len(), read.is_empty()), (1, false));
    }

    #[test]
    fn what_was_tuned_is_not_tuned_again() {
        let path = std::env::temp_dir().join(format!("dyno-chosen-{}.txt", std::process::id()));
        let weights = Weights {
            input: vec![0.1; 4 * 32 * 8],
            state: vec![0.1; 4 * 32 * 32],
            input_bias: vec![0.0; 4 * 32],
            state_bias: vec![0.0; 4 * 32],
        };
        let layer = Layer::new(Cell::Lstm, 8, 32, Directions::Forward, vec![weights]).unwrap();
        let forced = Constraints::default();
        let machine = Machine::sapphire_rapids();
        let goal = Goal {
            layer: &layer,
            batch: 2,
            steps: 9,
            base: Choice { precision: Precision::F32, ..BASE },
            forced,
            threads: 1,
        };
        let packed = goal.pack();
        let isa = Isa::scalar();
        let mut team = Team::with_workers(1);
        let effort = Effort { choices: 2, ..Effort::default() };
        let mut choose = |goal: &Goal<'_>, effort| {
            choose(&path, goal, &packed, &machine, isa, &mut team, effort).unwrap()
        };
        let tuned = choose(&goal, effort);
        // Without effort nothing can be timed: what has a time comes from the file.
        let again = choose(&goal, Effort { choices: 0, ..effort });
        let other = choose(&Goal { steps: 10, ..goal }, Effort { choices: 0, ..effort });
        fs::remove_file(&path).unwrap();
        assert_eq!(again[0].choice, tuned[0].choice);
        let ns = |all: &[RankedChoice]| all[0].measured_ns.map(f64::round);
        assert_eq!((ns(&again), ns(&other)), (ns(&tuned), None));
        assert_eq!(again.len(), tuned.len());
        let forced = Goal { forced: Constraints { rows: Some(1), ..forced }, ..goal };
        assert_ne!(key(&forced, &machine, isa), key(&goal, &machine, isa));
    }

    #[test]
    fn a_broken_line_is_named() {
        for (line, expected) in [
            ("key chunk=1 sides=1 rows=1 units=1", "expected chunk, sides, rows, units and ns"),
            ("key chunk=1 sides=1 units=1 rows=1 ns=1", "in this order"),
            ("key chunk=1 sides=1 rows=0 units=1 ns=1", "of at least 1"),
            ("key chunk=1 sides=1 rows=1 units=1 ns=1 more", "nothing after"),
            ("key chunk", "name=number"),
        ] {
            let found = parse(line).expect_err("a line that is broken");
            assert!(found.contains(expected), "{line}: {found}");
        }
    }
}
