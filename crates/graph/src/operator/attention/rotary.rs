//! Rotation of queries and keys by the positions of their tokens.

use super::{heads, joined, refuse_inputs, split};
use crate::node::{NodeReader, Operation};
use crate::value::Value;

/// Which numbers of a head are the two coordinates of a rotation.
#[derive(Clone, Copy)]
pub(super) struct Rotation {
    /// Neighbors, instead of numbers of the first half and the second half.
    pub is_interleaved: bool,
    /// Numbers that are rotated, from the first one on; 0 for all.
    pub numbers: usize,
}

impl Rotation {
    /// Returns rotated heads: batch x heads x tokens x numbers. `row` returns the row of both tables
    /// for a batch and a token.
    pub fn rotated(
        self,
        value: &Value,
        [cosines, sines]: [&Value; 2],
        row: &dyn Fn(usize, usize) -> Result<usize, String>,
    ) -> Result<Value, String> {
        let &[batch, heads, tokens, width] = value.dims() else {
            return Err(format!("expected heads, found {:?}", value.dims()));
        };
        let numbers = if self.numbers == 0 { width } else { self.numbers };
        let half = numbers / 2;
        let is_table = |table: &Value| table.dims().last() == Some(&half);
        if !numbers.is_multiple_of(2) || numbers > width || half == 0 {
            return Err(format!("cannot rotate {numbers} of {width} numbers"));
        }
        if !is_table(cosines) || !is_table(sines) || cosines.dims() != sines.dims() {
            let found = (cosines.dims(), sines.dims());
            return Err(format!("expected tables with rows of {half} numbers, found {found:?}"));
        }
        let (cosines, sines) = (cosines.all::<f32>()?, sines.all::<f32>()?);
        let mut to = value.all::<f32>()?.to_vec();
        for (at, token) in to.chunks_exact_mut(width).enumerate() {
            let row = row(at / tokens / heads, at % tokens)?;
            if row >= cosines.len() / half {
                return Err(format!("the tables have no row {row}"));
            }
            let place = row * half;
            for pair in 0..half {
                let (first, second) = if self.is_interleaved {
                    (2 * pair, 2 * pair + 1)
                } else {
                    (pair, pair + half)
                };
                let (x, y) = (token[first], token[second]);
                let (cosine, sine) = (cosines[place + pair], sines[place + pair]);
                token[first] = x * cosine - y * sine;
                token[second] = y * cosine + x * sine;
            }
        }
        Value::new([batch, heads, tokens, width], to)
    }
}

/// Returns the row of a table for a token: its position, of which there is one for each token, or the
/// first one alone.
pub(super) fn position(positions: &Value, batch: usize, token: usize) -> Result<usize, String> {
    let all = positions.integers()?;
    let position = match *positions.dims() {
        [_, tokens] if token < tokens => all.get(batch * tokens + token).copied(),
        [1] | [] => all.first().map(|first| first.saturating_add(token as i64)),
        _ => None,
    };
    let position = position.and_then(|position| usize::try_from(position).ok());
    position.ok_or_else(|| format!("expected positions, found {:?}", positions.dims()))
}

/// Reads both operators, whose inputs have different orders.
pub(super) fn read(reader: &NodeReader<'_>) -> Result<Operation, String> {
    let is_standard = reader.node.domain.is_empty();
    let own = heads(reader, "num_heads")?;
    let rotation = Rotation {
        is_interleaved: reader.flag("interleaved")?,
        numbers: heads(reader, "rotary_embedding_dim")?,
    };
    let [positions, cosines, sines] = if is_standard { [3, 1, 2] } else { [1, 2, 3] };
    if !is_standard {
        let (scale, packing) = (reader.float("scale", 1.0)?, reader.int("is_packed_batching", 0)?);
        if scale != 1.0 || packing != 0 {
            return Err("a scale and packed batches are not supported".into());
        }
        refuse_inputs(reader, &[(4, "an order of the tokens")])?;
    }
    Ok(Box::new(move |frame| {
        let x = frame.input(0)?;
        let tables = [frame.input(cosines)?, frame.input(sines)?];
        let width = tables[0].dims().last().copied().unwrap_or(0) * 2;
        let is_flat = x.dims().len() == 3;
        let heads = match *x.dims() {
            [_, _, all] if own == 0 && !is_standard && width > 0 => all / width,
            _ => own,
        };
        let value = split(x, if is_flat { heads } else { 0 })?;
        let &[batch, _, tokens, _] = value.dims() else {
            return Err(format!("expected heads, found {:?}", value.dims()));
        };
        let rotated = match frame.get(positions) {
            Some(positions) => rotation
                .rotated(&value, tables, &|batch, token| position(positions, batch, token))?,
            None if tables[0].dims().get(..2) == Some(&[batch, tokens][..]) => {
                rotation.rotated(&value, tables, &|batch, token| Ok(batch * tokens + token))?
            }
            None => {
                let found = tables[0].dims();
                return Err(format!(
                    "expected tables with a row for each of {batch} x {tokens} tokens, found {found:?}"
                ));
            }
        };
        Ok(vec![if is_flat { joined(&rotated)? } else { rotated }])
    }))
}
