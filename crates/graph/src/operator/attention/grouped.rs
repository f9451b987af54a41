//! `GroupQueryAttention` of ONNX Runtime, as exports of language models have it.

use super::rotary::{Rotation, position};
use super::{
    Bias, HIDDEN, Heads, Scores, after, columns, heads, hide_from, joined, refuse_inputs, split,
};
use crate::node::{NodeReader, Operation};
use crate::session::Frame;
use crate::value::Value;

/// Attributes of a node.
#[derive(Clone, Copy)]
struct Options {
    heads: usize,
    /// Heads of keys and values.
    shared: usize,
    scores: Scores,
    /// Rotation of queries and keys, if the node rotates them.
    rotation: Option<Rotation>,
    /// Keys that a query sees, its own among them. 0 for all.
    window: usize,
}

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Operation, String> {
    let is_interleaved = reader.flag("rotary_interleaved")?;
    let options = Options {
        heads: heads(reader, "num_heads")?,
        shared: heads(reader, "kv_num_heads")?,
        scores: Scores::read_limited(reader)?,
        rotation: reader.flag("do_rotary")?.then_some(Rotation { is_interleaved, numbers: 0 }),
        window: usize::try_from(reader.int("local_window_size", -1)?).unwrap_or(0),
    };
    if options.heads == 0 || options.shared == 0 {
        return Err("expected num_heads and kv_num_heads".into());
    }
    if reader.int("smooth_softmax", 0)? > 0 || reader.int("qk_output", 0)? != 0 {
        return Err("a smooth softmax and the output of scores are not supported".into());
    }
    for name in ["k_quant_type", "v_quant_type"] {
        if reader.text(name, "NONE")? != "NONE" {
            return Err(format!("attribute '{name}' is not supported"));
        }
    }
    let others = [(11, "sinks of heads"), (12, "scales of keys"), (13, "scales of values")];
    refuse_inputs(reader, &others)?;
    Ok(Box::new(move |frame| run(frame, options)))
}

fn run(frame: &mut Frame<'_>, options: Options) -> Result<Vec<Value>, String> {
    let Options { heads, shared, scores, rotation, window } = options;
    let [queries, keys, values] = operands(frame, heads, shared)?;
    let tokens = queries.dims()[2];
    let before = past(frame, tokens)?;
    let [queries, keys] = match rotation {
        None => [queries, keys],
        Some(rotation) => {
            let width = queries.dims()[3];
            let tables = [frame.input(7)?, frame.input(8)?];
            // Tables of fewer numbers rotate a part of each head.
            let half = tables[0].dims().last().copied().unwrap_or(0);
            let rotation = Rotation { numbers: (2 * half).min(width), ..rotation };
            let row = |batch: usize, token: usize| match frame.get(9) {
                Some(positions) => position(positions, batch, token),
                None => Ok(before + token),
            };
            [rotation.rotated(&queries, tables, &row)?, rotation.rotated(&keys, tables, &row)?]
        }
    };
    let heads = Heads {
        queries,
        keys: after(frame.get(3).filter(|_| before > 0), keys)?,
        values: after(frame.get(4).filter(|_| before > 0), values)?,
    };
    let sizes = heads.sizes()?;
    let bias = frame.get(10).map(|bias| Bias::new(bias, &sizes)).transpose()?;
    let found = heads.attend(frame.workspace.isa, scores, &|place, scores| {
        if let Some(bias) = &bias {
            bias.add(place, scores);
        }
        let end = before + place[2] + 1;
        hide_from(end, scores);
        if window > 0 && end > window {
            scores[..end - window].fill(HIDDEN);
        }
    })?;
    Ok(vec![joined(&found)?, heads.keys, heads.values])
}

/// Returns the heads of queries, keys and values, which may be one input.
fn operands(frame: &Frame<'_>, heads: usize, shared: usize) -> Result<[Value; 3], String> {
    let all = frame.input(0)?;
    if let (Some(keys), Some(values)) = (frame.get(1), frame.get(2)) {
        return Ok([split(all, heads)?, split(keys, shared)?, split(values, shared)?]);
    }
    let width = all.dims().last().copied().unwrap_or(0) / (heads + 2 * shared);
    let part =
        |first: usize, count: usize| split(&columns(all, first * width, count * width)?, count);
    Ok([part(0, heads)?, part(heads, shared)?, part(heads + shared, shared)?])
}

/// Returns the number of tokens before those of this call. All rows must have the same.
fn past(frame: &Frame<'_>, tokens: usize) -> Result<usize, String> {
    let cached = frame.get(3).map_or(0, |past| past.dims().get(2).copied().unwrap_or(0));
    let total = cached + tokens;
    // The input has the last position of each row.
    let last = frame.input(5)?.integers()?;
    let stated = frame.input(6)?.integer()?;
    let is_last = |last: &i64| last.checked_add(1) == Some(total as i64);
    if stated != total as i64 || !last.iter().all(is_last) {
        return Err(format!(
            "rows of different lengths, and caches that are longer than their tokens, are not supported: \
             expected {total} tokens in each row, found {stated} and last positions {last:?}"
        ));
    }
    Ok(cached)
}
