//! Network bandwidth that a datacenter system must be able to take in and give
//! out for its result.

/// What the rules count per sample. Inputs as they are before pre-processing;
/// padding and compression change them accordingly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elements {
    /// Numerical inputs; none to speak of where this and the next are 0.
    pub numerical: u64,
    /// Categorical inputs, which may have a data type of their own.
    pub categorical: u64,
    /// Outputs, where they count.
    pub outputs: Option<u64>,
}

/// Bytes of an element, by what it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ElementBytes {
    /// Of numerical inputs, and of outputs.
    pub numerical: f64,
    /// Of categorical inputs.
    pub categorical: f64,
}

impl ElementBytes {
    /// The same for all.
    #[must_use]
    pub const fn all(bytes: f64) -> Self {
        Self { numerical: bytes, categorical: bytes }
    }
}

/// What one direction must sustain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Needed {
    /// Anything above 0 bytes/s.
    Something,
    /// This many bytes/s.
    AtLeast(f64),
}

impl Needed {
    /// Whether a path of this many bytes/s is enough.
    #[must_use]
    pub fn is_met_by(self, bytes_per_second: f64) -> bool {
        match self {
            Self::Something => bytes_per_second > 0.0,
            Self::AtLeast(needed) => bytes_per_second >= needed,
        }
    }
}

/// What a result needs of the network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bandwidth {
    /// Into the system.
    pub ingress: Needed,
    /// Out of it.
    pub egress: Needed,
}

impl Elements {
    /// What a result of this many samples/s needs.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "elements of a sample are far below 2^53")]
    pub fn bandwidth(&self, samples_per_second: f64, bytes: ElementBytes) -> Bandwidth {
        let ingress =
            self.numerical as f64 * bytes.numerical + self.categorical as f64 * bytes.categorical;
        let needed = |per_sample: f64| {
            if per_sample > 0.0 {
                Needed::AtLeast(samples_per_second * per_sample)
            } else {
                Needed::Something
            }
        };
        Bandwidth {
            ingress: needed(ingress),
            egress: needed(self.outputs.unwrap_or(0) as f64 * bytes.numerical),
        }
    }
}
