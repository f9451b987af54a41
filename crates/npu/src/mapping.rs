//! How long an array of PEs computes a layer: closed forms of how its products are laid over the PEs.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use crate::nearest::nearest;
use crate::workload::{Layer, LayerType};

/// How products are laid over PEs. Names are those of [`Mapping::from_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mapping {
    /// `peak`: every PE is busy in every cycle.
    Peak,
    /// `sys`: an array of `rows` along the inputs of a kernel (im2col) by as many columns as there are PEs for,
    /// along the outputs; filling and draining take no time.
    Systolic {
        /// At least 1; 128 unless a name says otherwise.
        rows: u64,
    },
    /// `kcp`, `kcp+1`, `kcpx` and `kcpx+1`: weights stay. Inputs of a group lie over the PEs of a cluster,
    /// outputs over the clusters.
    WeightStationary {
        /// PEs of a cluster. At least 1; 64 unless a name says otherwise.
        cluster: u64,
        /// One more cycle for the positions of a kernel, as MAESTRO counts for its mapping KC-P.
        step: bool,
        /// Clusters that have no outputs left split its positions among them.
        parallel: bool,
    },
}

/// What names of mappings begin with.
const NAMES: [&str; 6] = ["peak", "sys", "kcp", "kcp+1", "kcpx", "kcpx+1"];
const ROWS: u64 = 128;
const CLUSTER: u64 = 64;

/// A mapping that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MappingError {
    /// The name is none of a mapping.
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The width behind the name is none.
    Width {
        /// What was asked for.
        name: String,
    },
    /// The array has less PEs than a row or a cluster.
    TooWide {
        /// Which mapping.
        mapping: Mapping,
        /// PEs that there are.
        pes: u64,
    },
}

impl fmt::Display for MappingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name } => {
                let near = nearest(name, NAMES.into_iter());
                write!(f, "there is no mapping `{name}`{near}; there are {}", NAMES.join(", "))
            }
            Self::Width { name } => {
                write!(
                    f,
                    "mapping `{name}`: expected a width of at least 1 behind the colon, such as kcp+1:128"
                )
            }
            Self::TooWide { mapping, pes } => write!(
                f,
                "mapping `{mapping}` needs {} PEs, and the NPU has {pes}; take a smaller width, such as {}:{pes}",
                mapping.width(),
                mapping.stem(),
            ),
        }
    }
}

impl std::error::Error for MappingError {}

impl FromStr for Mapping {
    type Err = MappingError;

    /// A name, and behind a colon how wide it is: rows of the systolic array, PEs of a cluster.
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
            "sys" => Ok(Self::Systolic { rows: width.unwrap_or(ROWS) }),
            "kcp" => Ok(stationary(false, false)),
            "kcp+1" => Ok(stationary(true, false)),
            "kcpx" => Ok(stationary(false, true)),
            "kcpx+1" => Ok(stationary(true, true)),
            _ => Err(MappingError::Unknown { name: text.to_owned() }),
        }
    }
}

/// As it is read.
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
            Self::Systolic { .. } => "sys",
            Self::WeightStationary { step: false, parallel: false, .. } => "kcp",
            Self::WeightStationary { step: true, parallel: false, .. } => "kcp+1",
            Self::WeightStationary { step: false, parallel: true, .. } => "kcpx",
            Self::WeightStationary { step: true, parallel: true, .. } => "kcpx+1",
        }
    }

    /// PEs of a row or a cluster.
    fn width(self) -> u64 {
        match self {
            Self::Peak => 1,
            Self::Systolic { rows } => rows,
            Self::WeightStationary { cluster, .. } => cluster,
        }
    }

    /// Whether an array of so many PEs can have it.
    ///
    /// # Errors
    /// It has less PEs than a row or a cluster, or a row or a cluster has none.
    pub fn fits(self, pes: u64) -> Result<(), MappingError> {
        match self.width() {
            0 => Err(MappingError::Width { name: self.to_string() }),
            width if width > pes => Err(MappingError::TooWide { mapping: self, pes }),
            _ => Ok(()),
        }
    }

    /// Cycles of a layer for a batch on an array of so many PEs, of which it [`fits`](Self::fits); saturates. A
    /// batch multiplies positions. Tables are read and take none.
    ///
    /// With `kcp+1` the totals of networks are those of MAESTRO's weight-stationary mapping KC-P with an
    /// unlimited network on the chip, `groups m (rs + 1) ceil(cin_g / 64) ceil(cout_g / (PEs / 64))`, to 0.1 %
    /// (SPEC section 2). Convolutions with a group for each channel lay groups over PEs; MAESTRO's total of
    /// MobileNet v2 is met where they have no step.
    #[must_use]
    pub fn cycles(self, layer: &Layer, batch: u64, pes: u64) -> u128 {
        let Layer { groups, m, cin_g, rs, cout_g, .. } = *layer;
        let wide = |factors: &[u64]| {
            factors.iter().fold(1_u128, |all, factor| all.saturating_mul(u128::from(*factor)))
        };
        if layer.kind == LayerType::Gather {
            return 0;
        }
        let m = m.saturating_mul(batch);
        match self {
            Self::Peak => wide(&[groups, m, cin_g, rs, cout_g]).div_ceil(pes.max(1).into()),
            Self::Systolic { rows } => {
                let rows = rows.max(1);
                let columns = (pes / rows).max(1);
                let inner = cin_g.saturating_mul(rs);
                wide(&[groups, m, inner.div_ceil(rows), cout_g.div_ceil(columns)])
            }
            // A kernel is a PE's own, so there is no step.
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
