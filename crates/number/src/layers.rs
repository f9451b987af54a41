//! The layers of a model as accelerators see them: products, and the bits of their operands.
//!
//! The columns are those of the layer tables of NPU models (Layerweaver's units, as MAESTRO
//! describes them). A layer is `groups` times a product of an `m` x `cin_g rs` matrix and a `cin_g
//! rs` x `cout_g` matrix, where `m` counts the positions of the output and `rs` those of the
//! kernel. The last columns are the bits of the operands, from which the bytes follow.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use dyno_onnx::Model;
use dyno_onnx::products::{LayerType, Product, Products, products};

use crate::config::Dictionary;
use crate::descriptor::nearest;
use crate::evaluate::{graph, is_chain};
use crate::format::Format;

/// A layer for one sample. Its objects are `NAME.weight` and `NAME.input`, where `NAME` is that of
/// its product. In a model that is not a chain, `NAME` is that of its weights, which several layers
/// may share.
///
/// A layer of an NPU (`dyno_npu::workload::NetworkLayer`) has the same columns. There, bytes come from a
/// table; here, they follow from counts and bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLayer {
    /// The product of the layer.
    pub product: Product,
    /// Bits of a weight, of an input value and of an output value. Output values have the bits that
    /// the next layer reads, directly or through sums and other nodes.
    pub bits: [u32; 3],
}

/// First line of a table.
pub const COLUMNS: &str = "idx,name,type,groups,m,cin_g,rs,cout_g,macs,weight_bytes,in_act_bytes,\
                           out_act_bytes,weights_scale_with_batch,weight_bits,in_act_bits,out_act_bits";

impl TableLayer {
    /// Returns the bytes of the weights, of the input and of the output.
    pub fn bytes(&self) -> [u64; 3] {
        let Product { weights, inputs, outputs, .. } = self.product;
        let counts = [weights, inputs, outputs];
        std::array::from_fn(|at| counts[at].saturating_mul(self.bits[at].into()).div_ceil(8))
    }

    /// Returns the layer as a line of a table, without a line break.
    pub fn line(&self, index: usize) -> String {
        let Product { name, kind, groups, m, cin_g, rs, cout_g, macs, .. } = &self.product;
        let ([weights, inputs, outputs], [w, i, o]) = (self.bytes(), self.bits);
        let scales = u8::from(*kind == LayerType::Gather);
        // A comma or a quote in a name would break the table.
        let name = name.replace([',', '"', '\n'], "_");
        format!(
            "{index},{name},{},{groups},{m},{cin_g},{rs},{cout_g},{macs},{weights},{inputs},{outputs},\
             {scales},{w},{i},{o}",
            kind.name()
        )
    }
}

/// The layers of a model. It prints as CSV with the columns [`COLUMNS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerTable {
    /// Layers in the order of execution.
    pub layers: Vec<TableLayer>,
    /// Nodes that have products but no line: operator and reason.
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

/// Returns the layers of a model for one sample. Dynamic dimensions have the sizes in `bind`, or 1.
/// Objects without an entry in `formats` have `other` bits.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use dyno_number::{Dictionary, layers};
/// use dyno_onnx::{Builder, Dim, Element, Fill, Weights};
///
/// let mut net = Builder::new("small", Weights::seeded(1));
/// let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
/// let weight = net.weight("fc1.weight", &[4, 3], Fill::he(4))?;
/// let y = net.node("MatMul", &[&x, &weight], &[])?;
/// net.output("y", &y)?;
///
/// let formats: Dictionary = "fc1.weight FIXED 4 0\n".parse()?;
/// let table = layers::table(&net.finish(), &formats, 16, &BTreeMap::new());
/// let table = table.expect("the model has fc1.weight");
/// assert_eq!(table.layers[0].bits, [4, 16, 16]);
/// assert_eq!(table.layers[0].bytes(), [4 * 3 / 2, 4 * 2, 3 * 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// One sentence for each object of `formats` that the model does not have, with the nearest name.
pub fn table(
    model: &Model,
    formats: &Dictionary,
    other: u32,
    bind: &BTreeMap<String, usize>,
) -> Result<LayerTable, Vec<String>> {
    let Products { rows, left_out } = products(model, bind);
    let own: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
    let unknown_to = |names: &[String]| {
        let objects: Vec<String> = names.iter().flat_map(|name| objects(name)).collect();
        let unknown = formats.iter().map(|(object, _)| object);
        let unknown = unknown.filter(|object| objects.iter().all(|known| known != object));
        let sentences = unknown.map(|object| {
            let near = nearest(object, objects.iter().map(String::as_str));
            format!("there is no object `{object}`{near}")
        });
        sentences.collect::<Vec<String>>()
    };
    let mut unknown = unknown_to(&own);
    let mut names: BTreeMap<usize, String> =
        rows.iter().map(|row| (row.node, row.name.clone())).collect();
    // Only formats need the names of objects, for which all weights are read.
    let has_formats = !formats.is_empty();
    let is_chain = has_formats && is_chain(model);
    if has_formats && (!is_chain || !unknown.is_empty()) {
        // Recurrent cells and biases have objects, but no lines of their own.
        if let Ok((all, of_nodes)) = graph::names(model) {
            let of_graph = unknown_to(&all);
            if of_graph.is_empty() || !is_chain && !unknown.is_empty() {
                (unknown, names) = (of_graph, of_nodes);
            }
        }
    }
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let mut found = LayerTable { layers: Vec::new(), left_out };
    for row in rows {
        let name = names.get(&row.node).cloned().unwrap_or_default();
        found.add(row, &name, formats, other);
    }
    // Layers whose output no other layer reads produce the model's answer.
    let last = found.layers.iter_mut().filter(|layer| layer.bits[2] == 0);
    last.for_each(|layer| layer.bits[2] = other);
    Ok(found)
}

/// Returns the names of a layer's weights and input.
fn objects(name: &str) -> [String; 2] {
    ["weight", "input"].map(|role| format!("{name}.{role}"))
}

impl LayerTable {
    fn add(&mut self, row: Product, name: &str, formats: &Dictionary, other: u32) {
        let [weight_bits, input_bits] =
            objects(name).map(|object| formats.find(&object).map_or(other, Format::bits));
        for origin in &row.origins {
            // If several layers read an output, the first one determines its bits.
            let before = &mut self.layers[*origin];
            if before.bits[2] == 0 {
                before.bits[2] = input_bits;
            }
        }
        // Indices into a table have 64 bits.
        let input_bits = if row.kind == LayerType::Gather { 64 } else { input_bits };
        self.layers.push(TableLayer { product: row, bits: [weight_bits, input_bits, 0] });
    }
}
