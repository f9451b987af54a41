//! Verdicts of the rules on the findings.

use std::cmp::Reverse;
use std::fmt;

use super::{Equivalence, Finding};

/// Division for which a model qualifies, judged by its weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The reference's weights, in any form.
    Closed,
    /// Unknown, since some parts were not compared.
    Unknown,
    /// The Open division, with the tag of restricted retraining.
    RestrictedRetraining,
    /// The Open division.
    Open,
}

impl Verdict {
    /// Name in machine-readable reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Unknown => "unknown",
            Self::RestrictedRetraining => "restricted-retraining",
            Self::Open => "open",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reason for a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// Best verdict that it permits.
    pub leaves: Verdict,
    /// Section of the rules.
    pub rule: &'static str,
    /// Description of the finding.
    pub what: String,
}

/// Findings about the graphs.
pub(super) struct GraphFindings {
    /// Why the layers differ more than retraining permits.
    pub unlike: Option<String>,
    /// Number of the reference's normalizations that are folded into convolutions.
    pub folded: usize,
    /// Number of weights that are padded with zeros.
    pub padded: usize,
    /// Weights that the graph changes before it computes with them, with the operators.
    pub changed: Vec<String>,
    /// Number of single-number operands beyond those of the reference.
    pub singles: u64,
    /// Places where the model computes something else than the reference.
    pub otherwise: Vec<String>,
    /// Tensors that are not understood, in the model and in the reference.
    pub unread: (Vec<String>, Vec<String>),
}

const QUANTISATION: &str = "inference rules 8.1, Weight Definition and Quantization";
const EQUIVALENCE: &str = "inference rules 8.2, Model Equivalence";
const RETRAINING: &str = "inference rules 6.1, Closed Division";
const RETRAINED_GRAPH: &str = "retraining rules 7.4, Runtime model equivalence";
const INITIAL: &str = "retraining rules 6.2, Weight and Bias Initialization";

/// A description of this fraction of the weights is similar in size.
const SIMILAR: f64 = 0.5;

/// From this fraction on, a description may not be "much smaller".
const DOUBTFUL: f64 = 0.1;

/// Maximum elements of a tensor that adds nothing by itself: means and deviations of inputs,
/// constants of formulas.
const SMALL: u64 = 16;

/// Maximum total elements of such tensors.
const PIECES: u64 = 1024;

type FindingTest = fn(&Finding) -> bool;

/// Sets the verdict, its reasons and the conditions.
pub(super) fn judge(equivalence: &mut Equivalence, graphs: &GraphFindings) {
    let mut reasons = tensor_reasons(equivalence);
    reasons.extend(extra_reason(equivalence, graphs.singles));
    reasons.extend(beam_reason(equivalence.beams));
    reasons.extend(description_reason(equivalence));
    // The rules on kept layers apply to retrained models only.
    let is_retrained = !reasons.is_empty();
    reasons.extend(unread_reasons(equivalence, graphs));
    let is_closed = reasons.is_empty();
    if let (true, Some(why)) = (is_retrained, &graphs.unlike) {
        reasons.push(Reason { leaves: Verdict::Open, rule: RETRAINED_GRAPH, what: why.clone() });
    }
    reasons.sort_by_key(|reason| Reverse(reason.leaves));
    equivalence.verdict = reasons.first().map_or(Verdict::Closed, |reason| reason.leaves);
    if is_closed {
        let what = match equivalence.tensors.len() {
            1 => "the model contains the weight of the reference".into(),
            all => format!("the model contains all {all} weights of the reference"),
        };
        reasons.push(Reason { leaves: Verdict::Closed, rule: EQUIVALENCE, what });
    }
    equivalence.reasons = reasons;
    equivalence.conditions = conditions(equivalence, graphs);
}

fn count(equivalence: &Equivalence, is_so: impl Fn(&Finding) -> bool) -> usize {
    equivalence.tensors.iter().filter(|tensor| is_so(&tensor.finding)).count()
}

fn tensors(count: usize) -> String {
    if count == 1 { "1 tensor".into() } else { format!("{count} tensors") }
}

fn tensor_reasons(equivalence: &Equivalence) -> Vec<Reason> {
    let sum = |count: fn(&super::Deviation) -> u64| -> u64 {
        equivalence.tensors.iter().filter_map(|tensor| tensor.deviation.as_ref()).map(count).sum()
    };
    let judged: [(FindingTest, Verdict, &str, &str); 4] = [
        (
            |finding| matches!(finding, Finding::Replaced),
            Verdict::Open,
            INITIAL,
            "unrelated to the reference: replaced, or trained from new initial weights",
        ),
        (
            |finding| matches!(finding, Finding::Retrained),
            Verdict::RestrictedRetraining,
            RETRAINING,
            "with differences that rounding does not explain: retrained, or changed by a method \
             that uses more than the weights",
        ),
        (
            |finding| matches!(finding, Finding::Reshaped { .. }),
            Verdict::RestrictedRetraining,
            EQUIVALENCE,
            "with a different shape than in the reference",
        ),
        (
            |finding| matches!(finding, Finding::Missing),
            Verdict::RestrictedRetraining,
            EQUIVALENCE,
            "of the reference without a counterpart in the model",
        ),
    ];
    let mut reasons = Vec::new();
    let pruned = sum(|deviation| deviation.pruned);
    let is_pruned = |finding: &Finding| matches!(finding, Finding::Pruned | Finding::Retrained);
    if pruned > 0 && count(equivalence, is_pruned) > 0 {
        let affected = equivalence.tensors.iter();
        let affected = affected
            .filter(|one| one.deviation.is_some_and(|deviation| deviation.pruned > 0))
            .count();
        reasons.push(Reason {
            leaves: Verdict::RestrictedRetraining,
            rule: EQUIVALENCE,
            what: format!(
                "{pruned} numbers in {} are 0 but not 0 in the reference: discarding non-zero \
                 weights, including pruning",
                tensors(affected)
            ),
        });
    }
    for (is_so, leaves, rule, what) in judged {
        let found = count(equivalence, is_so);
        if found > 0 {
            let what = format!("{} {what}", tensors(found));
            reasons.push(Reason { leaves, rule, what });
        }
    }
    reasons
}

/// Reasons for which no better verdict is possible: parts that were not compared.
fn unread_reasons(equivalence: &Equivalence, graphs: &GraphFindings) -> Vec<Reason> {
    let unknown = |what: String| Reason { leaves: Verdict::Unknown, rule: EQUIVALENCE, what };
    let mut reasons = Vec::new();
    let found = count(equivalence, |finding| matches!(finding, Finding::Unread));
    if found > 0 {
        reasons.push(unknown(format!(
            "{} of the reference not found; the model may store them in an unknown form",
            tensors(found)
        )));
    }
    let (own, theirs) = &graphs.unread;
    for (whose, unread) in [("the model", own), ("the reference", theirs)] {
        let Some(first) = unread.first() else { continue };
        let contents = match unread.len() {
            1 => format!("{first}, in an unknown form"),
            all => format!("{all} tensors in an unknown form, such as {first}"),
        };
        reasons.push(unknown(format!("{whose} computes with {contents}: not compared")));
    }
    if let Some(first) = graphs.changed.first() {
        reasons.push(unknown(format!(
            "{} changed by the graph before use, unlike in the reference, such as {first}",
            tensors(graphs.changed.len())
        )));
    }
    if let Some(first) = graphs.otherwise.first() {
        let places = match graphs.otherwise.len() {
            1 => "in one place".into(),
            all => format!("in {all} places"),
        };
        reasons.push(unknown(format!(
            "with the same weights, the model differs from the reference {places}: {first}; show \
             that the results are equal"
        )));
    }
    if equivalence.tensors.is_empty() {
        reasons.push(unknown("the reference has no weights that could be compared".into()));
    }
    reasons
}

fn extra_reason(equivalence: &Equivalence, singles: u64) -> Option<Reason> {
    let small = equivalence.extra.iter().map(super::ExtraWeight::elements).filter(|&n| n <= SMALL);
    // Many small tensors may be a large one in pieces.
    let is_pieces = small.sum::<u64>() > PIECES;
    let is_large = |one: &&super::ExtraWeight| is_pieces || one.elements() > SMALL;
    let large: Vec<_> = equivalence.extra.iter().filter(is_large).collect();
    let elements: u64 = large.iter().map(|one| one.elements()).sum();
    // One layer may become several if a layer of the reference is missing or changed.
    let is_substituted = count(equivalence, |finding| {
        matches!(finding, Finding::Missing | Finding::Reshaped { .. })
    }) > 0;
    let leaves = if is_substituted { Verdict::RestrictedRetraining } else { Verdict::Open };
    let Some(first) = large.first() else {
        let what = format!(
            "{singles} more single numbers than the reference: together they are a weight \
             supplement"
        );
        return (singles > PIECES).then_some(Reason { leaves, rule: EQUIVALENCE, what });
    };
    Some(Reason {
        leaves,
        rule: EQUIVALENCE,
        what: format!(
            "{} with {elements} numbers that the reference does not have, such as '{}': weight \
             supplements",
            tensors(large.len()),
            first.name
        ),
    })
}

fn beam_reason(beams: (Option<i64>, Option<i64>)) -> Option<Reason> {
    let (Some(own), Some(theirs)) = beams else { return None };
    (own != theirs).then(|| Reason {
        leaves: Verdict::Open,
        rule: EQUIVALENCE,
        what: format!("{own} beams in the search, {theirs} in the reference"),
    })
}

/// Ratio of the bytes that describe the quantization to those of nonzero codes.
fn described(equivalence: &Equivalence) -> Option<f64> {
    let elements: u64 = equivalence.numerics.values().sum();
    let is_quantised = equivalence.description_bytes > 0 && elements > 0;
    let share = equivalence.non_zero.0 as f64 / elements as f64;
    let codes = equivalence.weight_bytes as f64 * share.min(1.0);
    is_quantised.then(|| equivalence.description_bytes as f64 / codes.max(1.0))
}

fn description_reason(equivalence: &Equivalence) -> Option<Reason> {
    let share = described(equivalence).filter(|share| *share >= SIMILAR)?;
    Some(Reason {
        leaves: Verdict::Open,
        rule: EQUIVALENCE,
        what: format!(
            "scales and zero points have {:.0} % of the bytes of the weights that are not 0: \
             similar in size to what they describe",
            100.0 * share
        ),
    })
}

fn conditions(equivalence: &Equivalence, graphs: &GraphFindings) -> Vec<String> {
    let mut conditions = rounding_conditions(equivalence);
    let is_moved =
        |finding: &Finding| matches!(finding, Finding::Reordered | Finding::Scaled { .. });
    let moved = count(equivalence, is_moved);
    if moved > 0 {
        conditions.push(format!(
            "{} reordered, or scaled slice by slice: show that the graph undoes it ({EQUIVALENCE})",
            tensors(moved)
        ));
    }
    conditions.extend(graphs.unseen());
    conditions.extend(match equivalence.beams {
        (Some(_), None) => {
            Some("the graph of the reference does not state its number of beams".into())
        }
        (None, Some(_)) => Some("the graph of the model does not state its number of beams".into()),
        _ => None,
    });
    if equivalence.verdict == Verdict::RestrictedRetraining {
        conditions.push(format!(
            "the tag requires the cost of retraining (at most 1), public code and data, and an \
             accuracy above that of the Closed division; the model has {} weights that are not 0 \
             in {} bytes (retraining rules 7.5 and 10)",
            equivalence.non_zero.0, equivalence.weight_bytes
        ));
    }
    conditions
}

/// Conditions on the quantization method, and its effects besides rounding.
fn rounding_conditions(equivalence: &Equivalence) -> Vec<String> {
    let mut conditions = Vec::new();
    let rounded = count(equivalence, |finding| matches!(finding, Finding::Rounded));
    if rounded > 0 {
        conditions.push(format!(
            "{} rounded to another type: the method must be described so that it can be \
             reproduced, and must use only weights and the calibration set ({QUANTISATION})",
            tensors(rounded)
        ));
    }
    if let Some(share) = described(equivalence).filter(|share| *share >= DOUBTFUL) {
        conditions.push(format!(
            "scales and zero points have {:.0} % of the bytes of the weights; a description must \
             be much smaller than the weights ({QUANTISATION})",
            100.0 * share
        ));
    }
    let deviation = || equivalence.tensors.iter().filter_map(|tensor| tensor.deviation.as_ref());
    let other: u64 = deviation().map(|deviation| deviation.other_neighbour).sum();
    if other > 0 {
        conditions.push(format!(
            "{other} numbers are rounded to the farther neighbor: truncated, or chosen by \
             calibration"
        ));
    }
    let clipped: u64 = deviation().map(|deviation| deviation.clipped).sum();
    if clipped > 0 {
        conditions.push(format!("{clipped} numbers are clipped at the end of their range"));
    }
    conditions
}

impl GraphFindings {
    /// Descriptions of parts that were compared only indirectly.
    fn unseen(&self) -> Vec<String> {
        let mut unseen = Vec::new();
        if self.folded > 0 {
            unseen.push(format!(
                "{} normalizations of the reference are compared as folded into convolutions",
                self.folded
            ));
        }
        if self.padded > 0 {
            unseen.push(format!(
                "{} padded: show that results of the padding are not used",
                tensors(self.padded)
            ));
        }
        unseen
    }
}
