//! Pairing of a model's weights with those of the reference.

use std::collections::{HashMap, HashSet};

use dyno_onnx::ReadError;

use super::Pairing;
use super::alignment::{Alignment, Arrangement};
use super::numbers::Numbers;
use super::weights::{Weight, Weights};

/// A weight of the reference and its counterpart.
pub struct Pair {
    /// Position in the reference.
    pub reference: usize,
    /// Position in the model.
    pub own: usize,
    pub by: Pairing,
    pub arrangement: Arrangement,
}

/// Elements that are sampled to distinguish weights.
const SAMPLED: usize = 512;

/// Relative distance below which two weights count as the same, rounded.
const CLOSE: f64 = 0.2;

/// Maximum ratio of a padded dimension to its original length.
const MOST_PADDING: usize = 2;

/// Maximum pairs of one shape whose numbers are compared; beyond it, positions decide.
const MOST_LOOKS: usize = 100_000;

/// Pairs weights by name, then by shape and numbers, then by shape and position in the graph.
///
/// # Errors
/// Weights cannot be read.
pub fn pairs(reference: &Weights<'_>, own: &Weights<'_>) -> Result<Vec<Pair>, ReadError> {
    let mut names: HashMap<&str, usize> = HashMap::new();
    for (at, weight) in own.all.iter().enumerate() {
        names.entry(weight.name.as_str()).or_insert(at);
    }
    let mut is_taken = vec![false; own.all.len()];
    let mut pairs = Vec::new();
    let mut left = Vec::new();
    for (at, weight) in reference.all.iter().enumerate() {
        let named = names.get(weight.name.as_str()).filter(|&&own| !is_taken[own]);
        let Some(&found) = named else {
            left.push(at);
            continue;
        };
        let arrangement = arrangement(reference, weight, own, &own.all[found])?;
        is_taken[found] = true;
        pairs.push(Pair { reference: at, own: found, by: Pairing::Name, arrangement });
    }
    let mut groups: HashMap<Vec<usize>, Vec<usize>> = HashMap::new();
    for at in left {
        groups.entry(sorted(&reference.all[at].shape)).or_default().push(at);
    }
    for (shape, theirs) in groups {
        let free = |&at: &usize| !is_taken[at] && sorted(&own.all[at].shape) == shape;
        let ours: Vec<usize> = (0..own.all.len()).filter(free).collect();
        for pair in pairs_of_shape(reference, own, theirs, ours)? {
            is_taken[pair.own] = true;
            pairs.push(pair);
        }
    }
    for at in unpaired(reference, &pairs) {
        let weight = &reference.all[at];
        for (found, ours) in own.all.iter().enumerate() {
            if is_taken[found] || !may_be(weight, ours) {
                continue;
            }
            let arrangement = arrangement(reference, weight, own, ours)?;
            let by = match arrangement {
                Arrangement::Flat | Arrangement::Axes(_) => Pairing::Numbers,
                Arrangement::WithoutFirst(_) => Pairing::Place,
                Arrangement::Part { .. } | Arrangement::Other => continue,
            };
            is_taken[found] = true;
            pairs.push(Pair { reference: at, own: found, by, arrangement });
            break;
        }
    }
    let free = (0..own.all.len()).filter(|at| !is_taken[*at]);
    side_by_side(reference, own, free.collect(), &mut pairs)?;
    // The model may store once what the reference stores twice.
    for at in unpaired(reference, &pairs) {
        let weight = &reference.all[at];
        for (found, ours) in own.all.iter().enumerate().filter(|(_, ours)| may_be(weight, ours)) {
            if let Some(arrangement) = near(reference, weight, own, ours)? {
                pairs.push(Pair { reference: at, own: found, by: Pairing::Numbers, arrangement });
                break;
            }
        }
    }
    Ok(pairs)
}

/// Weights of the reference without counterpart.
fn unpaired(reference: &Weights<'_>, pairs: &[Pair]) -> Vec<usize> {
    let paired: HashSet<usize> = pairs.iter().map(|pair| pair.reference).collect();
    (0..reference.all.len()).filter(|at| !paired.contains(at)).collect()
}

/// Returns the weights of the model that duplicate another one, paired with those of the reference.
///
/// # Errors
/// Weights cannot be read.
pub fn duplicates(
    reference: &Weights<'_>,
    own: &Weights<'_>,
    pairs: &[Pair],
) -> Result<Vec<Pair>, ReadError> {
    let used: HashSet<usize> = pairs.iter().map(|pair| pair.own).collect();
    let mut duplicates = Vec::new();
    let mut looks = 0;
    for (found, ours) in own.all.iter().enumerate().filter(|(at, _)| !used.contains(at)) {
        for (at, weight) in reference.all.iter().enumerate() {
            if !may_be(weight, ours) || looks >= MOST_LOOKS {
                continue;
            }
            looks += 1;
            if let Some(arrangement) = near(reference, weight, own, ours)? {
                duplicates.push(Pair {
                    reference: at,
                    own: found,
                    by: Pairing::Numbers,
                    arrangement,
                });
                break;
            }
        }
    }
    Ok(duplicates)
}

/// Returns the arrangement of a weight in another if the numbers agree.
fn near(
    reference: &Weights<'_>,
    theirs: &Weight,
    own: &Weights<'_>,
    ours: &Weight,
) -> Result<Option<Arrangement>, ReadError> {
    let arrangement = arrangement(reference, theirs, own, ours)?;
    let numbers = reference.numbers(theirs)?;
    let candidate = own.numbers(ours)?;
    Ok((distance(&numbers, &candidate, &arrangement) < CLOSE).then_some(arrangement))
}

/// Pairs weights of the reference that are concatenated in one of the model's, as in fused layers.
fn side_by_side(
    reference: &Weights<'_>,
    own: &Weights<'_>,
    free: Vec<usize>,
    pairs: &mut Vec<Pair>,
) -> Result<(), ReadError> {
    let mut left = unpaired(reference, pairs);
    if left.len().saturating_mul(free.len()) > MOST_LOOKS {
        return Ok(());
    }
    for found in free {
        for axis in 0..own.all[found].shape.len() {
            let parts = parts(reference, &left, own, found, axis)?;
            if parts.is_empty() {
                continue;
            }
            left.retain(|at| parts.iter().all(|part| part.reference != *at));
            pairs.extend(parts);
            break;
        }
    }
    Ok(())
}

/// Returns the weights of the reference that are concatenated along a dimension of the model's;
/// empty if some are missing.
fn parts(
    reference: &Weights<'_>,
    left: &[usize],
    own: &Weights<'_>,
    found: usize,
    axis: usize,
) -> Result<Vec<Pair>, ReadError> {
    let ours = &own.all[found];
    let numbers = own.numbers(ours)?;
    let mut parts = Vec::<Pair>::new();
    let mut start = 0;
    while start < ours.shape[axis] {
        let mut best = (CLOSE, None);
        for &at in left.iter().filter(|at| parts.iter().all(|part| part.reference != **at)) {
            let shape = &reference.all[at].shape;
            let is_part = |axes: &Vec<usize>| {
                let mut dims = axes.iter().map(|&from| shape[from]).zip(&ours.shape).enumerate();
                dims.all(|(at, (len, &own))| if at == axis { len < own } else { len == own })
            };
            let straight: Vec<usize> = (0..shape.len()).collect();
            let turned = straight.iter().rev().copied().collect();
            let orders = [straight, turned].into_iter();
            let orders = orders.filter(|axes| axes.len() == ours.shape.len() && is_part(axes));
            for axes in orders {
                let len = shape[axes[axis]];
                let arrangement = Arrangement::Part { axes, axis, start };
                let theirs = reference.numbers(&reference.all[at])?;
                let away = distance(&theirs, &numbers, &arrangement);
                if len > 0 && away < best.0 {
                    best = (away, Some((at, arrangement, len)));
                }
            }
        }
        let (_, Some((reference, arrangement, len))) = best else { return Ok(Vec::new()) };
        parts.push(Pair { reference, own: found, by: Pairing::Numbers, arrangement });
        start += len;
    }
    Ok(parts)
}

/// Relative distance of two weights, from a sample of their elements.
fn distance(theirs: &Numbers<'_>, ours: &Numbers<'_>, arrangement: &Arrangement) -> f64 {
    let Some(alignment) = Alignment::from_shapes(arrangement, &theirs.shape, &ours.shape) else {
        return f64::INFINITY;
    };
    let places = looked_at(alignment.len()).map(|index| alignment.place(index));
    let (there, here): (Vec<f32>, Vec<f32>) = places
        .map(|(own, place)| (place.map_or(0.0, |place| theirs.value(place)), ours.value(own)))
        .unzip();
    relative_distance(&there, &here)
}

/// Whether one weight may be the other in another shape.
fn may_be(theirs: &Weight, ours: &Weight) -> bool {
    let count = |weight: &Weight| weight.shape.iter().product::<usize>();
    count(theirs) == count(ours)
        || dropped_class(&theirs.shape, &ours.shape).is_some()
        || !paddings(&theirs.shape, &ours.shape).is_empty()
}

/// Pairs weights whose shapes differ at most in the order of dimensions.
fn pairs_of_shape(
    reference: &Weights<'_>,
    own: &Weights<'_>,
    mut theirs: Vec<usize>,
    mut ours: Vec<usize>,
) -> Result<Vec<Pair>, ReadError> {
    let mut pairs = Vec::new();
    if theirs.len().saturating_mul(ours.len()) <= MOST_LOOKS {
        let samples = |&at: &usize| Ok(samples(&own.numbers(&own.all[at])?));
        let samples: Vec<Vec<f32>> = ours.iter().map(samples).collect::<Result<_, _>>()?;
        let mut is_used = vec![false; ours.len()];
        let mut left = Vec::new();
        for at in theirs {
            let numbers = reference.numbers(&reference.all[at])?;
            // Most candidates have one shape and so need the same elements.
            let mut asked: HashMap<(&[usize], Vec<usize>), Vec<f32>> = HashMap::new();
            let mut best = (CLOSE, None);
            for (number, found) in samples.iter().enumerate().filter(|(at, _)| !is_used[*at]) {
                let shape = &own.all[ours[number]].shape[..];
                for axes in orders(&numbers.shape, shape) {
                    let there = asked.entry((shape, axes.clone())).or_insert_with(|| {
                        let arrangement = Arrangement::Axes(axes.clone());
                        sampled(&numbers, &arrangement, shape).unwrap_or_default()
                    });
                    let away = relative_distance(there, found);
                    if away < best.0 {
                        best = (away, Some((number, axes)));
                    }
                }
            }
            match best.1 {
                Some((number, axes)) => {
                    is_used[number] = true;
                    let by = Pairing::Numbers;
                    pairs.push(Pair {
                        reference: at,
                        own: ours[number],
                        by,
                        arrangement: Arrangement::Axes(axes),
                    });
                }
                None => left.push(at),
            }
        }
        theirs = left;
        let mut is_used = is_used.into_iter();
        ours.retain(|_| !is_used.next().unwrap_or(false));
    }
    theirs.sort_by_key(|&at| (&reference.all[at].slot, reference.all[at].place));
    ours.sort_by_key(|&at| (&own.all[at].slot, own.all[at].place));
    for at in theirs {
        let shape = &reference.all[at].shape;
        let slot = &reference.all[at].slot;
        let fits = |&own_at: &usize| own.all[own_at].slot == *slot;
        let Some(number) = ours.iter().position(fits) else { continue };
        let found = ours.remove(number);
        let axes = orders(shape, &own.all[found].shape).into_iter().next();
        let axes = axes.expect("the shapes differ only in their order");
        let arrangement = Arrangement::Axes(axes);
        pairs.push(Pair { reference: at, own: found, by: Pairing::Place, arrangement });
    }
    Ok(pairs)
}

/// Returns the most likely arrangement of a weight in another.
fn arrangement(
    reference: &Weights<'_>,
    theirs: &Weight,
    own: &Weights<'_>,
    ours: &Weight,
) -> Result<Arrangement, ReadError> {
    if let Some(axis) = dropped_class(&theirs.shape, &ours.shape) {
        return Ok(Arrangement::WithoutFirst(axis));
    }
    let orders = orders(&theirs.shape, &ours.shape);
    if let [only] = &orders[..] {
        return Ok(Arrangement::Axes(only.clone()));
    }
    if !may_be(theirs, ours) {
        return Ok(Arrangement::Other);
    }
    let numbers = reference.numbers(theirs)?;
    let candidate = own.numbers(ours)?;
    let found = samples(&candidate);
    let away = |arrangement: &Arrangement| {
        let there = sampled(&numbers, arrangement, &ours.shape);
        there.map_or(f64::INFINITY, |there| relative_distance(&there, &found))
    };
    let nearest = |orders: Vec<Vec<usize>>| {
        let all = orders.into_iter().map(Arrangement::Axes);
        let all = all.map(|arrangement| (away(&arrangement), arrangement));
        all.min_by(|a, b| a.0.total_cmp(&b.0))
    };
    if let Some((_, nearest)) = nearest(orders) {
        return Ok(nearest);
    }
    if away(&Arrangement::Flat) < CLOSE {
        return Ok(Arrangement::Flat);
    }
    let padded = nearest(paddings(&theirs.shape, &ours.shape));
    let padded = padded.filter(|(away, _)| *away < CLOSE).map(|(_, padded)| padded);
    Ok(padded.unwrap_or(Arrangement::Other))
}

/// Permutations of one shape's dimensions that give the other if some are padded.
fn paddings(from: &[usize], to: &[usize]) -> Vec<Vec<usize>> {
    let count = |shape: &[usize]| shape.iter().product::<usize>();
    if from.len() != to.len() || from.len() < 2 || count(from) >= count(to) {
        return Vec::new();
    }
    let last: Vec<usize> = (0..from.len()).collect();
    let turned: Vec<usize> = last.iter().rev().copied().collect();
    let fits = |axes: &Vec<usize>| {
        let mut pairs = axes.iter().map(|&axis| from[axis]).zip(to);
        pairs.all(|(from, &to)| from <= to && to <= from.saturating_mul(MOST_PADDING).max(8))
    };
    [last, turned].into_iter().filter(fits).collect()
}

/// Permutations of one shape's dimensions that give the other, the identity first.
fn orders(from: &[usize], to: &[usize]) -> Vec<Vec<usize>> {
    fn extend(from: &[usize], to: &[usize], order: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
        let Some(&wanted) = to.get(order.len()) else {
            all.push(order.clone());
            return;
        };
        for axis in 0..from.len() {
            // Dimensions of 1 are kept in order.
            let is_first =
                wanted != 1 || (0..axis).all(|before| from[before] != 1 || order.contains(&before));
            if from[axis] == wanted && !order.contains(&axis) && is_first {
                order.push(axis);
                extend(from, to, order, all);
                order.pop();
            }
        }
    }
    let mut all = Vec::new();
    // Weights with more dimensions than those of 3D convolutions are never permuted.
    if from == to && from.len() > 5 {
        return vec![(0..from.len()).collect()];
    }
    if from.len() == to.len() && from.len() <= 5 {
        extend(from, to, &mut Vec::new(), &mut all);
    }
    all
}

/// Positions of the sampled elements of a weight.
fn looked_at(count: usize) -> impl Iterator<Item = usize> {
    // An odd step, which has no factor in common with most dimensions.
    let step = (count / SAMPLED).max(1) | 1;
    (0..count).step_by(step)
}

/// Samples a weight's numbers.
pub fn samples(numbers: &Numbers<'_>) -> Vec<f32> {
    looked_at(numbers.len()).map(|index| numbers.value(index)).collect()
}

/// Samples the reference's numbers at the corresponding positions; `None` without alignment.
fn sampled(numbers: &Numbers<'_>, as_in: &Arrangement, shape: &[usize]) -> Option<Vec<f32>> {
    let alignment = Alignment::from_shapes(as_in, &numbers.shape, shape)?;
    let places = looked_at(shape.iter().product()).map(|index| alignment.place(index).1);
    Some(places.map(|place| place.map_or(0.0, |place| numbers.value(place))).collect())
}

/// Relative distance of two samples.
fn relative_distance(theirs: &[f32], ours: &[f32]) -> f64 {
    if theirs.len() != ours.len() {
        return f64::INFINITY;
    }
    let mut distance = 0.0;
    let mut squares = f64::MIN_POSITIVE;
    for (theirs, ours) in theirs.iter().zip(ours) {
        let theirs = f64::from(*theirs);
        let ours = f64::from(*ours);
        distance += (theirs - ours) * (theirs - ours);
        squares += theirs * theirs;
    }
    (distance / squares).sqrt()
}

/// Returns the dimension in which one of 1001 classes is dropped.
fn dropped_class(from: &[usize], to: &[usize]) -> Option<usize> {
    let is_other = |&axis: &usize| from[axis] != to[axis];
    let mut other = (0..from.len()).filter(|axis| from.len() == to.len() && is_other(axis));
    let axis = other.next()?;
    (from[axis] == 1001 && to[axis] == 1000 && other.next().is_none()).then_some(axis)
}

fn sorted(shape: &[usize]) -> Vec<usize> {
    let mut shape = shape.to_vec();
    shape.sort_unstable();
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_of_dimensions_are_those_that_fit() {
        assert_eq!(orders(&[2, 3], &[3, 2]), [[1, 0]]);
        assert_eq!(orders(&[4, 4], &[4, 4]), [[0, 1], [1, 0]]);
        assert_eq!(orders(&[8, 3, 1, 1], &[8, 1, 1, 3]), [[0, 2, 3, 1]]);
        assert!(orders(&[2, 3], &[6]).is_empty());
        assert_eq!(paddings(&[30, 40], &[40, 32]), [[1, 0]]);
        assert!(paddings(&[30, 40], &[200, 40]).is_empty());
        assert_eq!(dropped_class(&[1001, 8], &[1000, 8]), Some(0));
        assert_eq!(dropped_class(&[1001, 1001], &[1000, 1000]), None);
    }
}
