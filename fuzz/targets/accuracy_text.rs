//! `accuracy.txt` with the patterns of every benchmark of a round.
#![no_main]

use std::sync::LazyLock;

use dyno_rules::Round;
use dyno_rules::accuracy::{Patterns, scan};
use libfuzzer_sys::fuzz_target;

static ROUNDS: LazyLock<Vec<(&Round, Patterns)>> = LazyLock::new(|| {
    let rounds = Round::names().map(|name| Round::named(name).expect("it is one of the names"));
    rounds.map(|round| (round, Patterns::new(round))).into()
});

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, text)) = bytes.split_first() else { return };
    let (round, patterns) = &ROUNDS[usize::from(which) % ROUNDS.len()];
    for benchmark in &round.benchmarks {
        let patterns = patterns.for_benchmark(Some(benchmark));
        scan(&mut &text[..], patterns).expect("bytes in memory are read");
    }
});
