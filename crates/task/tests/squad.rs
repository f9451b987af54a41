//! Windows of SQuAD compared with Python's for the same generated data set: words, windows and
//! padding by the rules of the reference's `create_squad_data.py`, pieces by
//! `BertWordPieceTokenizer` of tokenizers 0.23.3.

use std::fs;

use dyno_sut::tensors::Source;
use dyno_task::data::squad::Squad;
use serde_json::json;

/// Words that tokenizers split differently.
const WORDS: [&str; 42] = [
    "Denver",
    "Broncos'",
    "(Paris)",
    "U.S.A.",
    "$1967.50",
    "caf\u{e9}",
    "CAF\u{c9}",
    "Z\u{fc}rich",
    "\u{130}x",
    "\u{3a3}\u{391}\u{3a3}",
    "a\u{301}n",
    "na\u{ef}ve\u{a0}new",
    "\u{4e2d}\u{6587}x",
    "\u{6771}\u{4eac}",
    "[MASK]",
    "[UNK]in",
    "[cls]",
    "co\u{ad}op",
    "A\u{200b}n",
    "\u{2014}",
    "\u{201c}the\u{201d}",
    "an-a",
    "``",
    "~x~",
    "\u{fffd}\u{fffd}",
    "a\u{202f}the",
    "\u{2028}in",
    "\u{bd}",
    "\u{663}",
    "\u{fb01}x",
    "\u{3a9}\u{ff07}s",
    "''",
    "##s",
    "new\u{2014}york",
    "stra\u{df}e\u{feff}",
    "\u{43d}\u{43e}\u{432}\u{43e}\u{441}\u{442}\u{438}",
    "the",
    "in",
    "of",
    "champion",
    "year",
    "19",
];

const BETWEEN: [&str; 6] = [" ", " ", " ", "  ", "\n", "\t"];

const FIRST: [&str; 19] = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "in", "of", "denver", "bronco",
    "champ", "year", "cafe", "zur", "new", "##ich", "##ion", "##s",
];

const LAST: &str = "0123456789'$.,()-\u{2014}\u{201c}\u{201d}`~\u{bd}\u{663}[]#\u{4e2d}\u{6587}\u{6771}\u{4eac}\
     \u{3c3}\u{3c9}\u{ff07}";

/// Each piece once, one per line.
fn vocabulary() -> String {
    let mut pieces: Vec<String> = FIRST.iter().map(|piece| (*piece).to_owned()).collect();
    let letters = || 'a'..='z';
    let more = letters().map(String::from);
    let more = more.chain(letters().chain('0'..='9').map(|letter| format!("##{letter}")));
    for piece in more.chain(LAST.chars().map(String::from)) {
        if !pieces.contains(&piece) {
            pieces.push(piece);
        }
    }
    pieces.join("\n") + "\n"
}

/// A random number below `n`, by a linear congruential generator.
fn below(state: &mut u64, n: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 33) % n as u64) as usize
}

fn text(state: &mut u64, most: usize) -> String {
    let mut text = String::new();
    for _ in 0..below(state, most) {
        text.push_str(WORDS[below(state, WORDS.len())]);
        text.push_str(BETWEEN[below(state, BETWEEN.len())]);
    }
    text
}

fn dataset() -> serde_json::Value {
    let mut state = 11;
    let mut paragraphs = Vec::new();
    for paragraph in 0..40 {
        let context = text(&mut state, 600);
        let mut questions = Vec::new();
        for question in 0..1 + below(&mut state, 3) {
            let id = format!("{paragraph}-{question}");
            let asked = text(&mut state, 80);
            let answers = [json!({"text": "x", "answer_start": 0})];
            questions.push(json!({"id": id, "question": asked, "answers": answers}));
        }
        paragraphs.push(json!({"context": context, "qas": questions}));
    }
    json!({"data": [{"paragraphs": paragraphs}]})
}

#[test]
fn windows_are_those_of_python() {
    let folder = std::env::temp_dir().join(format!("dyno-squad-windows-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (list, pieces) = (folder.join("dev.json"), folder.join("vocab.txt"));
    fs::write(&list, dataset().to_string()).unwrap();
    fs::write(&pieces, vocabulary()).unwrap();
    let squad = Squad::open(&list, &pieces, ["t", "c", "s"].map(str::to_owned)).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let (mut hash, mut counted) = (0xcbf2_9ce4_8422_2325_u64, 0);
    for index in 0..squad.count() {
        let inputs = squad.sample(index as u32).unwrap();
        for value in inputs.iter().flat_map(|input| input.elements.to_i64().unwrap().into_owned()) {
            hash = (hash ^ value as u64).wrapping_mul(0x100_0000_01b3);
        }
        counted += inputs[1].elements.to_i64().unwrap().iter().sum::<i64>();
    }
    assert_eq!((squad.count(), counted, hash), (429, 158_076, 7_255_673_940_441_496_839));
}
