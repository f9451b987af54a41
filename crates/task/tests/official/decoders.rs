//! Text that decoders generate after prompts; the tokens of the generated models are also computed
//! here.

mod plain;
mod streamed;
mod tables;

use std::sync::Arc;

use dyno_task::card::Card;
use dyno_task::open::PreparedTask;
use dyno_task::system::{
    AnswerKind, BeamSettings, CountedTokens, GenerationRules, LengthLimits, StopRule,
};
use serde_json::{Value, json};

use crate::engines;
use crate::made::{self, Folder};
use plain::{DecoderForm, PlainDecoder};

/// Returns the card with these generation rules.
fn card(name: &str, rules: GenerationRules) -> Card {
    let mut card = made::card(name);
    card.system.as_mut().unwrap().answer = AnswerKind::Generated(rules);
    card
}

fn rules(least: usize, most: usize, ends: &[i64]) -> GenerationRules {
    let length = LengthLimits { least, most, ends: ends.to_vec() };
    GenerationRules { length, beams: None, stop: Vec::new(), cut: Vec::new() }
}

/// A tokenizer of words that are separated by spaces.
fn words(count: usize) -> Value {
    let vocab: serde_json::Map<String, Value> =
        (0..count).map(|id| (format!("word{id}"), json!(id))).collect();
    json!({"model": {"vocab": vocab}, "decoder": null})
}

/// Returns a folder with the model, the tokenizer and the sentence splitter.
fn folder(plain: &PlainDecoder, tokenizer: &Value) -> Folder {
    let folder = Folder::new();
    folder.model(&plain.model());
    folder.write("tokenizer.json", tokenizer.to_string());
    std::fs::create_dir_all(folder.path("punkt")).unwrap();
    for name in ["abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt"] {
        folder.write(&format!("punkt/{name}"), "");
    }
    folder
}

fn given_files<'a>(data: (&'a str, &'a str)) -> [(&'a str, &'a str); 4] {
    [("model", "model.onnx"), ("tokenizer", "tokenizer.json"), ("punkt", "punkt"), data]
}

/// Returns the answers of all samples, at most this many per call; `None` without ONNX Runtime.
fn texts(ready: PreparedTask, batch: usize) -> Option<Vec<Vec<i32>>> {
    let library = Arc::new(ready.samples);
    let engine = engines::engine(ready.model, &library, batch)?.unwrap();
    let answers = engines::answers(&*engine, &library);
    assert_eq!(engine.failure_reason(), None);
    let tokens = |answer: Result<Vec<u8>, _>| -> Vec<i32> {
        answer.unwrap().as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect()
    };
    Some(answers.into_values().map(tokens).collect())
}

/// Prompts of different lengths.
fn prompts(words: i64) -> Vec<Vec<i64>> {
    let prompt = |length: i64| (0..length).map(|at| (7 * length + 5 * at * at) % words).collect();
    [3, 1, 8, 3, 5, 2, 8].map(prompt).into()
}

fn table(prompts: &[Vec<i64>]) -> Value {
    let row = |prompt: &Vec<i64>| json!({"tok_input": prompt, "output": "word1", "input": "x"});
    prompts.iter().map(row).collect()
}

fn as_i32(tokens: Vec<i64>) -> Vec<i32> {
    tokens.into_iter().map(|token| token as i32).collect()
}

#[test]
fn every_batch_makes_the_tokens_that_one_prompt_alone_makes() {
    for form in [DecoderForm::Whole, DecoderForm::Half, DecoderForm::Unplaced, DecoderForm::Merged]
    {
        let plain = PlainDecoder::new(20, form);
        let folder = folder(&plain, &words(20));
        let prompts = prompts(20);
        folder.write("data.json", table(&prompts).to_string());
        let rules = rules(2, 14, &[2, 7, 11]);
        let expected: Vec<Vec<i32>> =
            prompts.iter().map(|prompt| as_i32(plain.greedy(prompt, &rules.length))).collect();
        let lengths: Vec<usize> = expected.iter().map(Vec::len).collect();
        let [least, most] = [lengths.iter().min().unwrap(), lengths.iter().max().unwrap()];
        assert!(least < most, "{form:?}: all end at once, which shows little: {lengths:?}");
        for batch in [1, 2, 3, 7] {
            let card = card("llama2-70b", rules.clone());
            let ready = folder.open(&card, &given_files(("open_orca", "data.json"))).unwrap();
            let Some(found) = texts(ready, batch) else { return };
            assert_eq!(found, expected, "{form:?}, batch {batch}");
        }
    }
}

#[test]
fn a_model_of_one_row_is_asked_one_prompt_a_call_and_follows_no_beams() {
    let plain = PlainDecoder::new(20, DecoderForm::Whole);
    let folder = folder(&plain, &words(20));
    folder.model(&made::of_rows(1, plain.model()));
    let prompts = prompts(20);
    folder.write("data.json", table(&prompts).to_string());
    let mut rules = rules(2, 14, &[2, 7, 11]);
    let open = |rules: &GenerationRules| {
        let card = card("llama2-70b", rules.clone());
        folder.open(&card, &given_files(("open_orca", "data.json"))).unwrap()
    };
    let Some(found) = texts(open(&rules), 3) else { return };
    let greedy = |prompt: &Vec<i64>| as_i32(plain.greedy(prompt, &rules.length));
    assert_eq!(found, prompts.iter().map(greedy).collect::<Vec<_>>());
    let stop = StopRule::Early;
    rules.beams =
        Some(BeamSettings { count: 4, stop, length_penalty: 1.0, counted: CountedTokens::All });
    let refusal = made::unfit(open(&rules)).unwrap();
    assert!(refusal.contains("expected any number, of which 4 are the beams"), "{refusal}");
}

#[test]
fn every_batch_makes_the_beams_that_one_prompt_alone_has() {
    for form in [DecoderForm::Whole, DecoderForm::Unplaced] {
        let plain = PlainDecoder::new(20, form);
        let folder = folder(&plain, &words(20));
        let prompts = prompts(20);
        folder.write("data.json", table(&prompts).to_string());
        let mut rules = rules(2, 9, &[7]);
        let stop = StopRule::Early;
        rules.beams =
            Some(BeamSettings { count: 4, stop, length_penalty: 1.0, counted: CountedTokens::All });
        let beams = |prompt: &Vec<i64>| as_i32(plain.beams(prompt, &rules.length, 4));
        let expected: Vec<Vec<i32>> = prompts.iter().map(beams).collect();
        for batch in [1, 3, 7] {
            let card = card("llama2-70b", rules.clone());
            let ready = folder.open(&card, &given_files(("open_orca", "data.json"))).unwrap();
            let Some(found) = texts(ready, batch) else { return };
            assert_eq!(found, expected, "{form:?}, batch {batch}");
        }
    }
}
