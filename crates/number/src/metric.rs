//! The metric that a descriptor's accuracies are: its name, and whether more of it is better.

use std::fmt;

/// Whether more or less of a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// More is better, such as an accuracy.
    Higher,
    /// Less is better, such as an error rate.
    Lower,
}

/// Metric by which configurations are judged.
///
/// ```
/// use dyno_number::network::{Direction, Metric};
/// assert_eq!(Metric::default().direction, Direction::Higher);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name for display.
    pub name: String,
    /// Whether more of it is better.
    pub direction: Direction,
    /// Whether the direction is certain: by `direction`, or by a method of `dyno task score`. A name
    /// such as `accuracy` may be wrong.
    pub is_stated: bool,
}

impl Default for Metric {
    fn default() -> Self {
        Self { name: "accuracy".into(), direction: Direction::Higher, is_stated: false }
    }
}

/// Words of metrics of which more is better.
const HIGHER: &[&str] = &[
    "acc",
    "accuracy",
    "top1",
    "top5",
    "correct",
    "right",
    "f1",
    "bleu",
    "rouge",
    "rouge1",
    "rouge2",
    "rougel",
    "rougelsum",
    "map",
    "ap",
    "auc",
    "iou",
    "miou",
    "dice",
    "recall",
    "precision",
    "exact",
    "em",
    "match",
    "psnr",
    "ssim",
    "clip",
    "cosine",
    "agreement",
    "ndcg",
    "mrr",
    "kappa",
    "mcc",
    "nearest",
    "hits",
];

/// Words of metrics of which less is better.
const LOWER: &[&str] = &[
    "wer",
    "cer",
    "per",
    "der",
    "ter",
    "eer",
    "error",
    "errors",
    "err",
    "loss",
    "losses",
    "perplexity",
    "ppl",
    "mse",
    "rmse",
    "mae",
    "mape",
    "nll",
    "entropy",
    "crossentropy",
    "fid",
    "wrong",
    "mistakes",
    "misses",
    "distance",
    "divergence",
    "brier",
    "ece",
    "bpc",
    "bpb",
];

/// Figures of a method of `dyno task score`, the default first.
type Method = (&'static str, &'static [(&'static str, Direction)]);

/// Figures of summaries.
const ROUGE: &[(&str, Direction)] = {
    use Direction::Higher;
    &[("ROUGE1", Higher), ("ROUGE2", Higher), ("ROUGEL", Higher), ("ROUGELSUM", Higher)]
};

/// Methods of `dyno task score` with their figures. `WER` of `word-errors` is the share of right
/// words, as the script of its benchmark has it.
pub const SCORED_METHODS: &[Method] = {
    use Direction::{Higher, Lower};
    &[
        ("top1", &[("acc", Higher)]),
        ("coco-map", &[("mAP", Higher)]),
        ("roc-auc", &[("AUC", Higher)]),
        ("normalized-entropy", &[("DLRM_NE", Lower), ("DLRM_ACC", Higher), ("DLRM_AUC", Higher)]),
        ("rouge", ROUGE),
        (
            "rouge-gsm8k",
            &[
                ("gsm8k_accuracy", Higher),
                ("ROUGE1", Higher),
                ("ROUGE2", Higher),
                ("ROUGEL", Higher),
                ("ROUGELSUM", Higher),
            ],
        ),
        ("rouge-exact-match", &[("ROUGEL", Higher), ("exact_match", Higher)]),
        ("hierarchical-f1", &[("F1_HIERARCHICAL", Higher)]),
        ("bleu", &[("bleu", Higher)]),
        ("squad", &[("F1", Higher), ("exact_match", Higher)]),
        ("word-errors", &[("WER", Higher)]),
        ("normalized-word-errors", &[("ACCURACY", Higher)]),
        ("phoneme-errors", &[("phoneme_error_rate", Lower), ("word_error_rate", Lower)]),
        ("node-accuracy", &[("acc", Higher)]),
        ("mean-dice", &[("DICE", Higher)]),
        ("brats-dice", &[("DICE", Higher)]),
        ("dice", &[("DICE", Higher)]),
        ("fid-clip", &[("FID_SCORE", Lower), ("CLIP_SCORE", Higher)]),
        ("embedding-agreement", &[("cosine", Higher), ("nearest", Higher)]),
    ]
};

/// Direction of a metric by the words of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// It has no known word.
    Unknown,
    Known(Direction),
    /// It has words of both directions.
    Both,
}

impl Hint {
    pub fn from_text(text: &str) -> Self {
        let words: Vec<String> = words(text);
        let has = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
        match (has(HIGHER), has(LOWER)) {
            (true, true) => Self::Both,
            (true, false) => Self::Known(Direction::Higher),
            (false, true) => Self::Known(Direction::Lower),
            (false, false) => Self::Unknown,
        }
    }

    pub fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, other) | (other, Self::Unknown) => other,
            (a, b) if a == b => a,
            _ => Self::Both,
        }
    }
}

/// Returns the words of a name or regular expression in lower case: runs of letters and digits.
fn words(text: &str) -> Vec<String> {
    // `top-1` is one word.
    let text = text.to_lowercase().replace("top-", "top").replace("top ", "top");
    // Escapes of a regular expression, such as `\s`, are not words.
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\\' {
            chars.next();
            plain.push(' ');
        } else {
            plain.push(c);
        }
    }
    let parts = plain.split(|c: char| !c.is_alphanumeric());
    parts.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

impl Metric {
    /// Returns a figure of `dyno task score` by `METHOD` or `METHOD.FIGURE`.
    pub fn scored(name: &str) -> Option<(&'static str, Direction)> {
        let (method, figure) = name.split_once('.').map_or((name, None), |(a, b)| (a, Some(b)));
        let (_, figures) = SCORED_METHODS.iter().find(|(known, _)| *known == method)?;
        match figure {
            None => figures.first().copied(),
            Some(figure) => figures.iter().find(|(known, _)| *known == figure).copied(),
        }
    }

    /// Returns a value of the metric such that more is better: errors change their sign. Applied
    /// twice, it returns the value.
    pub fn signed(&self, value: f64) -> f64 {
        match self.direction {
            Direction::Higher => value,
            Direction::Lower => -value,
        }
    }

    /// Returns whether a value keeps a limit.
    pub fn keeps(&self, value: f64, limit: f64) -> bool {
        self.signed(value) >= self.signed(limit)
    }

    /// Returns the least good value that may still be had, for a share that may be lost (SPEC A21):
    /// a part less of an accuracy, or more of an error.
    pub fn limit(&self, base: f64, margin: f64) -> f64 {
        match self.direction {
            Direction::Higher => base * (1.0 - margin),
            Direction::Lower => base * (1.0 + margin),
        }
    }
}

/// Phrases of the tuner about accuracies, and about errors. Values of errors have a sign before
/// [`Metric::words`].
const PHRASES: &[(&str, &str)] = &[
    ("changes accuracy by ", "changes the error by "),
    ("costs no accuracy (", "adds no error ("),
    (" of accuracy", " of error"),
    ("accuracy at most ", "error at least "),
    ("accuracy ", "error "),
    ("accuracies", "errors"),
    ("is below ", "is above "),
    ("is above ", "is below "),
    ("above ", "below "),
    ("is at least ", "is at most "),
    ("none passes; at most ", "none passes; at least "),
    ("the highest", "the lowest"),
    ("is higher", "is lower"),
    ("no lower than ", "no higher than "),
    ("no better than ", "no better than "),
    ("lead back to ", "lead back to "),
    ("costs ", "adds "),
];

impl Metric {
    /// Returns a sentence of the tuner about signed values in the words of this metric.
    pub(crate) fn words(&self, text: &str) -> String {
        if self.direction == Direction::Higher {
            return text.to_owned();
        }
        let mut words = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            match PHRASES.iter().find(|(phrase, _)| rest.starts_with(phrase)) {
                Some((phrase, other)) => {
                    words.push_str(other);
                    rest = &rest[phrase.len()..];
                    rest = rest.strip_prefix('-').unwrap_or(rest);
                }
                None => {
                    words.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        words
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_direction_where_their_words_agree() {
        let of = |text| Hint::from_text(text);
        for name in ["accuracy = ([0-9.]+)", r"top-1\s*:\s*(.*)", "mAP", "ROUGE-L", "F1"] {
            assert_eq!(of(name), Hint::Known(Direction::Higher), "{name}");
        }
        for name in ["WER", "word_error_rate", "ppl: (.*)", "test-loss", r"\bcer=(\S+)"] {
            assert_eq!(of(name), Hint::Known(Direction::Lower), "{name}");
        }
        for name in ["", "result: (.*)", r"\w+er = (.*)", "perform", "lossless"] {
            assert_eq!(of(name), Hint::Unknown, "{name}");
        }
        assert_eq!(of("accuracy loss"), Hint::Both);
        assert_eq!(of("wer").join(of("accuracy")), Hint::Both);
        assert_eq!(of("wer").join(of("result")), of("wer"));
    }

    #[test]
    fn sentences_about_errors_have_their_words() {
        let errors = Metric { direction: Direction::Lower, ..Metric::default() };
        let of = |text| errors.words(text);
        assert_eq!(of("accuracy -12.5 is below -7.474"), "error 12.5 is above 7.474");
        assert_eq!(of("accuracy -7.4 is at least -7.474"), "error 7.4 is at most 7.474");
        assert_eq!(
            of("accuracy -7.4 is the highest, and above -8"),
            "error 7.4 is the lowest, and below 8"
        );
        assert_eq!(
            of("saves 30 bits and costs 0.1 of accuracy"),
            "saves 30 bits and adds 0.1 of error"
        );
        let formats = "conv1.weight I3(-2) -> I3(-1)";
        assert_eq!(of(formats), formats);
        assert_eq!(Metric::default().words("accuracy 0.9"), "accuracy 0.9");
    }

    #[test]
    fn a_margin_of_an_error_is_a_part_more_of_it() {
        let errors = Metric { direction: Direction::Lower, ..Metric::default() };
        assert!((errors.limit(7.4, 0.01) - 7.474).abs() < 1e-12);
        assert!(errors.keeps(7.4, 7.474) && !errors.keeps(12.5, 7.474));
        let right = Metric::default();
        assert!(right.keeps(0.98, right.limit(0.98, 0.01)) && !right.keeps(0.97, 0.9702));
        assert_eq!(Metric::scored("fid-clip.CLIP_SCORE").unwrap().1, Direction::Higher);
        assert_eq!(Metric::scored("phoneme-errors").unwrap().0, "phoneme_error_rate");
        assert!(Metric::scored("fid-clip.BLEU").is_none() && Metric::scored("wer").is_none());
    }
}
