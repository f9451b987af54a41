//! Exhaustive search, the smallest configurations first. The objective must not fall when a width
//! rises. Then the first configuration that passes is the smallest one, and no configuration that
//! was left out is smaller.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashSet};

use crate::assignment::Assignment;
use crate::format::{Format, Kind};
use crate::tune::{
    Move, Stop, Subset, Trials, TuneAnswer, format_accuracy, is_exp_2, kind_and_bits,
};

/// A width for each group, as indices in their lists, narrowest first.
#[derive(Debug, PartialEq)]
struct Widths {
    objective: f64,
    places: Vec<usize>,
}

impl Eq for Widths {}

impl PartialOrd for Widths {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Widths {
    fn cmp(&self, other: &Self) -> Ordering {
        self.objective.total_cmp(&other.objective).then_with(|| self.places.cmp(&other.places))
    }
}

pub(super) fn search(
    trials: &mut Trials<'_, '_>,
    subset: Subset,
    window: [u32; 2],
) -> Result<TuneAnswer, Stop> {
    let base = trials.begin(subset)?;
    if !trials.network().objective.is_computed() {
        return Err(Stop::Failed(
            "an exhaustive search needs an objective that is known without an evaluation".into(),
        ));
    }
    let lists = lists(trials);
    let mut seen: HashSet<Vec<usize>> = HashSet::new();
    let mut queue = BinaryHeap::new();
    let first = vec![0; lists.len()];
    seen.insert(first.clone());
    queue.push(Reverse(widths(trials, &base.assignment, &lists, first)));
    while let Some(Reverse(now)) = queue.pop() {
        if let Some(answer) = try_widths(trials, subset, &base.assignment, &lists, &now, window)? {
            return Ok(answer);
        }
        for group in 0..lists.len() {
            let mut places = now.places.clone();
            places[group] += 1;
            if places[group] >= lists[group].len() || !seen.insert(places.clone()) {
                continue;
            }
            let next = widths(trials, &base.assignment, &lists, places);
            if next.objective < now.objective {
                let why =
                    "an exhaustive search needs an objective that does not fall where widths rise";
                return Err(Stop::Failed(why.into()));
            }
            queue.push(Reverse(next));
        }
    }
    Ok(base)
}

/// Returns the formats of each group, grouped by width, narrowest first.
fn lists(trials: &Trials<'_, '_>) -> Vec<Vec<Vec<Format>>> {
    let formats = |first: usize| {
        let mut all: Vec<Format> = trials.space.formats(first).to_vec();
        if !all.contains(&Format::F32) {
            all.push(Format::F32);
        }
        all.sort_by_key(|format| (format.bits(), format.kind() == Kind::Exp));
        all.chunk_by(|a, b| a.bits() == b.bits()).map(<[Format]>::to_vec).collect()
    };
    trials.space.groups.iter().map(|group| formats(group.slots[0])).collect()
}

fn widths(
    trials: &Trials<'_, '_>,
    base: &Assignment,
    lists: &[Vec<Vec<Format>>],
    places: Vec<usize>,
) -> Widths {
    let first = vec![0; places.len()];
    let assignment = assignment(trials, base, lists, &places, &first);
    Widths { objective: trials.objective(&assignment, None), places }
}

/// Returns the assignment in which each group has the width `places` and, of its formats of this
/// width, the one `which` selects. Biases fit the largest magnitudes.
fn assignment(
    trials: &Trials<'_, '_>,
    base: &Assignment,
    lists: &[Vec<Vec<Format>>],
    places: &[usize],
    which: &[usize],
) -> Assignment {
    let mut formats = base.formats().to_vec();
    for (at, group) in trials.space.groups.iter().enumerate() {
        let format = lists[at][places[at]][which[at]];
        for &slot in &group.slots {
            formats[slot] = trials.space.fitted(slot, format);
        }
    }
    base.with_formats(formats)
}

/// Tries all types and biases of these widths until one passes.
fn try_widths(
    trials: &mut Trials<'_, '_>,
    subset: Subset,
    base: &Assignment,
    lists: &[Vec<Vec<Format>>],
    now: &Widths,
    window: [u32; 2],
) -> Result<Option<TuneAnswer>, Stop> {
    let threshold = trials.threshold(subset);
    let choices: Vec<usize> =
        lists.iter().zip(&now.places).map(|(list, at)| list[*at].len()).collect();
    let mut order: Vec<usize> = (0..trials.space.slots.len()).collect();
    let twins: Vec<bool> = order.iter().map(|at| trials.space.has_twins(*at)).collect();
    order.sort_by_key(|at| trials.space.slots[*at].layer);
    let mut tried = 0;
    let mut closest = f64::NEG_INFINITY;
    let mut which = Some(vec![0; lists.len()]);
    while let Some(types) = which {
        let profiled = assignment(trials, base, lists, &now.places, &types);
        let at_once = trials.settings.batch.clamp(1, MOST_AT_ONCE);
        let mut all = biased(&profiled, window, &twins, &order);
        loop {
            let moves: Vec<Move> = all.by_ref().take(at_once).collect();
            if moves.is_empty() {
                break;
            }
            let candidates = trials.candidates(subset, moves, Some(threshold))?;
            tried += candidates.len();
            closest = candidates.iter().map(|c| c.accuracy).fold(closest, f64::max);
            if let Some(at) = candidates.iter().position(|c| c.accuracy >= threshold) {
                let why = format!(
                    "accuracy {} is at least {}: everything smaller has failed",
                    format_accuracy(candidates[at].accuracy),
                    format_accuracy(threshold)
                );
                let question = "the smallest widths that are left, with every type and bias";
                let one = vec![candidates[at].clone()];
                return Ok(trials.decide(subset, question, one, Some((0, why))));
            }
        }
        which = next(types, &choices);
    }
    let first = vec![0; now.places.len()];
    let all = assignment(trials, base, lists, &now.places, &first);
    let names: Vec<String> = all.formats().iter().map(|format| kind_and_bits(*format)).collect();
    let question = format!(
        "widths of {}, objective {}: {tried} types and biases, none passes; at most {}",
        names.join("-"),
        now.objective,
        format_accuracy(closest)
    );
    trials.decide(subset, &question, Vec::new(), None);
    Ok(None)
}

/// Maximum number of assignments per request. Those after the first that passes are evaluated for
/// nothing.
const MOST_AT_ONCE: usize = 64;

/// Iterates over assignments with all biases in a window around those of `from`, for each slot that
/// is not FLOAT.
///
/// The iterator is lazy because there may be more assignments than memory holds. Biases of the last
/// layer change fastest, so that an evaluator can reuse the values before it. EXP(2) has the values
/// of FIXED(2) with another bias: if `twins` marks a slot that has both, only FIXED(2) is used.
fn biased(
    from: &Assignment,
    [below, above]: [u32; 2],
    twins: &[bool],
    order: &[usize],
) -> impl Iterator<Item = Move> {
    let count = |format: &Format| match format.kind() {
        Kind::Float => 1,
        _ => (below + above) as usize + 1,
    };
    let steps: Vec<usize> = order.iter().map(|at| count(&from.formats()[*at])).collect();
    let first = Some(vec![0; steps.len()]);
    let all = std::iter::successors(first, move |up| next(up.clone(), &steps));
    let moved = move |digits: Vec<usize>| {
        let mut up = digits.clone();
        order.iter().zip(digits).for_each(|(at, digit)| up[*at] = digit);
        let assignment = raised(from, &up, below, twins)?;
        Some(Move { change: format!("all {assignment}"), assignment })
    };
    all.filter_map(moved)
}

fn raised(from: &Assignment, up: &[usize], below: u32, twins: &[bool]) -> Option<Assignment> {
    let formats = from.formats().iter().zip(up).zip(twins).map(|((format, up), twin)| {
        if format.kind() == Kind::Float {
            return Some(*format);
        }
        let bias = format.bias() + *up as i32 - below as i32;
        // ±2^(1 - B) and 0 are ±2^-(B' + 1) and 0 with B' = B - 2.
        if is_exp_2(*format) && *twin {
            Format::fixed(2, bias - 2).ok()
        } else {
            format.with_bias(bias).ok()
        }
    });
    Some(from.with_formats(formats.collect::<Option<_>>()?))
}

/// Increments a number whose digits have different bases, the last digit first.
fn next(mut digits: Vec<usize>, bases: &[usize]) -> Option<Vec<usize>> {
    for at in (0..digits.len()).rev() {
        digits[at] += 1;
        if digits[at] < bases[at] {
            return Some(digits);
        }
        digits[at] = 0;
    }
    None
}
