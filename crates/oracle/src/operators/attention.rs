//! Attention: products of queries and keys weight values. Rotation by positions.

use super::{Operator, layout, operator};
use crate::call::{Call, size_of};
use crate::fault::{Fault, fault};
use crate::tensor::{MAX_ELEMENTS, Tensor, Values, broadcast_shape, position};

const STANDARD: &[&str] = &[
    "is_causal",
    "kv_num_heads",
    "q_num_heads",
    "qk_matmul_output_mode",
    "scale",
    "softcap",
    "softmax_precision",
];
const MULTI_HEAD: &[&str] = &["mask_filter_value", "num_heads", "scale", "unidirectional"];
const PROJECTED: &[&str] = &[
    "do_rotary",
    "mask_filter_value",
    "num_heads",
    "past_present_share_buffer",
    "qkv_hidden_sizes",
    "scale",
    "unidirectional",
];
const GROUPED: &[&str] = &[
    "do_rotary",
    "k_quant_type",
    "kv_num_heads",
    "local_window_size",
    "num_heads",
    "qk_output",
    "rotary_interleaved",
    "scale",
    "smooth_softmax",
    "softcap",
    "v_quant_type",
];
const ROTARY: &[&str] = &["interleaved", "num_heads", "rotary_embedding_dim"];
const RUNTIME_ROTARY: &[&str] =
    &["interleaved", "is_packed_batching", "num_heads", "rotary_embedding_dim", "scale"];

pub(super) const OPERATORS: &[Operator] = &[
    operator("Attention", 23, 6, STANDARD, standard),
    operator("com.microsoft.MultiHeadAttention", 1, 8, MULTI_HEAD, multi_head),
    operator("com.microsoft.Attention", 1, 6, PROJECTED, projected),
    operator("com.microsoft.GroupQueryAttention", 1, 14, GROUPED, grouped),
    operator("RotaryEmbedding", 23, 4, ROTARY, |call| {
        let tables = [call.input(1)?, call.input(2)?];
        rotary(call, call.optional(3), tables, size_of(call.integer("num_heads", 0)?)?)
    }),
    operator("com.microsoft.RotaryEmbedding", 1, 4, RUNTIME_ROTARY, |call| {
        if call.flag("is_packed_batching", false)? || call.float("scale", 1.0)? != 1.0 {
            return fault("packed batches and scales are not supported");
        }
        let tables = [call.input(2)?, call.input(3)?];
        let numbers = 2 * tables[0].shape().last().copied().unwrap_or(0);
        let stated = size_of(call.integer("num_heads", 0)?)?;
        let all = call.input(0)?.shape().last().copied().unwrap_or(0);
        let heads = if stated == 0 && numbers > 0 { all / numbers } else { stated };
        rotary(call, Some(call.input(1)?), tables, heads)
    }),
];

/// Queries, keys and values of each head: batch x heads x tokens x numbers.
struct Heads {
    q: Tensor,
    k: Tensor,
    v: Tensor,
}

impl Heads {
    /// Returns batch, heads, queries and keys.
    fn shape(&self) -> Result<[usize; 4], Fault> {
        match (self.q.shape(), self.k.shape(), self.v.shape()) {
            (&[b, h, s, d], &[b_k, groups, t, d_k], &[b_v, g_v, t_v, _])
                if [b_k, b_v] == [b, b]
                    && d_k == d
                    && [g_v, t_v] == [groups, t]
                    && groups > 0
                    && h.is_multiple_of(groups)
                    && d > 0 =>
            {
                Ok([b, h, s, t])
            }
            (q, k, v) => fault(format!("no attention of {q:?}, {k:?} and {v:?}")),
        }
    }

    /// Computes the outputs. The score of a query and a key is their product times the scale, limited
    /// by the softcap, plus a mask of batch, head, query and key.
    fn attend(&self, call: &Call<'_>, mask: impl Fn([usize; 4]) -> f64) -> Result<Tensor, Fault> {
        let [batch, heads, queries, keys] = self.shape()?;
        let (width, numbers) = (self.q.shape()[3], self.v.shape()[3]);
        let groups = self.k.shape()[1];
        call.spend_product(&[batch, heads, queries, keys, width + numbers])?;
        let (q, k, v) = (self.q.as_floats()?, self.k.as_floats()?, self.v.as_floats()?);
        let stated = call.float("scale", 0.0)?;
        let scale = if stated == 0.0 { 1.0 / (width as f64).sqrt() } else { stated };
        let softcap = call.float("softcap", 0.0)?;
        let mut values = Vec::new();
        for b in 0..batch {
            for h in 0..heads {
                let group = b * groups + h * groups / heads;
                for s in 0..queries {
                    let query = ((b * heads + h) * queries + s) * width;
                    let score = |t: usize| {
                        let key = (group * keys + t) * width;
                        let product: f64 = (0..width).map(|d| q[query + d] * k[key + d]).sum();
                        let score = product * scale;
                        let limited =
                            if softcap > 0.0 { (score / softcap).tanh() * softcap } else { score };
                        limited + mask([b, h, s, t])
                    };
                    let weights = weights(&(0..keys).map(score).collect::<Vec<f64>>());
                    for d in 0..numbers {
                        let value = |t: usize| weights[t] * v[(group * keys + t) * numbers + d];
                        values.push((0..keys).map(value).sum::<f64>());
                    }
                }
            }
        }
        Tensor::of_floats(self.q.element(), &[batch, heads, queries, numbers], values)
    }
}

/// Returns the softmax of scores; zeros if all are hidden.
fn weights(scores: &[f64]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return vec![0.0; scores.len()];
    }
    let powers: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

/// Returns batch x heads x tokens x numbers of batch x tokens x all numbers.
fn split(tensor: &Tensor, heads: usize) -> Result<Tensor, Fault> {
    match *tensor.shape() {
        [_, _, _, _] => Ok(tensor.clone()),
        [batch, tokens, all] if heads > 0 && all.is_multiple_of(heads) => layout::transpose(
            &tensor.reshaped(&[batch, tokens, heads, all / heads])?,
            &[0, 2, 1, 3],
        ),
        _ => fault(format!("no {heads} heads of {:?}", tensor.shape())),
    }
}

/// Returns batch x tokens x numbers of all heads.
fn joined(heads: &Tensor) -> Result<Tensor, Fault> {
    let &[batch, count, tokens, numbers] = heads.shape() else {
        return fault(format!("expected heads, found {:?}", heads.shape()));
    };
    layout::transpose(heads, &[0, 2, 1, 3])?.reshaped(&[batch, tokens, count * numbers])
}

/// Returns a part of the last axis.
fn part(tensor: &Tensor, first: usize, width: usize) -> Result<Tensor, Fault> {
    let mut shape = tensor.shape().to_vec();
    let Some(last) = shape.last_mut() else { return fault("expected an axis") };
    *last = width;
    tensor.rearranged(&shape, |index| {
        let mut own = index.to_vec();
        if let Some(last) = own.last_mut() {
            *last += first;
        }
        position(&own, tensor.shape())
    })
}

/// Returns the tokens of a cache followed by new ones.
fn after(cache: Option<&Tensor>, new: Tensor) -> Result<Tensor, Fault> {
    let Some(cache) = cache else { return Ok(new) };
    let (&[batch, heads, old, numbers], &[_, _, tokens, _]) = (cache.shape(), new.shape()) else {
        return fault(format!("a cache of shape {:?}", cache.shape()));
    };
    if new.shape() != [batch, heads, tokens, numbers] {
        return fault(format!("a cache of shape {:?} for {:?}", cache.shape(), new.shape()));
    }
    let all = cache.followed_by(&new)?;
    all.rearranged(&[batch, heads, old + tokens, numbers], |index| {
        let &[b, h, t, d] = index else { return usize::MAX };
        match t.checked_sub(old) {
            None => position(index, cache.shape()),
            Some(t) => cache.count() + position(&[b, h, t, d], new.shape()),
        }
    })
}

/// Returns a mask in the shape of all scores. Of a mask of truth values, 0 hides a key.
fn spread(mask: &Tensor, shape: [usize; 4]) -> Result<Vec<f64>, Fault> {
    if mask.shape().last() != Some(&shape[3]) || broadcast_shape(&[mask.shape(), &shape])? != shape
    {
        return fault(format!("a mask of shape {:?} for {shape:?}", mask.shape()));
    }
    let mask = mask.broadcast(&shape)?;
    Ok(match mask.values() {
        Values::Floats(numbers) => numbers.clone(),
        Values::Integers(_) => {
            let hidden = |is_seen: bool| if is_seen { 0.0 } else { f64::NEG_INFINITY };
            mask.as_truths()?.into_iter().map(hidden).collect()
        }
    })
}

fn causal(is_causal: bool, before: usize, [_, _, s, t]: [usize; 4]) -> f64 {
    if is_causal && t > before + s { f64::NEG_INFINITY } else { 0.0 }
}

fn standard(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let count = |name: &str| size_of(call.integer(name, 0)?);
    let (heads, groups) = (count("q_num_heads")?, count("kv_num_heads")?);
    let is_flat = call.input(0)?.rank() == 3;
    if call.optional_float("scale")?.is_some_and(|scale| scale <= 0.0) {
        return fault("expected a scale above 0");
    }
    let own = Heads {
        q: split(call.input(0)?, heads)?,
        k: after(call.optional(4), split(call.input(1)?, groups)?)?,
        v: after(call.optional(5), split(call.input(2)?, groups)?)?,
    };
    let shape = own.shape()?;
    let mask = call.optional(3).map(|mask| spread(mask, shape)).transpose()?;
    let before = call.optional(4).map_or(0, |past| past.shape()[2]);
    let is_causal = call.flag("is_causal", false)?;
    let found = own.attend(call, |index| {
        mask.as_ref().map_or(0.0, |mask| mask[position(&index, &shape)])
            + causal(is_causal, before, index)
    })?;
    Ok(vec![if is_flat { joined(&found)? } else { found }, own.k, own.v])
}

/// Returns a mask of ONNX Runtime as numbers: the length of each row, or 0 for hidden keys of a row or of
/// each query.
fn runtime_mask(call: &Call<'_>, at: usize, shape: [usize; 4]) -> Result<Option<Vec<f64>>, Fault> {
    let [batch, _, queries, keys] = shape;
    let Some(mask) = call.optional(at) else { return Ok(None) };
    let hidden = call.float("mask_filter_value", -10000.0)?;
    let integers = mask.as_integers()?;
    let is_seen: Vec<bool> = match *mask.shape() {
        [rows] if rows == batch => (0..batch * keys)
            .map(|at| i64::try_from(at % keys).is_ok_and(|key| key < integers[at / keys]))
            .collect(),
        [_, own] | [_, _, own] if own == keys => integers.iter().map(|seen| *seen != 0).collect(),
        _ => return fault(format!("a mask of shape {:?} for {shape:?}", mask.shape())),
    };
    let rows = if mask.rank() == 3 { queries } else { 1 };
    let numbers = is_seen.into_iter().map(|seen| if seen { 0.0 } else { hidden }).collect();
    let mask = Tensor::of_floats(crate::Element::Float32, &[batch, 1, rows, keys], numbers)?;
    spread(&mask, shape).map(Some)
}

/// Computes an attention of ONNX Runtime with a mask and a bias at these inputs.
fn runtime(call: &Call<'_>, own: &Heads, mask: usize, bias: usize) -> Result<Tensor, Fault> {
    let shape = own.shape()?;
    let bias = call.optional(bias).map(|bias| spread(bias, shape)).transpose()?;
    let biases = [runtime_mask(call, mask, shape)?, bias];
    let is_causal = call.flag("unidirectional", false)?;
    let before = shape[3].saturating_sub(shape[2]);
    let found = own.attend(call, |index| {
        let at = position(&index, &shape);
        let bias: f64 = biases.iter().flatten().map(|numbers| numbers[at]).sum();
        bias + causal(is_causal, before, index)
    })?;
    joined(&found)
}

fn multi_head(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let heads = size_of(call.integer("num_heads", 0)?)?;
    let mut first = 0;
    let mut operand = |at: usize| -> Result<Tensor, Fault> {
        let tensor = call.input(at)?;
        let Some(bias) = call.optional(3) else { return split(tensor, heads) };
        let &[_, _, width] = tensor.shape() else { return fault("a bias of heads") };
        let bias = part(bias, first, width)?.broadcast(tensor.shape())?;
        first += width;
        split(&sum(tensor, &bias)?, heads)
    };
    let (q, k, v) = (operand(0)?, operand(1)?, operand(2)?);
    if call.flag("unidirectional", false)? && k.shape().get(2) != q.shape().get(2) {
        return fault("unidirectional=1 requires as many new keys as queries");
    }
    let own = Heads { q, k: after(call.optional(6), k)?, v: after(call.optional(7), v)? };
    Ok(vec![runtime(call, &own, 4, 5)?, own.k, own.v])
}

fn sum(a: &Tensor, b: &Tensor) -> Result<Tensor, Fault> {
    let values = a.as_floats()?.iter().zip(b.as_floats()?).map(|(a, b)| a + b).collect();
    Tensor::of_floats(a.element(), a.shape(), values)
}

fn projected(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    if call.flag("do_rotary", false)? || call.flag("past_present_share_buffer", false)? {
        return fault("rotation and shared caches are not supported");
    }
    let heads = size_of(call.integer("num_heads", 0)?)?;
    let mut all = super::product::multiply(call, call.input(0)?, call.input(1)?)?;
    if let Some(bias) = call.optional(2) {
        all = sum(&all, &bias.broadcast(all.shape())?)?;
    }
    let width = all.shape().last().copied().unwrap_or(0);
    let widths = match call.integers("qkv_hidden_sizes")? {
        Some(widths) => crate::call::sizes_of(&widths)?,
        None => vec![width / 3; 3],
    };
    let [q, k, v] = widths[..] else { return fault("expected three qkv_hidden_sizes") };
    if q.saturating_add(k).saturating_add(v) != width {
        return fault(format!("{widths:?} of {width} numbers"));
    }
    // The cache has keys and values as the first axis.
    let cached = |half: usize| -> Result<Option<Tensor>, Fault> {
        let Some(cache) = call.optional(4) else { return Ok(None) };
        let [2, shape @ ..] = cache.shape() else { return fault("expected keys and values") };
        let count: usize = shape.iter().product();
        let positions: Vec<usize> = (half * count..(half + 1) * count).collect();
        cache.picked(shape, &positions).map(Some)
    };
    let own = Heads {
        q: split(&part(&all, 0, q)?, heads)?,
        k: after(cached(0)?.as_ref(), split(&part(&all, q, k)?, heads)?)?,
        v: after(cached(1)?.as_ref(), split(&part(&all, q + k, v)?, heads)?)?,
    };
    let mut outputs = vec![runtime(call, &own, 3, 5)?];
    if call.wants(1) {
        let shape = [&[2][..], own.k.shape()].concat();
        outputs.push(own.k.followed_by(&own.v)?.reshaped(&shape)?);
    }
    Ok(outputs)
}

fn grouped(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let count = |name: &str| size_of(call.integer(name, 0)?);
    let (heads, groups) = (count("num_heads")?, count("kv_num_heads")?);
    let is_quantized = call.text("k_quant_type", "NONE")? != "NONE"
        || call.text("v_quant_type", "NONE")? != "NONE";
    let is_other = call.integer("smooth_softmax", 0)? > 0 || call.integer("qk_output", 0)? != 0;
    let has_more = (11..call.inputs.len()).any(|at| call.optional(at).is_some());
    let has_heads = [heads, groups].iter().all(|count| (1..=MAX_ELEMENTS).contains(count));
    if !has_heads || is_quantized || is_other || has_more {
        return fault(
            "the number of heads, or sinks, a smooth softmax, scores or a quantized cache",
        );
    }
    let all = call.input(0)?;
    let (mut q, mut k, v) = match (call.optional(1), call.optional(2)) {
        (Some(k), Some(v)) => (split(all, heads)?, split(k, groups)?, split(v, groups)?),
        _ => {
            let width = all.shape().last().copied().unwrap_or(0) / (heads + 2 * groups);
            let some = |first: usize, count: usize| {
                split(&part(all, first * width, count * width)?, count)
            };
            (some(0, heads)?, some(heads, groups)?, some(heads + groups, groups)?)
        }
    };
    let before = call.optional(3).map_or(0, |past| past.shape().get(2).copied().unwrap_or(0));
    let total = before + q.shape().get(2).copied().unwrap_or(0);
    let is_total = |last: &i64| size_of(*last).is_ok_and(|last| last + 1 == total);
    let stated = size_of(call.input(6)?.as_integer()?)?;
    if stated != total || !call.input(5)?.as_integers()?.iter().all(is_total) {
        return fault("rows of different lengths are not supported");
    }
    if call.flag("do_rotary", false)? {
        let tables = [call.input(7)?, call.input(8)?];
        let is_interleaved = call.flag("rotary_interleaved", false)?;
        let numbers = 2 * tables[0].shape().last().copied().unwrap_or(0);
        let row = |b: usize, s: usize| match call.optional(9) {
            Some(positions) => position_of(positions, b, s),
            None => Ok(before + s),
        };
        q = rotated(&q, tables, is_interleaved, numbers, &row)?;
        k = rotated(&k, tables, is_interleaved, numbers, &row)?;
    }
    let own = Heads { q, k: after(call.optional(3), k)?, v: after(call.optional(4), v)? };
    let shape = own.shape()?;
    let bias = call.optional(10).map(|bias| spread(bias, shape)).transpose()?;
    let window = size_of(call.integer("local_window_size", -1)?.max(0))?;
    let found = own.attend(call, |index| {
        let [_, _, s, t] = index;
        let is_past = window > 0 && t + window <= before + s;
        let bias = bias.as_ref().map_or(0.0, |bias| bias[position(&index, &shape)]);
        if is_past { f64::NEG_INFINITY } else { bias + causal(true, before, index) }
    })?;
    Ok(vec![joined(&found)?, own.k, own.v])
}

/// Returns the position of a token: one for each token, or that of the first one alone.
fn position_of(positions: &Tensor, batch: usize, token: usize) -> Result<usize, Fault> {
    let all = positions.as_integers()?;
    let found = match *positions.shape() {
        [rows, tokens] if batch < rows && token < tokens => all[batch * tokens + token],
        [1] | [] => all[0].saturating_add(token as i64),
        _ => return fault(format!("positions of shape {:?}", positions.shape())),
    };
    size_of(found)
}

/// Rotates pairs of the first `numbers` of each head by the angle of the token's row in the tables.
fn rotated(
    heads: &Tensor,
    [cosines, sines]: [&Tensor; 2],
    is_interleaved: bool,
    numbers: usize,
    row: &dyn Fn(usize, usize) -> Result<usize, Fault>,
) -> Result<Tensor, Fault> {
    let &[batch, count, tokens, width] = heads.shape() else {
        return fault(format!("expected heads, found {:?}", heads.shape()));
    };
    let half = numbers / 2;
    if half == 0 || !numbers.is_multiple_of(2) || numbers > width {
        return fault(format!("a rotation of {numbers} of {width} numbers"));
    }
    if cosines.shape().last() != Some(&half) || sines.shape() != cosines.shape() {
        return fault(format!("tables of shapes {:?} and {:?}", cosines.shape(), sines.shape()));
    }
    let (cosines, sines) = (cosines.as_floats()?, sines.as_floats()?);
    let mut values = heads.as_floats()?.to_vec();
    for b in 0..batch {
        for s in 0..tokens {
            let row = row(b, s)?;
            if row >= cosines.len() / half {
                return fault(format!("no row {row} in the tables"));
            }
            for h in 0..count {
                let start = position(&[b, h, s, 0], heads.shape());
                for pair in 0..half {
                    let [first, second] =
                        if is_interleaved { [2 * pair, 2 * pair + 1] } else { [pair, half + pair] };
                    let (x, y) = (values[start + first], values[start + second]);
                    let (cosine, sine) = (cosines[row * half + pair], sines[row * half + pair]);
                    values[start + first] = x * cosine - y * sine;
                    values[start + second] = x * sine + y * cosine;
                }
            }
        }
    }
    Tensor::of_floats(heads.element(), heads.shape(), values)
}

/// Rotates tokens of a number of heads. Without positions, the tables have a row for each token.
fn rotary(
    call: &Call<'_>,
    positions: Option<&Tensor>,
    tables: [&Tensor; 2],
    heads: usize,
) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let own = split(input, heads)?;
    let &[batch, _, tokens, width] = own.shape() else { return fault("expected heads") };
    let stated = size_of(call.integer("rotary_embedding_dim", 0)?)?;
    let numbers = if stated == 0 { width } else { stated };
    if positions.is_none() && tables[0].shape() != [batch, tokens, numbers / 2] {
        return fault(format!("no table of shape {:?} for each token", tables[0].shape()));
    }
    let is_interleaved = call.flag("interleaved", false)?;
    let row = |b: usize, s: usize| match positions {
        Some(positions) => position_of(positions, b, s),
        None => Ok(b * tokens + s),
    };
    let found = rotated(&own, tables, is_interleaved, numbers, &row)?;
    Ok(vec![if input.rank() == 3 { joined(&found)? } else { found }])
}
