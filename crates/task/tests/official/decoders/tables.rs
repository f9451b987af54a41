//! From a table of prompts to the figure that decides.

use dyno_loadgen::qsl::SampleLibrary as _;
use dyno_onnx::{Builder, Dim, Element, Weights};
use dyno_task::system::{BeamSettings, CountedTokens, StopRule};
use serde_json::{Value, json};

use super::plain::{DecoderForm, PlainDecoder};
use super::{as_i32, card, folder, given_files, prompts, rules, table, texts, words};
use crate::made::{answered, unfit};

/// Bytes of `pd.DataFrame({"tok_input": .., "output": ..}).to_pickle(.., protocol=2)`, without its
/// memo.
fn pickled(rows: &[(Vec<i64>, String)]) -> Vec<u8> {
    let text =
        |text: &str| [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let number = |n: i64| [b"J", &(n as i32).to_le_bytes()[..]].concat();
    let list = |items: Vec<Vec<u8>>| [&b"]("[..], &items.concat(), b"e"].concat();
    let cells = |shape: &[usize], items: Vec<Vec<u8>>| {
        let shape: Vec<u8> = shape.iter().flat_map(|n| number(*n as i64)).collect();
        [
            &b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85C\x01btR(K\x01("[..],
            &shape,
            b"tcnumpy\ndtype\n",
            &text("O8"),
            b"\x89\x88\x87R(K\x03",
            &text("|"),
            b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x3ftb\x89",
            &list(items),
            b"tb",
        ]
        .concat()
    };
    let tokens = rows.iter().map(|(tokens, _)| list(tokens.iter().map(|n| number(*n)).collect()));
    let outputs = rows.iter().map(|(_, output)| text(output));
    let names = cells(&[2], ["tok_input", "output"].map(text).into());
    let pairs = |pairs: &[(&str, &[u8])]| {
        let pair = |(key, value): &(&str, &[u8])| [&text(key), *value].concat();
        [&b"}("[..], &pairs.iter().flat_map(pair).collect::<Vec<u8>>(), b"u"].concat()
    };
    let index = |class: &str, state: &[u8]| {
        let class =
            format!("cpandas.core.indexes.base\n_new_Index\n(cpandas.core.indexes.{class}\n");
        [class.as_bytes(), state, b"tR"].concat()
    };
    let range = [("start", 0), ("stop", rows.len() as i64), ("step", 1)];
    let range = range.map(|(name, n)| (name, number(n)));
    let range: Vec<(&str, &[u8])> = range.iter().map(|(name, n)| (*name, &n[..])).collect();
    [
        &b"\x80\x02cpandas.core.frame\nDataFrame\n)\x81}"[..],
        &text("_mgr"),
        b"cpandas.core.internals.managers\nBlockManager\n(cpandas._libs.internals\n_unpickle_block\n(",
        &cells(&[2, rows.len()], tokens.chain(outputs).collect()),
        b"c__builtin__\nslice\nK\0K\x02K\x01\x87RK\x02tR\x85](",
        &index("base\nIndex", &pairs(&[("data", &names)])),
        &index("range\nRangeIndex", &pairs(&range)),
        b"etRsb.",
    ]
    .concat()
}

#[test]
fn llama_2_answers_a_table_of_pandas_up_to_its_figure() {
    let plain = PlainDecoder::new(20, DecoderForm::Whole);
    let folder = folder(&plain, &words(20));
    let rules = rules(1, 12, &[2, 7, 11]);
    let prompts = prompts(20);
    let said = |prompt: &Vec<i64>| {
        let tokens = plain.greedy(prompt, &rules.length);
        tokens.iter().map(|token| format!("word{token}")).collect::<Vec<_>>().join(" ")
    };
    // The first equals its reference, the second has nothing in common with it.
    let rows =
        [(prompts[0].clone(), said(&prompts[0])), (prompts[2].clone(), "something else".into())];
    folder.write("data.pkl", pickled(&rows));
    let card = card("llama2-70b", rules.clone());
    let files = given_files(("open_orca", "data.pkl"));
    let ready = folder.open(&card, &files).unwrap();
    assert!(ready.remarks[0].starts_with("2 of the 24576 samples"), "{:?}", ready.remarks);
    let Some(told) = answered(ready) else { return };
    assert_eq!((told.failed.len(), told.figure), (0, 50.0), "{:?}", told.trouble);
    let bytes: Vec<u8> = plain
        .greedy(&prompts[2], &rules.length)
        .iter()
        .flat_map(|n| (*n as i32).to_le_bytes())
        .collect();
    assert_eq!(told.answers[&1], bytes);
    // Derived files exist: the table is not read again.
    let made = folder.open(&card, &files).unwrap();
    assert_eq!(made.samples.total_sample_count(), 2);
}

#[test]
fn gpt_j_reads_articles_and_follows_beams_up_to_its_figure() {
    // One token per byte, after that of the end of text.
    let is_seen = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut unseen = 0x100_u32..;
    let character = |byte: u8| match is_seen(byte) {
        true => char::from(byte),
        false => char::from_u32(unseen.next().unwrap()).unwrap(),
    };
    let characters: Vec<char> = (0..=255).map(character).collect();
    let vocab: serde_json::Map<String, Value> =
        (1..).zip(&characters).map(|(id, of)| (of.to_string(), json!(id))).collect();
    let tokenizer = json!({
        "added_tokens": [{"id": 0, "content": "<|endoftext|>", "special": true}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
        "decoder": {"type": "ByteLevel"},
        "model": {"vocab": vocab, "merges": []},
    });
    let mut plain = PlainDecoder::new(257, DecoderForm::Whole);
    plain.placed.fill(0.0);
    // Letters have high scores.
    for (at, score) in plain.table.iter_mut().enumerate() {
        if (b'a'..=b'z').any(|letter| at % 257 == usize::from(letter) + 1) {
            *score += 16.0;
        }
    }
    let folder = folder(&plain, &tokenizer);
    let mut rules = rules(3, 7, &[0]);
    let beams = BeamSettings {
        count: 4,
        stop: StopRule::Early,
        length_penalty: 1.0,
        counted: CountedTokens::All,
    };
    rules.beams = Some(beams);
    let long = "It rained. ".repeat(300);
    let articles = ["A cat sat.", "The news.", &long];
    let text = |article: &str| {
        format!(
            "Below is an instruction that describes a task, paired with an input that provides \
             further context. Write a response that appropriately completes the request.\n\n\
             ### Instruction:\nSummarize the following news article:\n\n### Input:\n{article}\n\n\
             ### Response:"
        )
    };
    let said = |article: &str| {
        let prompt: Vec<i64> =
            text(article).bytes().take(1919).map(|byte| i64::from(byte) + 1).collect();
        plain.beams(&prompt, &rules.length, 4)
    };
    let expected: Vec<Vec<i64>> = articles.iter().map(|article| said(article)).collect();
    let row = |(article, tokens): (&&str, &Vec<i64>)| {
        let bytes: Vec<u8> =
            tokens.iter().filter(|token| **token > 0).map(|token| (token - 1) as u8).collect();
        let output = String::from_utf8(bytes).expect("letters are likely");
        json!({"instruction": "Summarize the following news article:", "input": article,
            "output": output})
    };
    let mut rows: Vec<Value> = articles.iter().zip(&expected).map(row).collect();
    rows[1]["output"] = json!("0");
    folder.write("cnn.json", Value::from(rows).to_string());
    let card = card("gptj", rules.clone());
    let ready = folder.open(&card, &given_files(("cnn_eval", "cnn.json"))).unwrap();
    let Some(told) = answered(ready) else { return };
    assert_eq!(told.failed.len(), 0, "{:?}", told.trouble);
    for (index, tokens) in (0..).zip(&expected) {
        let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        assert_eq!(told.answers[&index], bytes, "{index}");
    }
    assert!((told.figure - 200.0 / 3.0).abs() < 1e-9, "{}", told.figure);
}

#[test]
fn programs_of_mixtral_end_behind_their_sequence_and_ends_are_cut_off() {
    let plain = PlainDecoder::new(20, DecoderForm::Whole);
    let folder = folder(&plain, &words(20));
    let mut rules = rules(2, 12, &[2]);
    let made = |prompt: &Vec<i64>| plain.greedy(prompt, &rules.length);
    let prompt = prompts(20).into_iter().max_by_key(|prompt| made(prompt).len()).unwrap();
    let whole = made(&prompt);
    // The middle of the text stands for the marks of a program's end.
    rules.stop = whole[2..5].to_vec();
    let end = whole.windows(3).position(|tokens| *tokens == rules.stop).unwrap() + 3;
    assert!(end < whole.len());
    rules.cut = vec![2];
    let row = |name: &str, output: Value| json!({"tok_input": prompt, "dataset": name, "gt_output": output});
    let rows = [row("MBXP", json!("")), row("GSM8K", json!(4.0)), row("OpenOrca", json!("word1"))];
    folder.write("data.json", Value::from(rows.to_vec()).to_string());
    let card = card("mixtral-8x7b", rules.clone());
    let ready = folder.open(&card, &given_files(("dataset", "data.json"))).unwrap();
    let Some(found) = texts(ready, 3) else { return };
    let mut all = as_i32(whole);
    if all.last() == Some(&2) {
        all.pop();
    }
    assert_eq!(found, [all[..end].to_vec(), all.clone(), all]);
}

#[test]
fn errors_in_a_table_are_reported_with_its_row_and_column() {
    let folder = folder(&PlainDecoder::new(20, DecoderForm::Whole), &words(20));
    let refusal = |name: &str, file: &str, data: &[u8]| {
        folder.write("data", data);
        folder.refusal(&card(name, rules(1, 2, &[2])), &given_files((file, "data")))
    };
    let json = |value: Value| value.to_string().into_bytes();
    let row = json!({"tok_input": [1, 2], "output": "a"});
    let found =
        refusal("llama2-70b", "open_orca", &json(json!([row, {"tok_input": "a", "output": ""}])));
    let expected = "data, row 1, column tok_input: expected a list of tokens, numbers from 0 to \
                    2147483647, found the text \"a\"";
    assert_eq!(found, expected);
    let found = refusal(
        "llama2-70b",
        "open_orca",
        &json(json!([row, {"tok_input": [3, -1], "output": ""}])),
    );
    assert!(found.ends_with("found -1 among 2 numbers"), "{found}");
    let found = refusal("llama2-70b", "open_orca", &json(json!([row, {"tok_input": [3]}])));
    assert!(found.contains("in line 1: expected an object with tok_input, output"), "{found}");
    let found = refusal("llama2-70b", "open_orca", b"PAR1....PAR1");
    assert!(found.starts_with("data: expected a") && found.contains("Parquet"), "{found}");
    let found = refusal("llama2-70b", "open_orca", &pickled(&[]));
    assert_eq!(found, "data: expected rows, found none");
    let whole = pickled(&[(vec![1], "a".into())]);
    let found = refusal("llama2-70b", "open_orca", &whole[..whole.len() - 9]);
    assert!(found.starts_with("data: expected a table of pandas, found byte "), "{found}");
    let found = refusal("llama3.1-405b", "dataset", &whole);
    assert_eq!(found, "data, column metric: expected a value in each row, found none");
    let row = json!({"tok_input": [1, 2], "gt_output": "a", "metric": "bleu"});
    let found = refusal("llama3.1-405b", "dataset", &json(json!([row])));
    assert_eq!(
        found,
        "data, row 0, column metric: expected rouge or niah_em or qa_em, found \"bleu\""
    );
    let row = json!({"tok_input": [1, 2], "gt_output": null, "dataset": "GSM8K"});
    let found = refusal("mixtral-8x7b", "dataset", &json(json!([row])));
    assert!(
        found.starts_with("data, row 0, column gt_output: expected a text, or a number"),
        "{found}"
    );
}

#[test]
fn a_model_of_another_form_is_refused_before_the_run() {
    let folder = folder(&PlainDecoder::new(20, DecoderForm::Whole), &words(20));
    folder.write("data.json", table(&prompts(20)).to_string());
    let card = card("llama2-70b", rules(1, 2, &[2]));
    let refusal = |inputs: &[&str], output: &str| {
        let mut net = Builder::new("other", Weights::seeded(1));
        let shape = [Dim::symbol("n"), Dim::symbol("s")];
        let all = inputs.iter().map(|name| net.input(name, Element::I64, &shape));
        let last = all.last().unwrap();
        net.output(output, &last).unwrap();
        folder.model(&net.finish());
        let ready = folder.open(&card, &given_files(("open_orca", "data.json"))).unwrap();
        unfit(ready)
    };
    let Some(found) = refusal(&["input_ids"], "logits") else { return };
    assert!(
        found.contains("expected inputs past_key_values.N.key") && found.contains("optimum-cli"),
        "{found}"
    );
    let found = refusal(&["input_ids", "token_type_ids"], "logits").unwrap();
    assert!(found.contains("found 'token_type_ids'"), "{found}");
    let found = refusal(&["input_ids", "past_key_values.0.key"], "logits").unwrap();
    assert!(found.contains("'past_key_values.0.key' of rows, a known number of heads"), "{found}");
    let names = given_files(("open_orca", "data.json")).map(|(name, file)| match name {
        "model" => (name, "punkt"),
        _ => (name, file),
    });
    let found = folder.refusal(&card, &names);
    assert!(found.starts_with("punkt: expected a folder with one of model.onnx, "), "{found}");
}
