//! BERT's task: questions split into windows, interleaved logits, and the text that they select.

use dyno_onnx::{Builder, Dim, Element, Model, Weights};
use serde_json::json;

use crate::made::{Folder, answered, card, floats};

const FILES: [(&str, &str); 3] =
    [("model", "model.onnx"), ("dataset", "dev.json"), ("vocabulary", "vocab.txt")];

/// A model that selects the token 7 of the context, `denver`.
fn pointing(inputs: [&str; 3]) -> Model {
    let mut net = Builder::new("pointing", Weights::seeded(1));
    let shape = [Dim::symbol("N"), 384.into()];
    let [tokens, _, segments] = inputs.map(|name| net.input(name, Element::I64, &shape));
    let denver = net.integers(&[7]);
    let found = net.node("Equal", &[&tokens, &denver], &[]).unwrap();
    let to = [("to", Element::F32.into())];
    let [found, segments] = [found, segments].map(|of| net.node("Cast", &[&of], &to).unwrap());
    let logits = net.node("Mul", &[&found, &segments], &[]).unwrap();
    for name in ["output_start_logits", "output_end_logits"] {
        net.output(name, &logits).unwrap();
    }
    net.finish()
}

fn folder(inputs: [&str; 3]) -> Folder {
    let folder = Folder::new();
    let question = |id: &str, text: &str, answer: &str| json!({"id": id, "question": text, "answers": [{"text": answer, "answer_start": 0}]});
    let questions =
        [question("1", "Who won Denver?", "Denver"), question("2", "Who won?", "Broncos")];
    let dataset = json!({"version": "1.1", "data": [{"title": "", "paragraphs": [
        {"context": "Denver won. Broncos won.", "qas": questions}
    ]}]});
    folder.write("dev.json", dataset.to_string());
    let pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "won", "?", "denver", "broncos", "."];
    folder.write("vocab.txt", pieces.join("\n") + "\n");
    folder.model(&pointing(inputs));
    folder
}

#[test]
fn logits_are_pairs_and_point_at_the_text_of_the_context() {
    let inputs = ["input_ids", "input_mask", "segment_ids"];
    // Names in the reference's int8 file.
    let others = ["input_ids", "attention_mask", "token_type_ids"];
    for inputs in [inputs, others] {
        let folder = folder(inputs);
        let Some(told) = answered(folder.open(&card("bert"), &FILES).unwrap()) else { return };
        assert_eq!((told.failed.len(), told.answers.len()), (0, 2), "{:?}", told.trouble);
        let logits = floats(&told.answers[&0]);
        let greatest: Vec<usize> = (0..logits.len()).filter(|at| logits[*at] > 0.5).collect();
        // [CLS] who won denver ? [SEP] and then the context: the selected word is in the context,
        // not in the question.
        assert_eq!((logits.len(), &greatest[..]), (2 * 384, &[12, 13][..]));
        assert_eq!(told.figure, 50.0, "the first question is answered, the second one not");
    }
}

#[test]
fn a_model_with_other_inputs_is_refused_with_what_is_fed() {
    let folder = folder(["input_ids", "mask", "segment_ids"]);
    let refusal = folder.refusal(&card("bert"), &FILES);
    assert!(refusal.contains("expected the input input_mask int64 [384]"), "{refusal}");
    assert!(refusal.contains("mask int64 [?, 384]"), "{refusal}");
    let refusal = folder.refusal(&card("bert"), &FILES[..2]);
    assert!(refusal.starts_with("needs the file `vocabulary`"), "{refusal}");
}
