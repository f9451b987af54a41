//! Systems that cheat look well in a submission: that is why there are audits.

use dyno_loadgen::clock::WallTime;
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::plan::{Library, Plan, Seeds};
use dyno_loadgen::run::{RecordRetention, Tenant, TestLog, run};
use dyno_loadgen::settings::{Scenario, TestMode, TestSettings};
use dyno_sut::cheat::{Cheat, END, Form, Images, TestContext, Trick};
use dyno_sut::digits;

const SEEDS: Seeds = Seeds { qsl: 11, sample_index: 12, schedule: 13, accuracy_log: 0 };

fn play(trick: Trick, images: Images, settings: TestSettings) -> TestLog {
    let samples = digits::TEST_COUNT as u64;
    let library = Library { total: samples, performance: samples };
    let plan = Plan::resolve(&settings, library).unwrap();
    let context = TestContext { plan: &plan, published_seeds: &[Seeds::default(), SEEDS], seed: 5 };
    let mut cheat = Cheat::new(trick, images, context);
    let mut driver = VirtualTime::new(&mut cheat, WallTime { unix_ns: 0 });
    let tenant = Tenant {
        settings: settings.into(),
        plan: plan.clone(),
        library: &images,
        messages: Vec::new(),
    };
    run(&mut driver, &[tenant], RecordRetention::Every, &mut |_| {}).remove(0)
}

fn settings(scenario: Scenario, mode: TestMode) -> TestSettings {
    TestSettings {
        scenario,
        mode,
        offline_expected_qps: 1_000.0,
        min_duration_ms: 2_000,
        qsl_rng_seed: SEEDS.qsl,
        sample_index_rng_seed: SEEDS.sample_index,
        schedule_rng_seed: SEEDS.schedule,
        ..TestSettings::default()
    }
}

/// Mean time per sample, ns.
fn mean_ns(trick: Trick, images: Images, settings: TestSettings) -> f64 {
    let log = play(trick, images, settings);
    let run = log.runs().last().unwrap();
    let ended = run.record.completed_at.iter().max().copied().unwrap();
    assert_eq!(run.record.missing(), 0);
    ended as f64 / run.record.completed_at.len() as f64
}

#[test]
fn no_trick_shows_in_an_accuracy_run() {
    let accuracy = |trick| {
        let settings = settings(Scenario::SingleStream, TestMode::AccuracyOnly);
        let log = play(trick, Images::Reference, settings);
        let run = log.runs().next().unwrap();
        let responses = run.record.responses.iter().map(|response| {
            (run.record.indices[usize::try_from(response.sequence).unwrap()], response.data)
        });
        digits::score(responses)
    };
    let honest = accuracy(Trick::Honest);
    assert_eq!(honest.total, digits::TEST_COUNT);
    assert!(honest.accuracy() > 0.95);
    for trick in Trick::ALL.into_iter().filter(|trick| trick.form() == Form::Class) {
        assert!(accuracy(trick).accuracy() >= honest.accuracy(), "{trick:?}");
    }
    // Of other forms the answers are those of the honest one.
    let answers = |trick| {
        let settings = settings(Scenario::SingleStream, TestMode::AccuracyOnly);
        let log = play(trick, Images::Reference, settings);
        let run = log.runs().next().unwrap();
        run.record.responses.iter().map(|response| response.data.to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(answers(Trick::Padding), answers(Trick::Writing));
    assert_eq!(answers(Trick::Curtailing), answers(Trick::Writing));
    assert_eq!(answers(Trick::Guessing), answers(Trick::Ranking));
}

/// A text begins with what was told first, and has as many tokens as were counted.
#[test]
fn texts_have_first_tokens_counts_and_one_end() {
    let played = |trick| {
        let single = settings(Scenario::SingleStream, TestMode::PerformanceOnly);
        let every = TestSettings { accuracy_log_probability: 1.0, ..single };
        let settings = TestSettings { use_token_latencies: true, min_duration_ms: 100, ..every };
        play(trick, Images::Reference, settings)
    };
    for (trick, padded) in [(Trick::Writing, 1), (Trick::Padding, 2), (Trick::Curtailing, 1)] {
        let log = played(trick);
        let record = &log.runs().last().unwrap().record;
        assert!(record.responses.len() > 90, "{trick:?}");
        for response in record.responses.iter() {
            let (words, rest) = response.data.as_chunks::<4>();
            assert_eq!((rest.len(), response.first_token), (0, Some(&words[0][..])));
            assert_eq!(response.tokens, padded * words.len() as i64, "{trick:?}");
            let ends = words.iter().filter(|word| i32::from_le_bytes(**word) == END);
            assert_eq!((ends.count(), words.last()), (1, Some(&END.to_le_bytes())));
        }
        let first = record.first_token_at.iter().zip(&record.completed_at);
        assert!(first.clone().all(|(first, end)| *first > 0 && first < end), "{trick:?}");
    }
}

#[test]
fn tricks_spare_what_they_promise_to() {
    let single = settings(Scenario::SingleStream, TestMode::PerformanceOnly);
    let mean = |trick| mean_ns(trick, Images::Reference, single.clone());
    assert!((0.98e6..1.02e6).contains(&mean(Trick::Honest)));
    for trick in [Trick::Skipping, Trick::Foreseeing, Trick::Memorising] {
        assert!(mean(trick) < 0.05e6, "{trick:?}");
    }
    // Most samples of a run come back.
    assert!(mean(Trick::Stale) < 0.5e6);
    let same = TestSettings { performance_issue_same: true, ..single.clone() };
    assert!(mean(Trick::Caching) > 0.8e6);
    assert!(mean_ns(Trick::Caching, Images::Reference, same.clone()) < 0.05e6);
    assert!(mean_ns(Trick::Foreseeing, Images::Reference, same) > 0.9e6);
    let others = TestSettings { sample_index_rng_seed: 99, ..single.clone() };
    assert!(mean_ns(Trick::Foreseeing, Images::Reference, others) > 0.9e6);
    assert!(mean_ns(Trick::Memorising, Images::Specked, single) > 0.9e6);
}

#[test]
fn a_batch_of_one_sample_is_computed_once_by_who_coalesces() {
    let offline = settings(Scenario::Offline, TestMode::PerformanceOnly);
    let same = TestSettings { performance_issue_same: true, ..offline.clone() };
    let mean = |settings| mean_ns(Trick::Coalescing, Images::Reference, settings);
    assert!(mean(offline) > 0.9e6);
    assert!(mean(same) < 0.1e6);
}

#[test]
fn names_of_tricks_read_back() {
    for trick in Trick::ALL {
        assert_eq!(Trick::named(trick.name()), Ok(trick));
        let is_honest = matches!(trick, Trick::Honest | Trick::Writing | Trick::Ranking);
        assert_eq!(trick.caught_by().is_none(), is_honest);
    }
    assert!(Trick::named("cacheing").unwrap_err().ends_with("the nearest is caching"));
}
