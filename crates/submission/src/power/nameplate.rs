//! Design power of a system, from the nameplates of its power supplies (from v6.1).
//!
//! `systems/<system>_power.yaml` holds lists in lists, down to nodes with the number of
//! supplies that a node needs and the capacities of those it has. A node counts its
//! largest supplies, as many as it needs.

use std::fmt;

use serde_norway::Value;

/// A file that is larger is no description of power supplies.
const LARGEST: usize = 1 << 20;

/// Why there is no design power.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameplateError {
    /// The file is no YAML.
    Unreadable {
        /// What the reader says.
        reason: String,
    },
    /// Nothing in it is a node.
    NoNode,
    /// A node lacks a field, or has one of another kind.
    BadNode {
        /// Number of the node, from 1, as they come in the file.
        node: usize,
        /// The field.
        field: &'static str,
    },
}

impl fmt::Display for NameplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { reason } => write!(f, "is no YAML: {reason}"),
            Self::NoNode => write!(f, "has no node with `{NEEDED}` and `{SUPPLIES}`"),
            Self::BadNode { node, field } => {
                write!(f, "node {node} has no number for `{field}`; give watts without a unit")
            }
        }
    }
}

impl std::error::Error for NameplateError {}

const NEEDED: &str = "Min PSUs BandwidthNeed";
const SUPPLIES: &str = "PSUs";
const CAPACITY: &str = "PowerCapacityWatts";

/// Design power of the system that a file describes, W.
///
/// # Errors
/// It is no YAML, or names no node, or a node is incomplete.
pub fn design_watts(text: &str) -> Result<f64, NameplateError> {
    if text.len() > LARGEST {
        return Err(NameplateError::Unreadable { reason: format!("larger than {LARGEST} bytes") });
    }
    let root: Value = serde_norway::from_str(text)
        .map_err(|error| NameplateError::Unreadable { reason: error.to_string() })?;
    let (mut nodes, mut watts) = (0, 0.0);
    // Depth is bounded by the reader.
    let mut open = vec![&root];
    while let Some(value) = open.pop() {
        match value {
            Value::Sequence(list) => open.extend(list.iter().rev()),
            Value::Mapping(map) if value.get(NEEDED).is_some() || value.get(SUPPLIES).is_some() => {
                nodes += 1;
                watts += node_watts(map.get(NEEDED), map.get(SUPPLIES), nodes)?;
            }
            Value::Mapping(map) => {
                open.extend(map.values().collect::<Vec<_>>().into_iter().rev());
            }
            _ => {}
        }
    }
    if nodes == 0 { Err(NameplateError::NoNode) } else { Ok(watts) }
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
