//! MovieLens 100k as the package `recbole` has it, split into ratings to train with and
//! ratings to foretell.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use dyno_loadgen::rng::Mt19937;
use dyno_sut::tensors::{Elements, Tensor, TensorError, TensorLibrary};

use super::SampleSet;
use crate::files::{CacheKey, Files, OpenError};

/// The first line.
const HEADER: &str = "user_id:token\titem_id:token\trating:float\ttimestamp:float";
/// From this rating on, a user likes what was rated.
const LIKED: f32 = 4.0;
/// One rating of so many is to be foretold.
const SHARE: usize = 10;
/// Of the order in which ratings are drawn.
const SEED: u64 = 100;
/// Users and items are fewer: what is taken for one is no table of gigabytes.
const MOST: usize = 1 << 17;

/// Why a file is not the data set.
#[derive(Debug)]
#[non_exhaustive]
pub enum MovielensError {
    /// It cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's message.
        why: String,
    },
    /// A line is of another form.
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What should stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// There are too few ratings to train and to measure with.
    Few {
        /// The file.
        path: PathBuf,
        /// How many there are.
        found: usize,
    },
    /// Samples that do not belong together.
    Samples(TensorError),
}

impl fmt::Display for MovielensError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, why } => write!(f, "cannot read {}: {why}", path.display()),
            Self::Line { path, line, expected, found } => {
                write!(f, "{}:{line}: expected {expected}, found {found:?}", path.display())
            }
            Self::Few { path, found } => {
                write!(f, "{}: expected {SHARE} ratings or more, found {found}", path.display())
            }
            Self::Samples(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for MovielensError {}

/// Whether a user likes an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opinion {
    /// Row of the user's vector.
    pub user: usize,
    /// Row of the item's vector.
    pub item: usize,
    /// What is to be foretold.
    pub is_liked: bool,
}

/// The ratings of a file, as opinions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ratings {
    /// To train with.
    pub training: Vec<Opinion>,
    /// To be foretold, in the order of the samples.
    pub test: Vec<Opinion>,
    /// More than the greatest number of a user.
    pub users: usize,
    /// More than the greatest number of an item.
    pub items: usize,
}

impl Ratings {
    /// Reads the file and splits it by a seed.
    ///
    /// # Errors
    /// [`MovielensError`] if the file is not of the form.
    pub fn read(path: &Path) -> Result<Self, MovielensError> {
        let text = fs::read_to_string(path).map_err(|error| MovielensError::Unreadable {
            path: path.to_owned(),
            why: error.to_string(),
        })?;
        Self::parse(path, &text)
    }

    /// Likewise of the text of a file, whose path is told where it is wrong.
    ///
    /// # Errors
    /// [`MovielensError`] if the text is not of the form.
    pub fn parse(path: &Path, text: &str) -> Result<Self, MovielensError> {
        let wrong = |at: usize, expected, found: &str| MovielensError::Line {
            path: path.to_owned(),
            line: at + 1,
            expected,
            // A line of another file may be long.
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
        let (users, items) = (count(|of| of.user), count(|of| of.item));
        Mt19937::new(SEED).shuffle(&mut all);
        let training = all.split_off(all.len() / SHARE);
        Ok(Self { training, test: all, users, items })
    }

    /// Those to be foretold, a sample each, for inputs of these names.
    fn samples(&self, user: &str, item: &str) -> Result<TensorLibrary, TensorError> {
        let tensor = |name: &str, number: fn(&Opinion) -> usize| Tensor {
            name: name.to_owned(),
            sample_shape: Vec::new(),
            elements: Elements::I64(self.test.iter().map(|of| number(of) as i64).collect()),
        };
        let inputs = vec![tensor(user, |of| of.user), tensor(item, |of| of.item)];
        TensorLibrary::new("movielens", inputs, None)
    }
}

/// A line's user, item and whether the rating is one of liking.
fn opinion(line: &str) -> Option<Opinion> {
    let mut fields = line.split('\t');
    let mut number = || fields.next()?.parse::<usize>().ok().filter(|number| *number < MOST);
    let (user, item) = (number()?, number()?);
    let rating: f32 = fields.next()?.parse().ok()?;
    let (_time, end): (f64, _) = (fields.next()?.parse().ok()?, fields.next());
    let is_whole = (1.0..=5.0).contains(&rating) && end.is_none();
    is_whole.then_some(Opinion { user, item, is_liked: rating >= LIKED })
}

/// The samples of the task, and their labels as the method `roc-auc` takes them: a line a
/// rating, and a sample a rating.
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
        all.sort_by_key(|of| of.user);
        let is_liked = |at: usize| at % 5 + 1 >= 4;
        let expected = |at| Opinion { user: at, item: 2 * at, is_liked: is_liked(at) };
        assert_eq!(all, (1..=40).map(expected).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_no_rating_is_told_by_its_line() {
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
