//! RNN-T's task: recordings in the order of the manifest, their features, and a search with three
//! models.

use dyno_loadgen::record::Failure;
use dyno_onnx::{Builder, Dim, Element, Model, Name, Weights};
use serde_json::json;

use crate::made::{Folder, answered, card, of_rows, unfit};

const FILES: [(&str, &str); 5] = [
    ("encoder", "encoder.onnx"),
    ("prediction", "prediction.onnx"),
    ("joint", "joint.onnx"),
    ("audio", "dev-clean-wav"),
    ("manifest", "manifest.json"),
];
const LETTERS: &[u8] = b" abcdefghijklmnopqrstuvwxyz'";
/// Samples of two frames, which the encoder stacks.
const PAIR: usize = 960;
/// Characters of each loud pair.
const SAID: usize = 2;

fn float(net: &mut Builder, x: &Name) -> Name {
    net.node("Cast", &[x], &[("to", Element::F32.into())]).unwrap()
}

/// An encoder: the number of loud pairs of frames up to each pair, padding included, and the place
/// of the pair.
fn encoder(has_lengths: bool) -> Model {
    let mut net = Builder::new("encoder", Weights::seeded(1));
    let shape = [Dim::symbol("N"), Dim::symbol("T"), 240.into()];
    let features = net.input("features", Element::F32, &shape);
    if has_lengths {
        net.input("lengths", Element::I64, &[Dim::symbol("N")]);
    }
    // Windows that reach into the previous pair are omitted.
    let [from, to, axis, step] = [80, 240, 2, 1].map(|number| net.integers(&[number]));
    let inner = net.node("Slice", &[&features, &from, &to, &axis, &step], &[]).unwrap();
    let mean = [("axes", [2].into()), ("keepdims", 0.into())];
    let mean = net.node("ReduceMean", &[&inner], &mean).unwrap();
    // The first of each two; the builder knows no strided slice.
    let every_other = [0, i64::MAX, 1, 2].map(|number| net.integers(&[number]));
    let first = net.node("Identity", &[&mean], &[]).unwrap();
    // Padding counts as loud: the search must not read it.
    let little = net.number(-0.1);
    let is_loud = net.node("Greater", &[&first, &little], &[]).unwrap();
    let loud = float(&mut net, &is_loud);
    let axis = net.tensor(dyno_onnx::Tensor::from_i64("axis", &[], &[1])).unwrap();
    let total = net.node("CumSum", &[&loud, &axis], &[]).unwrap();
    let said = net.number(SAID as f32);
    let total = net.node("Mul", &[&total, &said], &[]).unwrap();
    let (zero, one) = (net.number(0.0), net.number(1.0));
    let ones = net.node("Mul", &[&loud, &zero], &[]).unwrap();
    let ones = net.node("Add", &[&ones, &one], &[]).unwrap();
    let place = net.node("CumSum", &[&ones, &axis], &[]).unwrap();
    let last = net.integers(&[2]);
    let columns = [&total, &place].map(|of| net.node("Unsqueeze", &[of, &last], &[]).unwrap());
    let heard = net.node("Concat", &[&columns[0], &columns[1]], &[("axis", 2.into())]).unwrap();
    net.output("heard", &heard).unwrap();
    let mut model = net.finish();
    let slice = model.nodes.iter_mut().find(|node| node.outputs == [first.as_str()]).unwrap();
    slice.op = "Slice".to_owned();
    slice.inputs.extend(every_other.iter().map(|of| of.as_str().to_owned()));
    model.outputs[0].shape = Some(vec![Dim::symbol("N"), Dim::symbol("P"), 2.into()]);
    model
}

/// A prediction network that counts characters and encodes all of them in a number.
fn prediction() -> Model {
    let mut net = Builder::new("prediction", Weights::seeded(1));
    let rows = || [Dim::symbol("N"), 1.into()];
    let character = net.input("character", Element::I64, &rows());
    let states = ["count", "past"].map(|name| net.input(name, Element::F32, &rows()));
    let character = float(&mut net, &character);
    let numbers = [0.0, 1.0, 3.0, 2.0, 28.0].map(|number| net.number(number));
    let [zero, _, three, two, modulus] = &numbers;
    let is_said = net.node("GreaterOrEqual", &[&character, zero], &[]).unwrap();
    let is_said = float(&mut net, &is_said);
    let count = net.node("Add", &[&states[0], &is_said], &[]).unwrap();
    let past = net.node("Mul", &[&states[1], three], &[]).unwrap();
    let past = net.node("Add", &[&past, &character], &[]).unwrap();
    let past = net.node("Add", &[&past, two], &[]).unwrap();
    let past = net.node("Mod", &[&past, modulus], &[("fmod", 1.into())]).unwrap();
    let said = net.node("Concat", &[&count, &past], &[("axis", 1.into())]).unwrap();
    net.output("said", &said).unwrap();
    net.output("next_count", &count).unwrap();
    net.output("next_past", &past).unwrap();
    net.finish()
}

/// A joint network that outputs a character while more was heard than written, by history and
/// place.
fn joint() -> Model {
    let mut net = Builder::new("joint", Weights::seeded(1));
    let mut columns = Vec::new();
    for name in ["heard", "said"] {
        let both = net.input(name, Element::F32, &[Dim::symbol("N"), 2.into()]);
        for column in [0, 1] {
            let column = net.integers(&[column]);
            columns.push(net.node("Gather", &[&both, &column], &[("axis", 1.into())]).unwrap());
        }
    }
    let [total, place, count, past] = &columns[..] else { panic!("two columns each") };
    let numbers = [5.0, 28.0].map(|number| net.number(number));
    let [five, blank] = &numbers;
    let letter = net.node("Mul", &[place, five], &[]).unwrap();
    let letter = net.node("Add", &[&letter, past], &[]).unwrap();
    let letter = net.node("Mod", &[&letter, blank], &[("fmod", 1.into())]).unwrap();
    let is_more = net.node("Greater", &[total, count], &[]).unwrap();
    let best = net.node("Where", &[&is_more, &letter, blank], &[]).unwrap();
    let all = net.numbers(&(0..29).map(|number| number as f32).collect::<Vec<_>>());
    let far = net.node("Sub", &[&all, &best], &[]).unwrap();
    let far = net.node("Abs", &[&far], &[]).unwrap();
    let scores = net.node("Neg", &[&far], &[]).unwrap();
    net.output("scores", &scores).unwrap();
    net.finish()
}

/// Returns the output of the three models for loud and silent pairs.
fn transcript(pairs: &[bool]) -> String {
    let (mut past, mut text) = (1, String::new());
    for (place, _) in (1..).zip(pairs).filter(|(_, is_loud)| **is_loud) {
        for _ in 0..SAID {
            let letter = (5 * place + past) % 28;
            text.push(char::from(LETTERS[letter]));
            past = (3 * past + letter + 2) % 28;
        }
    }
    text
}

/// Noise that is loud in some pairs, and `more` further samples of the last pair.
fn values(pairs: &[bool], more: usize) -> Vec<i16> {
    let mut state = 1_u64;
    let count = pairs.len() * PAIR + more;
    let value = |at: usize| {
        state = (state * 1_103_515_245 + 12_345) % (1 << 31);
        let noise = ((state >> 16) % 2001) as i16 - 1000;
        let is_loud = pairs[(at / PAIR).min(pairs.len() - 1)];
        if is_loud { noise * 8 } else { noise / 50 }
    };
    (0..count).map(value).collect()
}

fn wave(rate: u32, values: &[i16]) -> Vec<u8> {
    let body: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let number = |number: u32| number.to_le_bytes();
    let length = body.len() as u32;
    [
        &b"RIFF"[..],
        &number(36 + length),
        b"WAVEfmt ",
        &number(16),
        &[1, 0, 1, 0],
        &number(rate),
        &number(rate * 2),
        &[2, 0, 16, 0],
        b"data",
        &number(length),
        &body,
    ]
    .concat()
}

/// A FLAC header without a block: the length can be read, the values cannot.
fn without_blocks(values: u64) -> Vec<u8> {
    let facts = (16_000_u64 << 44) | (15 << 36) | values;
    [b"fLaC\x80\0\0\x22\x10\0\x10\0", &[0; 6][..], &facts.to_be_bytes(), &[0; 16]].concat()
}

fn entry(name: &str, values: usize, transcript: &str) -> serde_json::Value {
    let files = [json!({"fname": format!("dev-clean-wav/1/2/{name}"), "speed": 1})];
    let seconds = values as f64 / 16_000.0;
    json!({"transcript": transcript, "original_duration": seconds, "files": files})
}

fn folder(has_lengths: bool) -> Folder {
    let folder = Folder::new();
    encoder(has_lengths).write(&folder.path("encoder.onnx")).unwrap();
    prediction().write(&folder.path("prediction.onnx")).unwrap();
    joint().write(&folder.path("joint.onnx")).unwrap();
    std::fs::create_dir_all(folder.path("dev-clean-wav/1/2")).unwrap();
    folder
}

#[test]
fn utterances_are_heard_together_as_they_are_alone() {
    let utterances: [(&[bool], usize); 5] = [
        (&[true, false, true, true, false, true], 0),
        (&[false, true], 0),
        // Half a pair more: an odd number of frames, of which the last is stacked with padding.
        (&[true, true, false, false, true], 470),
        (&[false, true, true], 480),
        (&[true, false, false, true, false, true], 960),
    ];
    for (has_lengths, takes_one) in [(true, false), (false, false), (true, true)] {
        let folder = folder(has_lengths);
        if takes_one {
            of_rows(1, prediction()).write(&folder.path("prediction.onnx")).unwrap();
        }
        let mut manifest = vec![entry("long.wav", 16 * 16_000, "nobody looks for its file")];
        let mut heard = Vec::new();
        for (at, (pairs, more)) in utterances.into_iter().enumerate() {
            let (name, values) = (format!("{at}.wav"), values(pairs, more));
            folder.write(&format!("dev-clean-wav/1/2/{name}"), wave(16_000, &values));
            let more = if more > 0 { vec![pairs[pairs.len() - 1]] } else { Vec::new() };
            let text = transcript(&[pairs, &more].concat());
            // The reference of the first has one more word than its answer.
            let said = if at == 0 { format!("{text} more") } else { text.clone() };
            manifest.push(entry(&name, values.len(), &said.to_uppercase()));
            heard.push(text);
        }
        folder.write("manifest.json", json!(manifest).to_string());
        let ready = folder.open(&card("rnnt"), &FILES).unwrap();
        assert!(ready.remarks[0].starts_with("5 of the 2513 samples of LibriSpeech"));
        let Some(told) = answered(ready) else { return };
        let text = |answer: &Vec<u8>| -> String {
            let (numbers, rest) = answer.as_chunks();
            assert!(rest.is_empty());
            numbers
                .iter()
                .map(|one| char::from(LETTERS[i64::from_le_bytes(*one) as usize]))
                .collect()
        };
        let found: Vec<String> = told.answers.values().map(text).collect();
        assert_eq!((found, told.trouble), (heard.clone(), None));
        let words: usize = heard.iter().map(|text| text.split_whitespace().count()).sum();
        let accuracy = 100.0 * (1.0 - 1.0 / (words + 1) as f64);
        assert!((told.figure - accuracy).abs() < 1e-9, "{} is no {accuracy}", told.figure);
    }
}

#[test]
fn a_recording_that_breaks_off_fails_where_it_is_asked_for() {
    let folder = folder(true);
    let whole = values(&[true, false], 0);
    folder.write("dev-clean-wav/1/2/a.wav", wave(16_000, &whole));
    folder.write("dev-clean-wav/1/2/b.flac", without_blocks(1920));
    folder.write("dev-clean-wav/1/2/c.wav", wave(16_000, &whole[..400]));
    let entries = [entry("a.wav", 1920, "a"), entry("b.wav", 1920, "b"), entry("c.wav", 400, "c")];
    folder.write("manifest.json", json!(entries).to_string());
    let Some(told) = answered(folder.open(&card("rnnt"), &FILES).unwrap()) else { return };
    assert_eq!(told.answers.keys().collect::<Vec<_>>(), [&0]);
    assert_eq!(told.failed, [(1, Failure::Rejected), (2, Failure::Internal)]);
    let trouble = told.trouble.unwrap();
    assert!(trouble.contains("b.flac: expected 1920 values"), "{trouble}");
}

#[test]
fn errors_in_recordings_are_reported_before_a_run() {
    let folder = folder(true);
    let refusal = || folder.refusal(&card("rnnt"), &FILES);
    let whole = wave(16_000, &values(&[true, false], 0));
    let entries = |seconds: usize| [entry("a.wav", 1920, "a"), entry("b.wav", seconds, "b")];
    folder.write("manifest.json", json!(entries(1920)).to_string());
    folder.write("dev-clean-wav/1/2/a.wav", &whole);
    let missing = "dev-clean-wav: 1 of 2 files are missing, first dev-clean-wav/1/2/b.wav; get";
    assert!(refusal().starts_with(missing), "{}", refusal());
    let told = |bytes: &[u8]| {
        folder.write("dev-clean-wav/1/2/b.wav", bytes);
        refusal()
            .replace('\\', "/")
            .strip_prefix("dev-clean-wav/1/2/b.wav: expected ")
            .map(str::to_owned)
    };
    let other = wave(8000, &values(&[true, false], 0));
    let kind = "one channel of 16000 Hz and 16 bits, found 1 of 8000 Hz and 16 bits";
    assert_eq!(told(&other).as_deref(), Some(kind));
    let cut = told(&whole[..whole.len() - 100]).unwrap();
    assert_eq!(cut, "1920 values from its header, found 1870");
    assert!(told(b"RIFX").unwrap().starts_with("a WAVE or FLAC file: "));
    folder.write("manifest.json", json!(entries(16_000)).to_string());
    let length = told(&whole).unwrap();
    assert_eq!(length, "1.000 s from the manifest, found 0.120 s");
    for (manifest, expected) in [
        ("[]", "utterances of at most 15 s, found none"),
        ("{}", "a list of objects with transcript and original_duration"),
        (r#"[{"transcript": "a", "original_duration": 1}]"#, "files with an fname"),
        (
            r#"[{"transcript": "a", "original_duration": 1, "files": [{"fname": "../a.wav"}]}]"#,
            "files with an fname below the folder for each utterance, found ../a.wav",
        ),
    ] {
        folder.write("manifest.json", manifest);
        let found = refusal();
        assert!(found.starts_with("manifest.json") && found.contains(expected), "{found}");
    }
}

#[test]
fn models_of_other_shapes_are_refused() {
    let folder = folder(true);
    folder.write("dev-clean-wav/1/2/a.wav", wave(16_000, &values(&[true, false], 0)));
    folder.write("manifest.json", json!([entry("a.wav", 1920, "a")]).to_string());
    let told = |name: &str, model: &Model| {
        let (path, whole) = (folder.path(name), std::fs::read(folder.path(name)).unwrap());
        model.write(&path).unwrap();
        let refusal = unfit(folder.open(&card("rnnt"), &FILES).unwrap());
        std::fs::write(&path, whole).unwrap();
        refusal
    };
    let Some(refusal) = told("encoder.onnx", &joint()) else { return };
    assert!(refusal.contains("it has no input 'features'; it has heard, said"), "{refusal}");
    let mut net = Builder::new("encoder", Weights::seeded(1));
    let features = net.input("features", Element::F32, &["N", "T", "F"].map(Dim::symbol));
    net.output("heard", &features).unwrap();
    let refusal = told("encoder.onnx", &net.finish()).unwrap();
    assert!(refusal.contains("expected heard of [1, 2, ?] for 4 frames, two joined"), "{refusal}");
    let refusal = told("joint.onnx", &of_rows(3, joint())).unwrap();
    assert!(refusal.contains("'heard' is [3, 2]; expected any number of rows, or 1"), "{refusal}");
    let mut fixed = encoder(true);
    fixed.inputs[0].shape = Some(vec![Dim::symbol("N"), 4.into(), 240.into()]);
    let refusal = told("encoder.onnx", &fixed).unwrap();
    assert!(refusal.contains("'features' is float32 [?, 4, 240]; expected float32 [?, any, 240]"));
    let mut net = Builder::new("prediction", Weights::seeded(1));
    let character = net.input("character", Element::I64, &[Dim::symbol("N"), 1.into()]);
    let state = net.input("state", Element::F32, &["N", "H"].map(Dim::symbol));
    let said = float(&mut net, &character);
    net.output("said", &said).unwrap();
    net.output("next_state", &state).unwrap();
    let refusal = told("prediction.onnx", &net.finish()).unwrap();
    assert!(refusal.contains("the state 'state' is float32 [?, ?]; expected"), "{refusal}");
    let mut net = Builder::new("joint", Weights::seeded(1));
    let both =
        ["heard", "said"].map(|name| net.input(name, Element::F32, &[Dim::symbol("N"), 2.into()]));
    let scores = net.node("Add", &[&both[0], &both[1]], &[]).unwrap();
    net.output("scores", &scores).unwrap();
    let refusal = told("joint.onnx", &net.finish()).unwrap();
    assert!(refusal.contains("expected 29 scores, of 28 characters and the blank"), "{refusal}");
}
