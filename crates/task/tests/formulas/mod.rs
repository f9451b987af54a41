//! Parameters and multiply-accumulates of models as manual sums over their published layers.

/// Parameters and multiply-accumulates.
type Counts = (u64, u64);

/// LSTM layer with four gates: weights of inputs and of outputs, without biases.
const fn gates(inputs: u64, units: u64) -> u64 {
    4 * units * (inputs + units)
}

const PIECES: u64 = 36_548;
/// GNMT's encoder (two directions, one layer over both, two more) and decoder (four layers over the
/// previous outputs and the attention context). One bias per gate; v and b of the attention.
const GNMT_ENCODER: u64 = 2 * gates(1024, 1024) + gates(2048, 1024) + 2 * gates(1024, 1024);
const GNMT_DECODER: u64 = 4 * gates(2048, 1024);
/// GNMT from 32 to 32 pieces: keys of the attention once; in each step the query, 32 comparisons
/// and sums, and scores of all pieces.
pub const GNMT: Counts = (
    3 * PIECES * 1024 + GNMT_ENCODER + GNMT_DECODER + 9 * 4096 + 2 * 1024 * 1024 + 2 * 1024,
    32 * (GNMT_ENCODER + 1024 * 1024)
        + 32 * (GNMT_DECODER + 1024 * 1024 + 2 * 32 * 1024 + PIECES * 1024),
);

/// RNN-T's encoder over 500 frames and 250 pairs; two biases per gate.
pub const RNNT_ENCODER: Counts = (
    gates(240, 1024) + 3 * gates(1024, 1024) + gates(2048, 1024) + 5 * 8192,
    500 * (gates(240, 1024) + gates(1024, 1024))
        + 250 * (gates(2048, 1024) + 2 * gates(1024, 1024)),
);
/// A step of RNN-T: 28 characters, two layers, and two more over encoding and prediction.
pub const RNNT_STEP: Counts = (
    28 * 320 + 2 * (gates(320, 320) + 8 * 320) + (1344 * 512 + 512) + (512 * 29 + 29),
    2 * gates(320, 320) + 1344 * 512 + 512 * 29,
);

/// Layers of DLRM-DCNv2 without its tables.
pub const DLRM_V2: Counts = {
    let cross = 2 * 3456 * 512;
    let products = (13 * 512 + 512 * 256 + 256 * 128)
        + 3 * cross
        + (3456 * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256);
    let biases = (512 + 256 + 128) + 3 * 3456 + (1024 + 1024 + 512 + 256 + 1);
    (products + biases, products)
};

/// Parameters of a relation of R-GAT with this many source features: weights, two attention vectors
/// and a bias.
const fn relation(inputs: u64) -> u64 {
    inputs * 512 + 3 * 512
}

/// The reference's model, with 11 relations in each of three layers and 2983 scores, has 13,115,303
/// parameters. The 6 relations of its last layer that do not lead to papers are unused, and so is
/// the relation to institutes in the layer before.
///
/// Each layer projects sources and targets, for citations both at once. In a typical subgraph these
/// are papers, authors, institutes, fields, journals and conferences after each hop.
pub const RGAT: Counts = {
    const WHOLE: u64 = 11 * relation(1024) + 22 * relation(512) + 2983 * 513;
    assert!(WHOLE == 13_115_303);
    const BEHIND: [[u64; 6]; 4] = [
        [1, 0, 0, 0, 0, 0],
        [12, 3, 0, 4, 1, 1],
        [162, 33, 3, 28, 6, 3],
        [1122, 473, 18, 328, 56, 18],
    ];
    let mut rows = [0; 3];
    let mut layer = 0;
    while layer < 3 {
        let (from, to) = (BEHIND[3 - layer], BEHIND[2 - layer]);
        let all = from[1] + from[3] + from[4] + from[5];
        // Five relations to papers.
        rows[layer] = from[0] + all + 4 * to[0];
        if layer < 2 {
            // Papers to four kinds, institutes to authors.
            rows[layer] += 4 * from[0] + to[1] + to[3] + to[4] + to[5] + from[2] + to[1];
        }
        if layer == 0 {
            rows[layer] += from[1] + to[2];
        }
        layer += 1;
    }
    let products = 512 * (1024 * rows[0] + 512 * (rows[1] + rows[2]) + 2983);
    (WHOLE - 7 * relation(512), products)
};

/// Total rows of tables with at most `cap` rows each.
pub const fn sum(rows: &[usize], cap: usize) -> u64 {
    let (mut sum, mut at) = (0, 0);
    while at < rows.len() {
        sum += if rows[at] < cap { rows[at] } else { cap } as u64;
        at += 1;
    }
    sum
}

/// 3D-UNet of BraTS: two convolutions with 27 taps on each of six levels, each with bias, scale and
/// shift; on the way up transposed convolutions with eight taps, and two convolutions over twice
/// the channels.
pub const fn brats() -> Counts {
    const FILTERS: [u64; 6] = [30, 60, 120, 240, 320, 320];
    let (mut parameters, mut macs) = (4 * 30, 4 * 30 * 224 * 224 * 160);
    let (mut level, mut places, mut before) = (0, 224 * 224 * 160, 4);
    while level < 6 {
        let filters = FILTERS[level];
        let mut products = 27 * filters * (before + filters);
        parameters += products + 6 * filters;
        if level < 5 {
            let back = 27 * filters * (2 * filters + filters);
            // For each place of the level below, which has an eighth of the places.
            let up = 8 * FILTERS[level + 1] * filters;
            parameters += back + 6 * filters + up;
            products += back + up / 8;
        }
        macs += products * places;
        (before, places) = (filters, places / 8);
        level += 1;
    }
    (parameters, macs)
}

/// Published sizes of a decoder.
pub struct Decoder {
    vocabulary: u64,
    hidden: u64,
    /// Size of all queries of a token, and of all keys.
    queries: u64,
    keys: u64,
    /// Products of the feed-forward layers: of all, and of the active ones.
    feed: [u64; 2],
    /// Biases and scales of a layer, after the last layer, and of the scores.
    small: [u64; 3],
}

impl Decoder {
    pub const GPT_J: Self = Self {
        vocabulary: 50_400,
        hidden: 4096,
        queries: 4096,
        keys: 4096,
        feed: [2 * 4096 * 16_384; 2],
        small: [2 * 4096 + 16_384 + 4096, 2 * 4096, 50_400],
    };
    pub const LLAMA2: Self = Self::llama([32_000, 8192, 1024], 3 * 28_672 * 8192);
    pub const LLAMA31: Self = Self::llama([128_256, 16_384, 1024], 3 * 53_248 * 16_384);
    pub const MIXTRAL: Self = {
        let (expert, gate) = (3 * 14_336 * 4096, 8 * 4096);
        let feed = [8 * expert + gate, 2 * expert + gate];
        Self { feed, ..Self::llama([32_000, 4096, 1024], 0) }
    };

    const fn llama([vocabulary, hidden, keys]: [u64; 3], feed: u64) -> Self {
        let small = [2 * hidden, hidden, 0];
        Self { vocabulary, hidden, queries: hidden, keys, feed: [feed; 2], small }
    }

    /// Products of the projections to queries, keys and values, and of the output.
    const fn attention(&self) -> u64 {
        2 * self.hidden * (self.queries + self.keys)
    }

    pub const fn parameters(&self, layers: u64) -> u64 {
        let ends = 2 * self.vocabulary * self.hidden + self.small[1] + self.small[2];
        layers * (self.attention() + self.feed[0] + self.small[0]) + ends
    }

    /// Counts of a call with `tokens` tokens after `before`; scores are those of the last token
    /// only.
    pub const fn macs(&self, layers: u64, tokens: u64, before: u64) -> u64 {
        let pairs = tokens * (before + tokens);
        let layer = tokens * (self.attention() + self.feed[1]) + 2 * self.queries * pairs;
        layers * layer + self.vocabulary * self.hidden
    }
}
