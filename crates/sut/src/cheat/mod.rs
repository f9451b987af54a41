//! Systems that cheat, and an honest one for comparison, to test audits.
//!
//! Each system has the images and the perceptron of [`crate::digits`] and runs in virtual time. An
//! honest answer takes a millisecond; an answer that a trick spares takes a fiftieth of that. The
//! accuracy run of a cheat is as good as the honest one, so its score looks valid.
//! [`Trick::caught_by`] names the audit that finds it. Some systems answer with texts or rankings,
//! for the audits that need these.

mod foresight;
mod form;
mod system;

pub use form::{END, Form};
pub use system::{Cheat, TestContext};

use dyno_loadgen::settings::similar;

use crate::digits::{self, DigitsLibrary, PIXELS, TEST_COUNT};
use dyno_loadgen::qsl::SampleLibrary;

dyno_loadgen::named_enum! {
    /// How a system avoids work.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Trick {
        /// No trick: computes every sample when it is requested.
        Honest = "honest",
        /// Caches recent answers and repeats them when their samples come back. Samples in production
        /// do not repeat, those of a benchmark do.
        Caching = "caching",
        /// Computes a sample once if it occurs several times in a batch. In production no two samples
        /// of a batch are equal. MultiStream does not reveal it: the one query that an audit repeats
        /// there has eight different samples.
        Coalescing = "coalescing",
        /// Computes only in accuracy runs, and makes answers up in performance runs.
        Skipping = "skipping",
        /// Knows the published seeds of the rounds and prepares the answers to the queries that follow
        /// from them.
        Foreseeing = "foreseeing",
        /// Knows the images of the data set and what they show, and computes only for unknown images.
        Memorising = "memorising",
        /// Does not compute a repeated sample again, but answers with what the output buffer holds of
        /// the previous sample. An accuracy run does not reveal it, because no sample repeats there.
        /// Accuracy scripts on the answers of an audit do not reveal it either, because they read only
        /// the first answer to each sample.
        Stale = "stale",
        /// No trick: writes about every sample in tokens.
        Writing = "writing",
        /// Claims more tokens than it writes in performance runs.
        Padding = "padding",
        /// Ends its texts after a few tokens in performance runs.
        Curtailing = "curtailing",
        /// No trick: ranks candidates for every sample.
        Ranking = "ranking",
        /// Gives all candidates the same likelihood in performance runs.
        Guessing = "guessing",
    }
}

impl Trick {
    /// Returns a short description.
    pub fn title(self) -> &'static str {
        match self {
            Self::Honest => "computes every sample",
            Self::Caching => "returns cached answers",
            Self::Coalescing => "computes equal samples of a batch once",
            Self::Skipping => "invents answers in performance mode",
            Self::Foreseeing => "knows the queries from the published seeds",
            Self::Memorising => "has memorized the data set",
            Self::Stale => "returns the answer to the previous sample",
            Self::Writing => "generates tokens for every sample",
            Self::Padding => "reports more tokens than it generates in performance mode",
            Self::Curtailing => "generates shorter answers in performance mode",
            Self::Ranking => "ranks candidates for every sample",
            Self::Guessing => "guesses rankings in performance mode",
        }
    }

    /// Returns the audit that reveals the trick and a scenario in which it does; `None` for honest
    /// systems.
    pub fn caught_by(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Honest | Self::Writing | Self::Ranking => None,
            Self::Caching => Some(("TEST04", "SingleStream")),
            Self::Coalescing => Some(("TEST04", "Offline")),
            Self::Skipping | Self::Stale => Some(("TEST01", "Offline")),
            Self::Foreseeing => Some(("TEST05", "SingleStream")),
            Self::Memorising => Some(("TEST03", "SingleStream")),
            Self::Padding => Some(("TEST06", "SingleStream")),
            Self::Curtailing => Some(("TEST09", "SingleStream")),
            Self::Guessing => Some(("TEST08", "SingleStream")),
        }
    }

    /// Returns the form of the answers.
    pub fn form(self) -> Form {
        match self {
            Self::Writing | Self::Padding | Self::Curtailing => Form::Text,
            Self::Ranking | Self::Guessing => Form::Ranking,
            _ => Form::Class,
        }
    }

    /// Returns the trick with this name.
    ///
    /// # Errors
    /// A sentence fragment that begins with "expected".
    ///
    /// ```
    /// use dyno_sut::cheat::Trick;
    ///
    /// assert_eq!(Trick::named("caching"), Ok(Trick::Caching));
    /// assert_eq!(Trick::Caching.caught_by(), Some(("TEST04", "SingleStream")));
    /// assert!(Trick::named("cashing").unwrap_err().ends_with("the nearest is caching"));
    /// ```
    pub fn named(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.into_iter().map(Self::name);
        Self::ALL.into_iter().find(|trick| trick.name() == name).ok_or_else(|| {
            let near = similar(name, names())
                .map(|near| format!("; the nearest is {near}"))
                .unwrap_or_default();
            let names: Vec<&str> = names().collect();
            format!("expected one of {}, found `{name}`{near}", names.join(", "))
        })
    }
}

/// Set of images that the samples refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Images {
    /// The images of [`crate::digits`].
    #[default]
    Reference,
    /// The images of [`crate::digits`] with a speck of ink in a corner. People and a perceptron
    /// read the same digits. A system that has memorized the images does not recognize them.
    Specked,
}

impl Images {
    /// Returns image `index` (below 540).
    fn image(self, index: usize) -> [u8; PIXELS] {
        let mut pixels = *digits::test_digit(index).pixels;
        if self == Self::Specked {
            // Almost no digit has ink in this corner.
            pixels[PIXELS - 1] += 1;
        }
        pixels
    }
}

impl SampleLibrary for Images {
    fn name(&self) -> &str {
        match self {
            Self::Reference => DigitsLibrary.name(),
            Self::Specked => "specked digits",
        }
    }

    fn total_sample_count(&self) -> usize {
        TEST_COUNT
    }
}
