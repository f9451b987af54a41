//! Decoder-only language models as a pair of networks: a prompt is computed, then token after token.
//!
//! The two have the same weights and opposite needs. A prompt of `n` tokens does `2 n` operations for a weight,
//! a token of each sample of a batch does two, and fetches the keys and values of all tokens before it.

#[cfg(test)]
mod tests;

use std::fmt;

use super::{Layer, LayerType, Network, SequenceGrowth};
use crate::nearest::nearest;

/// Sizes of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoder {
    /// What commands call it.
    pub name: &'static str,
    /// Blocks of attention and feed-forward. At least 1.
    pub layers: u64,
    /// Numbers of a token. A multiple of `heads`.
    pub width: u64,
    /// Of the queries. At least 1.
    pub heads: u64,
    /// Of keys and values, which queries share. At least 1.
    pub kv_heads: u64,
    /// Numbers of a token inside the feed-forward.
    pub inner: u64,
    /// The feed-forward has two layers that widen, one of which opens and shuts the other.
    pub gated: bool,
    /// Tokens that there are.
    pub vocabulary: u64,
}

/// Well-known ones, by the configurations that their makers published.
pub const DECODERS: &[Decoder] = &[
    Decoder {
        name: "gptj-6b",
        layers: 28,
        width: 4096,
        heads: 16,
        kv_heads: 16,
        inner: 16384,
        gated: false,
        vocabulary: 50_400,
    },
    Decoder {
        name: "llama2-7b",
        layers: 32,
        width: 4096,
        heads: 32,
        kv_heads: 32,
        inner: 11008,
        gated: true,
        vocabulary: 32_000,
    },
    Decoder {
        name: "llama2-70b",
        layers: 80,
        width: 8192,
        heads: 64,
        kv_heads: 8,
        inner: 28672,
        gated: true,
        vocabulary: 32_000,
    },
    Decoder {
        name: "llama3-8b",
        layers: 32,
        width: 4096,
        heads: 32,
        kv_heads: 8,
        inner: 14336,
        gated: true,
        vocabulary: 128_256,
    },
];

/// What a decoder does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecoderPhase {
    /// Computes a prompt of so many tokens, and keeps their keys and values.
    Prefill(u64),
    /// Computes one token that attends to so many, itself among them.
    Decode(u64),
}

/// A decoder that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecoderError {
    /// There is none of that name.
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// Sizes of 0, heads that do not divide the width, or products beyond 64 bits.
    Sizes {
        /// Which decoder.
        name: String,
        /// What is wrong.
        what: &'static str,
    },
}

impl fmt::Display for DecoderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name } => {
                let names = DECODERS.iter().map(|decoder| decoder.name);
                let all: Vec<&str> = names.clone().collect();
                let near = nearest(name, names);
                write!(f, "there is no decoder `{name}`{near}; there are {}", all.join(", "))
            }
            Self::Sizes { name, what } => write!(f, "decoder `{name}`: {what}"),
        }
    }
}

impl std::error::Error for DecoderError {}

/// Of a number, as the thesis' tables have it.
const BYTES: u64 = 2;
/// Of a number of a token.
const PLACE_BYTES: u64 = 8;
/// Each size; products of five of them are checked, sums of products of two cannot overflow.
const MOST: u64 = 1 << 30;

impl Decoder {
    /// One of [`DECODERS`].
    ///
    /// # Errors
    /// The name is none of them.
    pub fn preset(name: &str) -> Result<Self, DecoderError> {
        let found = DECODERS.iter().find(|decoder| decoder.name == name);
        found.copied().ok_or_else(|| DecoderError::Unknown { name: name.to_owned() })
    }

    /// The table of a phase at 16 bits, for one sample. Keys and values that are attended to are fetched as
    /// weights of each sample's own; those of new tokens are written, as bytes that take no room. The scores of
    /// the vocabulary are those of the last token.
    ///
    /// [`Network::at_sequence`] changes the number of tokens.
    ///
    /// # Errors
    /// Sizes of 0, heads that do not divide the width, or sizes beyond what is counted.
    pub fn network(&self, phase: DecoderPhase) -> Result<Network, DecoderError> {
        let (what, tokens) = match phase {
            DecoderPhase::Prefill(tokens) => ("prefill", tokens),
            DecoderPhase::Decode(tokens) => ("decode", tokens),
        };
        let wrong = |what| DecoderError::Sizes { name: self.name.to_owned(), what };
        let &Self { layers, width, heads, kv_heads, inner, vocabulary, .. } = self;
        let sizes = [layers, width, heads, kv_heads, inner, vocabulary, tokens];
        if sizes.iter().any(|size| !(1..=MOST).contains(size)) || layers > 1 << 16 {
            return Err(wrong("sizes are 1 to 2^30, and layers at most 2^16"));
        }
        if !width.is_multiple_of(heads) || !heads.is_multiple_of(kv_heads) {
            return Err(wrong("heads divide the width, and heads of keys those of queries"));
        }
        let mut table = Table { decoder: *self, phase, rows: Vec::new() };
        table.embed();
        for layer in 0..layers {
            table.layer(layer);
        }
        let head = table.fc("head".into(), 1, width, vocabulary);
        table.rows.push(Layer { growth: SequenceGrowth::default(), ..head });
        // Saturated products are wrong ones.
        if table.rows.iter().any(|layer| layer.macs() == u64::MAX) {
            return Err(wrong("layers have products beyond what 64 bits count"));
        }
        let name = format!("{}-{what}", self.name);
        Ok(Network { name, layers: table.rows, seq_len: Some(tokens), measured: None })
    }

    /// Bytes of keys and values of a token, of all layers.
    #[must_use]
    pub fn kv_bytes(&self) -> u64 {
        let width = self.width / self.heads.max(1) * self.kv_heads;
        self.layers.saturating_mul(2 * BYTES).saturating_mul(width)
    }
}

struct Table {
    decoder: Decoder,
    phase: DecoderPhase,
    rows: Vec<Layer>,
}

impl Table {
    /// Tokens that are computed.
    fn computed(&self) -> u64 {
        match self.phase {
            DecoderPhase::Prefill(tokens) => tokens,
            DecoderPhase::Decode(_) => 1,
        }
    }

    fn is_prefill(&self) -> bool {
        matches!(self.phase, DecoderPhase::Prefill(_))
    }

    fn embed(&mut self) {
        let (m, width) = (self.computed(), self.decoder.width);
        self.rows.push(Layer {
            name: "embed".into(),
            kind: LayerType::Gather,
            groups: 1,
            m,
            cin_g: 0,
            rs: 1,
            cout_g: 0,
            weight_bytes: m * width * BYTES,
            input_bytes: m * PLACE_BYTES,
            output_bytes: m * width * BYTES,
            stream_bytes: 0,
            weights_scale_with_batch: true,
            bits: [16, 64, 16],
            growth: SequenceGrowth { m: self.is_prefill(), ..SequenceGrowth::default() },
        });
    }

    fn fc(&self, name: String, m: u64, cin_g: u64, cout_g: u64) -> Layer {
        Layer {
            name,
            kind: LayerType::FullyConnected,
            groups: 1,
            m,
            cin_g,
            rs: 1,
            cout_g,
            weight_bytes: cin_g * cout_g * BYTES,
            input_bytes: m * cin_g * BYTES,
            output_bytes: m * cout_g * BYTES,
            stream_bytes: 0,
            weights_scale_with_batch: false,
            bits: [16; 3],
            growth: SequenceGrowth { m: self.is_prefill(), ..SequenceGrowth::default() },
        }
    }

    /// A product of all heads, `m` x `cin_g` by `cin_g` x `cout_g` each; those of a token fetch the latter.
    fn attention(&self, name: String, cin_g: u64, cout_g: u64, growth: SequenceGrowth) -> Layer {
        let Decoder { heads, kv_heads, .. } = self.decoder;
        let m = self.computed();
        let kept = kv_heads.saturating_mul(cin_g * cout_g).saturating_mul(BYTES);
        let own = heads.saturating_mul(m * cin_g).saturating_mul(BYTES);
        let (weight_bytes, input_bytes) = match self.phase {
            DecoderPhase::Prefill(_) => (0, own.saturating_add(kept)),
            DecoderPhase::Decode(_) => (kept, own),
        };
        Layer {
            kind: LayerType::Activations,
            groups: heads,
            weight_bytes,
            input_bytes,
            output_bytes: heads.saturating_mul(m * cout_g).saturating_mul(BYTES),
            weights_scale_with_batch: !self.is_prefill(),
            growth: SequenceGrowth { m: self.is_prefill(), ..growth },
            ..self.fc(name, m, cin_g, cout_g)
        }
    }

    fn layer(&mut self, index: u64) {
        let Decoder { width, heads, kv_heads, inner, gated, .. } = self.decoder;
        let head = width / heads;
        let (m, kv_width) = (self.computed(), head * kv_heads);
        let attended = match self.phase {
            DecoderPhase::Prefill(tokens) | DecoderPhase::Decode(tokens) => tokens,
        };
        let name = |part: &str| format!("l{index}_{part}");
        let kept = |layer: Layer| Layer { stream_bytes: layer.output_bytes, ..layer };
        let scores = SequenceGrowth { cout_g: true, ..SequenceGrowth::default() };
        let values = SequenceGrowth { cin_g: true, ..SequenceGrowth::default() };
        let mut rows = vec![
            self.fc(name("q"), m, width, width),
            kept(self.fc(name("k"), m, width, kv_width)),
            kept(self.fc(name("v"), m, width, kv_width)),
            self.attention(name("qk"), head, attended, scores),
            self.attention(name("av"), attended, head, values),
            self.fc(name("o"), m, width, width),
        ];
        if gated {
            rows.push(self.fc(name("gate"), m, width, inner));
        }
        rows.push(self.fc(name("up"), m, width, inner));
        rows.push(self.fc(name("down"), m, inner, width));
        self.rows.extend(rows);
    }
}
