//! `Attention` and `MultiHeadAttention` of ONNX Runtime.

use super::{Bias, Heads, Scores, after, columns, heads, hide_from, joined, refuse_inputs, split};
use crate::node::{NodeReader, Operation};
use crate::operator::broadcast::sum;
use crate::operator::layout::{slice_at, stack};
use crate::operator::product::{PackedMatrix, matmul, packed_weights};
use crate::session::Frame;
use crate::value::Value;

/// Attributes that both operators have.
#[derive(Clone, Copy)]
struct Options {
    heads: usize,
    scores: Scores,
    /// Whether queries see no later keys.
    is_causal: bool,
    /// Number that is added to the scores of keys that a mask hides.
    hidden: f32,
}

impl Options {
    fn read(reader: &NodeReader<'_>) -> Result<Self, String> {
        let heads = heads(reader, "num_heads")?;
        if heads == 0 {
            return Err("expected num_heads".into());
        }
        Ok(Self {
            heads,
            scores: Scores::read(reader)?,
            is_causal: reader.flag("unidirectional")?,
            hidden: reader.float("mask_filter_value", -10_000.0)?,
        })
    }

    /// Attends to the keys that the mask in input `mask` shows, with the bias in input `bias`.
    fn run(
        &self,
        frame: &Frame<'_>,
        heads: &Heads,
        [mask, bias]: [usize; 2],
    ) -> Result<Value, String> {
        let sizes = heads.sizes()?;
        let before = sizes.keys.saturating_sub(sizes.queries);
        let mask = frame.get(mask).map(|mask| hidden_keys(mask, self.hidden, sizes.keys));
        let given = [mask.transpose()?, frame.get(bias).cloned()];
        let biases = given.iter().flatten().map(|bias| Bias::new(bias, &sizes));
        let biases: Vec<Bias> = biases.collect::<Result<_, _>>()?;
        let found = heads.attend(frame.workspace.isa, self.scores, &|place, scores| {
            biases.iter().for_each(|bias| bias.add(place, scores));
            if self.is_causal {
                hide_from(before + place[2] + 1, scores);
            }
        })?;
        joined(&found)
    }
}

/// Returns the numbers that a mask adds to scores: that of a key of each row, that of a key for each
/// query, or the number of keys of each row.
fn hidden_keys(mask: &Value, hidden: f32, keys: usize) -> Result<Value, String> {
    let all = mask.integers()?;
    let number = |is_seen: bool| if is_seen { 0.0 } else { hidden };
    let numbers = || all.iter().map(|seen| number(*seen != 0)).collect::<Vec<f32>>();
    match *mask.dims() {
        [rows] => {
            let row_of_keys = |length: i64| (0..keys as i64).map(move |key| key < length);
            let numbers = all.iter().copied().flat_map(row_of_keys).map(number);
            Value::new([rows, 1, 1, keys], numbers.collect())
        }
        [rows, own] if own == keys => Value::new([rows, 1, 1, keys], numbers()),
        [rows, queries, own] if own == keys => Value::new([rows, 1, queries, keys], numbers()),
        _ => Err(format!("a mask of {:?} for {keys} keys is not supported", mask.dims())),
    }
}

/// Reads an attention of queries, keys and values.
pub(super) fn multi_head(reader: &NodeReader<'_>) -> Result<Operation, String> {
    let options = Options::read(reader)?;
    let others = [(8, "a length of the cache"), (9, "an order of the cache")];
    refuse_inputs(reader, &others)?;
    Ok(Box::new(move |frame: &mut Frame<'_>| {
        let [queries, keys, values] = operands(frame, options.heads)?;
        if options.is_causal && keys.dims().get(2) != queries.dims().get(2) {
            return Err("unidirectional=1 requires as many new keys as queries".into());
        }
        let heads = Heads {
            queries,
            keys: after(frame.get(6), keys)?,
            values: after(frame.get(7), values)?,
        };
        let found = options.run(frame, &heads, [4, 5])?;
        Ok(vec![found, heads.keys, heads.values])
    }))
}

/// Returns the heads of queries, keys and values, with the bias of each.
fn operands(frame: &Frame<'_>, heads: usize) -> Result<[Value; 3], String> {
    let (Some(keys), Some(values)) = (frame.get(1), frame.get(2)) else {
        return Err("keys and values inside other inputs are not supported".into());
    };
    let given = [frame.input(0)?, keys, values];
    let mut first = 0;
    let mut part = |value: &Value| {
        let value = match (frame.get(3), value.dims()) {
            (Some(bias), &[_, _, width]) => {
                let bias = columns(bias, first, width)?;
                first += width;
                sum(value.clone(), bias)?
            }
            (Some(_), dims) => return Err(format!("a bias of {dims:?} is not supported")),
            (None, _) => value.clone(),
        };
        split(&value, heads)
    };
    Ok([part(given[0])?, part(given[1])?, part(given[2])?])
}

/// Reads an attention that computes queries, keys and values of one input.
pub(super) fn read(reader: &NodeReader<'_>) -> Result<Operation, String> {
    let options = Options::read(reader)?;
    for name in ["do_rotary", "past_present_share_buffer"] {
        if reader.flag(name)? {
            return Err(format!("attribute '{name}' is not supported"));
        }
    }
    let widths = reader.sizes("qkv_hidden_sizes")?;
    refuse_inputs(reader, &[(6, "a length of the cache")])?;
    let wants_cache = reader.node.outputs.len() > 1;
    let packed: Option<PackedMatrix> = packed_weights(reader, 1, false)?;
    Ok(Box::new(move |frame: &mut Frame<'_>| {
        let (x, isa) = (frame.input(0)?, frame.workspace.isa);
        let projected = match &packed {
            Some(weights) => weights.multiply(frame.workspace, x)?,
            None => matmul(isa, x, frame.input(1)?)?,
        };
        let projected = match frame.get(2) {
            Some(bias) => sum(projected, bias.clone())?,
            None => projected,
        };
        let all = projected.dims().last().copied().unwrap_or(0);
        let widths = widths.clone().unwrap_or_else(|| vec![all / 3; 3]);
        let [q, k, v] = widths[..] else { return Err("expected three qkv_hidden_sizes".into()) };
        if q.checked_add(k).and_then(|sum| sum.checked_add(v)) != Some(all) {
            return Err(format!("cannot split {all} numbers of a token into {widths:?}"));
        }
        let part =
            |first: usize, width: usize| split(&columns(&projected, first, width)?, options.heads);
        // The cache has keys and values as the first axis.
        let cached = |at: usize| frame.get(4).map(|cache| slice_at(cache, 0, at));
        let (past_keys, past_values) = match frame.get(4).map(Value::dims) {
            Some([2, ..]) => (cached(0), cached(1)),
            Some(dims) => {
                return Err(format!("expected a cache of keys and values, found {dims:?}"));
            }
            None => (None, None),
        };
        let heads = Heads {
            queries: part(0, q)?,
            keys: after(past_keys.as_ref(), part(q, k)?)?,
            values: after(past_values.as_ref(), part(q + k, v)?)?,
        };
        let found = options.run(frame, &heads, [3, 5])?;
        if !wants_cache {
            return Ok(vec![found]);
        }
        let cache = stack(&[heads.keys, heads.values], 0, false, None)?;
        Ok(vec![found, cache])
    }))
}
