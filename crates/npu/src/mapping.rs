//! Compute time of layers: closed forms of how a mapping distributes the products of a layer over the PEs.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::nearest::alternatives;
use crate::workload::{LayerType, NetworkLayer};

/// Mapping of products to PEs. [`Mapping::from_str`] parses the names.
///
/// ```
/// use dyno_npu::mapping::Mapping;
/// use dyno_npu::workload::Network;
///
/// let mapping: Mapping = "kcp+1:128".parse()?;
/// assert_eq!(mapping.to_string(), "kcp+1:128");
/// let resnet = Network::preset("RN")?;
/// let layer = &resnet.layers[0];
/// assert!(mapping.cycles(layer, 1, 16_384) >= Mapping::Peak.cycles(layer, 1, 16_384));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mapping {
    /// `peak`: every PE is busy in every cycle.
    Peak,
    /// `sys` and `sys+fill`: a weight-stationary systolic array. The inputs of a kernel (im2col) lie along `rows` rows,
    /// the outputs along as many columns as there are PEs for.
    Systolic {
        /// Rows of the array. At least 1; 128 by default.
        rows: u64,
        /// Adds the cycles in which weights are loaded, and in which the array fills and drains (`+fill` in the name).
        /// Nothing hides them, as in SCALE-Sim. Without it, all of them are hidden.
        fill: bool,
    },
    /// `kcp`, `kcp+1`, `kcpx` and `kcpx+1`: weight-stationary. The inputs of a group lie across the PEs of a cluster,
    /// the outputs across the clusters.
    WeightStationary {
        /// PEs per cluster. At least 1; 64 by default.
        cluster: u64,
        /// Adds one cycle to the positions of a kernel, as MAESTRO does for its mapping KC-P (`+1` in the name).
        step: bool,
        /// Clusters without outputs share the positions of the others (`x` in the name).
        parallel: bool,
    },
}

/// Names of mappings, without a width.
const NAMES: [&str; 7] = ["peak", "sys", "sys+fill", "kcp", "kcp+1", "kcpx", "kcpx+1"];
const ROWS: u64 = 128;
const CLUSTER: u64 = 64;

/// Reason why a mapping is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MappingError {
    /// No mapping has this name.
    #[error("unknown mapping `{name}`{}", alternatives(name, NAMES.into_iter()))]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// The width after the colon is not a whole number of at least 1.
    #[error("mapping `{name}`: expected a width of at least 1 after the colon, such as kcp+1:128")]
    Width {
        /// The requested name.
        name: String,
    },
    /// The array has fewer PEs than one row or cluster.
    #[error(
        "mapping `{mapping}` needs {} PEs, but the NPU has {pes}; use a smaller width, such as \
         {}:{pes}",
        mapping.width(), mapping.stem()
    )]
    TooWide {
        /// The mapping.
        mapping: Mapping,
        /// PEs of the array.
        pes: u64,
    },
}

impl FromStr for Mapping {
    type Err = MappingError;

    /// Parses a name, optionally followed by a colon and a width: rows of the systolic array, or PEs per cluster.
    fn from_str(text: &str) -> Result<Self, MappingError> {
        let (name, width) = match text.split_once(':') {
            None => (text, None),
            Some((name, width)) => {
                let width = width.parse().ok().filter(|width| *width > 0);
                let wrong = || MappingError::Width { name: text.to_owned() };
                (name, Some(width.ok_or_else(wrong)?))
            }
        };
        let cluster = width.unwrap_or(CLUSTER);
        let stationary = |step, parallel| Self::WeightStationary { cluster, step, parallel };
        match name {
            "peak" if width.is_none() => Ok(Self::Peak),
            "sys" => Ok(Self::Systolic { rows: width.unwrap_or(ROWS), fill: false }),
            "sys+fill" => Ok(Self::Systolic { rows: width.unwrap_or(ROWS), fill: true }),
            "kcp" => Ok(stationary(false, false)),
            "kcp+1" => Ok(stationary(true, false)),
            "kcpx" => Ok(stationary(false, true)),
            "kcpx+1" => Ok(stationary(true, true)),
            _ => Err(MappingError::Unknown { name: text.to_owned() }),
        }
    }
}

/// Writes the form that [`Mapping::from_str`] parses.
impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peak => f.write_str(self.stem()),
            _ => write!(f, "{}:{}", self.stem(), self.width()),
        }
    }
}

impl Mapping {
    fn stem(self) -> &'static str {
        match self {
            Self::Peak => "peak",
            Self::Systolic { fill: false, .. } => "sys",
            Self::Systolic { fill: true, .. } => "sys+fill",
            Self::WeightStationary { step: false, parallel: false, .. } => "kcp",
            Self::WeightStationary { step: true, parallel: false, .. } => "kcp+1",
            Self::WeightStationary { step: false, parallel: true, .. } => "kcpx",
            Self::WeightStationary { step: true, parallel: true, .. } => "kcpx+1",
        }
    }

    /// Returns the PEs of one row or cluster.
    fn width(self) -> u64 {
        match self {
            Self::Peak => 1,
            Self::Systolic { rows, .. } => rows,
            Self::WeightStationary { cluster, .. } => cluster,
        }
    }

    /// Checks that an array of `pes` PEs can have this mapping.
    ///
    /// # Errors
    /// Fails if the array has fewer PEs than one row or cluster, or if the width is 0.
    pub fn fits(self, pes: u64) -> Result<(), MappingError> {
        match self.width() {
            0 => Err(MappingError::Width { name: self.to_string() }),
            width if width > pes => Err(MappingError::TooWide { mapping: self, pes }),
            _ => Ok(()),
        }
    }

    /// Returns the cycles of a layer for a batch on an array of `pes` PEs; saturates. The mapping must
    /// [fit](Self::fits) the array. A batch multiplies the positions. Table lookups take no cycles.
    ///
    /// With `kcp+1` the totals of networks match MAESTRO's weight-stationary mapping KC-P with an unlimited on-chip
    /// network, `groups m (rs + 1) ceil(cin_g / 64) ceil(cout_g / (PEs / 64))`, to within 0.1 % (SPEC section 2).
    /// Depthwise convolutions distribute groups over the PEs without the extra cycle, which matches MAESTRO's total of
    /// MobileNet v2.
    pub fn cycles(self, layer: &NetworkLayer, batch: u64, pes: u64) -> u128 {
        let NetworkLayer { groups, m, cin_g, rs, cout_g, .. } = *layer;
        let wide = |factors: &[u64]| {
            factors.iter().fold(1_u128, |all, factor| all.saturating_mul(u128::from(*factor)))
        };
        if layer.kind == LayerType::Gather {
            return 0;
        }
        let m = m.saturating_mul(batch);
        match self {
            Self::Peak => wide(&[groups, m, cin_g, rs, cout_g]).div_ceil(pes.max(1).into()),
            Self::Systolic { rows, fill } => {
                let rows = rows.max(1);
                let columns = (pes / rows).max(1);
                let inner = cin_g.saturating_mul(rs);
                // Weights take a cycle for each row, and the last product leaves the last column after all others.
                let unused = rows.saturating_mul(2).saturating_add(columns) - 2;
                let steps = if fill { m.saturating_add(unused) } else { m };
                wide(&[groups, steps, inner.div_ceil(rows), cout_g.div_ceil(columns)])
            }
            // Each PE holds its own kernel, so the extra cycle does not apply.
            Self::WeightStationary { parallel, .. } if layer.kind == LayerType::Depthwise => {
                let copies = if parallel { (pes / groups.max(1)).max(1) } else { 1 };
                wide(&[m.div_ceil(copies), rs, cout_g, groups.div_ceil(pes.max(1))])
            }
            Self::WeightStationary { cluster, step, parallel } => {
                let cluster = cluster.max(1);
                let clusters = (pes / cluster).max(1);
                let copies = if parallel { (clusters / cout_g.max(1)).max(1) } else { 1 };
                let kernel = rs.saturating_add(step.into());
                let (inner, outer) = (cin_g.div_ceil(cluster), cout_g.div_ceil(clusters));
                wide(&[groups, m.div_ceil(copies), kernel, inner, outer])
            }
        }
    }
}
