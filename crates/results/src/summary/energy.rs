//! Energy during a test.

use serde::{Deserialize, Serialize};

/// Energy of processors and accelerators during a test, as far as it could be read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Energy {
    /// of the test
    pub scenario: String,
    /// of the test: `accuracy`, `performance` or `peak`
    pub mode: String,
    /// the sources; energies of several sources may overlap and are not added
    pub sources: Vec<EnergySource>,
    /// sources that could not be read, with the reason
    pub absent: Vec<String>,
}

/// Energy that one source measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnergySource {
    /// `RAPL`, `nvidia-smi`, or the metrics page
    pub name: String,
    /// of what, such as `processors of this machine`
    pub of: String,
    /// from the start of the run until its last answer, J; of a counter on a metrics page between the
    /// readings around the run
    pub joules: f64,
    /// mean power, W
    pub watts: f64,
    /// energy per counted output token, J; null without tokens
    pub joules_per_token: Option<f64>,
    /// energy per answered sample, J
    pub joules_per_request: Option<f64>,
}

impl Energy {
    /// Returns a line with what was measured, and what could not be read.
    pub fn text(&self) -> String {
        let measured = Some(self.measured()).filter(|text| !text.is_empty());
        let parts: Vec<String> = measured.into_iter().chain(self.absent.iter().cloned()).collect();
        parts.join("; ")
    }

    /// Returns a line with what was measured; empty if nothing was.
    pub fn measured(&self) -> String {
        let source = |source: &EnergySource| {
            let mut text = format!(
                "{} ({}) {:.1} J, {:.1} W",
                source.name, source.of, source.joules, source.watts
            );
            if let Some(joules) = source.joules_per_token {
                text += &format!(", {joules:.3} J/token");
            }
            if let Some(joules) = source.joules_per_request {
                text += &format!(", {joules:.3} J/request");
            }
            text
        };
        let parts: Vec<String> = self.sources.iter().map(source).collect();
        parts.join("; ")
    }
}
