//! The models that DeepCPU serves (Tables 2 to 4), with random weights: text similarity, an
//! attention-sum reader and BiDAF.
//!
//! ```
//! use dyno_rnn::machine::Machine;
//! use dyno_rnn::network::{NetworkEngine, Setup};
//! use dyno_rnn::served::{ServedModel, Sizes};
//! use dyno_rnn::{Isa, Precision, Team};
//!
//! let model = ServedModel::TextSimilarity;
//! let sizes = Sizes { vocabulary: 100, embedding: 8, units: 12, query: 4, steps: 4, documents: 3
//! };
//! let (isa, mut team) = (Isa::best(), Team::with_workers(2));
//! let setup = Setup::new(Precision::Bf16, isa, Machine::detect(isa));
//! let (network, outputs) = model.network(&sizes)?;
//! let mut engine = NetworkEngine::new(&network, &setup, &mut team)?;
//! let words = model.words(&sizes, 1);
//! engine.run(&mut team, &model.feeds(&words))?;
//! let similarities = engine.tensor(outputs[0]);
//! assert!(similarities.iter().all(|similarity| similarity.abs() <= 1.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use dyno_kernels::Activation;

use crate::layer::{Cell, Directions, Layer, Weights};
use crate::network::{
    DenseLayer, Feed, HighwayLayer, Network, NetworkError, Node, Scope, Score, TensorId,
};

/// A model of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedModel {
    /// Text similarity: one bidirectional GRU encodes a query and documents; the output is the
    /// cosine of the query's final states with those of each document.
    TextSimilarity,
    /// Attention-sum reader of Kadlec and others (2016): finds the word of the documents that
    /// answers a query.
    Reader,
    /// BiDAF of Seo and others (2017): finds where in a context the answer to a query begins and
    /// ends.
    Bidaf,
}

/// Sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Number of words.
    pub vocabulary: usize,
    /// Numbers in a word's vector.
    pub embedding: usize,
    /// Units of each direction of each recurrent layer.
    pub units: usize,
    /// Steps of a query; unused by text similarity, whose queries have `steps` steps.
    pub query: usize,
    /// Steps of a document or context.
    pub steps: usize,
    /// Rows besides the query.
    pub documents: usize,
}

/// Highway layers of BiDAF.
const HIGHWAYS: usize = 2;

impl ServedModel {
    /// All models.
    pub const ALL: [Self; 3] = [Self::TextSimilarity, Self::Reader, Self::Bidaf];

    /// Name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::TextSimilarity => "text_similarity",
            Self::Reader => "reader",
            Self::Bidaf => "bidaf",
        }
    }

    /// Sizes in the paper's Table 2; for text similarity with the maximum number of documents.
    pub fn paper(self) -> Sizes {
        let sizes = |embedding, units, query, steps, documents| Sizes {
            vocabulary: 50_000,
            embedding,
            units,
            query,
            steps,
            documents,
        };
        match self {
            Self::TextSimilarity => sizes(200, 512, 20, 20, 33),
            Self::Reader => sizes(200, 256, 20, 100, 10),
            Self::Bidaf => sizes(50, 100, 15, 100, 1),
        }
    }

    /// Returns the network and the tensors of its answer: the similarities of the documents, the
    /// weight of each word at its first occurrence, or the weights of each step as start and as end
    /// of the answer.
    ///
    /// # Errors
    /// A size is 0.
    pub fn network(self, sizes: &Sizes) -> Result<(Network, Vec<TensorId>), NetworkError> {
        let mut draft =
            Draft { network: Network::default(), drawn: WeightSource(0), sizes: *sizes };
        let outputs = match self {
            Self::TextSimilarity => draft.text_similarity(),
            Self::Reader => draft.reader(),
            Self::Bidaf => draft.bidaf(),
        };
        Ok((draft.network, outputs?))
    }

    /// Returns the layer of the model, as named in the paper's Tables 3 and 4, that a node of the
    /// network belongs to.
    pub fn layer_of(self, node: &str) -> &'static str {
        let contains = |part: &str| node.contains(part);
        match self {
            _ if contains("embedding") => "words",
            Self::TextSimilarity if node == "texts" => "words",
            Self::TextSimilarity if node == "encoder" => "encoder",
            Self::TextSimilarity => "similarity",
            Self::Reader if ["query", "documents"].contains(&node) => "words",
            Self::Reader if contains("encoder") => "encoders",
            Self::Reader => "attention",
            Self::Bidaf if ["query", "context"].contains(&node) => "words",
            Self::Bidaf if contains("highway") => "highway",
            Self::Bidaf if contains("contextual") => "contextual",
            Self::Bidaf if node == "attention" => "attention",
            Self::Bidaf if node == "modelling" => "modelling",
            Self::Bidaf => "output",
        }
    }

    /// Returns random words for each input; all rows have full length.
    pub fn words(self, sizes: &Sizes, seed: u64) -> Vec<Vec<u32>> {
        let Sizes { vocabulary, query, steps, documents, .. } = *sizes;
        let counts: &[usize] = match self {
            Self::TextSimilarity => &[steps * (1 + documents)],
            Self::Reader => &[query, steps * documents],
            Self::Bidaf => &[steps * documents, query * documents],
        };
        let draw = |(input, count): (usize, &usize)| {
            let word =
                |at| (mixed(WORDS + (seed << 8) + input as u64, at) % vocabulary as u64) as u32;
            (0..*count as u64).map(word).collect()
        };
        counts.iter().enumerate().map(draw).collect()
    }

    /// Returns words as inputs of a call.
    pub fn feeds(self, words: &[Vec<u32>]) -> Vec<Feed<'_>> {
        words.iter().map(|ids| Feed::Ids { ids, lengths: &[] }).collect()
    }
}

/// First stream of words; streams below are for weights.
const WORDS: u64 = 1 << 20;

/// Returns number `at` of a stream: SplitMix64 of both (Steele, Lea and Flood, 2014). Each number
/// can be computed independently, so that other programs can reproduce the weights.
fn mixed(stream: u64, at: u64) -> u64 {
    let x = ((stream << 36) + at).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Source of random weights; each tensor comes from a stream of its own.
struct WeightSource(u64);

impl WeightSource {
    /// Returns `count` weights, uniform between `-scale` and `scale`.
    fn take(&mut self, count: usize, scale: f32) -> Vec<f32> {
        self.0 += 1;
        let stream = self.0;
        let number = |at| ((mixed(stream, at) >> 40) as f32 / (1 << 23) as f32 - 1.0) * scale;
        (0..count as u64).map(number).collect()
    }
}

/// A model under construction.
struct Draft {
    network: Network,
    drawn: WeightSource,
    sizes: Sizes,
}

impl Draft {
    fn table(&mut self) -> Arc<[f32]> {
        let Sizes { vocabulary, embedding, .. } = self.sizes;
        self.drawn.take(vocabulary * embedding, 1.0).into()
    }

    /// Adds the weights of a bidirectional layer.
    fn layer(&mut self, cell: Cell, inputs: usize) -> Result<Arc<Layer>, NetworkError> {
        let units = self.sizes.units;
        let outputs = cell.gates() * units;
        let scale = (units as f32).sqrt().recip();
        let mut weights = || Weights {
            input: self.drawn.take(outputs * inputs, scale),
            state: self.drawn.take(outputs * units, scale),
            input_bias: self.drawn.take(outputs, scale),
            state_bias: self.drawn.take(outputs, scale),
        };
        let both = vec![weights(), weights()];
        let layer = Layer::new(cell, inputs, units, Directions::Both, both);
        layer.map(Arc::new).map_err(|error| NetworkError {
            node: "layer".to_owned(),
            what: error.what,
            expected: error.expected,
            found: error.found,
        })
    }

    fn dense(&mut self, inputs: usize, outputs: usize, activation: Activation) -> DenseLayer {
        let scale = (inputs as f32).sqrt().recip();
        let weights = self.drawn.take(outputs * inputs, scale);
        DenseLayer { inputs, weights, bias: self.drawn.take(outputs, scale), activation }
    }

    /// Adds an input of words and their vectors; returns both.
    fn words(
        &mut self,
        name: &str,
        steps: usize,
        batch: usize,
        table: &Arc<[f32]>,
    ) -> Result<[TensorId; 2], NetworkError> {
        let ids = self.network.add(name, Node::Ids { steps, batch })?;
        let table = Arc::clone(table);
        let width = self.sizes.embedding;
        let name = format!("{name} embedding");
        Ok([ids, self.network.add(&name, Node::Embedding { ids, table, width })?])
    }

    fn recurrent(
        &mut self,
        name: &str,
        input: TensorId,
        layers: &[Arc<Layer>],
    ) -> Result<TensorId, NetworkError> {
        self.network.add(name, Node::Recurrent { input, layers: layers.to_vec() })
    }

    fn text_similarity(&mut self) -> Result<Vec<TensorId>, NetworkError> {
        let Sizes { embedding, steps, documents, .. } = self.sizes;
        let table = self.table();
        let encoder = self.layer(Cell::Gru, embedding)?;
        // The query is the first row of the batch, so that the encoder's weights are read once for
        // all rows.
        let [_, vectors] = self.words("texts", steps, 1 + documents, &table)?;
        let encoded = self.recurrent("encoder", vectors, &[encoder])?;
        let network = &mut self.network;
        let last = network.add("states", Node::Last { input: encoded })?;
        let query = network.add("query", Node::Rows { input: last, rows: 0..1 })?;
        let others =
            network.add("documents", Node::Rows { input: last, rows: 1..1 + documents })?;
        Ok(vec![network.add("similarity", Node::Cosine { query, others })?])
    }

    fn reader(&mut self) -> Result<Vec<TensorId>, NetworkError> {
        let Sizes { embedding, query, steps, documents, .. } = self.sizes;
        let table = self.table();
        let of_query = self.layer(Cell::Gru, embedding)?;
        let of_documents = self.layer(Cell::Gru, embedding)?;
        let [_, vectors] = self.words("query", query, 1, &table)?;
        let encoded = self.recurrent("query encoder", vectors, &[of_query])?;
        let query = self.network.add("query state", Node::Last { input: encoded })?;
        let [ids, vectors] = self.words("documents", steps, documents, &table)?;
        let keys = self.recurrent("document encoder", vectors, &[of_documents])?;
        let network = &mut self.network;
        let over = Scope::All;
        let scores = network.add("match", Node::Match { query, keys, score: Score::Dot })?;
        let weights = network.add("attention", Node::Softmax { input: scores, over })?;
        Ok(vec![network.add("pointer", Node::Pointer { weights, ids, over })?])
    }

    fn bidaf(&mut self) -> Result<Vec<TensorId>, NetworkError> {
        let Sizes { embedding, units, query, steps, documents, .. } = self.sizes;
        let both = 2 * units;
        let table = self.table();
        let mut highways = Vec::new();
        for _ in 0..HIGHWAYS {
            let gate = self.dense(embedding, embedding, Activation::Sigmoid);
            let candidate = self.dense(embedding, embedding, Activation::Relu);
            highways.push(Arc::new(HighwayLayer { gate, candidate }));
        }
        let contextual = self.layer(Cell::Lstm, embedding)?;
        let weights: Arc<[f32]> = self.drawn.take(3 * both, 0.1).into();
        let modelling = [self.layer(Cell::Lstm, 4 * both)?, self.layer(Cell::Lstm, both)?];
        let of_end = self.layer(Cell::Lstm, 7 * both)?;
        let pointers = [(); 2].map(|()| Arc::new(self.dense(5 * both, 1, Activation::Identity)));
        let mut encode = |name: &str, steps: usize| {
            let [_, mut vectors] = self.words(name, steps, documents, &table)?;
            for (index, highway) in highways.iter().enumerate() {
                let node = Node::Highway { input: vectors, highway: Arc::clone(highway) };
                vectors = self.network.add(&format!("{name} highway {index}"), node)?;
            }
            let layers = [Arc::clone(&contextual)];
            self.recurrent(&format!("{name} contextual"), vectors, &layers)
        };
        let context = encode("context", steps)?;
        let query = encode("query", query)?;
        let aware = Node::Trilinear { context, query, weights };
        let aware = self.network.add("attention", aware)?;
        let modelled = self.recurrent("modelling", aware, &modelling)?;
        let start = self.pointer("start", [aware, modelled], &pointers[0])?;
        let whole = Node::Mix { weights: start, values: modelled };
        let whole = self.network.add("start state", whole)?;
        let times = Node::Times { input: modelled, by: whole };
        let times = self.network.add("modelled start", times)?;
        let parts = vec![aware, modelled, whole, times];
        let joined = self.network.add("end input", Node::Join { parts })?;
        let ended = self.recurrent("end modelling", joined, &[of_end])?;
        let end = self.pointer("end", [aware, ended], &pointers[1])?;
        Ok(vec![start, end])
    }

    /// Adds a softmax over steps, scored by a dense layer.
    fn pointer(
        &mut self,
        name: &str,
        parts: [TensorId; 2],
        dense: &Arc<DenseLayer>,
    ) -> Result<TensorId, NetworkError> {
        let network = &mut self.network;
        let parts = parts.to_vec();
        let input = network.add(&format!("{name} join"), Node::Join { parts })?;
        let dense = Node::Dense { input, dense: Arc::clone(dense) };
        let input = network.add(&format!("{name} score"), dense)?;
        network.add(name, Node::Softmax { input, over: Scope::Row })
    }
}
