//! Queries of a test, predicted from published seeds.

use dyno_loadgen::plan::{Plan, SampleChoice, Seeds};
use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::trace::{Trace, loadable_sets};

use crate::digits::TEST_COUNT;

/// Traces of several sets of seeds. A trace is removed at its first wrong prediction.
#[derive(Debug)]
pub(super) struct Foresight {
    traces: Vec<Trace>,
    /// Next query of a trace; kept to reuse its memory.
    expected: Vec<SampleIndex>,
}

impl Foresight {
    /// Returns the predictions for a test with this plan, one for each set of seeds.
    pub(super) fn new(plan: &Plan, published: &[Seeds]) -> Self {
        let trace = |seeds: &Seeds| {
            // Audits that choose samples in another way are not predicted.
            let foreseen = Plan { seeds: *seeds, choice: SampleChoice::Random, ..plan.clone() };
            let sets = loadable_sets(&foreseen, false, TEST_COUNT);
            sets.first().map(|set| Trace::new(&foreseen, set, false))
        };
        Self { traces: published.iter().filter_map(trace).collect(), expected: Vec::new() }
    }

    /// Returns whether a query was predicted.
    pub(super) fn foresees(&mut self, query: &[SampleIndex]) -> bool {
        let expected = &mut self.expected;
        self.traces.retain_mut(|trace| {
            expected.clear();
            trace.beyond(expected).is_some() && expected == query
        });
        !self.traces.is_empty()
    }
}
