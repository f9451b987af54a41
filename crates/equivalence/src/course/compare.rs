//! Comparison of two courses.

use std::collections::{BTreeMap, BTreeSet};

use super::functions::{FROM_ZERO, NORMALIZED, Operation};
use super::{Course, LayerUse, NumberRole, Source, Trace};

/// Relative tolerance for equal numbers: those of 16 bits agree this well.
const SAME: f64 = 0.01;

/// Numbers from here on only mask values, whatever their size.
const HUGE: f64 = 1000.0;

/// Names and layouts of weights for the comparison.
pub struct WeightNames<'a> {
    /// Name of a source.
    pub name: &'a dyn Fn(&Source) -> String,
    /// Name of a weight.
    pub weight: &'a dyn Fn(usize) -> String,
    /// Whether a square matrix is stored in the model as the transpose of the reference's; `None`
    /// for others.
    pub is_turned: &'a dyn Fn(usize) -> Option<bool>,
}

/// Describes where the model computes something else than the reference.
pub fn differences(own: &Course, theirs: &Course, names: &WeightNames<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let all: BTreeSet<usize> =
        own.layer_uses.keys().chain(theirs.layer_uses.keys()).copied().collect();
    for weight in all {
        let called = (names.weight)(weight);
        match (own.layer_uses.get(&weight), theirs.layer_uses.get(&weight)) {
            (Some(ours), Some(layer_use)) => {
                let why = layer(ours, layer_use, names, weight);
                found.extend(why.map(|why| format!("at the layer of '{called}': {why}")));
            }
            (ours, _) => {
                let (has, lacks) = match ours {
                    Some(_) => ("the model", "the reference"),
                    None => ("the reference", "the model"),
                };
                found.push(format!(
                    "'{called}' is the matrix of a layer in {has}, but not in {lacks}"
                ));
            }
        }
    }
    for (name, ours, theirs) in outputs(own, theirs) {
        let why = traces(ours, theirs, names);
        found.extend(why.map(|why| format!("at the output '{name}': {why}")));
    }
    found
}

/// Pairs outputs by name, or by position if no name agrees.
fn outputs<'a>(own: &'a Course, theirs: &'a Course) -> Vec<(&'a str, &'a Trace, &'a Trace)> {
    let named = |wanted: &str| own.outputs.iter().find(|(name, _)| name == wanted);
    let has_names = theirs.outputs.iter().any(|(name, _)| named(name).is_some());
    let both = theirs.outputs.iter().enumerate().filter_map(|(at, (name, theirs))| {
        let ours = if has_names { named(name) } else { own.outputs.get(at) };
        ours.map(|(_, ours)| (name.as_str(), ours, theirs))
    });
    both.collect()
}

fn layer(
    own: &LayerUse,
    theirs: &LayerUse,
    names: &WeightNames<'_>,
    weight: usize,
) -> Option<String> {
    if let Some(why) = traces(&own.trace, &theirs.trace, names) {
        return Some(why);
    }
    let list = |all: &BTreeSet<String>| {
        let names: Vec<&str> = all.iter().map(String::as_str).collect();
        if names.concat().is_empty() { "no attributes".to_owned() } else { names.join(", ") }
    };
    if own.attributes != theirs.attributes {
        return Some(format!(
            "the model has {}, the reference {}",
            list(&own.attributes),
            list(&theirs.attributes)
        ));
    }
    let is_made = |layer_use: &LayerUse| layer_use.pads.iter().any(|pads| pads.contains(&-1));
    let is_padded = |layer_use: &LayerUse| has(&layer_use.trace, "Pad");
    // Padding before a layer may be part of the layer instead.
    let is_moved = is_padded(own) != is_padded(theirs);
    if !is_made(own) && !is_made(theirs) && (own.pads == theirs.pads) == is_moved {
        return Some(format!("the model pads {:?}, the reference {:?}", own.pads, theirs.pads));
    }
    let is_turned = (names.is_turned)(weight)?;
    let turned: BTreeSet<bool> = own.turned.iter().map(|turned| turned ^ is_turned).collect();
    let is_known = !own.turned.is_empty() && !theirs.turned.is_empty();
    (is_known && turned != theirs.turned)
        .then(|| "the model multiplies the transpose of the matrix of the reference".into())
}

fn has(trace: &Trace, name: &'static str) -> bool {
    trace.from.values().flatten().any(|(done, _)| *done == Operation::Arithmetic(name))
}

fn traces(own: &Trace, theirs: &Trace, names: &WeightNames<'_>) -> Option<String> {
    if own.is_lost || theirs.is_lost {
        return Some("more values are combined than Dyno can trace".into());
    }
    let sources = |trace: &Trace| trace.from.keys().cloned().collect::<BTreeSet<_>>();
    let ours = sources(own);
    let all = sources(theirs);
    if ours != all {
        let list = |some: &BTreeSet<Source>, others: &BTreeSet<Source>| {
            let only: Vec<String> = some.difference(others).map(names.name).collect();
            let more = if only.len() > 3 { " and others" } else { "" };
            let names: Vec<String> = only.into_iter().take(3).collect();
            if names.is_empty() { "nothing".into() } else { names.join(", ") + more }
        };
        return Some(format!(
            "the model uses {} that the reference does not use, and the reference uses {}",
            list(&ours, &all),
            list(&all, &ours)
        ));
    }
    let is_fused = own.is_fused || theirs.is_fused;
    if is_fused {
        return works(&merged(own), &merged(theirs), true, names).or_else(|| numbers(own, theirs));
    }
    let each = own.from.iter().zip(theirs.from.values());
    let mut each = each.filter_map(|((source, ours), theirs)| {
        let why = works(&counted(ours), &counted(theirs), false, names);
        why.map(|why| format!("{why} (derived from {})", (names.name)(source)))
    });
    each.next()
        .or_else(|| works(&vectors(own), &vectors(theirs), false, names))
        .or_else(|| numbers(own, theirs))
}

type OperationCounts = BTreeMap<Operation, usize>;

/// Counts operations. An added vector may be added to any of the summands and so belongs to no
/// source.
fn counted(done: &BTreeSet<(Operation, usize)>) -> OperationCounts {
    let mut works = OperationCounts::new();
    let functions = done.iter().filter(|(done, _)| !matches!(done, Operation::Vector(_)));
    functions.for_each(|(done, _)| *works.entry(done.clone()).or_default() += 1);
    simpler(works)
}

/// Replaces the parts of a softmax by its name.
fn simpler(mut works: OperationCounts) -> OperationCounts {
    let has_sum = works.contains_key(&Operation::Arithmetic("ReduceSum"));
    if has_sum && works.contains_key(&Operation::Function("Exp".into())) {
        for part in ["ReduceSum", "Quotient", "Difference"] {
            works.remove(&Operation::Arithmetic(part));
        }
        works.remove(&Operation::Function("ReduceMax".into()));
        works.insert(Operation::Arithmetic(NORMALIZED), 1);
    }
    works
}

/// Operations of all sources together, each counted once.
fn merged(trace: &Trace) -> OperationCounts {
    simpler(trace.from.values().flatten().map(|(done, _)| (done.clone(), 1)).collect())
}

/// Vectors of weights on the way.
fn vectors(trace: &Trace) -> OperationCounts {
    let all = trace.from.values().flatten();
    all.filter(|(done, _)| matches!(done, Operation::Vector(_)))
        .map(|(done, _)| (done.clone(), 1))
        .collect()
}

/// Describes a difference between operations.
fn works(
    own: &OperationCounts,
    theirs: &OperationCounts,
    is_fused: bool,
    names: &WeightNames<'_>,
) -> Option<String> {
    let count_of =
        |works: &OperationCounts, done: &Operation| works.get(done).copied().unwrap_or(0);
    let from_zero = count_of(own, &Operation::Function(FROM_ZERO.into()));
    let from_zero_there = count_of(theirs, &Operation::Function(FROM_ZERO.into()));
    let all: BTreeSet<&Operation> = own.keys().chain(theirs.keys()).collect();
    for done in all {
        let ours = count_of(own, done);
        let there = count_of(theirs, done);
        let is_alike = match done {
            Operation::Function(name) if name == FROM_ZERO => true,
            Operation::Function(name) if name == "Relu" => {
                ours + from_zero >= there && there + from_zero_there >= ours
            }
            Operation::Function(_) | Operation::Vector(_) => ours == there,
            Operation::Arithmetic("Pad") => true,
            Operation::Arithmetic(_) => is_fused || (ours > 0) == (there > 0),
        };
        if !is_alike {
            let name = match done {
                Operation::Function(name) => name.clone(),
                Operation::Arithmetic(name) => (*name).to_owned(),
                Operation::Vector(weight) => format!("'{}'", (names.weight)(*weight)),
            };
            let times = |count: usize| match count {
                0 => "no".to_owned(),
                1 => "1".to_owned(),
                count => count.to_string(),
            };
            return Some(format!(
                "the model has {} {name}, the reference {}",
                times(ours),
                times(there)
            ));
        }
    }
    None
}

/// Describes a difference between numbers.
fn numbers(own: &Trace, theirs: &Trace) -> Option<String> {
    if own.has_unknown || theirs.has_unknown {
        return None;
    }
    let all = |trace: &Trace, role: NumberRole| -> Vec<f64> {
        let these = trace.numbers.iter().filter(|(found, _)| *found == role);
        these.map(|(_, bits)| f64::from(f32::from_bits(*bits))).collect()
    };
    let tops = all(own, NumberRole::Top);
    let named = [
        (NumberRole::Factor, "multiplied by"),
        (NumberRole::Offset, "added"),
        (NumberRole::Low, "bounded below by"),
        (NumberRole::High, "bounded above by"),
        (NumberRole::Axis, "normalized along dimension"),
        (NumberRole::Count, "repeated"),
        (NumberRole::Size, "arranged in rows of"),
    ];
    for (role, what) in named {
        let ours = all(own, role);
        let there = all(theirs, role);
        // A dimension counted from the end may be any.
        let from_end = |values: &[f64]| values.iter().any(|value| *value < 0.0);
        let is_any = |values: &[f64]| values.is_empty() || from_end(values);
        if role == NumberRole::Axis && (is_any(&ours) || is_any(&there)) {
            continue;
        }
        // Different arrangements of data have sizes in common if the data is divided alike.
        let is_one = |value: &f64| there.iter().any(|other| is_same(*value, *other));
        if role == NumberRole::Size
            && (ours.is_empty() || there.is_empty() || ours.iter().any(is_one))
        {
            continue;
        }
        let lacks = |some: &[f64], others: &[f64], is_theirs: bool| {
            let is_there = |value: &f64| {
                others.iter().any(|other| is_same(*value, *other))
                    || is_theirs
                        && role == NumberRole::High
                        && tops.iter().any(|top| *top <= value * 1.02)
            };
            some.iter().copied().find(|value| !is_there(value))
        };
        if let Some(value) = lacks(&there, &ours, true) {
            return Some(format!("the reference has values {what} {value}, the model has none"));
        }
        if let Some(value) = lacks(&ours, &there, false) {
            return Some(format!("the model has values {what} {value}, the reference has none"));
        }
    }
    None
}

fn is_same(one: f64, other: f64) -> bool {
    let is_huge = one.abs() >= HUGE && other.abs() >= HUGE && (one > 0.0) == (other > 0.0);
    is_huge || (one - other).abs() <= SAME * one.abs().max(other.abs())
}
