//! What an NPU has: an array of PEs, a memory, and buffers between them.

mod describe;
mod presets;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::profile::Picos;

pub use self::describe::{DescriptionError, KeyProblem};
pub use self::presets::{NpuPreset, PRESETS, UnknownNpu};

const PICOS_PER_SECOND: u128 = 1_000_000_000_000;

/// An NPU that can exist; [`Npu::new`] checks one.
#[derive(Clone, Debug, PartialEq)]
pub struct Npu {
    name: String,
    parameters: NpuParameters,
}

/// What it is lowering of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NpuParameters {
    /// Multiply-accumulate units. At least 1.
    pub pes: u64,
    /// Cycles a second; each PE does a multiply-accumulate in one. At least 1.
    pub hertz: u64,
    /// What its memory delivers. At least 1.
    pub bytes_per_second: u64,
    /// Of weights that are fetched before they are needed. At least 1.
    pub weight_buffer: u64,
    /// Of activations, in and out together; none where nobody said, and then all activations fit.
    pub activation_buffer: Option<u64>,
    /// From one network to another, ps; between blocks of one there is no cost.
    pub switch: Picos,
    /// What it takes, if that is known.
    pub energy: Option<Energy>,
}

/// What work costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Energy {
    /// A multiply-accumulate, with all that moves inside the chip for it, pJ.
    pub mac_pj: f64,
    /// A byte from or to the memory, pJ.
    pub memory_byte_pj: f64,
    /// All the time, W.
    pub static_watts: f64,
}

impl Energy {
    /// What so many multiply-accumulates, bytes of the memory and seconds take, J.
    #[must_use]
    pub fn joules(&self, macs: f64, bytes: f64, seconds: f64) -> f64 {
        (macs * self.mac_pj + bytes * self.memory_byte_pj) / 1e12 + seconds * self.static_watts
    }
}

/// Why no such NPU can exist.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HardwareError {
    /// Something of which there must be some is 0.
    Nothing {
        /// Of which NPU.
        npu: String,
        /// What of it.
        what: &'static str,
        /// What to give instead.
        instead: &'static str,
    },
    /// A figure of energy is negative, infinite or not a number.
    Energy {
        /// Of which NPU.
        npu: String,
        /// Which figure.
        what: &'static str,
        /// What it is.
        found: f64,
    },
    /// More than these models count with.
    TooMuch {
        /// Of which NPU.
        npu: String,
        /// What of it.
        what: &'static str,
        /// What it is.
        found: u64,
        /// What it may be.
        most: u64,
    },
}

impl fmt::Display for HardwareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing { npu, what, instead } => {
                write!(f, "NPU `{npu}`: {what} is 0, so nothing ever ends; give {instead}")
            }
            Self::Energy { npu, what, found } => {
                write!(f, "NPU `{npu}`: {what} is {found}; expected a number of at least 0")
            }
            Self::TooMuch { npu, what, found, most } => {
                write!(f, "NPU `{npu}`: {what} is {found}; expected at most {most}")
            }
        }
    }
}

impl std::error::Error for HardwareError {}

/// No array, clock or memory comes near; products of two such numbers fit into 128 bits with room.
const MOST: u64 = 1_000_000_000_000_000;

impl Npu {
    /// An NPU of these parameters.
    ///
    /// # Errors
    /// One that never ends anything: no PEs, no cycles, no bandwidth, a buffer of nothing; or figures that are
    /// no figures.
    pub fn new(name: &str, parameters: NpuParameters) -> Result<Self, HardwareError> {
        let some = [
            ("the number of PEs", parameters.pes, "at least 1, such as 128 x 128 = 16384"),
            ("the frequency", parameters.hertz, "at least 1 Hz, such as 700 MHz"),
            (
                "the memory bandwidth",
                parameters.bytes_per_second,
                "at least 1 byte/s, such as 225 GB/s",
            ),
            ("the weight buffer", parameters.weight_buffer, "at least 1 byte, such as 48 MB"),
            (
                "the activation buffer",
                parameters.activation_buffer.unwrap_or(1),
                "at least 1 byte, or leave it out where all activations fit",
            ),
        ];
        for (what, found, instead) in some {
            let npu = name.to_owned();
            match found {
                0 => return Err(HardwareError::Nothing { npu, what, instead }),
                1..=MOST => {}
                _ => return Err(HardwareError::TooMuch { npu, what, found, most: MOST }),
            }
        }
        if let Some(energy) = parameters.energy {
            let figures = [
                ("the energy of a multiply-accumulate", energy.mac_pj),
                ("the energy of a byte of memory", energy.memory_byte_pj),
                ("the static power", energy.static_watts),
            ];
            let wrong = figures.iter().find(|(_, found)| !(found.is_finite() && *found >= 0.0));
            if let Some(&(what, found)) = wrong {
                return Err(HardwareError::Energy { npu: name.to_owned(), what, found });
            }
        }
        Ok(Self { name: name.to_owned(), parameters })
    }

    /// As it was named.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is lowering of.
    #[must_use]
    pub fn parameters(&self) -> &NpuParameters {
        &self.parameters
    }

    /// The same with other parameters.
    ///
    /// # Errors
    /// As of [`Npu::new`].
    pub fn with_parameters(
        &self,
        change: impl FnOnce(&mut NpuParameters),
    ) -> Result<Self, HardwareError> {
        let mut parameters = self.parameters;
        change(&mut parameters);
        Self::new(&self.name, parameters)
    }

    /// Operations a second at most, two for each multiply-accumulate.
    #[must_use]
    pub fn peak(&self) -> f64 {
        2.0 * self.parameters.pes as f64 * self.parameters.hertz as f64
    }

    /// Operations for each byte of memory at which both are busy all the time: the ridge of its roofline.
    #[must_use]
    pub fn balance(&self) -> f64 {
        self.peak() / self.parameters.bytes_per_second as f64
    }

    /// How long so many cycles take, ps, rounded up; none beyond 64 bits.
    #[must_use]
    pub fn cycles(&self, cycles: u128) -> Option<Picos> {
        duration(cycles, self.parameters.hertz)
    }

    /// How long so many bytes take, ps, rounded up; none beyond 64 bits.
    #[must_use]
    pub fn bytes(&self, bytes: u128) -> Option<Picos> {
        duration(bytes, self.parameters.bytes_per_second)
    }
}

fn duration(amount: u128, per_second: u64) -> Option<Picos> {
    let picos = amount.checked_mul(PICOS_PER_SECOND)?.div_ceil(per_second.into());
    Picos::try_from(picos).ok()
}
