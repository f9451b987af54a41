//! What follows from published seeds: the queries of a test, before they come.

use dyno_loadgen::plan::{Plan, SampleChoice, Seeds};
use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::trace::{Trace, loadable_sets};

use crate::digits::TEST_COUNT;

/// The traces of several sets of seeds, each as long as it has told the truth.
#[derive(Debug)]
pub(super) struct Foresight {
    traces: Vec<Trace>,
    /// The next query of one of them; kept for its memory.
    expected: Vec<SampleIndex>,
}

impl Foresight {
    /// Of a test like this one, with each of these seeds.
    pub(super) fn new(plan: &Plan, published: &[Seeds]) -> Self {
        let trace = |seeds: &Seeds| {
            // An audit that issues otherwise comes as a surprise.
            let foreseen = Plan { seeds: *seeds, choice: SampleChoice::Random, ..plan.clone() };
            let sets = loadable_sets(&foreseen, false, TEST_COUNT);
            sets.first().map(|set| Trace::new(&foreseen, set, false))
        };
        Self { traces: published.iter().filter_map(trace).collect(), expected: Vec::new() }
    }

    /// Whether a query was foreseen.
    pub(super) fn foresees(&mut self, query: &[SampleIndex]) -> bool {
        let expected = &mut self.expected;
        self.traces.retain_mut(|trace| {
            expected.clear();
            trace.beyond(expected).is_some() && expected == query
        });
        !self.traces.is_empty()
    }
}
