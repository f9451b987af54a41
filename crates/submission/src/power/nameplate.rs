//! Design power of a system, from the nameplates of its power supplies (from v6.1).
//!
//! `systems/<system>_power.yaml` contains nested lists of nodes. A node has the number of
//! supplies that it needs and the capacities of those it has. Its design power is the sum of the
//! largest supplies, as many as it needs.

use serde_norway::{Mapping, Value};
use thiserror::Error;

use crate::{python, yaml};

/// Error: the design power cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameplateError {
    /// The file is not valid YAML, or too large.
    #[error("is not YAML: {reason}")]
    Unreadable {
        /// Error of the reader.
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
    let root: Value =
        yaml::from_text(text).map_err(|reason| NameplateError::Unreadable { reason })?;
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

/// Returns the design power as the official program writes it into its table (from
/// checks/system_check.py b66003e1:286): a whole number unless a capacity has a decimal point. It
/// takes a missing capacity as 0, and all supplies if there are fewer than the node needs. `None` if
/// it cannot add the capacities.
pub fn official_watts(text: &str) -> Option<String> {
    let root: Value = yaml::from_text(text).ok()?;
    if root.is_null() {
        return None;
    }
    let (watts, is_whole) = official_sum(&root)?;
    Some(if is_whole { format!("{watts:.0}") } else { python::float(watts) })
}

/// Returns the sum of all nodes, and whether Python adds whole numbers only.
fn official_sum(value: &Value) -> Option<(f64, bool)> {
    let mut parts: Vec<&Value> = Vec::new();
    match value {
        Value::Sequence(list) => parts.extend(list),
        Value::Mapping(map) => {
            let mut fields = [None, None];
            for (name, value) in map {
                match name.as_str()?.to_lowercase().as_str() {
                    "min psus needed" => fields[0] = Some(value),
                    "psus" => fields[1] = Some(value),
                    _ => {}
                }
            }
            if let [Some(needed), Some(supplies)] = fields {
                return official_node(needed, supplies);
            }
            parts.extend(map.values());
        }
        _ => {}
    }
    parts.into_iter().map(official_sum).try_fold((0.0, true), |sum, part| Some(added(sum, part?)))
}

fn official_node(needed: &Value, supplies: &Value) -> Option<(f64, bool)> {
    let capacity = |supply: &Value| match supply.as_mapping()?.get(CAPACITY) {
        None => Some((0.0, true)),
        Some(Value::Bool(flag)) => Some((f64::from(u8::from(*flag)), true)),
        Some(Value::Number(number)) => Some((number.as_f64()?, !number.is_f64())),
        Some(_) => None,
    };
    let supplies = supplies.as_sequence()?.iter().map(capacity);
    let mut capacities = supplies.collect::<Option<Vec<_>>>()?;
    capacities.sort_by(|a, b| b.0.total_cmp(&a.0));
    let count = capacities.len();
    let taken = match needed {
        Value::Null => count,
        Value::Bool(flag) => usize::from(*flag),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(needed), _) => usize::try_from(needed).unwrap_or(count),
            // Python leaves out as many at the end.
            (None, Some(less)) => {
                let less = usize::try_from(less.unsigned_abs()).unwrap_or(count);
                count.saturating_sub(less)
            }
            (None, None) => return None,
        },
        _ => return None,
    };
    Some(capacities.into_iter().take(taken).fold((0.0, true), added))
}

fn added(sum: (f64, bool), part: (f64, bool)) -> (f64, bool) {
    (sum.0 + part.0, sum.1 && part.1)
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
