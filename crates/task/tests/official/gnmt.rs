//! GNMT's task: sentences of pieces, an encoder, and a decoder that is called for each piece of ten
//! beams.

use dyno_loadgen::record::Failure;
use dyno_onnx::{Builder, Dim, Element, Model, Name, Weights};

use crate::made::{Folder, answered, card, of_rows};

const FILES: [(&str, &str); 5] = [
    ("encoder", "encoder.onnx"),
    ("decoder", "decoder.onnx"),
    ("source", "source.en"),
    ("target", "target.de"),
    ("vocabulary", "vocab"),
];
const PIECES: [&str; 12] =
    ["<unk>", "<s>", "</s>", ".", "der", "die", "Wald@@", "rand", "geht", "Haus", "am", "im"];
/// The first word of every translation, though the other one has a better score at first.
const DER: usize = 4;
const DIE: usize = 5;

fn column(net: &mut Builder, x: &Name) -> Name {
    let shape = net.integers(&[-1, 1]);
    net.node("Reshape", &[x, &shape], &[]).unwrap()
}

fn float(net: &mut Builder, x: &Name) -> Name {
    net.node("Cast", &[x], &[("to", Element::F32.into())]).unwrap()
}

/// An encoder: the number of each piece and its place, from 1, side by side.
fn encoder(has_lengths: bool) -> Model {
    let mut net = Builder::new("encoder", Weights::seeded(1));
    let pieces = net.input("pieces", Element::I64, &[Dim::symbol("N"), Dim::symbol("T")]);
    if has_lengths {
        net.input("lengths", Element::I64, &[Dim::symbol("N")]);
    }
    let numbers = float(&mut net, &pieces);
    let (zero, one) = (net.number(0.0), net.number(1.0));
    let ones = net.node("Mul", &[&numbers, &zero], &[]).unwrap();
    let ones = net.node("Add", &[&ones, &one], &[]).unwrap();
    let axis = net.tensor(dyno_onnx::Tensor::from_i64("axis", &[], &[1])).unwrap();
    let places = net.node("CumSum", &[&ones, &axis], &[]).unwrap();
    let last = net.integers(&[2]);
    let columns = [&numbers, &places].map(|of| net.node("Unsqueeze", &[of, &last], &[]).unwrap());
    let memory = net.node("Concat", &[&columns[0], &columns[1]], &[("axis", 2.into())]).unwrap();
    net.output("memory", &memory).unwrap();
    // Number of pieces before the first: zero, which the encoder outputs.
    let first = net.integers(&[0]);
    let count = net.node("Gather", &[&places, &first], &[("axis", 1.into())]).unwrap();
    let count = net.node("Sub", &[&count, &one], &[]).unwrap();
    net.output("count", &count).unwrap();
    net.finish()
}

fn decoder(scores: &str) -> Model {
    broken_decoder(scores, 0)
}

/// A decoder that outputs `der` and the reversed sentence; after `die` all pieces have equal
/// scores. For a sentence of a given number of pieces no score is a number.
fn broken_decoder(scores: &str, breaks_at: usize) -> Model {
    let mut net = Builder::new("decoder", Weights::seeded(1));
    let rows = || Dim::symbol("B");
    let piece = net.input("piece", Element::I64, &[rows()]);
    let lengths = net.input("lengths", Element::I64, &[rows()]);
    let memory = net.input("memory", Element::F32, &[rows(), Dim::symbol("T"), 2.into()]);
    let count = net.input("count", Element::F32, &[rows(), 1.into()]);
    let chosen = net.input("chosen", Element::F32, &[rows(), 1.into()]);
    let one = net.number(1.0);
    let next_count = net.node("Add", &[&count, &one], &[]).unwrap();
    net.output("next_count", &next_count).unwrap();
    // The first word is an input of the second step, which keeps it in a state.
    let is_second = net.node("Equal", &[&count, &one], &[]).unwrap();
    let is_second = float(&mut net, &is_second);
    let piece = float(&mut net, &piece);
    let piece = column(&mut net, &piece);
    let new = net.node("Mul", &[&piece, &is_second], &[]).unwrap();
    let next_chosen = net.node("Add", &[&chosen, &new], &[]).unwrap();
    net.output("next_chosen", &next_chosen).unwrap();
    let der = net.number(DER as f32);
    let is_sure = net.node("Equal", &[&next_chosen, &der], &[]).unwrap();
    let is_sure = float(&mut net, &is_sure);
    // From the last place of the sentence to its first.
    let lengths = float(&mut net, &lengths);
    let lengths = column(&mut net, &lengths);
    let place = net.node("Sub", &[&lengths, &count], &[]).unwrap();
    let place = net.node("Add", &[&place, &one], &[]).unwrap();
    let axis = net.integers(&[2]);
    let [numbers, places] = [0, 1].map(|of| {
        let of = net.integers(&[of]);
        let taken = net.node("Gather", &[&memory, &of], &[("axis", 2.into())]).unwrap();
        net.node("Squeeze", &[&taken, &axis], &[]).unwrap()
    });
    let is_there = net.node("Equal", &[&places, &place], &[]).unwrap();
    let is_there = float(&mut net, &is_there);
    let there = net.node("Mul", &[&numbers, &is_there], &[]).unwrap();
    let axis = net.integers(&[1]);
    let target = net.node("ReduceSum", &[&there, &axis], &[("keepdims", 1.into())]).unwrap();
    let is_over = net.node("Less", &[&place, &one], &[]).unwrap();
    let is_over = float(&mut net, &is_over);
    let end = net.number(2.0);
    let end = net.node("Mul", &[&is_over, &end], &[]).unwrap();
    let target = net.node("Add", &[&target, &end], &[]).unwrap();
    let all: Vec<f32> = (0..PIECES.len()).map(|number| number as f32).collect();
    let all = net.numbers(&all);
    let far = net.node("Sub", &[&all, &target], &[]).unwrap();
    let far = net.node("Mul", &[&far, &far], &[]).unwrap();
    let weight = net.number(-8.0);
    let far = net.node("Mul", &[&far, &weight], &[]).unwrap();
    let later = net.node("Mul", &[&far, &is_sure], &[]).unwrap();
    let mut first = [-20.0; PIECES.len()];
    (first[DER], first[DIE]) = (0.4_f32.ln(), 0.6_f32.ln());
    let first = net.numbers(&first);
    let zero = net.number(0.0);
    let is_first = net.node("Equal", &[&count, &zero], &[]).unwrap();
    let found = net.node("Where", &[&is_first, &first, &later], &[]).unwrap();
    let breaks_at = net.number(breaks_at as f32);
    let far = net.node("Sub", &[&lengths, &breaks_at], &[]).unwrap();
    let nothing = net.node("Div", &[&zero, &far], &[]).unwrap();
    let found = net.node("Add", &[&found, &nothing], &[]).unwrap();
    let found = match scores {
        "log_probabilities" => net.node("LogSoftmax", &[&found], &[("axis", 1.into())]).unwrap(),
        _ => found,
    };
    net.output(scores, &found).unwrap();
    net.finish()
}

fn folder(encoder: &Model, decoder: &Model) -> Folder {
    let folder = Folder::new();
    encoder.write(&folder.path("encoder.onnx")).unwrap();
    decoder.write(&folder.path("decoder.onnx")).unwrap();
    folder.write("vocab", PIECES.join("\n") + "\n");
    let source = [". rand Wald@@ am geht", "rand Wald@@", ". Haus im geht", ". quer geht"];
    folder.write("source.en", source.join("\n") + "\n");
    let target = ["der geht am Wald@@ rand .", "der Wald@@ rand", "der geht im Wald .", "der"];
    folder.write("target.de", target.join("\n") + "\n");
    folder
}

#[test]
fn ten_beams_find_what_is_best_in_the_end() {
    for (encoder, scores) in [
        (encoder(true), "scores"),
        (encoder(false), "log_probabilities"),
        (of_rows(1, encoder(true)), "scores"),
    ] {
        let folder = folder(&encoder, &decoder(scores));
        let ready = folder.open(&card("gnmt"), &FILES).unwrap();
        assert!(ready.remarks[0].starts_with("4 of the 3003 samples of WMT16"));
        let Some(told) = answered(ready) else { return };
        let words = told.answers.values().map(|answer| std::str::from_utf8(answer).unwrap());
        let expected =
            ["der geht am Waldrand .", "der Waldrand", "der geht im Haus .", "der geht <unk> ."];
        assert_eq!(words.collect::<Vec<_>>(), expected, "{:?}", told.trouble);
        // 12 of 16 words are right, 7 of 12 pairs, 4 of 8 triples, 2 of 5 quadruples; no sentence
        // is too short.
        let shares = [12.0 / 16.0, 7.0 / 12.0, 4.0 / 8.0, 2.0 / 5.0_f64];
        let bleu = 100.0 * shares.iter().product::<f64>().powf(0.25);
        assert!((told.figure - bleu).abs() < 1e-9, "{} is no {bleu}", told.figure);
    }
}

#[test]
fn a_call_that_breaks_fails_its_own_sentences() {
    let folder = folder(&encoder(false), &broken_decoder("scores", 3));
    let Some(told) = answered(folder.open(&card("gnmt"), &FILES).unwrap()) else { return };
    assert_eq!(told.failed, [(3, Failure::Internal)]);
    assert_eq!(told.answers.keys().collect::<Vec<_>>(), [&0, &1, &2]);
    assert_eq!(told.trouble.as_deref(), Some("decoder: no score is a number"));
}

#[test]
fn errors_in_translations_are_reported_with_the_file() {
    let folder = folder(&encoder(true), &decoder("scores"));
    let refusal = || folder.refusal(&card("gnmt"), &FILES);
    folder.write("target.de", "der\n");
    assert_eq!(refusal(), "target.de: expected 4 lines, as source.en has, found 1");
    folder.write("source.en", "Haus\n \nHaus\n");
    assert_eq!(
        refusal(),
        "source.en:2: expected one sentence per line, found a line without words"
    );
    folder.write("source.en", b"Haus\n\xff\n");
    assert!(refusal().starts_with("source.en: expected one sentence per line in UTF-8"));
    folder.write("vocab", "<unk>\n</s>\n");
    assert!(refusal().starts_with("vocab:2: expected <s>: a vocabulary begins with <unk>"));
    let refusal = folder.refusal(&card("gnmt"), &FILES[..1]);
    assert!(refusal.starts_with("needs the file `decoder`"), "{refusal}");
}

#[test]
fn models_that_do_not_fit_each_other_are_refused() {
    let told = |encoder: &Model, decoder: &Model, vocabulary: usize| {
        let folder = folder(encoder, decoder);
        folder.write("vocab", PIECES[..vocabulary].join("\n"));
        crate::made::unfit(folder.open(&card("gnmt"), &FILES).unwrap())
    };
    let Some(refusal) = told(&encoder(true), &encoder(true), 12) else { return };
    assert!(refusal.contains("it has no input 'piece'; it has pieces, lengths"), "{refusal}");
    let mut other = Builder::new("encoder", Weights::seeded(1));
    let pieces = other.input("pieces", Element::I64, &[Dim::symbol("N"), Dim::symbol("T")]);
    other.output("found", &pieces).unwrap();
    let refusal = told(&other.finish(), &decoder("scores"), 12).unwrap();
    assert!(refusal.contains("its input 'memory' has no value"), "{refusal}");
    let refusal = told(&encoder(true), &of_rows(1, decoder("scores")), 12).unwrap();
    assert!(refusal.contains("expected any number, of which 10 are the beams"), "{refusal}");
    let refusal = told(&encoder(true), &decoder("scores"), 9).unwrap();
    assert!(refusal.contains("expected 9 scores per row, the size"), "{refusal}");
}
