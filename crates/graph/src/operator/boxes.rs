//! Selection of boxes, as detectors do it.

use std::cmp::Ordering;

use super::reduce::check_order;
use super::{name, one};
use crate::node::{NodeReader, Operation};
use crate::session::Frame;
use crate::value::Value;

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    if name(reader) != ("", "NonMaxSuppression") {
        return Ok(None);
    }
    let has_centers = reader.flag("center_point_box")?;
    one(move |frame| select(frame, has_centers))
}

/// Corners of a box: the least and the greatest of both coordinates.
#[derive(Clone, Copy)]
struct Corners {
    least: [f32; 2],
    most: [f32; 2],
}

impl Corners {
    fn new(numbers: &[f32], has_centers: bool) -> Self {
        let &[a, b, c, d] = numbers else { return Self { least: [0.0; 2], most: [0.0; 2] } };
        if has_centers {
            let half = [c / 2.0, d / 2.0];
            return Self { least: [a - half[0], b - half[1]], most: [a + half[0], b + half[1]] };
        }
        Self { least: [a.min(c), b.min(d)], most: [a.max(c), b.max(d)] }
    }

    fn area(&self) -> f32 {
        (self.most[0] - self.least[0]) * (self.most[1] - self.least[1])
    }

    /// Returns the share of the common area in the area of both; 0 if a box has no area.
    fn overlap(&self, other: &Self) -> f32 {
        let common = |at: usize| {
            (self.most[at].min(other.most[at]) - self.least[at].max(other.least[at])).max(0.0)
        };
        let (common, own, others) = (common(0) * common(1), self.area(), other.area());
        if common <= 0.0 || own <= 0.0 || others <= 0.0 {
            return 0.0;
        }
        common / (own + others - common)
    }
}

/// Returns rows of batch, class and box. Boxes of a class are selected by falling scores, unless they
/// overlap with one that was selected before.
fn select(frame: &Frame<'_>, has_centers: bool) -> Result<Value, String> {
    let (boxes, scores) = (frame.input(0)?, frame.input(1)?);
    let (&[batch, count, 4], &[_, classes, _]) = (boxes.dims(), scores.dims()) else {
        let found = (boxes.dims(), scores.dims());
        return Err(format!("expected boxes of four numbers, and scores, found {found:?}"));
    };
    if scores.dims() != [batch, classes, count] {
        return Err(format!("expected scores of {count} boxes, found {:?}", scores.dims()));
    }
    let most = frame.get(2).map_or(Ok(0), Value::integer)?;
    let most = usize::try_from(most).unwrap_or(0);
    let (limit, least) = (number(frame, 3)?.unwrap_or(0.0), number(frame, 4)?);
    check_order(scores)?;
    let (boxes, scores) = (boxes.all::<f32>()?, scores.all::<f32>()?);
    let mut rows = Vec::new();
    for (place, scores) in scores.chunks_exact(count.max(1)).enumerate() {
        let (row, class) = (place / classes, place % classes);
        let corner = |at: usize| Corners::new(&boxes[(row * count + at) * 4..][..4], has_centers);
        let is_candidate = |at: &usize| least.is_none_or(|least| scores[*at] > least);
        let mut candidates: Vec<usize> = (0..count).filter(is_candidate).collect();
        // Equal scores keep their order.
        candidates.sort_by(|a, b| scores[*b].partial_cmp(&scores[*a]).unwrap_or(Ordering::Equal));
        let mut selected: Vec<Corners> = Vec::new();
        for at in candidates {
            if selected.len() == most {
                break;
            }
            let own = corner(at);
            if selected.iter().all(|other| own.overlap(other) <= limit) {
                selected.push(own);
                rows.extend([row, class, at].map(|index| index as i64));
            }
        }
    }
    Value::new([rows.len() / 3, 3], rows)
}

/// Returns the number of an input that may be absent.
fn number(frame: &Frame<'_>, at: usize) -> Result<Option<f32>, String> {
    match frame.get(at) {
        Some(value) => Ok(value.all::<f32>()?.first().copied()),
        None => Ok(None),
    }
}
