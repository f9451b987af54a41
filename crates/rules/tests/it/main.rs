//! Compares the rounds' data with the tables of the rules and of the paper.
#![expect(clippy::unwrap_used, reason = "tests")]

mod bandwidth;
mod checker;
mod settings;
#[path = "../../../submission/tests/it/shared.rs"]
mod shared;
mod suites;
mod tables;

use dyno_rules::{Round, RuleScenario, Suite};

#[test]
fn every_round_reads_and_says_its_own_name() {
    for name in Round::names() {
        let round = Round::named(name).unwrap();
        assert_eq!(round.version.to_string(), name);
        assert!(!round.benchmarks.is_empty(), "{name}");
        for pattern in round.accuracy_patterns.values() {
            assert_eq!(regex::Regex::new(pattern).unwrap().captures_len(), 2, "{pattern}");
        }
        for benchmark in &round.benchmarks {
            for target in &benchmark.accuracy {
                assert!(round.accuracy_patterns.contains_key(&target.metric), "{target:?}");
            }
        }
    }
}

#[test]
fn a_benchmark_is_found_by_any_of_its_names() {
    let round = Round::named("5.1").unwrap();
    let resnet = round.benchmark("resnet50").unwrap();
    assert_eq!(resnet.name, "resnet");
    assert_eq!(resnet.latency[&RuleScenario::Server], 15_000_000);
    assert_eq!(resnet.suites[&Suite::Edge].required.len(), 3);
    assert_eq!(round.benchmark("resnet51"), None);
    assert_eq!(round.similar_benchmark("resnet51"), Some("resnet50"));
    assert_eq!(round.similar_benchmark("foo"), None);
}
