//! Reference implementation of networks in `f64`, node by node from the definitions. Only inputs of
//! recurrent layers are rounded to `f32`.

use super::{DenseLayer, Feed, Network, Node, Scope, Score, TensorId};
use crate::layer::Layer;
use crate::oracle::{self, activate};

/// Tensors of all nodes.
#[derive(Clone, Debug)]
pub struct NetworkOracle(Vec<NodeOutput>);

impl NetworkOracle {
    /// Returns a tensor, steps x batch x width; NaN after the last step of a row.
    pub fn tensor(&self, tensor: TensorId) -> &[f64] {
        &self.0[tensor.0].numbers
    }
}

/// Tensor of a node.
#[derive(Clone, Debug, Default)]
struct NodeOutput {
    numbers: Vec<f64>,
    ids: Vec<u32>,
    steps: usize,
    batch: usize,
    width: usize,
    lengths: Vec<usize>,
    /// Final states of a recurrent node: directions x batch x units of the last layer.
    hidden: Vec<f64>,
    units: usize,
}

impl NodeOutput {
    fn at(&self, step: usize, row: usize) -> &[f64] {
        let step = step.min(self.steps - 1);
        let row = row.min(self.batch - 1);
        &self.numbers[(step * self.batch + row) * self.width..][..self.width]
    }

    fn id(&self, step: usize, row: usize) -> u32 {
        self.ids[step * self.batch + row]
    }

    /// Applies `make` to each step and row in use; NaN elsewhere.
    fn each(&self, width: usize, mut make: impl FnMut(usize, usize) -> Vec<f64>) -> Self {
        let mut numbers = Vec::new();
        for step in 0..self.steps {
            for row in 0..self.batch {
                let in_use = step < self.lengths[row];
                let outputs = if in_use { make(step, row) } else { vec![f64::NAN; width] };
                assert_eq!(outputs.len(), width, "as wide as its shape");
                numbers.extend(outputs);
            }
        }
        Self { numbers, width, ids: Vec::new(), hidden: Vec::new(), ..self.clone() }
    }

    /// Applies `make` to each row, for single vectors.
    fn vectors(&self, width: usize, make: impl Fn(usize) -> Vec<f64>) -> Self {
        let lengths = vec![1; self.batch];
        let single = Self { steps: 1, lengths, ..self.clone() };
        single.each(width, |_, row| make(row))
    }
}

/// Runs a network over the feeds of an engine.
///
/// # Panics
/// An engine would reject the feeds.
pub fn run(network: &Network, feeds: &[Feed<'_>]) -> NetworkOracle {
    let mut outputs: Vec<NodeOutput> = Vec::new();
    let mut feeds = feeds.iter();
    for (index, (_, node)) in network.nodes().enumerate() {
        let width = network.shape(TensorId(index)).width;
        outputs.push(match node {
            Node::Ids { batch, .. } | Node::Numbers { batch, .. } => {
                fed(*feeds.next().expect("a feed for each input"), *batch, width)
            }
            node => one(&outputs, node, width),
        });
    }
    NetworkOracle(outputs)
}

fn fed(feed: Feed<'_>, batch: usize, width: usize) -> NodeOutput {
    let (ids, numbers, lengths) = match feed {
        Feed::Ids { ids, lengths } => (ids, &[][..], lengths),
        Feed::Numbers { numbers, lengths } => (&[][..], numbers, lengths),
    };
    let steps = (ids.len() + numbers.len()) / (batch * width.max(1));
    let lengths = if lengths.is_empty() { vec![steps; batch] } else { lengths.to_vec() };
    let numbers = numbers.iter().map(|x| f64::from(*x)).collect();
    NodeOutput { numbers, ids: ids.to_vec(), steps, batch, width, lengths, ..NodeOutput::default() }
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|x| f64::from(*x)).collect()
}

fn dense(layer: &DenseLayer, x: &[f64]) -> Vec<f64> {
    let rows = layer.weights.chunks(layer.inputs).zip(&layer.bias);
    let sum = |(row, bias): (&[f32], &f32)| product(&wide(row), x) + f64::from(*bias);
    rows.map(|row| activate(layer.activation, sum(row))).collect()
}

/// Softmax of scores.
fn softmax(scores: &[f64]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exponentials: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
    let sum: f64 = exponentials.iter().sum();
    exponentials.iter().map(|x| x / sum).collect()
}

/// Weighted sum of vectors.
fn mix<'a>(weights: &[f64], width: usize, vector: impl Fn(usize) -> &'a [f64]) -> Vec<f64> {
    let sum = |at: usize| weights.iter().enumerate().map(|(step, w)| w * vector(step)[at]).sum();
    (0..width).map(sum).collect()
}

fn score(score: &Score, query: &[f64], key: &[f64]) -> f64 {
    match score {
        Score::Dot => product(query, key),
        Score::Additive(v) => {
            let both = query.iter().zip(key).map(|(q, k)| (q + k).tanh());
            product(&wide(v), &both.collect::<Vec<_>>())
        }
    }
}

fn one(outputs: &[NodeOutput], node: &Node, width: usize) -> NodeOutput {
    let input_of = |tensor: &TensorId| &outputs[tensor.0];
    match node {
        Node::Embedding { ids, table, .. } => input_of(ids).each(width, |step, row| {
            wide(&table[input_of(ids).id(step, row) as usize * width..][..width])
        }),
        Node::Recurrent { input, layers } => {
            layers.iter().fold(input_of(input).clone(), |below, layer| recurrent(&below, layer))
        }
        Node::Last { input } => {
            let hidden = &input_of(input).hidden;
            let batch = input_of(input).batch;
            let units = input_of(input).units;
            input_of(input).vectors(width, |row| last(hidden, batch, units, row))
        }
        Node::Dense { input, dense: layer } => {
            input_of(input).each(width, |step, row| dense(layer, input_of(input).at(step, row)))
        }
        Node::Highway { input, highway } => input_of(input).each(width, |step, row| {
            let x = input_of(input).at(step, row);
            let t = dense(&highway.gate, x);
            let g = dense(&highway.candidate, x);
            x.iter().zip(t.iter().zip(g)).map(|(x, (t, g))| t * g + (1.0 - t) * x).collect()
        }),
        Node::MaxPool { input } => input_of(input).vectors(width, |row| {
            let most = |at| {
                let steps =
                    (0..input_of(input).lengths[row]).map(|step| input_of(input).at(step, row)[at]);
                steps.reduce(f64::max).unwrap_or(0.0)
            };
            (0..width).map(most).collect()
        }),
        Node::Join { parts } => {
            let longest = parts.iter().map(input_of).max_by_key(|part| part.steps);
            let longest = longest.expect("a part at least");
            longest.each(width, |step, row| {
                parts.iter().flat_map(|part| input_of(part).at(step, row).to_vec()).collect()
            })
        }
        Node::Times { input, by } => input_of(input).each(width, |step, row| {
            let both = input_of(input).at(step, row).iter().zip(input_of(by).at(step, row));
            both.map(|(a, b)| a * b).collect()
        }),
        Node::Rows { input, rows } => {
            let some = NodeOutput { batch: rows.len(), ..input_of(input).clone() };
            some.vectors(width, |row| input_of(input).at(0, rows.start + row).to_vec())
        }
        _ => attention(outputs, node, width),
    }
}

/// Final states of all directions of a row.
fn last(hidden: &[f64], batch: usize, units: usize, row: usize) -> Vec<f64> {
    let states = hidden.chunks(units).enumerate().filter(|(at, _)| at % batch == row);
    states.flat_map(|(_, state)| state.to_vec()).collect()
}

fn recurrent(below: &NodeOutput, layer: &Layer) -> NodeOutput {
    let input: Vec<f32> = below.numbers.iter().map(|x| *x as f32).collect();
    let found = oracle::run(layer, below.batch, &input, &below.lengths, [&[], &[]]);
    let width = layer.outputs();
    let at = |step: usize, row: usize| (step * below.batch + row) * width;
    let mut outputs =
        below.each(width, |step, row| found.outputs[at(step, row)..][..width].to_vec());
    (outputs.hidden, outputs.units) = (found.hidden, layer.width());
    outputs
}

fn attention(outputs: &[NodeOutput], node: &Node, width: usize) -> NodeOutput {
    let tensor = |tensor: &TensorId| &outputs[tensor.0];
    match node {
        Node::Match { query, keys, score: how } => tensor(keys).each(1, |step, row| {
            vec![score(how, tensor(query).at(0, row), tensor(keys).at(step, row))]
        }),
        Node::Softmax { input, over } => {
            let all = tensor(input);
            all.each(1, |step, row| {
                let places = peers(all, row, *over);
                let scores: Vec<f64> =
                    places.iter().map(|(step, row)| all.at(*step, *row)[0]).collect();
                let own = places.iter().position(|place| *place == (step, row));
                vec![softmax(&scores)[own.expect("it is in use")]]
            })
        }
        Node::Mix { weights, values } => tensor(values).vectors(width, |row| {
            let steps = 0..tensor(values).lengths[row];
            let weights: Vec<f64> = steps.map(|step| tensor(weights).at(step, row)[0]).collect();
            mix(&weights, width, |step| tensor(values).at(step, row))
        }),
        Node::Attention { queries, keys, values, score: how } => {
            tensor(queries).each(width, |step, row| {
                let query = tensor(queries).at(step, row);
                let keys = (0..tensor(keys).lengths[row]).map(|key| tensor(keys).at(key, row));
                let scores: Vec<f64> = keys.map(|key| score(how, query, key)).collect();
                mix(&softmax(&scores), width, |step| tensor(values).at(step, row))
            })
        }
        Node::Pointer { weights, ids, over } => tensor(weights).each(1, |step, row| {
            let same = |place: &(usize, usize)| {
                tensor(ids).id(place.0, place.1) == tensor(ids).id(step, row)
            };
            let places: Vec<_> = peers(tensor(ids), row, *over).into_iter().filter(same).collect();
            let sum = places.iter().map(|(step, row)| tensor(weights).at(*step, *row)[0]).sum();
            vec![if places[0] == (step, row) { sum } else { 0.0 }]
        }),
        Node::Trilinear { context, query, weights } => {
            trilinear(tensor(context), tensor(query), &wide(weights))
        }
        Node::Cosine { query, others } => tensor(others).each(1, |_, row| {
            let a = tensor(query).at(0, row);
            let b = tensor(others).at(0, row);
            let length = |x: &[f64]| product(x, x).sqrt().max(1e-8);
            vec![product(a, b) / (length(a) * length(b))]
        }),
        other => unreachable!("{other:?} is no node of attention"),
    }
}

/// Returns the steps and rows whose weights sum to one together with those of `row`, in order of
/// their places.
fn peers(all: &NodeOutput, row: usize, over: Scope) -> Vec<(usize, usize)> {
    let rows = |own: &usize| over == Scope::All || *own == row;
    let places = (0..all.steps).flat_map(|step| (0..all.batch).map(move |own| (step, own)));
    places.filter(|(step, own)| rows(own) && *step < all.lengths[*own]).collect()
}

/// Trilinear attention with the vectors of all pairs written out, as in the paper's definition.
fn trilinear(context: &NodeOutput, query: &NodeOutput, weights: &[f64]) -> NodeOutput {
    let width = context.width;
    context.each(4 * width, |step, row| {
        let words = 0..query.lengths[row];
        let scores = |step: usize| -> Vec<f64> {
            let h = context.at(step, row);
            let score = |word: usize| {
                let u = query.at(word, row);
                let products = h.iter().zip(u).map(|(h, u)| h * u);
                let all: Vec<f64> = h.iter().chain(u).copied().chain(products).collect();
                product(weights, &all)
            };
            words.clone().map(score).collect()
        };
        let to_query = mix(&softmax(&scores(step)), width, |word| query.at(word, row));
        // Without words in the query, all steps have equal scores.
        let most = |step| scores(step).into_iter().reduce(f64::max).unwrap_or(0.0);
        let steps: Vec<f64> = (0..context.lengths[row]).map(most).collect();
        let to_context = mix(&softmax(&steps), width, |step| context.at(step, row));
        let h = context.at(step, row);
        let times = |vector: &[f64]| h.iter().zip(vector).map(|(h, x)| h * x).collect::<Vec<_>>();
        [h.to_vec(), to_query.clone(), times(&to_query), times(&to_context)].concat()
    })
}
