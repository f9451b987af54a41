//! The layers of a model as accelerators see them: products, and how many bits their operands have.
//!
//! The columns are those of the layer tables of NPU models (Layerweaver's units as MAESTRO describes them):
//! `groups` times a product of `m` x `cin_g rs` and `cin_g rs` x `cout_g` numbers, `m` positions of the
//! output and `rs` of the kernel. Behind them stand the bits, from which the bytes are.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use dyno_onnx::Model;
use dyno_onnx::products::{LayerType, Product, Products, products};

use crate::config::Dictionary;
use crate::descriptor::nearest;
use crate::format::Format;

/// A layer of one sample. Its objects are `NAME.weight` and `NAME.input`, with the name of its product.
///
/// A layer of an NPU (`dyno_npu::workload::Layer`) has the same columns and another meaning: bytes that a table says, where
/// here they follow from counts and bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLayer {
    /// What is multiplied.
    pub product: Product,
    /// Bits of a weight, of a number that comes in, and of one that comes out: as the next layer takes it.
    pub bits: [u32; 3],
}

/// The head of a table.
pub const COLUMNS: &str = "idx,name,type,groups,m,cin_g,rs,cout_g,macs,weight_bytes,in_act_bytes,\
                           out_act_bytes,weights_scale_with_batch,weight_bits,in_act_bits,out_act_bits";

impl TableLayer {
    /// Bytes of weights, of what comes in and of what comes out.
    #[must_use]
    pub fn bytes(&self) -> [u64; 3] {
        let Product { weights, inputs, outputs, .. } = self.product;
        let counts = [weights, inputs, outputs];
        std::array::from_fn(|at| counts[at].saturating_mul(self.bits[at].into()).div_ceil(8))
    }

    /// A line of a table, without its end.
    #[must_use]
    pub fn line(&self, index: usize) -> String {
        let Product { name, kind, groups, m, cin_g, rs, cout_g, macs, .. } = &self.product;
        let ([weights, inputs, outputs], [w, i, o]) = (self.bytes(), self.bits);
        let scales = u8::from(*kind == LayerType::Gather);
        // No name with a comma or a quote would read.
        let name = name.replace([',', '"', '\n'], "_");
        format!(
            "{index},{name},{},{groups},{m},{cin_g},{rs},{cout_g},{macs},{weights},{inputs},{outputs},\
             {scales},{w},{i},{o}",
            kind.name()
        )
    }
}

/// The layers of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerTable {
    /// In the order of execution.
    pub layers: Vec<TableLayer>,
    /// Nodes that have products and no line, each with its operator and why.
    pub left_out: Vec<String>,
}

impl fmt::Display for LayerTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{COLUMNS}")?;
        for (index, layer) in self.layers.iter().enumerate() {
            writeln!(f, "{}", layer.line(index))?;
        }
        Ok(())
    }
}

/// The layers of a model for one sample, where names of open dimensions in `bind` are these numbers and all
/// others are 1. Objects that `formats` has not have `other` bits.
///
/// # Errors
/// The objects of `formats` that the model has not, a sentence each with the nearest that it has.
pub fn table(
    model: &Model,
    formats: &Dictionary,
    other: u32,
    bind: &BTreeMap<String, usize>,
) -> Result<LayerTable, Vec<String>> {
    let Products { rows, left_out } = products(model, bind);
    let both = |row: &Product| ["weight", "input"].map(|role| format!("{}.{role}", row.name));
    let objects: Vec<String> = rows.iter().flat_map(both).collect();
    let unknown = formats.iter().map(|(object, _)| object);
    let unknown: Vec<String> = unknown
        .filter(|object| objects.iter().all(|known| known != object))
        .map(|object| {
            let near = nearest(object, objects.iter().map(String::as_str));
            format!("there is no object `{object}`{near}")
        })
        .collect();
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let mut found = LayerTable { layers: Vec::new(), left_out };
    for row in rows {
        found.add(row, formats, other);
    }
    // What no layer takes is the model's answer.
    let last = found.layers.iter_mut().filter(|layer| layer.bits[2] == 0);
    last.for_each(|layer| layer.bits[2] = other);
    Ok(found)
}

impl LayerTable {
    fn add(&mut self, row: Product, formats: &Dictionary, other: u32) {
        let bits = |role: &str| {
            let format = formats.find(&format!("{}.{role}", row.name));
            format.map_or(other, Format::bits)
        };
        let (weight_bits, input_bits) = (bits("weight"), bits("input"));
        for origin in &row.origins {
            // What several layers take has the bits of the first of them.
            let before = &mut self.layers[*origin];
            if before.bits[2] == 0 {
                before.bits[2] = input_bits;
            }
        }
        // Places in a table are numbers of 64 bits.
        let input_bits = if row.kind == LayerType::Gather { 64 } else { input_bits };
        self.layers.push(TableLayer { product: row, bits: [weight_bits, input_bits, 0] });
    }
}
