//! Comparison of the courses of a model and its reference.

use std::collections::{HashMap, HashSet};

use dyno_onnx::{Model, ReadError};

use super::alignment::Arrangement;
use super::course::{GraphFacts, Source, WeightNames, course, differences as course_differences};
use super::fold::FoldedNormalization;
use super::pair::{Pair, samples};
use super::weights::Weights;

/// Describes where the model computes something else than the reference.
///
/// # Errors
/// Weights cannot be read.
pub fn differences(
    model: &Model,
    own: &Weights<'_>,
    reference: &Model,
    theirs: &Weights<'_>,
    pairs: &[Pair],
    folded: &[FoldedNormalization],
) -> Result<Vec<String>, ReadError> {
    let mut first = first_alike(theirs)?;
    let mut stored: HashMap<usize, usize> = HashMap::new();
    for pair in pairs.iter().filter(|pair| !matches!(pair.arrangement, Arrangement::Part { .. })) {
        // The model may store once what the reference stores twice.
        first[pair.reference] = *stored.entry(pair.own).or_insert(first[pair.reference]);
    }
    let mut known = GraphFacts {
        weights: HashMap::new(),
        folded: folded.iter().map(|one| one.scale.as_str()).collect(),
        inputs: inputs(reference, reference),
    };
    for (at, weight) in theirs.all.iter().enumerate() {
        known.weights.insert(&weight.held_as, vec![first[at]]);
        let folds = folded.iter().filter(|one| one.bias_name == weight.held_as);
        for gone in folds.flat_map(|one| &one.gone) {
            known.weights.insert(gone, vec![first[at]]);
        }
    }
    let there = course(reference, &theirs.flow, &known);
    let mut weights: HashMap<&str, Vec<usize>> = HashMap::new();
    for pair in pairs {
        let all = weights.entry(&own.all[pair.own].held_as).or_default();
        let weight = first[pair.reference];
        if !all.contains(&weight) {
            all.push(weight);
        }
    }
    let inputs = inputs(model, reference);
    let here = course(model, &own.flow, &GraphFacts { weights, folded: HashSet::new(), inputs });
    let name = |source: &Source| match source {
        Source::Input(at) => format!("input '{}'", reference.inputs[*at].name),
        Source::Weight(at) => format!("the layer of '{}'", theirs.all[*at].name),
        Source::Other(what) => what.clone(),
    };
    let weight = |at: usize| theirs.all[at].name.clone();
    let is_turned = |at: usize| {
        let pair = pairs.iter().find(|pair| pair.reference == at)?;
        match (&theirs.all[at].shape[..], &pair.arrangement) {
            ([rows, columns], Arrangement::Axes(axes)) if rows == columns => Some(axes[0] == 1),
            _ => None,
        }
    };
    let compared = WeightNames { name: &name, weight: &weight, is_turned: &is_turned };
    Ok(course_differences(&here, &there, &compared))
}

/// Maximum numbers of a weight that is compared with others; larger ones would be read from their
/// files again.
const MOST_ALIKE: usize = 1 << 22;

/// For each weight, the first one with the same numbers: either may represent both.
fn first_alike(weights: &Weights<'_>) -> Result<Vec<usize>, ReadError> {
    let mut known: HashMap<(&[usize], Vec<u32>), usize> = HashMap::new();
    let mut first = Vec::new();
    for (at, weight) in weights.all.iter().enumerate() {
        if weight.shape.iter().fold(1_usize, |all, &n| all.saturating_mul(n)) > MOST_ALIKE {
            first.push(at);
            continue;
        }
        let samples = samples(&weights.numbers(weight)?);
        let bits = samples.into_iter().map(f32::to_bits).collect();
        first.push(*known.entry((&weight.shape[..], bits)).or_insert(at));
    }
    Ok(first)
}

/// Positions in the reference of a model's inputs: by name, the rest in order.
fn inputs<'a>(model: &'a Model, reference: &Model) -> HashMap<&'a str, usize> {
    let has = |model: &Model, name: &str| model.inputs.iter().any(|port| port.name == name);
    let free = reference.inputs.iter().enumerate();
    let mut free = free.filter(|(_, port)| !has(model, &port.name)).map(|(at, _)| at);
    let place = |name: &str| reference.inputs.iter().position(|port| port.name == name);
    let names = model.inputs.iter().map(|port| port.name.as_str());
    names.filter_map(|name| Some((name, place(name).or_else(|| free.next())?))).collect()
}
