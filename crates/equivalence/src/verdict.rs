//! What the rules say of what was found.

use std::cmp::Reverse;
use std::fmt;

use super::{Equivalence, Finding};

/// The division that a model is for, as far as its weights tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The reference's weights, in whatever form.
    Closed,
    /// Not known, as something was not compared.
    Unknown,
    /// The Open division, with the tag of restricted retraining.
    RestrictedRetraining,
    /// The Open division.
    Open,
}

impl Verdict {
    /// As documents for programs have it.
    #[must_use]
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

/// Why a verdict is what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The best verdict that it leaves.
    pub leaves: Verdict,
    /// The section of the rules.
    pub rule: &'static str,
    /// What was found.
    pub what: String,
}

/// What the graphs say.
pub(super) struct Graphs {
    /// Why the layers are others than retraining may leave them.
    pub unlike: Option<String>,
    /// Normalisations of the reference that were computed into convolutions.
    pub folded: usize,
    /// Weights with zeros beyond the reference's numbers.
    pub padded: usize,
    /// Weights that the graph changes before it computes with them, with what it does.
    pub changed: Vec<String>,
    /// Single numbers that are computed with, more than in the reference.
    pub singles: u64,
    /// Where the model computes otherwise than the reference.
    pub otherwise: Vec<String>,
    /// What is held in a form that is not understood, in the model and in the reference.
    pub unread: (Vec<String>, Vec<String>),
}

const QUANTISATION: &str = "inference rules 8.1, Weight Definition and Quantization";
const EQUIVALENCE: &str = "inference rules 8.2, Model Equivalence";
const RETRAINING: &str = "inference rules 6.1, Closed Division";
const RETRAINED_GRAPH: &str = "retraining rules 7.4, Runtime model equivalence";
const INITIAL: &str = "retraining rules 6.2, Weight and Bias Initialization";

/// A description of this share of the weights is similar to them in size.
const SIMILAR: f64 = 0.5;

/// From this share on, a description is not "much smaller" beyond doubt.
const DOUBTFUL: f64 = 0.1;

/// Elements of a tensor that adds nothing by itself: means and deviations of inputs,
/// constants of formulas.
const SMALL: u64 = 16;

/// Elements of all tensors together that add nothing each.
const PIECES: u64 = 1024;

type IsSo = fn(&Finding) -> bool;

/// Decides, and says why.
pub(super) fn judge(equivalence: &mut Equivalence, graphs: &Graphs) {
    let mut reasons = of_tensors(equivalence);
    reasons.extend(of_extra(equivalence, graphs.singles));
    reasons.extend(of_beams(equivalence.beams));
    reasons.extend(of_description(equivalence));
    // Whether layers were kept is asked of a model that was retrained.
    let is_retrained = !reasons.is_empty();
    reasons.extend(of_unread(equivalence, graphs));
    let is_closed = reasons.is_empty();
    if let (true, Some(why)) = (is_retrained, &graphs.unlike) {
        reasons.push(Reason { leaves: Verdict::Open, rule: RETRAINED_GRAPH, what: why.clone() });
    }
    reasons.sort_by_key(|reason| Reverse(reason.leaves));
    equivalence.verdict = reasons.first().map_or(Verdict::Closed, |reason| reason.leaves);
    if is_closed {
        let what = match equivalence.tensors.len() {
            1 => "the weight of the reference is there".into(),
            all => format!("all {all} weights of the reference are there"),
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

fn of_tensors(equivalence: &Equivalence) -> Vec<Reason> {
    let sum = |of: fn(&super::Away) -> u64| -> u64 {
        equivalence.tensors.iter().filter_map(|tensor| tensor.away.as_ref()).map(of).sum()
    };
    let judged: [(IsSo, Verdict, &str, &str); 4] = [
        (
            |finding| matches!(finding, Finding::Replaced),
            Verdict::Open,
            INITIAL,
            "with numbers that have nothing to do with the reference's: replaced, or begun anew",
        ),
        (
            |finding| matches!(finding, Finding::Retrained),
            Verdict::RestrictedRetraining,
            RETRAINING,
            "with numbers that no rounding explains: retrained, or changed by a method that looks \
             at more than weights",
        ),
        (
            |finding| matches!(finding, Finding::Reshaped { .. }),
            Verdict::RestrictedRetraining,
            EQUIVALENCE,
            "of another shape than the reference's",
        ),
        (
            |finding| matches!(finding, Finding::Missing),
            Verdict::RestrictedRetraining,
            EQUIVALENCE,
            "of the reference for which nothing stands",
        ),
    ];
    let mut reasons = Vec::new();
    let pruned = sum(|away| away.pruned);
    let is_pruned = |finding: &Finding| matches!(finding, Finding::Pruned | Finding::Retrained);
    if pruned > 0 && count(equivalence, is_pruned) > 0 {
        let of = equivalence.tensors.iter();
        let of = of.filter(|one| one.away.is_some_and(|away| away.pruned > 0)).count();
        reasons.push(Reason {
            leaves: Verdict::RestrictedRetraining,
            rule: EQUIVALENCE,
            what: format!(
                "{pruned} numbers in {} are 0 where the reference's are not: discarding non-zero \
                 weights, including pruning",
                tensors(of)
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

/// What was not compared, so that nothing better can be said.
fn of_unread(equivalence: &Equivalence, graphs: &Graphs) -> Vec<Reason> {
    let unknown = |what: String| Reason { leaves: Verdict::Unknown, rule: EQUIVALENCE, what };
    let mut reasons = Vec::new();
    let found = count(equivalence, |finding| matches!(finding, Finding::Unread));
    if found > 0 {
        reasons.push(unknown(format!(
            "{} of the reference not found, and the model may hold them in a form that is not \
             understood",
            tensors(found)
        )));
    }
    let (own, theirs) = &graphs.unread;
    for (whose, unread) in [("the model", own), ("the reference", theirs)] {
        let Some(first) = unread.first() else { continue };
        let of = match unread.len() {
            1 => format!("{first}, in a form that is not understood"),
            all => format!("{all} tensors in a form that is not understood, such as {first}"),
        };
        reasons.push(unknown(format!("{whose} computes with {of}: not compared")));
    }
    if let Some(first) = graphs.changed.first() {
        reasons.push(unknown(format!(
            "{} changed by the graph before anything is computed with them, and not so in the \
             reference, such as {first}",
            tensors(graphs.changed.len())
        )));
    }
    if let Some(first) = graphs.otherwise.first() {
        let places = match graphs.otherwise.len() {
            1 => "in one place".into(),
            all => format!("in {all} places"),
        };
        reasons.push(unknown(format!(
            "with the same weights the model computes otherwise than the reference {places}: \
             {first}; show that it comes to the same"
        )));
    }
    if equivalence.tensors.is_empty() {
        reasons.push(unknown("the reference has no weights that could be compared".into()));
    }
    reasons
}

fn of_extra(equivalence: &Equivalence, singles: u64) -> Option<Reason> {
    let small = equivalence.extra.iter().map(super::Extra::elements).filter(|&n| n <= SMALL);
    // Many small ones are a large one in pieces.
    let is_pieces = small.sum::<u64>() > PIECES;
    let is_large = |one: &&super::Extra| is_pieces || one.elements() > SMALL;
    let large: Vec<_> = equivalence.extra.iter().filter(is_large).collect();
    let elements: u64 = large.iter().map(|one| one.elements()).sum();
    // One layer may become several, if some layer of the reference is gone or another.
    let is_substituted = count(equivalence, |finding| {
        matches!(finding, Finding::Missing | Finding::Reshaped { .. })
    }) > 0;
    let leaves = if is_substituted { Verdict::RestrictedRetraining } else { Verdict::Open };
    let Some(first) = large.first() else {
        let what = format!(
            "{singles} single numbers more than the reference: together they are a weight \
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

fn of_beams(beams: (Option<i64>, Option<i64>)) -> Option<Reason> {
    let (Some(own), Some(theirs)) = beams else { return None };
    (own != theirs).then(|| Reason {
        leaves: Verdict::Open,
        rule: EQUIVALENCE,
        what: format!("{own} beams in a search, {theirs} in the reference"),
    })
}

/// Bytes that describe quantisation by those of the codes that are not 0.
fn described(equivalence: &Equivalence) -> Option<f64> {
    let elements: u64 = equivalence.numerics.values().sum();
    let is_quantised = equivalence.description_bytes > 0 && elements > 0;
    let share = equivalence.non_zero.0 as f64 / elements as f64;
    let codes = equivalence.weight_bytes as f64 * share.min(1.0);
    is_quantised.then(|| equivalence.description_bytes as f64 / codes.max(1.0))
}

fn of_description(equivalence: &Equivalence) -> Option<Reason> {
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

fn conditions(equivalence: &Equivalence, graphs: &Graphs) -> Vec<String> {
    let mut conditions = of_rounding(equivalence);
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
        (Some(_), None) => Some("the reference's graph does not tell its beams".into()),
        (None, Some(_)) => Some("the model's graph does not tell its beams".into()),
        _ => None,
    });
    if equivalence.verdict == Verdict::RestrictedRetraining {
        conditions.push(format!(
            "the tag asks for the cost of retraining (at most 1), for public code and data, and \
             for an accuracy above that of the Closed division; the model has {} weights that are \
             not 0 in {} bytes (retraining rules 7.5 and 10)",
            equivalence.non_zero.0, equivalence.weight_bytes
        ));
    }
    conditions
}

/// What has to be described of a quantiser, and what it did besides rounding.
fn of_rounding(equivalence: &Equivalence) -> Vec<String> {
    let mut conditions = Vec::new();
    let rounded = count(equivalence, |finding| matches!(finding, Finding::Rounded));
    if rounded > 0 {
        conditions.push(format!(
            "{} rounded to another type: the method has to be described so that it can be \
             reproduced, and to use nothing but weights and the calibration set ({QUANTISATION})",
            tensors(rounded)
        ));
    }
    if let Some(share) = described(equivalence).filter(|share| *share >= DOUBTFUL) {
        conditions.push(format!(
            "scales and zero points have {:.0} % of the bytes of the weights; a description has \
             to be much smaller than those ({QUANTISATION})",
            100.0 * share
        ));
    }
    let away = || equivalence.tensors.iter().filter_map(|tensor| tensor.away.as_ref());
    let other: u64 = away().map(|away| away.other_neighbour).sum();
    if other > 0 {
        conditions.push(format!(
            "{other} numbers are rounded to the farther neighbour: truncated, or chosen by \
             calibration"
        ));
    }
    let clipped: u64 = away().map(|away| away.clipped).sum();
    if clipped > 0 {
        conditions.push(format!("{clipped} numbers are cut off at the end of their range"));
    }
    conditions
}

impl Graphs {
    /// What was not looked at, or not as it stands.
    fn unseen(&self) -> Vec<String> {
        let mut unseen = Vec::new();
        if self.folded > 0 {
            unseen.push(format!(
                "{} of the reference's normalisations are compared as folded into convolutions",
                self.folded
            ));
        }
        if self.padded > 0 {
            unseen.push(format!(
                "{} padded: show that what is computed of the padding is not used",
                tensors(self.padded)
            ));
        }
        unseen
    }
}
