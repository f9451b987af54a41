//! How a decoder generates text: length limits, beams and stop tokens.

use serde::Deserialize;

/// How text is made.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenerationRules {
    /// When it is over.
    pub length: LengthLimits,
    /// Several texts that are followed, of which the best is the answer.
    pub beams: Option<BeamSettings>,
    /// Behind these tokens comes an end, of samples whose second input is 1.
    #[serde(default)]
    pub stop: Vec<i64>,
    /// Tokens that are cut off the end of an answer.
    #[serde(default)]
    pub cut: Vec<i64>,
}

/// When a text is over.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthLimits {
    /// New tokens before which none is an end.
    pub least: usize,
    /// New tokens, with the end.
    pub most: usize,
    /// Tokens that are an end.
    pub ends: Vec<i64>,
}

/// How several texts are followed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BeamSettings {
    /// How many; at least 2.
    pub count: usize,
    /// When none is followed any further.
    pub stop: StopRule,
    /// The power of the length by which the score of a text is divided.
    pub length_penalty: f64,
    /// What counts as length.
    pub counted: CountedTokens,
}

/// When beams are not followed any further, besides the most of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopRule {
    /// As many texts have ended as there are beams: `early_stopping=True`.
    Early,
    /// And the best beam is no better than the worst of them: `early_stopping=False`.
    Likely,
    /// And no beam can become better than the worst of them: `early_stopping="never"`.
    Never,
}

/// Tokens that count as the length of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountedTokens {
    /// With those of the prompt, as up to version 4.37 of the library.
    All,
    /// Without, as from then on.
    New,
}
