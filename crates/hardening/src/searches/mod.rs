//! Searches for a peak that is known, each judged by an oracle from the documents.

pub mod limits;
pub mod oracle;
pub mod peak;

use crate::oracle::Finding;
use crate::rng::Stream;

/// How a search found its peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SearchEnd {
    /// Dyno rejects the settings.
    Refused,
    /// It found the peak.
    Found,
    /// It ended without.
    NotFound,
}

/// A search to play.
#[derive(Debug, Clone)]
pub enum Search {
    /// By `FindPeakPerformance`.
    Peak(oracle::PeakSettings),
    /// By `dyno search`, with the source of its runs.
    Limit(limits::SearchCase, Stream),
}

impl Search {
    /// Returns search `index` of `seed`: one in four is by `FindPeakPerformance`.
    pub fn draw(seed: u64, index: u64) -> Self {
        let mut draw = Stream::new(seed, index, 500);
        if index.is_multiple_of(4) {
            Self::Peak(peak::draw(&mut draw))
        } else {
            Self::Limit(limits::draw(&mut draw), draw)
        }
    }
}

/// Plays and judges search `index` of `seed`.
#[must_use]
pub fn check(seed: u64, index: u64) -> (SearchEnd, Vec<Finding>) {
    let ended = |found: bool| if found { SearchEnd::Found } else { SearchEnd::NotFound };
    match Search::draw(seed, index) {
        Search::Peak(settings) => match peak::play(&settings) {
            Some((runs, report)) => {
                let findings = oracle::judge_peak(&settings, &runs, &report);
                (ended(report.found.is_some()), findings)
            }
            None => (SearchEnd::Refused, Vec::new()),
        },
        Search::Limit(case, mut draw) => {
            let (runs, report) = limits::play(&case, &mut draw);
            let is_found = matches!(report.state, "confirmed" | "estimated");
            (ended(is_found), oracle::judge_search(&case.settings, &runs, &report))
        }
    }
}
