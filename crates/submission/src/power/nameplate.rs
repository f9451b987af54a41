//! Design power of a system, from the nameplates of its power supplies (from v6.1).
//!
//! `systems/<system>_power.yaml` contains nested lists of nodes. A node has the number of
//! supplies that it needs and the capacities of those it has. Its design power is the sum of the
//! largest supplies, as many as it needs.

use serde_norway::{Mapping, Value};
use thiserror::Error;

/// Maximum size of the file in bytes.
const LARGEST: usize = 1 << 20;

/// Error: the design power cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameplateError {
    /// The file is not valid YAML.
    #[error("is not YAML: {reason}")]
    Unreadable {
        /// Error of the parser.
        reason: String,
    },
    /// The file contains no node.
    #[error("has no node with `{NEEDED}` and `{SUPPLIES}`")]
    NoNode,
    /// A field of a node is missing or has the wrong type.
    #[error("node {node} has no number for `{field}`; write watts without a unit")]
    BadNode {
        /// Number of the node in the file, from 1.
        node: usize,
        /// Name of the field.
        field: &'static str,
    },
}

const NEEDED: &str = "Min PSUs Needed";
const SUPPLIES: &str = "PSUs";
const CAPACITY: &str = "PowerCapacityWatts";

/// Returns the design power in watts of the system that a file describes.
///
/// # Errors
/// Fails if the file is not YAML, contains no node, or has an incomplete node.
pub fn design_watts(text: &str) -> Result<f64, NameplateError> {
    if text.len() > LARGEST {
        return Err(NameplateError::Unreadable { reason: format!("larger than {LARGEST} bytes") });
    }
    let root: Value = serde_norway::from_str(text)
        .map_err(|error| NameplateError::Unreadable { reason: error.to_string() })?;
    let (mut nodes, mut watts) = (0, 0.0);
    // The parser bounds the depth.
    let mut open = vec![&root];
    while let Some(value) = open.pop() {
        match value {
            Value::Sequence(list) => open.extend(list.iter().rev()),
            Value::Mapping(map) => {
                let (needed, supplies) = (field(map, NEEDED), field(map, SUPPLIES));
                if needed.is_none() && supplies.is_none() {
                    open.extend(map.values().collect::<Vec<_>>().into_iter().rev());
                } else {
                    nodes += 1;
                    watts += node_watts(needed, supplies, nodes)?;
                }
            }
            _ => {}
        }
    }
    if nodes == 0 { Err(NameplateError::NoNode) } else { Ok(watts) }
}

/// Returns a field of a node. The official template writes its name in two ways:
/// `Min PSUs Needed` and `Min PSUs needed`.
fn field<'a>(node: &'a Mapping, name: &str) -> Option<&'a Value> {
    let is_named = |key: &Value| key.as_str().is_some_and(|key| key.eq_ignore_ascii_case(name));
    node.iter().find(|(key, _)| is_named(key)).map(|(_, value)| value)
}

fn node_watts(
    needed: Option<&Value>,
    supplies: Option<&Value>,
    node: usize,
) -> Result<f64, NameplateError> {
    let bad = |field| NameplateError::BadNode { node, field };
    let needed = needed.and_then(Value::as_u64).ok_or_else(|| bad(NEEDED))?;
    let supplies = supplies.and_then(Value::as_sequence).ok_or_else(|| bad(SUPPLIES))?;
    let capacity = |supply: &Value| {
        let watts = supply.get(CAPACITY).and_then(Value::as_f64);
        watts.filter(|watts| watts.is_finite() && *watts >= 0.0).ok_or_else(|| bad(CAPACITY))
    };
    let mut capacities = supplies.iter().map(capacity).collect::<Result<Vec<_>, _>>()?;
    capacities.sort_by(|a, b| b.total_cmp(a));
    let needed = usize::try_from(needed).unwrap_or(usize::MAX);
    if capacities.len() < needed {
        return Err(bad(SUPPLIES));
    }
    Ok(capacities.iter().take(needed).sum())
}
