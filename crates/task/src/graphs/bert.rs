//! BERT (Devlin et al. 2018): BERT-large for questions of SQuAD, and the encoder of MiniLM-L6.
//! Names are those of the `transformers` library.

use dyno_onnx::{BuildError, Builder, Dim, Element, Fill, Model, Name, Weights};

use super::pieces::gelu;

/// Vocabulary size of uncased English models.
const VOCABULARY: usize = 30_522;
const POSITIONS: usize = 512;
const SEGMENTS: usize = 2;
const EPSILON: f32 = 1e-12;
/// Added to the attention scores of padding.
const MASKED: f32 = -10_000.0;

/// Sizes of an encoder.
#[derive(Debug, Clone, Copy)]
struct Encoder {
    /// Prefix of the names of all weights.
    prefix: &'static str,
    layers: usize,
    hidden: usize,
    heads: usize,
    inner: usize,
    /// Tokens of a sample; `None` means dynamic.
    tokens: Option<usize>,
    /// Names of the inputs for tokens, mask and segments.
    inputs: [&'static str; 3],
}

const LARGE: Encoder = Encoder {
    prefix: "bert.",
    layers: 24,
    hidden: 1024,
    heads: 16,
    inner: 4096,
    tokens: Some(384),
    inputs: ["input_ids", "input_mask", "segment_ids"],
};

const MINILM: Encoder = Encoder {
    prefix: "",
    layers: 6,
    hidden: 384,
    heads: 12,
    inner: 1536,
    tokens: Some(128),
    inputs: ["input_ids", "attention_mask", "token_type_ids"],
};

/// Builds BERT-large: scores of each of 384 tokens to be the first and the last of the answer.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn bert_large(weights: Weights) -> Result<Model, BuildError> {
    let mut net = Builder::new("bert-large", weights);
    let hidden = LARGE.add(&mut net)?;
    let both = linear(&mut net, &hidden, "qa_outputs", LARGE.hidden, 2)?;
    let [start, end] = net.nodes("Split", &[&both], &[("axis", 2.into())])?;
    let last = net.integers(&[2]);
    for (name, scores) in [("output_start_logits", start), ("output_end_logits", end)] {
        let scores = net.node("Squeeze", &[&scores, &last], &[])?;
        net.output(name, &scores)?;
    }
    Ok(net.finish())
}

/// Builds MiniLM-L6 for 128 tokens: a vector per token, whose mean is the embedding.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn minilm_l6(weights: Weights) -> Result<Model, BuildError> {
    let mut net = Builder::new("minilm-l6", weights);
    let hidden = MINILM.add(&mut net)?;
    net.output("last_hidden_state", &hidden)?;
    Ok(net.finish())
}

/// Builds MiniLM-L6 for texts of any length, with the weights of the public model.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn minilm_l6_of_any_length(weights: Weights) -> Result<Model, BuildError> {
    let mut net = Builder::new("minilm-l6", weights);
    let hidden = Encoder { tokens: None, ..MINILM }.add(&mut net)?;
    net.output("last_hidden_state", &hidden)?;
    Ok(net.finish())
}

impl Encoder {
    fn add(&self, net: &mut Builder) -> Result<Name, BuildError> {
        let tokens = self.tokens.map_or_else(|| Dim::symbol("T"), Dim::Fixed);
        let shape = [Dim::symbol("N"), tokens];
        let [tokens, mask, segments] =
            self.inputs.map(|name| net.input(name, Element::I64, &shape));
        let mask = attention_mask(net, &mask)?;
        let mut x = self.embed(net, &tokens, &segments)?;
        for layer in 0..self.layers {
            x = self.layer(net, &x, &mask, &format!("{}encoder.layer.{layer}", self.prefix))?;
        }
        Ok(x)
    }

    fn embed(&self, net: &mut Builder, tokens: &Name, segments: &Name) -> Result<Name, BuildError> {
        let name = |part: &str| format!("{}embeddings.{part}", self.prefix);
        let mut table = |part: &str, rows| {
            net.weight(&name(&format!("{part}.weight")), &[rows, self.hidden], Fill::Uniform(0.05))
        };
        let words = table("word_embeddings", VOCABULARY)?;
        let kinds = table("token_type_embeddings", SEGMENTS)?;
        let positions = table("position_embeddings", POSITIONS)?;
        let words = net.node("Gather", &[&words, tokens], &[])?;
        let kinds = net.node("Gather", &[&kinds, segments], &[])?;
        let positions = match self.tokens {
            Some(count) => {
                let first = net.integers(&[0]);
                let behind = net.integers(&[count as i64]);
                net.node("Slice", &[&positions, &first, &behind], &[])?
            }
            None => {
                let places = places(net, tokens)?;
                net.node("Gather", &[&positions, &places], &[])?
            }
        };
        let sum = net.node("Add", &[&words, &kinds], &[])?;
        let sum = net.node("Add", &[&sum, &positions], &[])?;
        self.normalize(net, &sum, &name("LayerNorm"))
    }

    fn normalize(&self, net: &mut Builder, x: &Name, name: &str) -> Result<Name, BuildError> {
        let size = [self.hidden];
        let scale = net.weight(&format!("{name}.weight"), &size, Fill::Constant(1.0))?;
        let shift = net.weight(&format!("{name}.bias"), &size, Fill::Constant(0.0))?;
        let choices = [("axis", (-1).into()), ("epsilon", EPSILON.into())];
        net.node("LayerNormalization", &[x, &scale, &shift], &choices)
    }

    fn layer(
        &self,
        net: &mut Builder,
        x: &Name,
        mask: &Name,
        name: &str,
    ) -> Result<Name, BuildError> {
        let hidden = self.hidden;
        let attention = self.attention(net, x, mask, &format!("{name}.attention.self"))?;
        let output = format!("{name}.attention.output");
        let y = linear(net, &attention, &format!("{output}.dense"), hidden, hidden)?;
        let sum = net.node("Add", &[&y, x], &[])?;
        let x = self.normalize(net, &sum, &format!("{output}.LayerNorm"))?;
        let y = linear(net, &x, &format!("{name}.intermediate.dense"), hidden, self.inner)?;
        let y = gelu(net, &y)?;
        let y = linear(net, &y, &format!("{name}.output.dense"), self.inner, hidden)?;
        let sum = net.node("Add", &[&y, &x], &[])?;
        self.normalize(net, &sum, &format!("{name}.output.LayerNorm"))
    }

    fn attention(
        &self,
        net: &mut Builder,
        x: &Name,
        mask: &Name,
        name: &str,
    ) -> Result<Name, BuildError> {
        let width = self.hidden / self.heads;
        let split = net.integers(&[0, 0, self.heads as i64, width as i64]);
        let mut heads = |part: &str, order: [i64; 4]| {
            let y = linear(net, x, &format!("{name}.{part}"), self.hidden, self.hidden)?;
            let y = net.node("Reshape", &[&y, &split], &[])?;
            net.node("Transpose", &[&y], &[("perm", order.into())])
        };
        let query = heads("query", [0, 2, 1, 3])?;
        let key = heads("key", [0, 2, 3, 1])?;
        let value = heads("value", [0, 2, 1, 3])?;
        let scores = net.node("MatMul", &[&query, &key], &[])?;
        let scale = net.number((width as f32).sqrt());
        let scores = net.node("Div", &[&scores, &scale], &[])?;
        let scores = net.node("Add", &[&scores, mask], &[])?;
        let shares = net.node("Softmax", &[&scores], &[("axis", (-1).into())])?;
        let y = net.node("MatMul", &[&shares, &value], &[])?;
        let y = net.node("Transpose", &[&y], &[("perm", [0, 2, 1, 3].into())])?;
        let joined = net.integers(&[0, 0, self.hidden as i64]);
        net.node("Reshape", &[&y, &joined], &[])
    }
}

/// Returns the position of each token from 0: a running sum of ones, whose shape follows that of
/// the tokens.
fn places(net: &mut Builder, tokens: &Name) -> Result<Name, BuildError> {
    let one = net.integers(&[1]);
    let axis = net.integers(&[1]);
    let ones = net.node("Sub", &[tokens, tokens], &[])?;
    let ones = net.node("Add", &[&ones, &one], &[])?;
    net.node("CumSum", &[&ones, &axis], &[("exclusive", 1.into())])
}

/// Returns what is added to attention scores: 0 for tokens, a large negative number for padding.
fn attention_mask(net: &mut Builder, mask: &Name) -> Result<Name, BuildError> {
    let axes = net.integers(&[1, 2]);
    let mask = net.node("Unsqueeze", &[mask, &axes], &[])?;
    let mask = net.node("Cast", &[&mask], &[("to", Element::F32.into())])?;
    let one = net.number(1.0);
    let padding = net.node("Sub", &[&one, &mask], &[])?;
    let masked = net.number(MASKED);
    net.node("Mul", &[&padding, &masked], &[])
}

/// A linear layer with bias over the last dimension, with weights in PyTorch's order.
fn linear(
    net: &mut Builder,
    x: &Name,
    name: &str,
    inputs: usize,
    outputs: usize,
) -> Result<Name, BuildError> {
    let fill = Fill::lecun(inputs);
    let weights = net.weight(&format!("{name}.weight"), &[outputs, inputs], fill)?;
    let bias = net.weight(&format!("{name}.bias"), &[outputs], Fill::Constant(0.0))?;
    let turned = net.node("Transpose", &[&weights], &[("perm", [1, 0].into())])?;
    let y = net.node("MatMul", &[x, &turned], &[])?;
    net.node("Add", &[&y, &bias], &[])
}
