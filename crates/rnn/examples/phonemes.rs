//! Converts words to phonemes with the network of g2p-en, greedily and by beams: `phonemes WEIGHTS [WIDTH]`.
//!
//! WEIGHTS is `checkpoint20.npz` of the package g2p-en (Park and Kim 2019). Words are read from
//! stdin, one per line. For each word a line is printed with tabs between the numbers of the greedy
//! phonemes and, for each hypothesis of the beam, the logarithm of its probability and its phonemes.

use std::convert::Infallible;
use std::io::{BufRead, stdin};

use dyno_kernels::{Isa, Precision, Team};
use dyno_rnn::decode::{Beam, Step, Tokens, beam, greedy};
use dyno_rnn::import::{Array, Npz, pytorch};
use dyno_rnn::sequence::States;
use dyno_rnn::{Cell, Choice, Layer, Sequence};

const PHONEMES: Tokens = Tokens { vocabulary: 74, begin: 2, end: 3, most: 20 };
const UNKNOWN: usize = 1;
const END_OF_WORD: usize = 2;
/// Index of the letter a.
const FIRST_LETTER: usize = 3;

/// The decoder's state for a number of rows, and the layer that computes scores.
struct Decoder<'a> {
    sequence: Sequence,
    team: Team,
    embeddings: &'a Array,
    dense: &'a [Array; 2],
    input: Vec<f32>,
    output: Vec<f32>,
}

impl Decoder<'_> {
    /// Initial state of all rows.
    fn begin(&mut self, rows: usize, state: &[f32]) {
        let states = States { hidden: state.repeat(rows), cells: Vec::new() };
        self.sequence.set_states(&states).expect("states of as many rows");
    }

    fn step(&mut self, step: Step<'_>, logits: &mut [f32]) -> Result<(), Infallible> {
        self.sequence.copy_rows(step.moves);
        let width = self.embeddings.shape[1];
        for (row, token) in self.input.chunks_mut(width).zip(step.tokens) {
            row.copy_from_slice(&self.embeddings.numbers[token * width..][..width]);
        }
        self.sequence
            .run_on(&mut self.team, &self.input, &mut self.output)
            .expect("one step of all rows");
        let [weights, bias] = self.dense;
        let units = weights.shape[1];
        let rows = logits.chunks_mut(PHONEMES.vocabulary).zip(self.output.chunks(units));
        for (logits, state) in rows {
            for ((logit, weights), bias) in
                logits.iter_mut().zip(weights.numbers.chunks(units)).zip(&bias.numbers)
            {
                *logit = bias + weights.iter().zip(state).map(|(w, h)| w * h).sum::<f32>();
            }
        }
        Ok(())
    }
}

/// A layer for `rows` rows.
fn sequence(layer: &Layer, rows: usize) -> Sequence {
    let choice = Choice::one_worker(Precision::F32);
    Sequence::new(layer, rows, &choice, Isa::best()).expect("a plan")
}

/// Indices of the letters of a word, and of its end.
fn letters(word: &str) -> Vec<usize> {
    let number = |letter: char| match letter {
        'a'..='z' => FIRST_LETTER + letter as usize - 'a' as usize,
        _ => UNKNOWN,
    };
    word.chars().map(number).chain([END_OF_WORD]).collect()
}

fn text(tokens: &[usize]) -> String {
    tokens.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let path = words.first().expect("usage: phonemes WEIGHTS [WIDTH]");
    let width: usize = words.get(1).map_or(5, |width| width.parse().expect("a whole number"));
    let bytes = std::fs::read(path).expect("a file of weights");
    let file = Npz::new(&bytes).expect("an archive of NumPy");
    // PyTorch's `weight_ih_l0` is named `enc_w_ih` and `dec_w_ih` there.
    let gru = |part: &str| {
        let own = |name: &str| {
            let name = name.strip_suffix("_l0")?.replace("weight", "w").replace("bias", "b");
            file.array(&format!("{part}_{name}"))
        };
        pytorch(Cell::Gru, "", &own).expect("a GRU").remove(0)
    };
    let needed = |name: &str| file.array(name).unwrap_or_else(|| panic!("{path} has no {name}"));
    let [encoder, decoder] = ["enc", "dec"].map(gru);
    let [letters_of, embeddings] = ["enc_emb", "dec_emb"].map(needed);
    let dense = ["fc_w", "fc_b"].map(needed);

    let mut team = Team::with_workers(1);
    let mut encoder_at_work = sequence(&encoder, 1);
    let mut decoders = [1, width].map(|rows| Decoder {
        sequence: sequence(&decoder, rows),
        team: Team::with_workers(1),
        embeddings: &embeddings,
        dense: &dense,
        input: vec![0.0; rows * decoder.inputs()],
        output: vec![0.0; rows * decoder.outputs()],
    });
    for word in stdin().lock().lines() {
        let letters = letters(&word.expect("words are text"));
        let size = encoder.inputs();
        let vector_of = |letter: &usize| letters_of.numbers[letter * size..][..size].to_vec();
        let input: Vec<f32> = letters.iter().flat_map(vector_of).collect();
        let mut output = vec![0.0; letters.len() * encoder.outputs()];
        encoder_at_work.run(&mut team, &input, &mut output).expect("sizes that fit");
        let state = &output[output.len() - encoder.outputs()..];

        let [alone, together] = &mut decoders;
        alone.begin(1, state);
        let Ok(said) = greedy(PHONEMES, 1, |step, logits| alone.step(step, logits));
        together.begin(width, state);
        let how = Beam { width, best: width, length_penalty: 0.0 };
        let Ok(found) = beam(PHONEMES, how, |step, logits| together.step(step, logits));
        let mut line = text(&said[0]);
        for found in found {
            line += &format!("\t{} {}", found.log_probability, text(&found.tokens));
        }
        println!("{line}");
    }
}
