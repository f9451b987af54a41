//! All nodes, with any shape, batch and lengths.

use std::sync::Arc;

use dyno_rnn::network::{Feed, Network, NetworkError, Node, Scope, Score, TensorId};
use dyno_rnn::{Activation, Cell, Directions, Isa, Precision};
use proptest::prelude::*;

use super::{Numbers, check, setup};

/// Sizes of a network with a node of each kind.
#[derive(Clone, Debug)]
struct Case {
    steps: usize,
    words: usize,
    batch: usize,
    width: usize,
    units: usize,
    over: Scope,
    seed: u64,
}

const VOCABULARY: usize = 7;

fn cases() -> impl Strategy<Value = Case> {
    let over = prop_oneof![Just(Scope::Row), Just(Scope::All)];
    (2_usize..9, 2_usize..6, 1_usize..5, 1_usize..40, 1_usize..36, over, any::<u64>()).prop_map(
        |(steps, words, batch, width, units, over, seed)| Case {
            steps,
            words,
            batch,
            width,
            units,
            over,
            seed,
        },
    )
}

impl Case {
    fn network(&self) -> Result<Network, NetworkError> {
        let Self { steps, words, batch, width, units, over, seed } = *self;
        let (mut numbers, mut network) = (Numbers(seed), Network::default());
        let ids = network.add("ids", Node::Ids { steps, batch })?;
        let query = network.add("query", Node::Numbers { steps: words, batch, width })?;
        let table = numbers.take(VOCABULARY * width, 1.0).into();
        let vectors = network.add("embedding", Node::Embedding { ids, table, width })?;
        let highway = Arc::new(numbers.highway(width));
        let carried = network.add("highway", Node::Highway { input: vectors, highway })?;
        let dense = Arc::new(numbers.dense(width, width, Activation::Tanh));
        let dense = network.add("dense", Node::Dense { input: carried, dense })?;
        let single = Arc::new(numbers.dense(width, 1, Activation::LeakyRelu { alpha: 0.25 }));
        network.add("single", Node::Dense { input: dense, dense: single })?;
        let layers = [(Cell::Gru, width), (Cell::Lstm, 2 * units)];
        let layers = layers
            .map(|(cell, inputs)| Arc::new(numbers.layer(cell, inputs, units, Directions::Both)));
        let layers = layers.to_vec();
        let states = network.add("recurrent", Node::Recurrent { input: dense, layers })?;
        network.add("last", Node::Last { input: states })?;
        let most = network.add("max-pool", Node::MaxPool { input: states })?;
        let parts = vec![dense, states, most];
        network.add("join", Node::Join { parts })?;
        network.add("times", Node::Times { input: states, by: most })?;
        let first = network.add("rows", Node::Rows { input: most, rows: batch - 1..batch })?;
        network.add("cosine", Node::Cosine { query: first, others: most })?;
        let weights = numbers.take(3 * width, 0.5).into();
        network.add("trilinear", Node::Trilinear { context: dense, query, weights })?;
        self.attention(&mut network, &mut numbers, [ids, query, states, most], over)?;
        Ok(network)
    }

    fn attention(
        &self,
        network: &mut Network,
        numbers: &mut Numbers,
        [ids, query, states, most]: [TensorId; 4],
        over: Scope,
    ) -> Result<(), NetworkError> {
        let (width, both) = (self.width, 2 * self.units);
        // A bilinear score is the dot product with a projected query.
        let bilinear = Arc::new(numbers.dense(both, both, Activation::Identity));
        let bilinear = network.add("bilinear", Node::Dense { input: most, dense: bilinear })?;
        let node = Node::Match { query: bilinear, keys: states, score: Score::Dot };
        let input = network.add("match", node)?;
        let weights = network.add("softmax", Node::Softmax { input, over })?;
        network.add("mix", Node::Mix { weights, values: states })?;
        network.add("pointer", Node::Pointer { weights, ids, over })?;
        let keys = Arc::new(numbers.dense(both, width, Activation::Identity));
        let keys = network.add("keys", Node::Dense { input: states, dense: keys })?;
        let queries = Arc::new(numbers.dense(width, width, Activation::Identity));
        let queries = network.add("queries", Node::Dense { input: query, dense: queries })?;
        let score = Score::Additive(numbers.take(width, 1.0));
        let node = Node::Attention { queries, keys, values: states, score: score.clone() };
        network.add("additive", node)?;
        let node = Node::Attention { queries, keys, values: keys, score: Score::Dot };
        network.add("dot", node)?;
        let one = network.add("a query", Node::MaxPool { input: queries })?;
        let one = network.add("one for all", Node::Rows { input: one, rows: 0..1 })?;
        network.add("additive match", Node::Match { query: one, keys, score })?;
        Ok(())
    }

    /// A call with `steps` steps and `words` words, and rows of various lengths.
    fn call(&self, seed: u64, steps: usize, words: usize) -> Call {
        let mut numbers = Numbers(seed);
        let mut below = |count: usize, most: usize| -> Vec<usize> {
            let id = |x: &f32| ((x + 1.0) * 0.5 * most as f32) as usize;
            numbers.take(count, 1.0).iter().map(id).collect()
        };
        let ids = below(steps * self.batch, VOCABULARY).into_iter().map(|id| id as u32).collect();
        let lengths = [steps, words].map(|most| below(self.batch, most + 1));
        let query = numbers.take(words * self.batch * self.width, 1.0);
        Call { ids, query, lengths }
    }
}

struct Call {
    ids: Vec<u32>,
    query: Vec<f32>,
    lengths: [Vec<usize>; 2],
}

impl Call {
    fn feeds(&self) -> [Feed<'_>; 2] {
        [
            Feed::Ids { ids: &self.ids, lengths: &self.lengths[0] },
            Feed::Numbers { numbers: &self.query, lengths: &self.lengths[1] },
        ]
    }

    /// A call with rows of maximum length.
    fn full(&self) -> [Feed<'_>; 2] {
        [
            Feed::Ids { ids: &self.ids, lengths: &[] },
            Feed::Numbers { numbers: &self.query, lengths: &[] },
        ]
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn nodes_of_any_shape_and_length_agree_with_the_oracle(
        case in cases(), shorter in 0_usize..3, workers in 1_usize..4,
    ) {
        let network = case.network().expect("nodes that fit");
        let longest = case.call(1, case.steps, case.words);
        let steps = case.steps.saturating_sub(shorter).max(1);
        let call = case.call(2, steps, case.words);
        for isa in Isa::all() {
            let setup = setup(Precision::F32, isa);
            let feeds: [&[Feed<'_>]; 2] = [&longest.full(), &call.feeds()];
            check(&network, feeds, &setup, workers, 2e-5);
            check(&network, [&call.feeds(), &longest.full()], &setup, workers, 2e-5);
        }
    }
}

/// What half a unit in the last place of weights and numbers may do: cosines and maxima carry it
/// on.
#[test]
fn fewer_bits_stay_near_the_oracle() {
    let over = Scope::Row;
    let (steps, words, batch, seed) = (6, 4, 3, 5);
    for (precision, within) in [(Precision::Bf16, 5e-2), (Precision::Int8, 0.12)] {
        for (width, units) in [(20, 17), (50, 32)] {
            let case = Case { steps, words, batch, width, units, over, seed };
            let network = case.network().expect("nodes that fit");
            let call = case.call(3, steps, words);
            for isa in Isa::all() {
                let setup = setup(precision, isa);
                check(&network, [&call.full(), &call.feeds()], &setup, 2, within);
            }
        }
    }
}

/// Sums of a pointer by hand: word 3 occurs twice in the first row and once in the second.
#[test]
fn a_word_has_the_weights_of_all_of_its_places() {
    let mut network = Network::default();
    let mut add = |name, node| network.add(name, node).expect("nodes that fit");
    let ids = add("ids", Node::Ids { steps: 3, batch: 2 });
    let table: Arc<[f32]> = (0..5).map(|word| word as f32 / 8.0).collect();
    let weights = add("weights", Node::Embedding { ids, table, width: 1 });
    let over = [Scope::Row, Scope::All];
    let [by_row, by_all] = over.map(|over| add("pointer", Node::Pointer { weights, ids, over }));
    let isa = Isa::best();
    let mut team = dyno_rnn::Team::with_workers(1);
    let mut engine =
        dyno_rnn::network::NetworkEngine::new(&network, &setup(Precision::F32, isa), &mut team)
            .expect("nothing to plan");
    // Rows are 3 1 3 and 4 3; the third step of the second row is after its end.
    let feed = Feed::Ids { ids: &[3, 4, 1, 3, 3, 1], lengths: &[3, 2] };
    engine.run(&mut team, &[feed]).expect("words of the table");
    let found = |tensor| engine.tensor(tensor)[..5].to_vec();
    assert_eq!(found(by_row), [0.75, 0.5, 0.125, 0.375, 0.0]);
    assert_eq!(found(by_all), [1.125, 0.5, 0.125, 0.0, 0.0]);
}
