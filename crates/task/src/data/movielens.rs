//! MovieLens 100k in the format of the package `recbole`, split into ratings for training and for
//! test.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use dyno_loadgen::rng::Mt19937;
use dyno_sut::tensors::{Elements, Tensor, TensorError, TensorLibrary};
use dyno_tensors::files;
use thiserror::Error;

use super::SampleSet;
use crate::files::{CacheKey, Files, OpenError};

/// First line of the file.
const HEADER: &str = "user_id:token\titem_id:token\trating:float\ttimestamp:float";
/// Minimum rating that counts as liking.
const LIKED: f32 = 4.0;
/// One rating of this many is in the test part.
const SHARE: usize = 10;
/// Seed of the split.
const SEED: u64 = 100;
/// Upper bound of the numbers of users and items, which limits the size of tables.
const MOST: usize = 1 << 17;

/// Reason why a file is not the data set.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MovielensError {
    /// The file cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's message.
        why: String,
    },
    /// A line is malformed.
    #[error("{}:{line}: expected {expected}, found {found:?}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// What was expected.
        expected: &'static str,
        /// What was found.
        found: String,
    },
    /// There are too few ratings for training and test.
    #[error("{}: expected {SHARE} ratings or more, found {found}", path.display())]
    Few {
        /// The file.
        path: PathBuf,
        /// Number of ratings.
        found: usize,
    },
    /// The samples do not fit together.
    #[error("{0}")]
    Samples(TensorError),
}

/// A user's opinion of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opinion {
    /// Row of the user's vector.
    pub user: usize,
    /// Row of the item's vector.
    pub item: usize,
    /// The label that is predicted.
    pub is_liked: bool,
}

/// The ratings of a file as opinions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ratings {
    /// Opinions for training.
    pub training: Vec<Opinion>,
    /// Opinions for test, in the order of the samples.
    pub test: Vec<Opinion>,
    /// Number of users: the greatest number plus one.
    pub users: usize,
    /// Number of items: the greatest number plus one.
    pub items: usize,
}

impl Ratings {
    /// Reads the file and splits it by a seed.
    ///
    /// # Errors
    /// [`MovielensError`] if the file is malformed.
    pub fn read(path: &Path) -> Result<Self, MovielensError> {
        let text = files::read_to_string(path).map_err(|error| MovielensError::Unreadable {
            path: path.to_owned(),
            why: error.to_string(),
        })?;
        Self::parse(path, &text)
    }

    /// Parses the text of a file and splits it by a seed; `path` is for errors.
    ///
    /// # Errors
    /// [`MovielensError`] if the text is malformed.
    pub fn parse(path: &Path, text: &str) -> Result<Self, MovielensError> {
        let wrong = |at: usize, expected, found: &str| MovielensError::Line {
            path: path.to_owned(),
            line: at + 1,
            expected,
            // Lines of unrelated files may be long.
            found: found.chars().take(80).collect(),
        };
        let mut lines = text.lines().enumerate();
        let head = lines.next().map_or("", |(_, line)| line);
        if head != HEADER {
            return Err(wrong(0, "the header of ml-100k.inter", head));
        }
        let mut all = Vec::new();
        for (at, line) in lines {
            let opinion = opinion(line);
            all.push(opinion.ok_or_else(|| {
                wrong(at, "user, item, rating from 1 to 5 and time with tabs between", line)
            })?);
        }
        if all.len() < SHARE {
            return Err(MovielensError::Few { path: path.to_owned(), found: all.len() });
        }
        let count = |number: fn(&Opinion) -> usize| all.iter().map(number).max().unwrap_or(0) + 1;
        let (users, items) = (count(|opinion| opinion.user), count(|opinion| opinion.item));
        Mt19937::new(SEED).shuffle(&mut all);
        let training = all.split_off(all.len() / SHARE);
        Ok(Self { training, test: all, users, items })
    }

    /// Returns one sample per test opinion, for inputs of these names.
    fn samples(&self, user: &str, item: &str) -> Result<TensorLibrary, TensorError> {
        let tensor = |name: &str, number: fn(&Opinion) -> usize| Tensor {
            name: name.to_owned(),
            sample_shape: Vec::new(),
            elements: Elements::I64(
                self.test.iter().map(|opinion| number(opinion) as i64).collect(),
            ),
        };
        let inputs =
            vec![tensor(user, |opinion| opinion.user), tensor(item, |opinion| opinion.item)];
        TensorLibrary::new("movielens", inputs, None)
    }
}

/// Parses a line.
fn opinion(line: &str) -> Option<Opinion> {
    let mut fields = line.split('\t');
    let mut number = || fields.next()?.parse::<usize>().ok().filter(|number| *number < MOST);
    let user = number()?;
    let item = number()?;
    let rating: f32 = fields.next()?.parse().ok()?;
    let (_time, end): (f64, _) = (fields.next()?.parse().ok()?, fields.next());
    let is_whole = (1.0..=5.0).contains(&rating) && end.is_none();
    is_whole.then_some(Opinion { user, item, is_liked: rating >= LIKED })
}

/// Opens the samples of the task and derives their labels for the method `roc-auc`: one line per
/// rating, and one rating per sample.
pub(crate) fn open(files: &Files<'_>) -> Result<SampleSet, OpenError> {
    let path = files.path("ratings")?;
    let ratings = Ratings::read(&path).map_err(OpenError::content)?;
    let inputs = &files.card().data.inputs;
    let samples = ratings.samples(&inputs[0].name, &inputs[1].name);
    let samples = samples.map_err(|error| OpenError::content(MovielensError::Samples(error)))?;
    let list = |name: &str, line: fn(usize, &Opinion) -> String| {
        files.derive(name, 1, CacheKey::Card, |file| {
            for (at, opinion) in ratings.test.iter().enumerate() {
                writeln!(file, "{}", line(at, opinion)).map_err(OpenError::content)?;
            }
            Ok(())
        })
    };
    let labels = list("labels", |_, opinion| u8::from(opinion.is_liked).to_string())?;
    let trace = list("trace", |at, _| format!("{at},{},1", at + 1))?;
    let references = BTreeMap::from([("day_23".to_owned(), labels), ("trace".to_owned(), trace)]);
    Ok(SampleSet { references, ..SampleSet::new(samples) })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn written(name: &str, text: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("dyno-movielens-{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn ratings_are_split_by_a_seed_and_none_is_in_both_parts() {
        let lines = (1..=40).map(|at| format!("{at}\t{}\t{}\t88125\n", 2 * at, at % 5 + 1));
        let path = written("split", &format!("{HEADER}\n{}", lines.collect::<String>()));
        let ratings = Ratings::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!((ratings.training.len(), ratings.test.len()), (36, 4));
        assert_eq!((ratings.users, ratings.items), (41, 81));
        let mut all = [ratings.training, ratings.test].concat();
        all.sort_by_key(|opinion| opinion.user);
        let is_liked = |at: usize| at % 5 + 1 >= 4;
        let expected = |at| Opinion { user: at, item: 2 * at, is_liked: is_liked(at) };
        assert_eq!(all, (1..=40).map(expected).collect::<Vec<_>>());
    }

    #[test]
    fn malformed_ratings_are_rejected_with_their_line() {
        let cases = [
            ("user\titem\n", ":1: expected the header of ml-100k.inter, found \"user\\titem\""),
            ("", ":1: expected the header"),
            (&format!("{HEADER}\n1\t2\t3\t4\n1\t2\t6\t4\n"), ":3: expected user, item, rating"),
            (&format!("{HEADER}\n1\t2\t3\n"), ":2: expected user"),
            (&format!("{HEADER}\n1\t2\t3\t4\t5\n"), ":2: expected user"),
            (&format!("{HEADER}\n-1\t2\t3\t4\n"), ":2: expected user"),
            (&format!("{HEADER}\n1\t200000\t3\t4\n"), ":2: expected user"),
            (&format!("{HEADER}\n1\t2\tNaN\t4\n"), ":2: expected user"),
            (&format!("{HEADER}\n1\t2\t3\t4\n"), ": expected 10 ratings or more, found 1"),
        ];
        for (text, expected) in cases {
            let path = written("wrong", text);
            let found = Ratings::read(&path).unwrap_err().to_string();
            assert!(found.contains(&format!("wrong{expected}")), "{found}");
            fs::remove_file(&path).unwrap();
        }
        let error = Ratings::read(Path::new("no/such.inter")).unwrap_err();
        assert!(error.to_string().starts_with("cannot read no/such.inter: "));
    }
}
