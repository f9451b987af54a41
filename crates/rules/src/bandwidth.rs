//! Network bandwidth that a datacenter system must sustain in each direction for its result.

/// Elements that the rules count per sample. Inputs are counted before pre-processing; padding
/// and compression change the number of bytes accordingly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elements {
    /// Numerical inputs. If this and `categorical` are 0, any bandwidth above 0 is enough.
    pub numerical: u64,
    /// Categorical inputs, which may use their own data type.
    pub categorical: u64,
    /// Outputs; `None` where the rules do not count them.
    pub outputs: Option<u64>,
}

/// Bytes per element, by kind of element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ElementBytes {
    /// Bytes of a numerical input and of an output.
    pub numerical: f64,
    /// Bytes of a categorical input.
    pub categorical: f64,
}

impl ElementBytes {
    /// Uses one size, in bytes, for all elements.
    pub const fn all(bytes: f64) -> Self {
        Self { numerical: bytes, categorical: bytes }
    }
}

/// Bandwidth that one direction must sustain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BandwidthNeed {
    /// Any bandwidth above 0 bytes/s.
    Positive,
    /// At least this many bytes/s.
    AtLeast(f64),
}

impl BandwidthNeed {
    /// Whether a path with this bandwidth, in bytes/s, is sufficient.
    pub fn is_met_by(self, bytes_per_second: f64) -> bool {
        match self {
            Self::Positive => bytes_per_second > 0.0,
            Self::AtLeast(needed) => bytes_per_second >= needed,
        }
    }
}

/// Network bandwidth that a result requires.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bandwidth {
    /// Into the system.
    pub ingress: BandwidthNeed,
    /// Out of the system.
    pub egress: BandwidthNeed,
}

impl Elements {
    /// Returns the bandwidth that a result of this many samples/s requires.
    #[expect(clippy::cast_precision_loss, reason = "elements of a sample are far below 2^53")]
    pub fn bandwidth(&self, samples_per_second: f64, bytes: ElementBytes) -> Bandwidth {
        let ingress =
            self.numerical as f64 * bytes.numerical + self.categorical as f64 * bytes.categorical;
        let needed = |per_sample: f64| {
            if per_sample > 0.0 {
                BandwidthNeed::AtLeast(samples_per_second * per_sample)
            } else {
                BandwidthNeed::Positive
            }
        };
        Bandwidth {
            ingress: needed(ingress),
            egress: needed(self.outputs.unwrap_or(0) as f64 * bytes.numerical),
        }
    }
}
