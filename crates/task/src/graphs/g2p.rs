//! The network of g2p-en (Park and Kim 2019): letters to phonemes with greedy decoding, by an
//! encoder and a decoder of one GRU layer each.
//!
//! Words of different lengths share a call: letters are padded, the graph counts them, and the
//! encoder stops at the end of each word. The decoder is unrolled to its maximum number of steps;
//! `dyno_task::answers::phonemes` cuts off what follows the end of a word.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dyno_onnx::{BuildError, Builder, Dim, Element, Fill, Model, Name, Tensor, Weights};
use dyno_tensors::Elements;
use dyno_tensors::files;
use dyno_tensors::npy::Npy;
use dyno_tensors::npz::{self, NpzError};
use thiserror::Error;

/// Letters and marks; see `dyno_task::data::words`.
const LETTERS: usize = 29;
/// Phonemes and marks; see `dyno_task::answers::phonemes`.
const PHONEMES: usize = 74;
/// Width of embeddings and states.
const WIDE: usize = 256;
/// Steps of the decoder, as in the package.
pub const STEPS: usize = 20;
/// First input of the decoder.
const BEGIN: i64 = 2;

/// Reason why a file does not have the weights.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum G2pError {
    /// The file is not an archive of arrays.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: NpzError,
    },
    /// An array is missing or has another shape or type.
    #[error(
        "{}: expected the array {name} of shape {expected:?} and type float32, found {found}",
        path.display()
    )]
    Array {
        /// The file.
        path: PathBuf,
        /// Name of the array.
        name: String,
        /// The required shape.
        expected: Vec<usize>,
        /// What was found.
        found: String,
    },
}

/// Reads the weights in the package's archive.
///
/// The archive has the gates in the order reset, update, new; ONNX has update first.
///
/// # Errors
/// [`G2pError`] if the file does not have these weights.
pub fn weights(path: &Path) -> Result<Weights, G2pError> {
    let file = files::open(path).map_err(|error| NpzError::Archive(error.to_string()));
    let arrays = file.and_then(npz::read);
    let arrays = arrays.map_err(|error| G2pError::File { path: path.to_owned(), error })?;
    let floats = |name: &str, expected: &[usize]| {
        let other = |found: String| {
            let path = path.to_owned();
            let name = name.to_owned();
            let expected = expected.to_vec();
            G2pError::Array { path, name, expected, found }
        };
        match arrays.get(name) {
            Some(Npy { shape, elements: Elements::F32(values) }) if shape == expected => {
                Ok(values.as_ref())
            }
            Some(Npy { shape, elements }) => {
                Err(other(format!("{shape:?} of {}", elements.element())))
            }
            None => Err(other("none of that name".into())),
        }
    };
    let mut tensors = BTreeMap::new();
    let mut give = |name: &str, shape: &[usize], values: &[f32]| {
        tensors.insert(name.to_owned(), Tensor::from_f32(name, shape, values));
    };
    for (part, rows) in [("enc", LETTERS), ("dec", PHONEMES)] {
        let named = |what: &str| format!("{part}_{what}");
        give(&named("emb"), &[rows, WIDE], floats(&named("emb"), &[rows, WIDE])?);
        for what in ["w_ih", "w_hh"] {
            let gates = floats(&named(what), &[3 * WIDE, WIDE])?;
            give(&named(what), &[1, 3 * WIDE, WIDE], &update_first(gates));
        }
        let bias = |what: &str| floats(&named(what), &[3 * WIDE]).map(update_first);
        give(&named("b"), &[1, 6 * WIDE], &[bias("b_ih")?, bias("b_hh")?].concat());
    }
    let dense = floats("fc_w", &[PHONEMES, WIDE])?;
    let turned: Vec<f32> =
        (0..WIDE * PHONEMES).map(|at| dense[at % PHONEMES * WIDE + at / PHONEMES]).collect();
    give("fc_w", &[WIDE, PHONEMES], &turned);
    give("fc_b", &[PHONEMES], floats("fc_b", &[PHONEMES])?);
    Ok(Weights::from_tensors(tensors))
}

fn update_first(gates: &[f32]) -> Vec<f32> {
    let gate = gates.len() / 3;
    [&gates[gate..2 * gate], &gates[..gate], &gates[2 * gate..]].concat()
}

/// Builds the network: numbers of phonemes `[N, 20]` from padded letters `[N, letters]`.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn g2p(weights: Weights) -> Result<Model, BuildError> {
    let mut net = Builder::new("g2p", weights);
    let shape = [Dim::symbol("N"), Dim::symbol("letters")];
    let letters = net.input("letters", Element::I64, &shape);
    let lengths = lengths(&mut net, &letters)?;
    let embedding = net.weight("enc_emb", &[LETTERS, WIDE], Fill::lecun(1))?;
    let x = net.node("Gather", &[&embedding, &letters], &[])?;
    let x = net.node("Transpose", &[&x], &[("perm", [1, 0, 2].into())])?;
    let mut state = Gru::new(&mut net, "enc")?.last(&mut net, &x, &lengths, &Name::NONE)?;

    let embedding = net.weight("dec_emb", &[PHONEMES, WIDE], Fill::lecun(1))?;
    let decoder = Gru::new(&mut net, "dec")?;
    let dense = net.weight("fc_w", &[WIDE, PHONEMES], Fill::lecun(WIDE))?;
    let bias = net.weight("fc_b", &[PHONEMES], Fill::Constant(0.0))?;
    let mut token = begin(&mut net, &lengths)?;
    let mut steps = Vec::new();
    for _ in 0..STEPS {
        let x = net.node("Gather", &[&embedding, &token], &[])?;
        state = decoder.last(&mut net, &x, &Name::NONE, &state)?;
        let scores = net.node("MatMul", &[&state, &dense], &[])?;
        let scores = net.node("Add", &[&scores, &bias], &[])?;
        let greatest = [("axis", 2.into()), ("keepdims", 0.into())];
        token = net.node("ArgMax", &[&scores], &greatest)?;
        steps.push(token.clone());
    }
    let steps: Vec<&Name> = steps.iter().collect();
    let steps = net.node("Concat", &steps, &[("axis", 0.into())])?;
    let phonemes = net.node("Transpose", &[&steps], &[("perm", [1, 0].into())])?;
    net.output("phonemes", &phonemes)?;
    Ok(net.finish())
}

/// Returns the number of letters of each word: those that are not 0.
fn lengths(net: &mut Builder, letters: &Name) -> Result<Name, BuildError> {
    let padding = net.tensor(Tensor::from_i64("padding", &[], &[0]))?;
    let is_letter = net.node("Greater", &[letters, &padding], &[])?;
    let counted = net.node("Cast", &[&is_letter], &[("to", Element::I32.into())])?;
    let axes = net.integers(&[1]);
    net.node("ReduceSum", &[&counted, &axes], &[("keepdims", 0.into())])
}

/// Returns the first input of the decoder for each word: `[1, N]`.
fn begin(net: &mut Builder, lengths: &Name) -> Result<Name, BuildError> {
    let whole = net.node("Cast", &[lengths], &[("to", Element::I64.into())])?;
    let none = net.integers(&[0]);
    let zero = net.node("Mul", &[&whole, &none], &[])?;
    let begin = net.integers(&[BEGIN]);
    let begin = net.node("Add", &[&zero, &begin], &[])?;
    let axes = net.integers(&[0]);
    net.node("Unsqueeze", &[&begin, &axes], &[])
}

/// The weights of a GRU layer.
struct Gru {
    inputs: Name,
    states: Name,
    bias: Name,
}

impl Gru {
    fn new(net: &mut Builder, part: &str) -> Result<Self, BuildError> {
        let gates = [1, 3 * WIDE, WIDE];
        let fill = Fill::lecun(WIDE);
        Ok(Self {
            inputs: net.weight(&format!("{part}_w_ih"), &gates, fill)?,
            states: net.weight(&format!("{part}_w_hh"), &gates, fill)?,
            bias: net.weight(&format!("{part}_b"), &[1, 6 * WIDE], Fill::Constant(0.0))?,
        })
    }

    /// Returns the state `[1, N, 256]` after the last step of `x`.
    fn last(
        &self,
        net: &mut Builder,
        x: &Name,
        lengths: &Name,
        first: &Name,
    ) -> Result<Name, BuildError> {
        let inputs = [x, &self.inputs, &self.states, &self.bias, lengths, first];
        // As in PyTorch, the reset gate applies to the state's bias, too.
        let choices = [("hidden_size", (WIDE as i64).into()), ("linear_before_reset", 1.into())];
        let [_, last] = net.nodes("GRU", &inputs, &choices)?;
        Ok(last)
    }
}
