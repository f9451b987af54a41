//! Networks derived from ONNX models by shape inference.

use std::collections::BTreeMap;

use dyno_onnx::Model;
use dyno_onnx::products::{Product, products};
use thiserror::Error;

use super::{LayerType, Network, NetworkLayer, SequenceGrowth};

/// Bits of an index into a table.
const PLACE_BITS: u32 = 64;

/// A network derived from a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedNetwork {
    /// The network.
    pub network: Network,
    /// Nodes with products that could not become layers, each with its operator and the reason.
    pub left_out: Vec<String>,
}

/// Reason why no network can be derived from a model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DerivationError {
    /// The model has no products.
    #[error("model `{model}` has no layers with products{}", left_out_text(left_out))]
    Empty {
        /// Name of the model.
        model: String,
        /// Nodes that should have products, with the reason why they have none.
        left_out: Vec<String>,
    },
    /// A size of a layer is 0, because an open dimension is, or exceeds 64 bits.
    #[error("layer `{layer}` has sizes that are 0 or exceed 64 bits")]
    Size {
        /// Name of the layer.
        layer: String,
    },
}

fn left_out_text(left_out: &[String]) -> String {
    if left_out.is_empty() { String::new() } else { format!("; left out: {}", left_out.join(", ")) }
}

impl Network {
    /// Derives a network from the products of a model, for one sample and the given bits of weights and activations.
    /// `bind` sets open dimensions by name; all others are 1.
    ///
    /// # Errors
    /// Fails if the model has no products, or if a size is 0 or exceeds 64 bits.
    pub fn from_model(
        name: &str,
        model: &Model,
        [weight, activation]: [u32; 2],
        bind: &BTreeMap<String, usize>,
    ) -> Result<DerivedNetwork, DerivationError> {
        let found = products(model, bind);
        let left_out = found.left_out;
        if found.rows.is_empty() {
            return Err(DerivationError::Empty { model: name.to_owned(), left_out });
        }
        let convert = |row| layer(row, [weight, activation]);
        let layers: Result<_, _> = found.rows.into_iter().map(convert).collect();
        let network =
            Self { name: name.to_owned(), layers: layers?, seq_len: None, measured: None };
        Ok(DerivedNetwork { network, left_out })
    }
}

fn layer(row: Product, [weight, activation]: [u32; 2]) -> Result<NetworkLayer, DerivationError> {
    let is_table = row.kind == LayerType::Gather;
    let input = if is_table { PLACE_BITS } else { activation };
    let bits = [weight, input, activation];
    let counts = [row.weights, row.inputs, row.outputs];
    let bytes = |at: usize| {
        let bits = u128::from(counts[at]) * u128::from(bits[at]);
        u64::try_from(bits.div_ceil(8)).ok()
    };
    let channels = [row.cin_g, row.cout_g].map(|size| is_table || size > 0);
    let is_some = row.groups > 0 && row.m > 0 && row.rs > 0 && channels == [true; 2];
    let bytes = [bytes(0), bytes(1), bytes(2)];
    let ([Some(weight_bytes), Some(input_bytes), Some(output_bytes)], true) = (bytes, is_some)
    else {
        return Err(DerivationError::Size { layer: row.name });
    };
    Ok(NetworkLayer {
        name: row.name,
        kind: row.kind,
        groups: row.groups,
        m: row.m,
        cin_g: row.cin_g,
        rs: row.rs,
        cout_g: row.cout_g,
        weight_bytes,
        input_bytes,
        output_bytes,
        stream_bytes: 0,
        weights_scale_with_batch: is_table,
        bits,
        growth: SequenceGrowth::default(),
    })
}
