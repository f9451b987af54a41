//! Networks in `f64`, node by node, as the definitions say: what engines are compared with.
//!
//! Only what recurrent layers read is rounded to `f32` on its way.

use super::{Dense, Feed, Network, Node, Over, Score, Tensor};
use crate::layer::Layer;
use crate::oracle::{self, activate};

/// What each node makes.
#[derive(Clone, Debug)]
pub struct Oracle(Vec<Made>);

impl Oracle {
    /// Steps x batch x width of a tensor; NaN where a row has ended.
    #[must_use]
    pub fn tensor(&self, of: Tensor) -> &[f64] {
        &self.0[of.0].numbers
    }
}

#[derive(Clone, Debug, Default)]
struct Made {
    numbers: Vec<f64>,
    ids: Vec<u32>,
    steps: usize,
    batch: usize,
    width: usize,
    lengths: Vec<usize>,
    /// Of recurrent layers: directions x batch x units of the last.
    hidden: Vec<f64>,
    units: usize,
}

impl Made {
    fn at(&self, step: usize, row: usize) -> &[f64] {
        let (step, row) = (step.min(self.steps - 1), row.min(self.batch - 1));
        &self.numbers[(step * self.batch + row) * self.width..][..self.width]
    }

    fn id(&self, step: usize, row: usize) -> u32 {
        self.ids[step * self.batch + row]
    }

    /// With the same rows and steps, what `make` makes of each.
    fn each(&self, width: usize, mut make: impl FnMut(usize, usize) -> Vec<f64>) -> Self {
        let mut numbers = Vec::new();
        for step in 0..self.steps {
            for row in 0..self.batch {
                let in_use = step < self.lengths[row];
                let made = if in_use { make(step, row) } else { vec![f64::NAN; width] };
                assert_eq!(made.len(), width, "as wide as its shape");
                numbers.extend(made);
            }
        }
        Self { numbers, width, ids: Vec::new(), hidden: Vec::new(), ..self.clone() }
    }

    /// Single vectors, one for each row.
    fn vectors(&self, width: usize, make: impl Fn(usize) -> Vec<f64>) -> Self {
        let lengths = vec![1; self.batch];
        let single = Self { steps: 1, lengths, ..self.clone() };
        single.each(width, |_, row| make(row))
    }
}

/// Runs a network over feeds that an engine takes.
///
/// # Panics
/// An engine would not take them.
#[must_use]
pub fn run(network: &Network, feeds: &[Feed<'_>]) -> Oracle {
    let mut made: Vec<Made> = Vec::new();
    let mut feeds = feeds.iter();
    for (index, (_, node)) in network.nodes().enumerate() {
        let width = network.shape(Tensor(index)).width;
        made.push(match node {
            Node::Ids { batch, .. } | Node::Numbers { batch, .. } => {
                fed(*feeds.next().expect("a feed for each input"), *batch, width)
            }
            node => one(&made, node, width),
        });
    }
    Oracle(made)
}

fn fed(feed: Feed<'_>, batch: usize, width: usize) -> Made {
    let (ids, numbers, lengths) = match feed {
        Feed::Ids { ids, lengths } => (ids, &[][..], lengths),
        Feed::Numbers { numbers, lengths } => (&[][..], numbers, lengths),
    };
    let steps = (ids.len() + numbers.len()) / (batch * width.max(1));
    let lengths = if lengths.is_empty() { vec![steps; batch] } else { lengths.to_vec() };
    let numbers = numbers.iter().map(|x| f64::from(*x)).collect();
    Made { numbers, ids: ids.to_vec(), steps, batch, width, lengths, ..Made::default() }
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|x| f64::from(*x)).collect()
}

fn dense(of: &Dense, x: &[f64]) -> Vec<f64> {
    let rows = of.weights.chunks(of.inputs).zip(&of.bias);
    let sum = |(row, bias): (&[f32], &f32)| product(&wide(row), x) + f64::from(*bias);
    rows.map(|row| activate(of.activation, sum(row))).collect()
}

/// Exponentials that add up to one.
fn softmax(scores: &[f64]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exponentials: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
    let sum: f64 = exponentials.iter().sum();
    exponentials.iter().map(|x| x / sum).collect()
}

/// The sum of vectors, each times its weight.
fn mix<'a>(weights: &[f64], width: usize, vector: impl Fn(usize) -> &'a [f64]) -> Vec<f64> {
    let sum = |at: usize| weights.iter().enumerate().map(|(step, w)| w * vector(step)[at]).sum();
    (0..width).map(sum).collect()
}

fn score(of: &Score, query: &[f64], key: &[f64]) -> f64 {
    match of {
        Score::Dot => product(query, key),
        Score::Additive(v) => {
            let both = query.iter().zip(key).map(|(q, k)| (q + k).tanh());
            product(&wide(v), &both.collect::<Vec<_>>())
        }
    }
}

fn one(made: &[Made], node: &Node, width: usize) -> Made {
    let of = |tensor: &Tensor| &made[tensor.0];
    match node {
        Node::Embedding { ids, table, .. } => of(ids).each(width, |step, row| {
            wide(&table[of(ids).id(step, row) as usize * width..][..width])
        }),
        Node::Recurrent { input, layers } => {
            layers.iter().fold(of(input).clone(), |below, layer| recurrent(&below, layer))
        }
        Node::Last { input } => {
            let (hidden, batch) = (&of(input).hidden, of(input).batch);
            let units = of(input).units;
            of(input).vectors(width, |row| last(hidden, batch, units, row))
        }
        Node::Dense { input, dense: layer } => {
            of(input).each(width, |step, row| dense(layer, of(input).at(step, row)))
        }
        Node::Highway { input, highway } => of(input).each(width, |step, row| {
            let x = of(input).at(step, row);
            let (t, g) = (dense(&highway.gate, x), dense(&highway.candidate, x));
            x.iter().zip(t.iter().zip(g)).map(|(x, (t, g))| t * g + (1.0 - t) * x).collect()
        }),
        Node::MaxPool { input } => of(input).vectors(width, |row| {
            let most = |at| {
                let steps = (0..of(input).lengths[row]).map(|step| of(input).at(step, row)[at]);
                steps.reduce(f64::max).unwrap_or(0.0)
            };
            (0..width).map(most).collect()
        }),
        Node::Join { parts } => {
            let longest = parts.iter().map(of).max_by_key(|part| part.steps);
            let longest = longest.expect("a part at least");
            longest.each(width, |step, row| {
                parts.iter().flat_map(|part| of(part).at(step, row).to_vec()).collect()
            })
        }
        Node::Times { input, by } => of(input).each(width, |step, row| {
            let both = of(input).at(step, row).iter().zip(of(by).at(step, row));
            both.map(|(a, b)| a * b).collect()
        }),
        Node::Rows { input, rows } => {
            let some = Made { batch: rows.len(), ..of(input).clone() };
            some.vectors(width, |row| of(input).at(0, rows.start + row).to_vec())
        }
        _ => attention(made, node, width),
    }
}

/// States of all directions of a row.
fn last(hidden: &[f64], batch: usize, units: usize, row: usize) -> Vec<f64> {
    let states = hidden.chunks(units).enumerate().filter(|(at, _)| at % batch == row);
    states.flat_map(|(_, state)| state.to_vec()).collect()
}

fn recurrent(below: &Made, layer: &Layer) -> Made {
    let input: Vec<f32> = below.numbers.iter().map(|x| *x as f32).collect();
    let found = oracle::run(layer, below.batch, &input, &below.lengths, [&[], &[]]);
    let width = layer.outputs();
    let at = |step: usize, row: usize| (step * below.batch + row) * width;
    let mut made = below.each(width, |step, row| found.outputs[at(step, row)..][..width].to_vec());
    (made.hidden, made.units) = (found.hidden, layer.width());
    made
}

fn attention(made: &[Made], node: &Node, width: usize) -> Made {
    let of = |tensor: &Tensor| &made[tensor.0];
    match node {
        Node::Match { query, keys, score: how } => of(keys)
            .each(1, |step, row| vec![score(how, of(query).at(0, row), of(keys).at(step, row))]),
        Node::Softmax { input, over } => {
            let all = of(input);
            all.each(1, |step, row| {
                let places = peers(all, row, *over);
                let scores: Vec<f64> =
                    places.iter().map(|(step, row)| all.at(*step, *row)[0]).collect();
                let own = places.iter().position(|place| *place == (step, row));
                vec![softmax(&scores)[own.expect("it is in use")]]
            })
        }
        Node::Mix { weights, values } => of(values).vectors(width, |row| {
            let steps = 0..of(values).lengths[row];
            let weights: Vec<f64> = steps.map(|step| of(weights).at(step, row)[0]).collect();
            mix(&weights, width, |step| of(values).at(step, row))
        }),
        Node::Attention { queries, keys, values, score: how } => {
            of(queries).each(width, |step, row| {
                let query = of(queries).at(step, row);
                let keys = (0..of(keys).lengths[row]).map(|key| of(keys).at(key, row));
                let scores: Vec<f64> = keys.map(|key| score(how, query, key)).collect();
                mix(&softmax(&scores), width, |step| of(values).at(step, row))
            })
        }
        Node::Pointer { weights, ids, over } => of(weights).each(1, |step, row| {
            let same =
                |place: &(usize, usize)| of(ids).id(place.0, place.1) == of(ids).id(step, row);
            let places: Vec<_> = peers(of(ids), row, *over).into_iter().filter(same).collect();
            let sum = places.iter().map(|(step, row)| of(weights).at(*step, *row)[0]).sum();
            vec![if places[0] == (step, row) { sum } else { 0.0 }]
        }),
        Node::Trilinear { context, query, weights } => {
            trilinear(of(context), of(query), &wide(weights))
        }
        Node::Cosine { query, others } => of(others).each(1, |_, row| {
            let (a, b) = (of(query).at(0, row), of(others).at(0, row));
            let length = |x: &[f64]| product(x, x).sqrt().max(1e-8);
            vec![product(a, b) / (length(a) * length(b))]
        }),
        other => unreachable!("{other:?} is no node of attention"),
    }
}

/// Steps and rows that add up with those of a row, in the order of their places.
fn peers(all: &Made, row: usize, over: Over) -> Vec<(usize, usize)> {
    let rows = |own: &usize| over == Over::All || *own == row;
    let places = (0..all.steps).flat_map(|step| (0..all.batch).map(move |own| (step, own)));
    places.filter(|(step, own)| rows(own) && *step < all.lengths[*own]).collect()
}

/// With the vectors of all pairs written out, as the paper defines the score.
fn trilinear(context: &Made, query: &Made, weights: &[f64]) -> Made {
    let width = context.width;
    context.each(4 * width, |step, row| {
        let words = 0..query.lengths[row];
        let scores = |step: usize| -> Vec<f64> {
            let h = context.at(step, row);
            let of = |word: usize| {
                let u = query.at(word, row);
                let products = h.iter().zip(u).map(|(h, u)| h * u);
                let all: Vec<f64> = h.iter().chain(u).copied().chain(products).collect();
                product(weights, &all)
            };
            words.clone().map(of).collect()
        };
        let to_query = mix(&softmax(&scores(step)), width, |word| query.at(word, row));
        // Without a query no step is before another.
        let most = |step| scores(step).into_iter().reduce(f64::max).unwrap_or(0.0);
        let steps: Vec<f64> = (0..context.lengths[row]).map(most).collect();
        let to_context = mix(&softmax(&steps), width, |step| context.at(step, row));
        let h = context.at(step, row);
        let times = |of: &[f64]| h.iter().zip(of).map(|(h, x)| h * x).collect::<Vec<_>>();
        [h.to_vec(), to_query.clone(), times(&to_query), times(&to_context)].concat()
    })
}
