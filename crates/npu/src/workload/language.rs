//! Decoder-only language models as two networks: one computes the prompt, the other one token after another.
//!
//! Both have the same weights and opposite needs. A prompt of `n` tokens does `2 n` operations per weight. Decoding
//! does two operations per weight for each sample of a batch, and fetches the keys and values of all previous tokens.

#[cfg(test)]
mod tests;

use thiserror::Error;

use super::{LayerType, Network, NetworkLayer, SequenceGrowth};
use crate::nearest::alternatives;

/// Sizes of a decoder.
///
/// ```
/// use dyno_npu::workload::language::{Decoder, DecoderPhase};
///
/// let llama = Decoder::preset("llama2-7b")?;
/// let prompt = llama.network(DecoderPhase::Prefill(512))?;
/// let token = llama.network(DecoderPhase::Decode(512))?;
/// assert!(prompt.macs() > 400 * token.macs());
/// assert_eq!(llama.kv_bytes(), 524_288);
/// # Ok::<(), dyno_npu::workload::language::DecoderError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoder {
    /// Name on the command line.
    pub name: &'static str,
    /// Number of blocks of attention and feed-forward. At least 1.
    pub layers: u64,
    /// Hidden size: numbers per token. A multiple of `heads`.
    pub width: u64,
    /// Query heads. At least 1.
    pub heads: u64,
    /// Heads of keys and values, which query heads share. At least 1.
    pub kv_heads: u64,
    /// Inner size of the feed-forward, numbers per token.
    pub inner: u64,
    /// Whether the feed-forward has a second widening layer that gates the first.
    pub gated: bool,
    /// Number of tokens in the vocabulary.
    pub vocabulary: u64,
}

/// Well-known decoders, from their published configurations.
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

/// Phase of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecoderPhase {
    /// Computes a prompt of this many tokens and caches their keys and values.
    Prefill(u64),
    /// Computes one token that attends to this many tokens, including itself.
    Decode(u64),
}

/// Reason why a decoder or its network is not available.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecoderError {
    /// No decoder has this name.
    #[error(
        "unknown decoder `{name}`{}",
        alternatives(name, DECODERS.iter().map(|decoder| decoder.name))
    )]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// A size is out of range, the heads do not divide the width, or a product exceeds 64 bits.
    #[error("decoder `{name}`: {what}")]
    Sizes {
        /// Name of the decoder.
        name: String,
        /// The problem.
        what: &'static str,
    },
}

/// Bytes of a number, as in the thesis' tables.
const BYTES: u64 = 2;
/// Bytes of a token number.
const PLACE_BYTES: u64 = 8;
/// Upper bound of each size. Products of five sizes are checked; sums of products of two cannot overflow.
const MOST: u64 = 1 << 30;

impl Decoder {
    /// Returns a decoder of [`DECODERS`].
    ///
    /// # Errors
    /// Fails if no decoder has this name.
    pub fn preset(name: &str) -> Result<Self, DecoderError> {
        let found = DECODERS.iter().find(|decoder| decoder.name == name);
        found.copied().ok_or_else(|| DecoderError::Unknown { name: name.to_owned() })
    }

    /// Returns the network of a phase for one sample at 16 bits. Cached keys and values are fetched as weights that
    /// each sample has on its own. Those of new tokens are written as streamed bytes. Only the last token gets scores
    /// over the vocabulary.
    ///
    /// [`Network::at_sequence`] changes the number of tokens.
    ///
    /// # Errors
    /// Fails if a size is 0 or out of range, the heads do not divide the width, or a product exceeds 64 bits.
    pub fn network(&self, phase: DecoderPhase) -> Result<Network, DecoderError> {
        let (what, tokens) = match phase {
            DecoderPhase::Prefill(tokens) => ("prefill", tokens),
            DecoderPhase::Decode(tokens) => ("decode", tokens),
        };
        let wrong = |what| DecoderError::Sizes { name: self.name.to_owned(), what };
        let &Self { layers, width, heads, kv_heads, inner, vocabulary, .. } = self;
        let sizes = [layers, width, heads, kv_heads, inner, vocabulary, tokens];
        if sizes.iter().any(|size| !(1..=MOST).contains(size)) || layers > 1 << 16 {
            return Err(wrong("expected sizes from 1 to 2^30 and at most 2^16 layers"));
        }
        if !width.is_multiple_of(heads) || !heads.is_multiple_of(kv_heads) {
            return Err(wrong(
                "the width must be a multiple of the heads, and the heads a multiple of the key \
                 heads",
            ));
        }
        let mut table = Table { decoder: *self, phase, rows: Vec::new() };
        table.embed();
        for layer in 0..layers {
            table.layer(layer);
        }
        let head = table.fc("head".into(), 1, width, vocabulary);
        table.rows.push(NetworkLayer { growth: SequenceGrowth::default(), ..head });
        // A saturated product is wrong.
        if table.rows.iter().any(|layer| layer.macs() == u64::MAX) {
            return Err(wrong("the products of a layer exceed 64 bits"));
        }
        let name = format!("{}-{what}", self.name);
        Ok(Network { name, layers: table.rows, seq_len: Some(tokens), measured: None })
    }

    /// Returns the bytes of keys and values of one token, all layers together.
    pub fn kv_bytes(&self) -> u64 {
        let width = self.width / self.heads.max(1) * self.kv_heads;
        self.layers.saturating_mul(2 * BYTES).saturating_mul(width)
    }
}

struct Table {
    decoder: Decoder,
    phase: DecoderPhase,
    rows: Vec<NetworkLayer>,
}

impl Table {
    /// Returns the number of computed tokens.
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
        self.rows.push(NetworkLayer {
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

    fn fc(&self, name: String, m: u64, cin_g: u64, cout_g: u64) -> NetworkLayer {
        NetworkLayer {
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

    /// Returns a product of all heads, each `m` x `cin_g` by `cin_g` x `cout_g`. Decoding fetches the second operand.
    fn attention(
        &self,
        name: String,
        cin_g: u64,
        cout_g: u64,
        growth: SequenceGrowth,
    ) -> NetworkLayer {
        let Decoder { heads, kv_heads, .. } = self.decoder;
        let m = self.computed();
        let cached = kv_heads.saturating_mul(cin_g * cout_g).saturating_mul(BYTES);
        let own = heads.saturating_mul(m * cin_g).saturating_mul(BYTES);
        let (weight_bytes, input_bytes) = match self.phase {
            DecoderPhase::Prefill(_) => (0, own.saturating_add(cached)),
            DecoderPhase::Decode(_) => (cached, own),
        };
        NetworkLayer {
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
        let cache =
            |layer: NetworkLayer| NetworkLayer { stream_bytes: layer.output_bytes, ..layer };
        let scores = SequenceGrowth { cout_g: true, ..SequenceGrowth::default() };
        let values = SequenceGrowth { cin_g: true, ..SequenceGrowth::default() };
        let mut rows = vec![
            self.fc(name("q"), m, width, width),
            cache(self.fc(name("k"), m, width, kv_width)),
            cache(self.fc(name("v"), m, width, kv_width)),
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
