//! Products with constant weights of a few bits, as ONNX Runtime stores those of language models.

use super::broadcast::sum;
use super::product::PackedMatrix;
use super::{name, one};
use crate::node::{NodeReader, Operation};
use crate::value::{Data, Value, count};

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    if name(reader) != ("com.microsoft", "MatMulNBits") {
        return Ok(None);
    }
    // It allows products of less accuracy, and requires none.
    reader.ignore("accuracy_level");
    let weights = Layout::read(reader)?.weights(reader)?;
    (1..=3).for_each(|input| reader.consume(input));
    one(move |frame| {
        let product = weights.multiply(frame.workspace, frame.input(0)?)?;
        match frame.get(5) {
            Some(bias) => sum(product, bias.clone()),
            None => Ok(product),
        }
    })
}

/// Sizes of the stored weights: `columns` columns of `rows` weights. A column has blocks with one
/// scale and zero point each. The weights of a block fill bytes from their lowest bits on, and so do
/// the zero points of a column, unless they are numbers.
struct Layout {
    rows: usize,
    columns: usize,
    bits: usize,
    /// Weights of a block.
    block: usize,
}

impl Layout {
    fn read(reader: &NodeReader<'_>) -> Result<Self, String> {
        let size = |name: &'static str, default: i64| {
            let size = reader.int(name, default)?;
            let positive = u32::try_from(size).ok().filter(|size| *size > 0);
            let positive =
                positive.ok_or_else(|| format!("attribute '{name}' has the size {size}"))?;
            Ok::<usize, String>(positive as usize)
        };
        let (rows, columns, bits) = (size("K", 0)?, size("N", 0)?, size("bits", 4)?);
        let block = size("block_size", 0)?;
        if !matches!(bits, 2 | 4 | 8) || !(block * bits).is_multiple_of(8) {
            return Err(format!("blocks of {block} weights of {bits} bits are not supported"));
        }
        if reader.node.inputs.get(4).is_some_and(|name| !name.is_empty()) {
            return Err("an order of the rows (g_idx) is not supported".into());
        }
        Ok(Self { rows, columns, bits, block })
    }

    /// Returns an integer of bytes that are full of integers.
    fn part(&self, bytes: &[u8], at: usize) -> f32 {
        let byte = u16::from(bytes[at * self.bits / 8]);
        (byte >> (at * self.bits % 8) & ((1_u16 << self.bits) - 1)).into()
    }

    /// Packs the weights, which must be constant.
    fn weights(&self, reader: &NodeReader<'_>) -> Result<PackedMatrix, String> {
        let constant = |at: usize| {
            let value = reader.constant(at);
            value.ok_or_else(|| {
                format!("expected constant weights and scales, input {at} is computed")
            })
        };
        let (codes, scales) = (constant(1)?.all::<u8>()?, constant(2)?.all::<f32>()?);
        let blocks = self.rows.div_ceil(self.block);
        let bytes = self.block * self.bits / 8;
        if codes.len() != count(&[self.columns, blocks, bytes], 1)?
            || scales.len() != self.columns * blocks
        {
            return Err(format!(
                "expected {bytes} bytes and a scale for each of {blocks} blocks of {} columns, found {} \
                 bytes and {} scales",
                self.columns,
                codes.len(),
                scales.len()
            ));
        }
        let zeros = match reader.node.inputs.get(3) {
            Some(name) if !name.is_empty() => self.zeros(constant(3)?, blocks)?,
            _ => vec![f32::from(1_u16 << (self.bits - 1)); scales.len()],
        };
        let mut numbers = Vec::with_capacity(count(&[self.columns, self.rows], 4)?);
        for column in 0..self.columns {
            for row in 0..self.rows {
                let at = column * blocks + row / self.block;
                let code = self.part(&codes[at * bytes..][..bytes], row % self.block);
                numbers.push((code - zeros[at]) * scales[at]);
            }
        }
        Ok(PackedMatrix::new(self.rows, &numbers))
    }

    /// Returns the zero point of each block.
    fn zeros(&self, value: &Value, blocks: usize) -> Result<Vec<f32>, String> {
        let bytes = (blocks * self.bits).div_ceil(8);
        let zeros: Vec<f32> = match value.data() {
            Data::F32(zeros) => zeros.to_vec(),
            Data::U8(packed) => packed
                .chunks_exact(bytes)
                .flat_map(|column| (0..blocks).map(move |at| self.part(column, at)))
                .collect(),
            _ => return Err(format!("zero points of {} are not supported", value.element())),
        };
        if zeros.len() != self.columns * blocks {
            return Err(format!(
                "expected a zero point of each of {} blocks",
                self.columns * blocks
            ));
        }
        Ok(zeros)
    }
}
