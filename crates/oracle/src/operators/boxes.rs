//! Non-maximum suppression.

use super::{Operator, operator};
use crate::call::{Call, integer_of, size_of};
use crate::element::Element;
use crate::fault::{Fault, fault};
use crate::tensor::Tensor;

pub(super) const OPERATORS: &[Operator] =
    &[operator("NonMaxSuppression", 10, 5, &["center_point_box"], suppress)];

/// Returns the extent of a box along both axes.
fn extents(numbers: &[f64], has_center: bool) -> [(f64, f64); 2] {
    [0, 1].map(|axis| {
        let (first, second) = (numbers[axis], numbers[axis + 2]);
        if has_center {
            (first - second / 2.0, first + second / 2.0)
        } else {
            (first.min(second), first.max(second))
        }
    })
}

/// Returns the area of the intersection by that of the union.
fn overlap(a: [(f64, f64); 2], b: [(f64, f64); 2]) -> f64 {
    let area = |extents: [(f64, f64); 2]| {
        extents.iter().map(|(low, high)| (high - low).max(0.0)).product::<f64>()
    };
    let common = [0, 1].map(|axis| (a[axis].0.max(b[axis].0), a[axis].1.min(b[axis].1)));
    let (common, a, b) = (area(common), area(a), area(b));
    if common == 0.0 { 0.0 } else { common / (a + b - common) }
}

fn suppress(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (boxes, scores) = (call.input(0)?, call.input(1)?);
    let (&[batch, count, 4], &[_, classes, _]) = (boxes.shape(), scores.shape()) else {
        return fault(format!("boxes {:?} with scores {:?}", boxes.shape(), scores.shape()));
    };
    if scores.shape() != [batch, classes, count] {
        return fault(format!("boxes {:?} with scores {:?}", boxes.shape(), scores.shape()));
    }
    let number = |at: usize| call.optional(at).map(Tensor::as_float).transpose();
    let (limit, least) = (number(3)?.unwrap_or(0.0), number(4)?);
    let most = match call.optional(2) {
        Some(most) => size_of(most.as_integer()?.max(0))?,
        None => 0,
    };
    call.spend_product(&[batch, classes, count, most.min(count) + 1])?;
    super::reduce::check_order(scores)?;
    let (boxes, scores) = (boxes.as_floats()?, scores.as_floats()?);
    let has_center = call.flag("center_point_box", false)?;
    let mut rows = Vec::new();
    for b in 0..batch {
        for class in 0..classes {
            let score = |at: usize| scores[(b * classes + class) * count + at];
            let extent = |at: usize| {
                let start = (b * count + at) * 4;
                extents(&boxes[start..start + 4], has_center)
            };
            if let Some(least) = least {
                (0..count).for_each(|at| call.note_choice(score(at), least));
            }
            let mut left: Vec<usize> =
                (0..count).filter(|at| least.is_none_or(|least| score(*at) > least)).collect();
            let mut taken = 0;
            // The first one among equals has the highest score.
            while taken < most
                && let Some(best) = left
                    .iter()
                    .copied()
                    .reduce(|best, at| if score(at) > score(best) { at } else { best })
            {
                rows.extend([b, class, best].map(integer_of));
                taken += 1;
                left.retain(|at| *at != best);
                left.iter().for_each(|at| call.note_choice(score(*at), score(best)));
                left.retain(|at| {
                    let share = overlap(extent(best), extent(*at));
                    call.note_choice(share, limit);
                    share <= limit
                });
            }
        }
    }
    Ok(vec![Tensor::of_integers(Element::Int64, &[rows.len() / 3, 3], rows)?])
}
