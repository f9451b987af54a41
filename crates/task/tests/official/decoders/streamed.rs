//! First tokens and answers of a decoder that ONNX Runtime computes, in the order in which a run
//! receives them.

use std::num::NonZero;
use std::sync::Arc;

use dyno_loadgen::clock::MILLISECOND;
use dyno_loadgen::drive::real::RealTime;
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::record::Record;
use dyno_loadgen::run::{RecordRetention, Tenant, run};
use dyno_loadgen::settings::{Scenario, Settings, TestMode, TestSettings};
use dyno_loadgen::sut::SystemUnderTest;
use dyno_sut::batch::{self, Policy};
use dyno_sut::engine::{Engine, InlineSystem};
use dyno_task::system::{BeamSettings, CountedTokens, StopRule};

use super::plain::{DecoderForm, PlainDecoder};
use super::{as_i32, card, folder, given_files, prompts, rules, table, words};

/// Measurements of all samples, including tokens.
fn recorded(
    system: impl SystemUnderTest + 'static,
    library: &dyn SampleLibrary,
    scenario: Scenario,
) -> Record {
    let settings = TestSettings {
        scenario,
        mode: TestMode::AccuracyOnly,
        min_duration_ms: 0,
        server_target_qps: 10_000.0,
        use_token_latencies: true,
        ..TestSettings::default()
    };
    let total = library.total_sample_count() as u64;
    let plan = Plan::resolve(&settings, Library { total, performance: total }).unwrap();
    let tenant = Tenant { settings: Settings::from(settings), plan, library, messages: Vec::new() };
    let mut driver = RealTime::new(Arc::new(system));
    let logs = run(&mut driver, &[tenant], RecordRetention::Every, &mut |_| ());
    logs[0].runs().next().unwrap().record.clone()
}

#[test]
fn first_tokens_are_heard_before_answers_and_answers_as_they_end() {
    let plain = PlainDecoder::new(20, DecoderForm::Whole);
    let folder = folder(&plain, &words(20));
    let prompts = prompts(20);
    folder.write("data.json", table(&prompts).to_string());
    let rules = rules(2, 14, &[2, 7, 11]);
    let expected: Vec<Vec<i32>> =
        prompts.iter().map(|prompt| as_i32(plain.greedy(prompt, &rules.length))).collect();
    let card = card("llama2-70b", rules);
    let engine = || {
        let ready = folder.open(&card, &given_files(("open_orca", "data.json"))).unwrap();
        let library = Arc::new(ready.samples);
        let engine = crate::engines::engine(ready.model, &library, prompts.len())?.unwrap();
        assert!(engine.is_streaming());
        Some((engine, library))
    };
    let bytes = |tokens: &[i32]| -> Vec<u8> {
        tokens.iter().flat_map(|token| token.to_le_bytes()).collect()
    };
    let check = |record: &Record| {
        assert_eq!((record.missing(), record.failed.len(), record.misuse.total()), (0, 0, 0));
        assert_eq!(record.responses.iter().count(), prompts.len());
        for response in record.responses.iter() {
            let text = &expected[record.indices[response.sequence as usize] as usize];
            assert_eq!(response.data, bytes(text));
            assert_eq!(response.first_token, Some(&bytes(&text[..1])[..]));
            assert_eq!(response.tokens, text.len() as i64);
        }
        let stamps = record.first_token_at.iter().zip(&record.completed_at);
        assert!(stamps.clone().all(|(first, last)| 0 < *first && first < last), "{record:?}");
    };
    // All samples in one call: every first token, then answers, the shortest first.
    let Some((whole, library)) = engine() else { return };
    let record = recorded(InlineSystem::new(whole), &*library, Scenario::Offline);
    check(&record);
    assert!(record.first_token_at.iter().max() < record.completed_at.iter().min());
    let length = |sample: &usize| expected[record.indices[*sample] as usize].len();
    let mut order: Vec<usize> = (0..prompts.len()).collect();
    order.sort_by_key(|sample| record.completed_at[*sample]);
    assert!(order.is_sorted_by_key(length), "{order:?}");
    // Several calls, by two threads.
    let (pooled, library) = engine().unwrap();
    let policy = Policy { max_size: NonZero::new(3).unwrap(), max_wait: MILLISECOND };
    let pool = batch::BatchingPool::start(pooled, policy, NonZero::new(2).unwrap()).unwrap();
    check(&recorded(pool, &*library, Scenario::Server));
}

#[test]
fn beams_report_no_first_token() {
    let plain = PlainDecoder::new(20, DecoderForm::Whole);
    let folder = folder(&plain, &words(20));
    folder.write("data.json", table(&prompts(20)).to_string());
    let mut rules = rules(2, 9, &[7]);
    let stop = StopRule::Early;
    rules.beams =
        Some(BeamSettings { count: 2, stop, length_penalty: 1.0, counted: CountedTokens::All });
    let ready =
        folder.open(&card("llama2-70b", rules), &given_files(("open_orca", "data.json"))).unwrap();
    let library = Arc::new(ready.samples);
    let Some(engine) = crate::engines::engine(ready.model, &library, 3) else { return };
    let engine = engine.unwrap();
    assert!(!engine.is_streaming());
    let record = recorded(InlineSystem::new(engine), &*library, Scenario::Server);
    assert_eq!((record.missing(), record.failed.len()), (0, 0));
    assert_eq!(record.misuse.first_token_missing, library.total_sample_count() as u64);
}
