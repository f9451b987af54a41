//! Systems that cheat, and an honest one beside them: what audits are for.
//!
//! Each has the images and the perceptron of [`crate::digits`], in virtual time:
//! an honest answer takes a millisecond, what a trick spares takes none. None is
//! worse than the honest one by its accuracy run, and each would be believed by
//! its score; [`Trick::caught_by`] names the audit that finds it. Some answer in texts or
//! rankings, for audits that ask for these.

mod foresight;
mod form;
mod system;

pub use form::{END, Form};
pub use system::{Cheat, Told};

use dyno_loadgen::settings::nearest;

use crate::digits::{self, DigitsLibrary, PIXELS, TEST_COUNT};
use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};

/// How a system spares itself work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trick {
    /// Not at all: every sample is computed when it is asked for.
    Honest,
    /// It keeps its last answers and gives them again when their samples come back.
    /// A data set in use does not repeat itself; a benchmark's does.
    Caching,
    /// It computes samples that occur more than once in a batch only once. In use
    /// no two samples of a batch are the same. (MultiStream does not show it: the one
    /// query that an audit repeats there has eight samples.)
    Coalescing,
    /// It computes when answers are looked at, in the accuracy run, and makes them
    /// up when only the time counts.
    Skipping,
    /// It knows the seeds of the rounds, which are published, and has the answers to
    /// the queries that follow from them ready before they come.
    Foreseeing,
    /// It knows the images of the data set by heart, with what they show, and
    /// computes only for images that it has never seen.
    Memorising,
    /// Where a sample comes back it does not compute again, and hands over what its
    /// output buffer still holds of the sample before. An accuracy run, in which no
    /// sample comes back, does not show it; nor do accuracy scripts on the answers of
    /// an audit, because they look at the first answer to each sample alone.
    Stale,
    /// Not at all: it writes about every sample in tokens.
    Writing,
    /// Where only the time counts it tells more tokens than it writes.
    Padding,
    /// Where only the time counts its texts end after a few tokens.
    Curtailing,
    /// Not at all: it ranks candidates for every sample.
    Ranking,
    /// Where only the time counts it finds each candidate as likely as the next.
    Guessing,
}

impl Trick {
    /// All of them, the honest one first.
    pub const ALL: [Self; 12] = [
        Self::Honest,
        Self::Caching,
        Self::Coalescing,
        Self::Skipping,
        Self::Foreseeing,
        Self::Memorising,
        Self::Stale,
        Self::Writing,
        Self::Padding,
        Self::Curtailing,
        Self::Ranking,
        Self::Guessing,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Caching => "caching",
            Self::Coalescing => "coalescing",
            Self::Skipping => "skipping",
            Self::Foreseeing => "foreseeing",
            Self::Memorising => "memorising",
            Self::Stale => "stale",
            Self::Writing => "writing",
            Self::Padding => "padding",
            Self::Curtailing => "curtailing",
            Self::Ranking => "ranking",
            Self::Guessing => "guessing",
        }
    }

    /// What it does, in a few words.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Honest => "computes every sample",
            Self::Caching => "gives earlier answers again",
            Self::Coalescing => "computes equal samples of a batch once",
            Self::Skipping => "makes answers up when only the time counts",
            Self::Foreseeing => "knows the queries from the published seeds",
            Self::Memorising => "knows the data set by heart",
            Self::Stale => "hands over the answer to the sample before",
            Self::Writing => "writes about every sample in tokens",
            Self::Padding => "tells more tokens than it writes when only the time counts",
            Self::Curtailing => "writes shorter when only the time counts",
            Self::Ranking => "ranks candidates for every sample",
            Self::Guessing => "ranks nothing when only the time counts",
        }
    }

    /// The audit that is made for it, and a scenario in which it shows.
    #[must_use]
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

    /// What its answers are.
    #[must_use]
    pub fn form(self) -> Form {
        match self {
            Self::Writing | Self::Padding | Self::Curtailing => Form::Text,
            Self::Ranking | Self::Guessing => Form::Ranking,
            _ => Form::Class,
        }
    }

    /// The trick of that name.
    ///
    /// # Errors
    /// A sentence fragment that begins with "expected".
    pub fn named(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.into_iter().map(Self::name);
        Self::ALL.into_iter().find(|trick| trick.name() == name).ok_or_else(|| {
            let near = nearest(name, names()).unwrap_or("honest");
            let names: Vec<&str> = names().collect();
            format!("expected one of {}, found `{name}`; the nearest is {near}", names.join(", "))
        })
    }
}

/// The images that samples stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Images {
    /// Those of [`crate::digits`].
    #[default]
    Reference,
    /// The same, each changed by a speck of ink in a corner: for people, and for a
    /// perceptron, the same digits; for a system that knows images by heart, others.
    Specked,
}

impl Images {
    /// Image `index` (below 540).
    fn image(self, index: usize) -> [u8; PIXELS] {
        let mut pixels = *digits::test_digit(index).pixels;
        if self == Self::Specked {
            // Hardly any digit reaches there.
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

    fn performance_sample_count(&self) -> usize {
        TEST_COUNT
    }

    fn load(&self, _samples: &[SampleIndex]) {}

    fn unload(&self, _samples: &[SampleIndex]) {}
}
