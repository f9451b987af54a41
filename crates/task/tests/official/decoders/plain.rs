//! A generated decoder: its graph, and the same computation in plain code.

use dyno_onnx::{Attribute, Builder, Dim, Element, Model, Name, Tensor, Weights};
use dyno_task::system::LengthLimits;

/// Heads of keys and values, and the size of each.
const HEADS: usize = 2;
const WIDTH: usize = 3;
const SIZE: usize = HEADS * WIDTH;

/// A model whose scores are sums of multiples of 1/64, so that the order of summation does not
/// matter: by the last token, by all tokens so far, and by their positions.
pub struct PlainDecoder {
    words: usize,
    form: DecoderForm,
    pub table: Vec<f32>,
    /// Keys of tokens.
    keys: Vec<f32>,
    /// Scores by the sum of keys.
    told: Vec<f32>,
    /// Scores by the sum of positions.
    pub placed: Vec<f32>,
    /// Scores of the branch with previous tokens.
    behind: Vec<f32>,
}

/// Variants of the decoder's inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecoderForm {
    Whole,
    /// Its cache has 16 bits.
    Half,
    /// It has no input for positions.
    Unplaced,
    /// It has a branch for the prompt and one for later tokens.
    Merged,
}

impl PlainDecoder {
    pub fn new(words: usize, form: DecoderForm) -> Self {
        let mut state = 20_061_021_u64;
        let mut all = |count: usize, most: u64, step: f32| -> Vec<f32> {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 40) % (2 * most + 1)
            };
            (0..count).map(|_| (next() as f32 - most as f32) * step).collect()
        };
        let is = |form_of: bool, of: Vec<f32>| if form_of { of } else { vec![0.0; of.len()] };
        let mut table = all(words * words, 256, 1.0 / 64.0);
        // A token is rarely repeated.
        table.iter_mut().step_by(words + 1).for_each(|score| *score -= 8.0);
        Self {
            words,
            form,
            table,
            keys: all(words * SIZE, 2, 1.0),
            told: all(SIZE * words, 4, 1.0 / 16.0),
            placed: is(form != DecoderForm::Unplaced, all(words, 4, 1.0 / 64.0)),
            behind: is(form == DecoderForm::Merged, all(words, 64, 1.0 / 8.0)),
        }
    }

    /// Returns the scores of the next token; the first `prompt` tokens are the prompt.
    pub fn scores(&self, tokens: &[i64], prompt: usize) -> Vec<f32> {
        let last = *tokens.last().unwrap() as usize;
        let mut sums = [0.0; SIZE];
        for token in tokens {
            let keys = &self.keys[*token as usize * SIZE..][..SIZE];
            sums.iter_mut().zip(keys).for_each(|(sum, key)| *sum += key);
        }
        let places = (tokens.len() * (tokens.len() - 1) / 2) as f32;
        let is_behind = f32::from(tokens.len() > prompt);
        let score = |word: usize| {
            let told: f32 = (0..SIZE).map(|at| sums[at] * self.told[at * self.words + word]).sum();
            let before = told + places * self.placed[word] + is_behind * self.behind[word];
            self.table[last * self.words + word] + before
        };
        (0..self.words).map(score).collect()
    }

    /// Returns the greedy tokens, up to an end.
    pub fn greedy(&self, prompt: &[i64], length: &LengthLimits) -> Vec<i64> {
        let mut tokens = prompt.to_vec();
        while tokens.len() - prompt.len() < length.most {
            let mut scores = self.scores(&tokens, prompt.len());
            if tokens.len() - prompt.len() < length.least {
                length.ends.iter().for_each(|end| scores[*end as usize] = f32::NEG_INFINITY);
            }
            let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let next = scores.iter().position(|score| *score == most).unwrap() as i64;
            tokens.push(next);
            if length.ends.contains(&next) {
                break;
            }
        }
        tokens.split_off(prompt.len())
    }

    /// Returns the best of several beams, as in transformers 4.31 with `early_stopping`.
    pub fn beams(&self, prompt: &[i64], length: &LengthLimits, count: usize) -> Vec<i64> {
        let mut beams = vec![(Vec::new(), 0.0_f32)];
        let mut ended: Vec<(f64, Vec<i64>)> = Vec::new();
        let mean =
            |tokens: &[i64], score: f32| f64::from(score) / (prompt.len() + tokens.len()) as f64;
        for made in 0..length.most {
            let mut all = Vec::new();
            for (tokens, score) in &beams {
                let scores = self.scores(&[prompt, tokens].concat(), prompt.len());
                let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let sum: f64 = scores.iter().map(|score| f64::from((score - most).exp())).sum();
                for (word, likely) in scores.iter().enumerate() {
                    let is_banned = made < length.least && length.ends.contains(&(word as i64));
                    if !is_banned {
                        let score = score + (likely - most - sum.ln() as f32);
                        all.push((score, [&tokens[..], &[word as i64]].concat()));
                    }
                }
            }
            all.sort_by(|a, b| b.0.total_cmp(&a.0));
            beams.clear();
            for (rank, (score, tokens)) in all.into_iter().take(2 * count).enumerate() {
                if !length.ends.contains(tokens.last().unwrap()) {
                    beams.push((tokens, score));
                } else if rank < count {
                    ended.push((mean(&tokens[..made], score), tokens));
                }
            }
            beams.truncate(count);
            if ended.len() >= count {
                break;
            }
        }
        if ended.len() < count {
            ended.extend(beams.into_iter().map(|(tokens, score)| (mean(&tokens, score), tokens)));
        }
        ended.sort_by(|a, b| b.0.total_cmp(&a.0));
        ended.remove(0).1
    }

    /// Builds the model in the form in which optimum exports decoders.
    pub fn model(&self) -> Model {
        let mut net = Builder::new("decoder", Weights::seeded(1));
        // One token after one: the builder cannot add dynamic lengths.
        let shape = [Dim::symbol("batch_size"), 1.into()];
        let ids = net.input("input_ids", Element::I64, &shape);
        let words = self.words;
        let table = constant(&mut net, "table", &[words, words], &self.table);
        let keys = constant(&mut net, "keys", &[words, SIZE], &self.keys);
        let heads = net.integers(&[0, 0, HEADS as i64, WIDTH as i64]);
        let key = net.node("Gather", &[&keys, &ids], &[]).unwrap();
        let key = net.node("Reshape", &[&key, &heads], &[]).unwrap();
        let key = net.node("Transpose", &[&key], &[("perm", [0, 2, 1, 3].into())]).unwrap();
        // Values have the position everywhere.
        let none = net.number(0.0);
        let mut value = net.node("Mul", &[&key, &none], &[]).unwrap();
        if self.form != DecoderForm::Unplaced {
            let places = net.input("position_ids", Element::I64, &shape);
            let places = around(&mut net, &places);
            value = net.node("Add", &[&value, &places], &[]).unwrap();
        }
        let sum = self.sums(&mut net, [key, value]);
        let one = net.integers(&[1]);
        let mut sum = net.node("Unsqueeze", &[&sum, &one], &[]).unwrap();
        if self.form == DecoderForm::Merged {
            let branch = net.input("use_cache_branch", Element::Bool, &[1.into()]);
            let branch = net.node("Cast", &[&branch], &cast_to(Element::F32)).unwrap();
            let behind = constant(&mut net, "behind", &[words], &self.behind);
            let behind = net.node("Mul", &[&behind, &branch], &[]).unwrap();
            sum = net.node("Add", &[&sum, &behind], &[]).unwrap();
        }
        let scores = net.node("Gather", &[&table, &ids], &[]).unwrap();
        let scores = net.node("Add", &[&scores, &sum], &[]).unwrap();
        net.output("logits", &scores).unwrap();
        let mut model = net.finish();
        for port in model.inputs.iter_mut().chain(&mut model.outputs) {
            let is_cache = port.name.contains('.');
            let length = match (is_cache, &mut port.shape) {
                (true, Some(shape)) => shape.get_mut(2),
                (false, Some(shape)) => shape.get_mut(1),
                (_, None) => None,
            };
            if let Some(length) = length {
                *length = Dim::Symbol(format!("length of {}", port.name));
            }
        }
        model
    }

    /// Adds the scores of the keys and values of all tokens that count.
    fn sums(&self, net: &mut Builder, now: [Name; 2]) -> Name {
        let shape = [Dim::symbol("batch_size"), 2.into()];
        let mask = net.input("attention_mask", Element::I64, &shape);
        let counts = around(net, &mask);
        let told = constant(net, "told", &[SIZE, self.words], &self.told);
        // The first of the values counts.
        let mut placed = self.placed.clone();
        placed.resize(SIZE * self.words, 0.0);
        let placed = constant(net, "placed", &[SIZE, self.words], &placed);
        let cache = if self.form == DecoderForm::Half { Element::F16 } else { Element::F32 };
        let past = [Dim::symbol("batch_size"), HEADS.into(), 1.into(), WIDTH.into()];
        let (tokens, flat) = (net.integers(&[2]), net.integers(&[0, SIZE as i64]));
        let parts = ["key", "value"].into_iter().zip(now).zip([told, placed]);
        let sums: Vec<Name> = parts
            .map(|((part, now), by)| {
                let past = net.input(&format!("past_key_values.0.{part}"), cache, &past);
                let now = net.node("Cast", &[&now], &cast_to(cache)).unwrap();
                let all = net.node("Concat", &[&past, &now], &[("axis", 2.into())]).unwrap();
                net.output(&format!("present.0.{part}"), &all).unwrap();
                let all = net.node("Cast", &[&all], &cast_to(Element::F32)).unwrap();
                let all = net.node("Mul", &[&all, &counts], &[]).unwrap();
                let keep = [("keepdims", 0.into())];
                let sum = net.node("ReduceSum", &[&all, &tokens], &keep).unwrap();
                let sum = net.node("Reshape", &[&sum, &flat], &[]).unwrap();
                net.node("MatMul", &[&sum, &by], &[]).unwrap()
            })
            .collect();
        net.node("Add", &[&sums[0], &sums[1]], &[]).unwrap()
    }
}

fn cast_to(element: Element) -> [(&'static str, Attribute); 1] {
    [("to", element.into())]
}

fn constant(net: &mut Builder, name: &str, shape: &[usize], values: &[f32]) -> Name {
    net.tensor(Tensor::from_f32(name, shape, values)).unwrap()
}

/// Repeats numbers of tokens for all heads and their elements.
fn around(net: &mut Builder, tokens: &Name) -> Name {
    let numbers = net.node("Cast", &[tokens], &cast_to(Element::F32)).unwrap();
    let axes = net.integers(&[1, 3]);
    net.node("Unsqueeze", &[&numbers, &axes], &[]).unwrap()
}
