//! Hardware of an NPU: an array of PEs, a memory, and on-chip buffers.

mod describe;
mod presets;
#[cfg(test)]
mod tests;

use thiserror::Error;

use crate::arithmetic::Arithmetic;
use crate::mapping::Mapping;
use crate::profile::Picos;
use crate::workload::NetworkLayer;

pub use self::describe::{DescriptionError, KeyProblem};
pub use self::presets::{NpuPreset, PRESETS, UnknownNpu};

const PICOS_PER_SECOND: u128 = 1_000_000_000_000;

/// Validated description of an NPU.
///
/// ```
/// use dyno_npu::hardware::Npu;
///
/// let npu = Npu::from_toml("base = \"memory-centric\"\nmemory_gb_per_s = 112.5\n")?;
/// assert_eq!(npu.parameters().bytes_per_second, 112_500_000_000);
/// assert_eq!(npu.bytes(225), Some(2_000), "225 bytes take 2000 ps");
/// # Ok::<(), dyno_npu::hardware::DescriptionError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Npu {
    name: String,
    parameters: NpuParameters,
}

/// Parameters of an NPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NpuParameters {
    /// Number of PEs (multiply-accumulate units). At least 1.
    pub pes: u64,
    /// Clock rate, Hz; a PE does one multiply-accumulate per cycle. At least 1.
    pub hertz: u64,
    /// Memory bandwidth, bytes/s. At least 1.
    pub bytes_per_second: u64,
    /// Size of the buffer for prefetched weights, bytes. At least 1.
    pub weight_buffer: u64,
    /// Size of the buffer for input and output activations together, bytes. `None` means unknown; all activations then
    /// fit.
    pub activation_buffer: Option<u64>,
    /// Cost of switching the array to another network, ps. Blocks of one network follow each other at no cost.
    pub switch: Picos,
    /// Energy figures; `None` if unknown.
    pub energy: Option<Energy>,
    /// What a PE does in a cycle, depending on the bits of its operands.
    pub arithmetic: Arithmetic,
}

/// Energy figures of an NPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Energy {
    /// Energy of a multiply-accumulate, including all data movement on the chip, pJ.
    pub mac_pj: f64,
    /// Energy of a byte read from or written to memory, pJ.
    pub memory_byte_pj: f64,
    /// Static power, W.
    pub static_watts: f64,
}

impl Energy {
    /// Returns the energy of this many multiply-accumulates, memory bytes and seconds, J.
    pub fn joules(&self, macs: f64, bytes: f64, seconds: f64) -> f64 {
        (macs * self.mac_pj + bytes * self.memory_byte_pj) / 1e12 + seconds * self.static_watts
    }
}

/// Reason why parameters describe no valid NPU.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum HardwareError {
    /// A parameter that must be at least 1 is 0.
    #[error("NPU `{npu}`: {what} is 0; expected {instead}")]
    Zero {
        /// Name of the NPU.
        npu: String,
        /// Name of the parameter.
        what: &'static str,
        /// Value to use instead.
        instead: &'static str,
    },
    /// An energy figure is negative, infinite or not a number.
    #[error("NPU `{npu}`: {what} is {found}; expected a number of at least 0")]
    Energy {
        /// Name of the NPU.
        npu: String,
        /// Name of the figure.
        what: &'static str,
        /// The invalid value.
        found: f64,
    },
    /// A parameter exceeds the range of the model.
    #[error("NPU `{npu}`: {what} is {found}; expected at most {most}")]
    TooLarge {
        /// Name of the NPU.
        npu: String,
        /// Name of the parameter.
        what: &'static str,
        /// The invalid value.
        found: u64,
        /// Largest valid value.
        most: u64,
    },
}

/// Upper bound of each parameter, far above real hardware. Products of two such numbers fit into 128 bits.
const MOST: u64 = 1_000_000_000_000_000;

impl Npu {
    /// Creates an NPU.
    ///
    /// # Errors
    /// Fails if the number of PEs, the clock rate, the bandwidth or a buffer size is 0 or above 10^15, if a switch takes
    /// more than 10^15 ps, or if an energy figure is negative, infinite or not a number.
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
                "at least 1 byte, or remove it if all activations fit",
            ),
        ];
        for (what, found, instead) in some {
            let npu = name.to_owned();
            match found {
                0 => return Err(HardwareError::Zero { npu, what, instead }),
                1..=MOST => {}
                _ => return Err(HardwareError::TooLarge { npu, what, found, most: MOST }),
            }
        }
        if parameters.switch > MOST {
            let (npu, found) = (name.to_owned(), parameters.switch);
            let what = "the cost of a switch in ps";
            return Err(HardwareError::TooLarge { npu, what, found, most: MOST });
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

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the parameters.
    pub fn parameters(&self) -> &NpuParameters {
        &self.parameters
    }

    /// Returns a copy of the NPU with changed parameters.
    ///
    /// # Errors
    /// Fails on the errors of [`Npu::new`].
    pub fn with_parameters(
        &self,
        change: impl FnOnce(&mut NpuParameters),
    ) -> Result<Self, HardwareError> {
        let mut parameters = self.parameters;
        change(&mut parameters);
        Self::new(&self.name, parameters)
    }

    /// Returns the peak throughput, operations/s. A multiply-accumulate counts as two operations.
    pub fn peak(&self) -> f64 {
        2.0 * self.parameters.pes as f64 * self.parameters.hertz as f64
    }

    /// Returns the balance: operations per byte of memory at which both resources are always busy, the ridge point of
    /// the roofline.
    pub fn balance(&self) -> f64 {
        self.peak() / self.parameters.bytes_per_second as f64
    }

    /// Returns the cycles of a layer for a batch under a mapping that fits the array; saturates.
    pub(crate) fn layer_cycles(&self, layer: &NetworkLayer, mapping: Mapping, batch: u64) -> u128 {
        let cycles = mapping.cycles(layer, batch, self.parameters.pes);
        self.parameters.arithmetic.cycles(layer, cycles)
    }

    /// Returns the time of this many cycles, ps, rounded up. `None` beyond 64 bits.
    pub fn cycles(&self, cycles: u128) -> Option<Picos> {
        duration(cycles, self.parameters.hertz)
    }

    /// Returns the time to transfer this many bytes from memory, ps, rounded up. `None` beyond 64 bits.
    pub fn bytes(&self, bytes: u128) -> Option<Picos> {
        duration(bytes, self.parameters.bytes_per_second)
    }
}

fn duration(amount: u128, per_second: u64) -> Option<Picos> {
    let picos = amount.checked_mul(PICOS_PER_SECOND)?.div_ceil(per_second.into());
    Picos::try_from(picos).ok()
}
