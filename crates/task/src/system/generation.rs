//! How a decoder generates text: length limits, beams and stop tokens.

use serde::Deserialize;

/// How a decoder generates text.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenerationRules {
    /// Limits of the length.
    pub length: LengthLimits,
    /// Settings of beam search; `None` means greedy search.
    pub beams: Option<BeamSettings>,
    /// Sequence of tokens that ends the text, for samples whose second input is 1.
    #[serde(default)]
    pub stop: Vec<i64>,
    /// Tokens that are removed from the end of an answer.
    #[serde(default)]
    pub cut: Vec<i64>,
}

/// Limits of a text's length.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthLimits {
    /// Minimum number of new tokens before an end.
    pub least: usize,
    /// Maximum number of new tokens, including the end.
    pub most: usize,
    /// End tokens.
    pub ends: Vec<i64>,
}

/// Settings of beam search.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BeamSettings {
    /// Number of beams; at least 2.
    pub count: usize,
    /// When the search stops.
    pub stop: StopRule,
    /// Exponent of the length by which the score of a text is divided.
    pub length_penalty: f64,
    /// Which tokens count as length.
    pub counted: CountedTokens,
}

/// When beam search stops before the maximum number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopRule {
    /// As many texts have ended as there are beams: `early_stopping=True`.
    Early,
    /// In addition, the best beam is no better than the worst ended text: `early_stopping=False`.
    Likely,
    /// In addition, no beam can become better than the worst ended text: `early_stopping="never"`.
    Never,
}

/// Tokens that count as the length of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountedTokens {
    /// All tokens, including the prompt, as up to version 4.37 of the library.
    All,
    /// New tokens only, as from version 4.38 on.
    New,
}
