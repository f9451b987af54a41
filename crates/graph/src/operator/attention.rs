//! Attention: values that are weighted by the products of queries and keys.

mod grouped;
mod projected;
mod rotary;

use dyno_kernels::{Isa, Rows, dots, softmax};

use super::broadcast::{broadcast, broadcast_strides};
use super::product::multiply;
use super::{layout, name};
use crate::node::{NodeReader, Operation};
use crate::session::Frame;
use crate::value::{Value, zeros};

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    match name(reader) {
        ("", "Attention") => standard(reader).map(Some),
        ("com.microsoft", "MultiHeadAttention") => projected::multi_head(reader).map(Some),
        ("com.microsoft", "Attention") => projected::read(reader).map(Some),
        ("com.microsoft", "GroupQueryAttention") => grouped::read(reader).map(Some),
        ("" | "com.microsoft", "RotaryEmbedding") => rotary::read(reader).map(Some),
        _ => Ok(None),
    }
}

/// Queries, keys and values: batch x heads x tokens x numbers of a head. Several heads of queries may
/// share one of keys and values.
struct Heads {
    queries: Value,
    keys: Value,
    values: Value,
}

/// Sizes of an attention.
struct Sizes {
    batch: usize,
    heads: usize,
    queries: usize,
    keys: usize,
}

/// How products of queries and keys become scores, before masks are added.
#[derive(Clone, Copy)]
struct Scores {
    /// Factor of the products. `None` for the default, one by the root of the numbers of a head.
    scale: Option<f32>,
    /// Scores are limited to this magnitude by a hyperbolic tangent if it is above 0.
    softcap: f32,
}

impl Scores {
    /// Reads `scale`. A scale of 0 is the default, too.
    fn read(reader: &NodeReader<'_>) -> Result<Self, String> {
        let scale = reader.float("scale", 0.0)?;
        Ok(Self { scale: Some(scale).filter(|scale| *scale != 0.0), softcap: 0.0 })
    }

    /// Reads `scale` and `softcap`.
    fn read_limited(reader: &NodeReader<'_>) -> Result<Self, String> {
        Ok(Self { softcap: reader.float("softcap", 0.0)?, ..Self::read(reader)? })
    }

    fn apply(&self, scores: &mut [f32], width: usize) {
        let scale = self.scale.unwrap_or(1.0 / (width as f32).sqrt());
        for score in scores {
            *score *= scale;
            if self.softcap > 0.0 {
                *score = (*score / self.softcap).tanh() * self.softcap;
            }
        }
    }
}

impl Heads {
    /// Returns the sizes.
    fn sizes(&self) -> Result<Sizes, String> {
        let [q, k, v] = [&self.queries, &self.keys, &self.values].map(Value::dims);
        if let (&[batch, heads, queries, width], &[_, groups, keys, _], &[_, _, _, numbers]) =
            (q, k, v)
            && k == [batch, groups, keys, width]
            && v == [batch, groups, keys, numbers]
            && groups > 0
            && heads.is_multiple_of(groups)
            && width > 0
            && keys > 0
        {
            return Ok(Sizes { batch, heads, queries, keys });
        }
        Err(format!("expected queries, keys and values of equal heads, found {q:?}, {k:?}, {v:?}"))
    }

    /// Returns the weighted values of each query. `mask` changes the scores of a query, which has a
    /// batch, a head and a number.
    fn attend(
        &self,
        isa: Isa,
        scores: Scores,
        mask: &dyn Fn([usize; 3], &mut [f32]),
    ) -> Result<Value, String> {
        let Sizes { batch, heads, queries, keys } = self.sizes()?;
        let (width, numbers) = (self.queries.dims()[3], self.values.dims()[3]);
        let groups = self.keys.dims()[1];
        let [q, k] = [&self.queries, &self.keys].map(Value::all::<f32>);
        let (q, k, v) = (q?, k?, self.values.all::<f32>()?);
        let dims = [batch, heads, queries, numbers];
        let mut to = zeros::<f32>(&dims)?;
        let mut products = zeros::<f32>(&[queries, keys])?;
        for head in 0..batch * heads {
            let (row, at) = (head / heads, head % heads);
            let group = row * groups + at / (heads / groups);
            let own = Rows::new(&q[head * queries * width..], queries, width, width);
            let others = Rows::new(&k[group * keys * width..], keys, width, width);
            dots(isa, own, others, &mut products);
            scores.apply(&mut products, width);
            for (query, products) in products.chunks_exact_mut(keys).enumerate() {
                mask([row, at, query], products);
                // A query that sees no key has zeros.
                if products.iter().all(|score| *score == HIDDEN) {
                    products.fill(0.0);
                } else {
                    softmax(isa, products);
                }
            }
            let values = &v[group * keys * numbers..][..keys * numbers];
            let to = &mut to[head * queries * numbers..][..queries * numbers];
            multiply(isa, &products, values, keys, to);
        }
        Value::new(dims, to)
    }
}

/// Numbers that are added to scores, of batch x heads x queries x keys with broadcasting.
struct Bias {
    numbers: Vec<f32>,
    strides: Vec<usize>,
}

impl Bias {
    /// Returns a mask as numbers. A mask of booleans hides keys that are false.
    fn new(mask: &Value, sizes: &Sizes) -> Result<Self, String> {
        let dims = [sizes.batch, sizes.heads, sizes.queries, sizes.keys];
        // A mask of fewer keys may mean that it is repeated, or that the others are hidden.
        if mask.dims().last() != Some(&sizes.keys) || broadcast(mask.dims(), &dims)? != dims {
            return Err(format!("cannot broadcast a mask of {:?} to {dims:?}", mask.dims()));
        }
        let numbers = match mask.as_slice::<bool>() {
            Some(all) => all.iter().map(|is_seen| if *is_seen { 0.0 } else { HIDDEN }).collect(),
            None => mask.all::<f32>()?.to_vec(),
        };
        Ok(Self { numbers, strides: broadcast_strides(mask.dims(), &dims) })
    }

    fn add(&self, [batch, head, query]: [usize; 3], scores: &mut [f32]) {
        let [first, second, third, step] = self.strides[..] else { return };
        let start = batch * first + head * second + query * third;
        for (key, score) in scores.iter_mut().enumerate() {
            *score += self.numbers[start + key * step];
        }
    }
}

/// Score of a key that a query does not see.
const HIDDEN: f32 = f32::NEG_INFINITY;

/// Hides all keys from `first` on.
fn hide_from(first: usize, scores: &mut [f32]) {
    if let Some(hidden) = scores.get_mut(first..) {
        hidden.fill(HIDDEN);
    }
}

/// Returns batch x heads x tokens x numbers of a head, from batch x tokens x numbers of all heads.
fn split(value: &Value, heads: usize) -> Result<Value, String> {
    match *value.dims() {
        [_, own, _, _] if own == heads || heads == 0 => Ok(value.clone()),
        [batch, tokens, all] if heads > 0 && all.is_multiple_of(heads) => {
            let parts = value.clone().reshaped(vec![batch, tokens, heads, all / heads])?;
            layout::transposed(&parts, Some(&[0, 2, 1, 3]))
        }
        _ => Err(format!("expected tokens of {heads} heads, found {:?}", value.dims())),
    }
}

/// Returns batch x tokens x numbers of all heads.
fn joined(value: &Value) -> Result<Value, String> {
    let turned = layout::transposed(value, Some(&[0, 2, 1, 3]))?;
    let &[batch, tokens, heads, numbers] = turned.dims() else {
        return Err(format!("expected heads, found {:?}", value.dims()));
    };
    turned.reshaped(vec![batch, tokens, heads * numbers])
}

/// Returns keys or values after those of a cache.
fn after(cache: Option<&Value>, new: Value) -> Result<Value, String> {
    match cache {
        Some(cache) => layout::concat(&[cache.clone(), new], 2),
        None => Ok(new),
    }
}

/// Returns a number of heads, 0 if the attribute is absent.
fn heads(reader: &NodeReader<'_>, attribute: &'static str) -> Result<usize, String> {
    let heads = reader.int(attribute, 0)?;
    let size = u32::try_from(heads).map(|heads| heads as usize);
    size.map_err(|_| format!("attribute '{attribute}' has the size {heads}"))
}

/// Checks that the node has no value at these inputs.
fn refuse_inputs(reader: &NodeReader<'_>, inputs: &[(usize, &str)]) -> Result<(), String> {
    let is_given = |at: usize| reader.node.inputs.get(at).is_some_and(|name| !name.is_empty());
    match inputs.iter().find(|(at, _)| is_given(*at)) {
        Some((at, what)) => Err(format!("input {at}, {what}, is not supported")),
        None => Ok(()),
    }
}

/// Returns the numbers of columns of the last axis.
fn columns(value: &Value, first: usize, width: usize) -> Result<Value, String> {
    let mut dims = value.dims().to_vec();
    let Some(last) = dims.last_mut() else { return Err("expected an axis".into()) };
    let all = std::mem::replace(last, width);
    if all == 0 || first + width > all {
        return Err(format!("expected {} numbers of a token, found {all}", first + width));
    }
    let rows = value.all::<f32>()?.chunks_exact(all);
    Value::new(dims, rows.flat_map(|row| row[first..][..width].iter().copied()).collect())
}

/// Reads the operator of the standard.
fn standard(reader: &NodeReader<'_>) -> Result<Operation, String> {
    let [own, shared] = [heads(reader, "q_num_heads")?, heads(reader, "kv_num_heads")?];
    let is_causal = reader.flag("is_causal")?;
    let scores = Scores::read_limited(reader)?;
    let scale = reader.float("scale", 1.0)?;
    if scale.is_nan() || scale <= 0.0 {
        return Err(format!("expected a scale above 0, found {scale}"));
    }
    reader.ignore("softmax_precision");
    reader.ignore("qk_matmul_output_mode");
    if reader.node.outputs.get(3).is_some_and(|name| !name.is_empty()) {
        return Err("the output of scores is not supported".into());
    }
    refuse_inputs(reader, &[(6, "lengths of keys")])?;
    Ok(Box::new(move |frame: &mut Frame<'_>| {
        let is_flat = frame.input(0)?.dims().len() == 3;
        let heads = Heads {
            queries: split(frame.input(0)?, own)?,
            keys: after(frame.get(4), split(frame.input(1)?, shared)?)?,
            values: after(frame.get(5), split(frame.input(2)?, shared)?)?,
        };
        let sizes = heads.sizes()?;
        let before = frame.get(4).map_or(0, |past| past.dims().get(2).copied().unwrap_or(0));
        let bias = frame.get(3).map(|mask| Bias::new(mask, &sizes)).transpose()?;
        let found = heads.attend(frame.workspace.isa, scores, &|place, scores| {
            if let Some(bias) = &bias {
                bias.add(place, scores);
            }
            if is_causal {
                hide_from(before + place[2] + 1, scores);
            }
        })?;
        let found = if is_flat { joined(&found)? } else { found };
        Ok(vec![found, heads.keys, heads.values])
    }))
}
