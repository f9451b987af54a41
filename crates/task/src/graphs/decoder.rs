//! Text decoders: GPT-J (Wang and Komatsuzaki 2021), Llama 2 70B and Llama 3.1 405B (Touvron et al.
//! 2023, Dubey et al. 2024) and Mixtral 8x7B (Jiang et al. 2024), with a key-value cache as inputs.
//! Names are those of the `transformers` library. Weights of linear layers have the order `[inputs,
//! outputs]`, because an engine that transposes them at start would hold them twice.

mod attention;
mod feed;

use dyno_onnx::{BuildError, Builder, Dim, Element, Fill, Model, Name, Weights};

/// Structure of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// Attention and two layers in parallel, after one layer normalization.
    GptJ,
    /// Attention, then three layers with one gate, each part after an RMS normalization.
    Llama,
    /// Llama with experts: a token uses two of eight triples of layers.
    Mixtral,
}

/// Sizes of a decoder.
#[derive(Debug, Clone, Copy)]
pub struct Decoder {
    family: Family,
    name: &'static str,
    vocabulary: usize,
    /// Number of blocks.
    pub layers: usize,
    hidden: usize,
    heads: usize,
    /// Heads of keys and values; each is shared by an equal number of query heads.
    key_heads: usize,
    /// Size of a head.
    width: usize,
    /// Size of the part of a head to which rotary position embedding applies.
    turned: usize,
    inner: usize,
    /// Base of the rotary frequencies. Llama 3.1 also scales low frequencies, which changes no
    /// shape and is omitted.
    base: f32,
    epsilon: f32,
}

/// 6.05 billion parameters.
pub const GPT_J: Decoder = Decoder {
    family: Family::GptJ,
    name: "gptj",
    vocabulary: 50_400,
    layers: 28,
    hidden: 4096,
    heads: 16,
    key_heads: 16,
    width: 256,
    turned: 64,
    inner: 16_384,
    base: 10_000.0,
    epsilon: 1e-5,
};

/// 69.0 billion parameters.
pub const LLAMA2_70B: Decoder = Decoder {
    family: Family::Llama,
    name: "llama2-70b",
    vocabulary: 32_000,
    layers: 80,
    hidden: 8192,
    heads: 64,
    key_heads: 8,
    width: 128,
    turned: 128,
    inner: 28_672,
    base: 10_000.0,
    epsilon: 1e-5,
};

/// 405.9 billion parameters.
pub const LLAMA31_405B: Decoder = Decoder {
    name: "llama3.1-405b",
    vocabulary: 128_256,
    layers: 126,
    hidden: 16_384,
    heads: 128,
    inner: 53_248,
    base: 500_000.0,
    ..LLAMA2_70B
};

/// 46.7 billion parameters, 12.9 billion of which are active for a token.
pub const MIXTRAL_8X7B: Decoder = Decoder {
    family: Family::Mixtral,
    name: "mixtral-8x7b",
    layers: 32,
    hidden: 4096,
    heads: 32,
    inner: 14_336,
    base: 1_000_000.0,
    ..LLAMA2_70B
};

/// Phase of generation that a call computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Processes a prompt of this many tokens; outputs the scores after the last one.
    Prompt(usize),
    /// Processes one token after this many.
    Token(usize),
}

impl Phase {
    /// Returns the number of tokens of a call.
    fn tokens(self) -> usize {
        match self {
            Self::Prompt(tokens) => tokens,
            Self::Token(_) => 1,
        }
    }

    /// Returns the number of cached tokens.
    fn before(self) -> usize {
        match self {
            Self::Prompt(_) => 0,
            Self::Token(before) => before,
        }
    }
}

/// Values that all blocks use.
struct SharedValues {
    phase: Phase,
    /// Cosines and sines of the rotary angles of each token.
    cosines: Name,
    sines: Name,
    /// Added to the attention scores between tokens.
    mask: Name,
}

impl Decoder {
    /// Returns the decoder with only the first `layers` blocks, which is not the full model.
    #[must_use]
    pub const fn cut(self, layers: usize) -> Self {
        Self { layers, ..self }
    }

    /// Builds the graph: scores `[N, 1, vocabulary]` of the next token, and keys and values of all
    /// tokens so far, from `input_ids` and `attention_mask` and, in [`Phase::Token`], cached keys
    /// and values.
    ///
    /// # Errors
    /// Given weights do not fit the graph.
    pub fn build(&self, weights: Weights, phase: Phase) -> Result<Model, BuildError> {
        let mut net = Builder::new(self.name, weights);
        let batch = Dim::symbol("N");
        let ids = net.input("input_ids", Element::I64, &[batch.clone(), phase.tokens().into()]);
        let total = phase.before() + phase.tokens();
        let mask = net.input("attention_mask", Element::I64, &[batch.clone(), total.into()]);
        let shared = self.shared(&mut net, &mask, phase)?;
        let table = format!("{}.weight", self.named("wte", "embed_tokens"));
        let shape = [self.vocabulary, self.hidden];
        let table = net.weight(&table, &shape, Fill::Uniform(0.05))?;
        let mut x = net.node("Gather", &[&table, &ids], &[])?;
        let mut caches = Vec::new();
        for layer in 0..self.layers {
            let cache = [self.key_heads, phase.before(), self.width].map(Dim::Fixed);
            let shape = [std::slice::from_ref(&batch), &cache[..]].concat();
            let mut past = |part: &str| {
                let name = format!("past_{part}.{layer}");
                (phase.before() > 0).then(|| net.input(&name, Element::F32, &shape))
            };
            let past = past("key").zip(past("value"));
            let cache;
            (x, cache) = self.block(&mut net, &x, &shared, past, layer)?;
            caches.push(cache);
        }
        if phase.tokens() > 1 {
            let last = net.integers(&[-1]);
            let behind = net.integers(&[i64::MAX]);
            let axis = net.integers(&[1]);
            x = net.node("Slice", &[&x, &last, &behind, &axis], &[])?;
        }
        let x = self.normalize(&mut net, &x, &self.named("ln_f", "norm"))?;
        let bias = self.family == Family::GptJ;
        let scores = linear(&mut net, &x, "lm_head", [self.hidden, self.vocabulary], bias)?;
        net.output("logits", &scores)?;
        for (layer, [keys, values]) in caches.iter().enumerate() {
            net.output(&format!("present_key.{layer}"), keys)?;
            net.output(&format!("present_value.{layer}"), values)?;
        }
        Ok(net.finish())
    }

    /// Returns the name of a part outside of the blocks.
    fn named(&self, gptj: &str, llama: &str) -> String {
        match self.family {
            Family::GptJ => format!("transformer.{gptj}"),
            Family::Llama | Family::Mixtral => format!("model.{llama}"),
        }
    }

    fn block(
        &self,
        net: &mut Builder,
        x: &Name,
        shared: &SharedValues,
        past: Option<(Name, Name)>,
        layer: usize,
    ) -> Result<(Name, [Name; 2]), BuildError> {
        let name = |part: &str| {
            let list = self.named("h", "layers");
            format!("{list}.{layer}.{part}")
        };
        if self.family == Family::GptJ {
            let seen = self.normalize(net, x, &name("ln_1"))?;
            let (told, cache) = self.attention(net, &seen, shared, past, &name("attn"))?;
            let fed = self.two_layers(net, &seen, &name("mlp"))?;
            let sum = net.node("Add", &[&told, &fed], &[])?;
            return Ok((net.node("Add", &[&sum, x], &[])?, cache));
        }
        let seen = self.normalize(net, x, &name("input_layernorm"))?;
        let (told, cache) = self.attention(net, &seen, shared, past, &name("self_attn"))?;
        let x = net.node("Add", &[x, &told], &[])?;
        let seen = self.normalize(net, &x, &name("post_attention_layernorm"))?;
        let fed = match self.family {
            Family::Mixtral => self.experts(net, &seen, shared.phase, &name("block_sparse_moe"))?,
            _ => self.gated(net, &seen, &name("mlp"))?,
        };
        Ok((net.node("Add", &[&x, &fed], &[])?, cache))
    }

    /// Layer normalization in GPT-J, RMS normalization in the others.
    fn normalize(&self, net: &mut Builder, x: &Name, name: &str) -> Result<Name, BuildError> {
        let size = [self.hidden];
        let scale = net.weight(&format!("{name}.weight"), &size, Fill::Constant(1.0))?;
        if self.family == Family::GptJ {
            let shift = net.weight(&format!("{name}.bias"), &size, Fill::Constant(0.0))?;
            let choices = [("axis", (-1).into()), ("epsilon", self.epsilon.into())];
            return net.node("LayerNormalization", &[x, &scale, &shift], &choices);
        }
        let square = net.node("Mul", &[x, x], &[])?;
        let mean = net.node("ReduceMean", &[&square], &[("axes", [-1].into())])?;
        let floor = net.number(self.epsilon);
        let mean = net.node("Add", &[&mean, &floor], &[])?;
        let root = net.node("Sqrt", &[&mean], &[])?;
        let y = net.node("Div", &[x, &root], &[])?;
        net.node("Mul", &[&y, &scale], &[])
    }
}

/// A linear layer over the last dimension.
fn linear(
    net: &mut Builder,
    x: &Name,
    name: &str,
    size: [usize; 2],
    has_bias: bool,
) -> Result<Name, BuildError> {
    let weights = net.weight(&format!("{name}.weight"), &size, Fill::lecun(size[0]))?;
    let y = net.node("MatMul", &[x, &weights], &[])?;
    if !has_bias {
        return Ok(y);
    }
    let bias = net.weight(&format!("{name}.bias"), &size[1..], Fill::Constant(0.0))?;
    net.node("Add", &[&y, &bias], &[])
}
