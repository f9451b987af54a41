//! Causal attention of a decoder with rotary position embedding.

use dyno_onnx::{BuildError, Builder, Element, Name};

use super::{Decoder, Family, Phase, SharedValues, linear};

/// Added to the attention scores of padding and of later tokens.
const MASKED: f32 = -10_000.0;

impl Decoder {
    /// Computes the rotary angles and the mask, which all blocks share.
    pub(super) fn shared(
        &self,
        net: &mut Builder,
        mask: &Name,
        phase: Phase,
    ) -> Result<SharedValues, BuildError> {
        let before = phase.before() as i64;
        let places: Vec<i64> = (before..before + phase.tokens() as i64).collect();
        let [rows, columns] = [net.integers(&places), {
            let pairs: Vec<i64> = (0..self.turned as i64 / 2).collect();
            net.integers(&pairs)
        }];
        let to_float = [("to", Element::F32.into())];
        // base ^ (-2 i / turned) times the position.
        let columns = net.node("Cast", &[&columns], &to_float)?;
        let step = net.number(-2.0 / self.turned as f32);
        let columns = net.node("Mul", &[&columns, &step], &[])?;
        let base = net.number(self.base);
        let columns = net.node("Pow", &[&base, &columns], &[])?;
        let axis = net.integers(&[1]);
        let rows = net.node("Unsqueeze", &[&rows, &axis], &[])?;
        let floats = net.node("Cast", &[&rows], &to_float)?;
        let mut angles = net.node("Mul", &[&floats, &columns], &[])?;
        if self.family == Family::GptJ {
            // GPT-J rotates adjacent pairs, not the halves of a head.
            let last = net.integers(&[-1]);
            angles = net.node("Unsqueeze", &[&angles, &last], &[])?;
        }
        let cosines = net.node("Cos", &[&angles], &[])?;
        let sines = net.node("Sin", &[&angles], &[])?;
        // [N, 1, 1, 1, all tokens]
        let axes = net.integers(&[1, 2, 3]);
        let mask = net.node("Unsqueeze", &[mask, &axes], &[])?;
        let mask = net.node("Cast", &[&mask], &to_float)?;
        let one = net.number(1.0);
        let padding = net.node("Sub", &[&one, &mask], &[])?;
        let masked = net.number(MASKED);
        let mut mask = net.node("Mul", &[&padding, &masked], &[])?;
        if phase.tokens() > 1 {
            let all: Vec<i64> = (0..before + phase.tokens() as i64).collect();
            let all = net.integers(&all);
            let is_there = net.node("LessOrEqual", &[&all, &rows], &[])?;
            let nothing = net.number(0.0);
            let later = net.node("Where", &[&is_there, &nothing, &masked], &[])?;
            mask = net.node("Add", &[&mask, &later], &[])?;
        }
        Ok(SharedValues { phase, cosines, sines, mask })
    }

    /// Returns the attention output of a block, and the keys and values of all tokens so far.
    pub(super) fn attention(
        &self,
        net: &mut Builder,
        x: &Name,
        shared: &SharedValues,
        past: Option<(Name, Name)>,
        name: &str,
    ) -> Result<(Name, [Name; 2]), BuildError> {
        let width = self.width;
        let heads = self.key_heads as i64;
        let asking = (self.heads / self.key_heads) as i64;
        let each = width as i64;
        let output = if self.family == Family::GptJ { "out_proj" } else { "o_proj" };
        let project = |net: &mut Builder, part: &str, heads: usize| {
            linear(net, x, &format!("{name}.{part}"), [self.hidden, heads * width], false)
        };
        // [N, heads of keys, heads of queries each, tokens, width]
        let query = project(net, "q_proj", self.heads)?;
        let split = net.integers(&[0, 0, heads, asking, each]);
        let query = net.node("Reshape", &[&query, &split], &[])?;
        let query = net.node("Transpose", &[&query], &[("perm", [0, 2, 3, 1, 4].into())])?;
        let query = self.turn(net, &query, shared)?;
        let split = net.integers(&[0, 0, heads, each]);
        let apart = |net: &mut Builder, part: &str| {
            let y = project(net, part, self.key_heads)?;
            let y = net.node("Reshape", &[&y, &split], &[])?;
            net.node("Transpose", &[&y], &[("perm", [0, 2, 1, 3].into())])
        };
        let key = apart(net, "k_proj")?;
        let mut key = self.turn(net, &key, shared)?;
        let mut value = apart(net, "v_proj")?;
        if let Some((keys, values)) = past {
            key = net.node("Concat", &[&keys, &key], &[("axis", 2.into())])?;
            value = net.node("Concat", &[&values, &value], &[("axis", 2.into())])?;
        }
        let axis = net.integers(&[2]);
        let keys = net.node("Unsqueeze", &[&key, &axis], &[])?;
        let keys = net.node("Transpose", &[&keys], &[("perm", [0, 1, 2, 4, 3].into())])?;
        let scale = net.number(1.0 / (width as f32).sqrt());
        let query = net.node("Mul", &[&query, &scale], &[])?;
        let scores = net.node("MatMul", &[&query, &keys], &[])?;
        let scores = net.node("Add", &[&scores, &shared.mask], &[])?;
        let shares = net.node("Softmax", &[&scores], &[("axis", (-1).into())])?;
        let values = net.node("Unsqueeze", &[&value, &axis], &[])?;
        let y = net.node("MatMul", &[&shares, &values], &[])?;
        let y = net.node("Transpose", &[&y], &[("perm", [0, 3, 1, 2, 4].into())])?;
        let joined = net.integers(&[0, shared.phase.tokens() as i64, (self.heads * width) as i64]);
        let y = net.node("Reshape", &[&y, &joined], &[])?;
        let size = [self.heads * width, self.hidden];
        Ok((linear(net, &y, &format!("{name}.{output}"), size, false)?, [key, value]))
    }

    /// Applies rotary position embedding to `[.., tokens, width]`.
    fn turn(&self, net: &mut Builder, x: &Name, shared: &SharedValues) -> Result<Name, BuildError> {
        let last = [("axis", (-1).into())];
        let rank = net.shape(x).len();
        let mut rest = None;
        let mut x = x.clone();
        if self.turned < self.width {
            let sizes = [self.turned, self.width - self.turned].map(|size| size as i64);
            let sizes = net.integers(&sizes);
            let [turned, kept] = net.nodes("Split", &[&x, &sizes], &last)?;
            (x, rest) = (turned, Some(kept));
        }
        let is_interleaved = self.family == Family::GptJ;
        if is_interleaved {
            let mut pairs = vec![0; rank - 1];
            pairs.extend([self.turned as i64 / 2, 2]);
            let pairs = net.integers(&pairs);
            x = net.node("Reshape", &[&x, &pairs], &[])?;
        }
        let [a, b] = net.nodes("Split", &[&x], &last)?;
        let mut product = |x: &Name, by: &Name| net.node("Mul", &[x, by], &[]);
        let ac = product(&a, &shared.cosines)?;
        let bs = product(&b, &shared.sines)?;
        let bc = product(&b, &shared.cosines)?;
        let sa = product(&a, &shared.sines)?;
        let a = net.node("Sub", &[&ac, &bs], &[])?;
        let b = net.node("Add", &[&bc, &sa], &[])?;
        let mut y = net.node("Concat", &[&a, &b], &last)?;
        if is_interleaved {
            let mut joined = vec![0; rank - 1];
            joined.push(self.turned as i64);
            let joined = net.integers(&joined);
            y = net.node("Reshape", &[&y, &joined], &[])?;
        }
        match rest {
            Some(rest) => net.node("Concat", &[&y, &rest], &last),
            None => Ok(y),
        }
    }
}
