//! Where one course is another than the other.

use std::collections::{BTreeMap, BTreeSet};

use super::functions::{Done, FROM_ZERO, NORMALISED};
use super::{Course, Met, Source, Trace, Use};

/// Numbers that agree to this share are the same: those of 16 bits do.
const SAME: f64 = 0.01;

/// From here on a number only says that something is to count for nothing.
const HUGE: f64 = 1000.0;

/// What the comparison is told of weights.
pub struct Compared<'a> {
    /// What to call a source.
    pub name: &'a dyn Fn(&Source) -> String,
    /// What to call a weight.
    pub weight: &'a dyn Fn(usize) -> String,
    /// Whether a square matrix lies in the model as the transpose of the reference's; `None`
    /// for others.
    pub is_turned: &'a dyn Fn(usize) -> Option<bool>,
}

/// Where the model computes otherwise than the reference, in words.
pub fn unlike(own: &Course, theirs: &Course, names: &Compared<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let all: BTreeSet<usize> = own.met.keys().chain(theirs.met.keys()).copied().collect();
    for weight in all {
        let called = (names.weight)(weight);
        match (own.met.get(&weight), theirs.met.get(&weight)) {
            (Some(ours), Some(met)) => {
                let why = layer(ours, met, names, weight);
                found.extend(why.map(|why| format!("at the layer of '{called}' {why}")));
            }
            (ours, _) => {
                let (has, lacks) = match ours {
                    Some(_) => ("the model", "the reference"),
                    None => ("the reference", "the model"),
                };
                found.push(format!("'{called}' is the matrix of a layer in {has}, not in {lacks}"));
            }
        }
    }
    for (name, ours, theirs) in outputs(own, theirs) {
        let why = traces(ours, theirs, names);
        found.extend(why.map(|why| format!("at the output '{name}' {why}")));
    }
    found
}

/// Outputs of both, by their names, or by their places if no name is the same.
fn outputs<'a>(own: &'a Course, theirs: &'a Course) -> Vec<(&'a str, &'a Trace, &'a Trace)> {
    let named = |wanted: &str| own.outputs.iter().find(|(name, _)| name == wanted);
    let has_names = theirs.outputs.iter().any(|(name, _)| named(name).is_some());
    let both = theirs.outputs.iter().enumerate().filter_map(|(at, (name, theirs))| {
        let ours = if has_names { named(name) } else { own.outputs.get(at) };
        ours.map(|(_, ours)| (name.as_str(), ours, theirs))
    });
    both.collect()
}

fn layer(own: &Met, theirs: &Met, names: &Compared<'_>, weight: usize) -> Option<String> {
    if let Some(why) = traces(&own.trace, &theirs.trace, names) {
        return Some(why);
    }
    let list = |all: &BTreeSet<String>| {
        let told: Vec<&str> = all.iter().map(String::as_str).collect();
        if told.concat().is_empty() { "no attributes".to_owned() } else { told.join(", ") }
    };
    if own.how != theirs.how {
        return Some(format!("it has {}, the reference {}", list(&own.how), list(&theirs.how)));
    }
    let is_made = |met: &Met| met.pads.iter().any(|pads| pads.contains(&-1));
    let is_padded = |met: &Met| has(&met.trace, "Pad");
    // What is padded before may be padded by the layer itself.
    let is_moved = is_padded(own) != is_padded(theirs);
    if !is_made(own) && !is_made(theirs) && (own.pads == theirs.pads) == is_moved {
        return Some(format!("it pads {:?}, the reference {:?}", own.pads, theirs.pads));
    }
    let is_turned = (names.is_turned)(weight)?;
    let turned: BTreeSet<bool> = own.turned.iter().map(|turned| turned ^ is_turned).collect();
    let is_known = !own.turned.is_empty() && !theirs.turned.is_empty();
    (is_known && turned != theirs.turned)
        .then(|| "its matrix is multiplied as the transpose of the reference's".into())
}

fn has(trace: &Trace, name: &'static str) -> bool {
    trace.from.values().flatten().any(|(done, _)| *done == Done::Arithmetic(name))
}

fn traces(own: &Trace, theirs: &Trace, names: &Compared<'_>) -> Option<String> {
    if own.is_lost || theirs.is_lost {
        return Some("more comes together than can be followed".into());
    }
    let sources = |trace: &Trace| trace.from.keys().cloned().collect::<BTreeSet<_>>();
    let (ours, all) = (sources(own), sources(theirs));
    if ours != all {
        let list = |some: &BTreeSet<Source>, others: &BTreeSet<Source>| {
            let only: Vec<String> = some.difference(others).map(names.name).collect();
            let more = if only.len() > 3 { " and others" } else { "" };
            let told: Vec<String> = only.into_iter().take(3).collect();
            if told.is_empty() { "nothing else".into() } else { told.join(", ") + more }
        };
        return Some(format!(
            "it takes {} that the reference does not, and the reference {}",
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
        why.map(|why| format!("{why} (of what comes of {})", (names.name)(source)))
    });
    each.next()
        .or_else(|| works(&vectors(own), &vectors(theirs), false, names))
        .or_else(|| numbers(own, theirs))
}

type Works = BTreeMap<Done, usize>;

/// Functions with how often they are there. A vector that is added may be added to any of
/// what comes together, and so belongs to no source.
fn counted(done: &BTreeSet<(Done, usize)>) -> Works {
    let mut works = Works::new();
    let functions = done.iter().filter(|(done, _)| !matches!(done, Done::Vector(_)));
    functions.for_each(|(done, _)| *works.entry(done.clone()).or_default() += 1);
    simpler(works)
}

/// With one name for a function that stands in its parts.
fn simpler(mut works: Works) -> Works {
    let has_sum = works.contains_key(&Done::Arithmetic("ReduceSum"));
    if has_sum && works.contains_key(&Done::Function("Exp".into())) {
        for part in ["ReduceSum", "Quotient", "Difference"] {
            works.remove(&Done::Arithmetic(part));
        }
        works.remove(&Done::Function("ReduceMax".into()));
        works.insert(Done::Arithmetic(NORMALISED), 1);
    }
    works
}

/// Of all sources together: each function is there or not.
fn merged(trace: &Trace) -> Works {
    simpler(trace.from.values().flatten().map(|(done, _)| (done.clone(), 1)).collect())
}

/// Vectors of weights on the way.
fn vectors(trace: &Trace) -> Works {
    let all = trace.from.values().flatten();
    all.filter(|(done, _)| matches!(done, Done::Vector(_)))
        .map(|(done, _)| (done.clone(), 1))
        .collect()
}

/// Why the functions are others.
fn works(own: &Works, theirs: &Works, is_fused: bool, names: &Compared<'_>) -> Option<String> {
    let of = |works: &Works, done: &Done| works.get(done).copied().unwrap_or(0);
    let from_zero = of(own, &Done::Function(FROM_ZERO.into()));
    let from_zero_there = of(theirs, &Done::Function(FROM_ZERO.into()));
    let all: BTreeSet<&Done> = own.keys().chain(theirs.keys()).collect();
    for done in all {
        let (ours, there) = (of(own, done), of(theirs, done));
        let is_alike = match done {
            Done::Function(name) if name == FROM_ZERO => true,
            Done::Function(name) if name == "Relu" => {
                ours + from_zero >= there && there + from_zero_there >= ours
            }
            Done::Function(_) | Done::Vector(_) => ours == there,
            Done::Arithmetic("Pad") => true,
            Done::Arithmetic(_) => is_fused || (ours > 0) == (there > 0),
        };
        if !is_alike {
            let name = match done {
                Done::Function(name) => name.clone(),
                Done::Arithmetic(name) => (*name).to_owned(),
                Done::Vector(weight) => format!("'{}'", (names.weight)(*weight)),
            };
            let times = |count: usize| match count {
                0 => "no".to_owned(),
                1 => "1".to_owned(),
                count => count.to_string(),
            };
            return Some(format!("it has {} {name}, the reference {}", times(ours), times(there)));
        }
    }
    None
}

/// Why the numbers are others.
fn numbers(own: &Trace, theirs: &Trace) -> Option<String> {
    if own.has_untold || theirs.has_untold {
        return None;
    }
    let all = |trace: &Trace, of: Use| -> Vec<f64> {
        let these = trace.numbers.iter().filter(|(found, _)| *found == of);
        these.map(|(_, bits)| f64::from(f32::from_bits(*bits))).collect()
    };
    let tops = all(own, Use::Top);
    let named = [
        (Use::Factor, "multiplied with"),
        (Use::Offset, "added"),
        (Use::Low, "bounded below by"),
        (Use::High, "bounded above by"),
        (Use::Axis, "normalised along dimension"),
        (Use::Count, "repeated"),
        (Use::Size, "arranged in rows of"),
    ];
    for (of, what) in named {
        let (ours, there) = (all(own, of), all(theirs, of));
        // A dimension that is counted from the end may be any.
        let from_end = |values: &[f64]| values.iter().any(|value| *value < 0.0);
        let is_any = |values: &[f64]| values.is_empty() || from_end(values);
        if of == Use::Axis && (is_any(&ours) || is_any(&there)) {
            continue;
        }
        // Other ways to arrange data have sizes in common, where it is cut alike.
        let is_one = |value: &f64| there.iter().any(|other| is_same(*value, *other));
        if of == Use::Size && (ours.is_empty() || there.is_empty() || ours.iter().any(is_one)) {
            continue;
        }
        let lacks = |some: &[f64], others: &[f64], is_theirs: bool| {
            let is_there = |value: &f64| {
                others.iter().any(|other| is_same(*value, *other))
                    || is_theirs && of == Use::High && tops.iter().any(|top| *top <= value * 1.02)
            };
            some.iter().copied().find(|value| !is_there(value))
        };
        if let Some(value) = lacks(&there, &ours, true) {
            return Some(format!("nothing is {what} {value}, as it is in the reference"));
        }
        if let Some(value) = lacks(&ours, &there, false) {
            return Some(format!("something is {what} {value}, which nothing is in the reference"));
        }
    }
    None
}

fn is_same(one: f64, other: f64) -> bool {
    let is_huge = one.abs() >= HUGE && other.abs() >= HUGE && (one > 0.0) == (other > 0.0);
    is_huge || (one - other).abs() <= SAME * one.abs().max(other.abs())
}
