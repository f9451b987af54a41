//! Pareto front of the evaluated configurations.

use std::collections::HashSet;

use super::Point;

/// Marks the points on the front of their set. A point is not on the front if another point is at
/// least as good in size, accuracy and cycles; among equal points, the first is on the front.
pub(crate) fn mark(points: &mut [Point]) {
    let mut order: Vec<usize> = (0..points.len()).collect();
    // A point comes after all points that beat it.
    order.sort_by(|&a, &b| {
        let (a, b) = (&points[a], &points[b]);
        a.bits
            .total_cmp(&b.bits)
            .then(b.accuracy.total_cmp(&a.accuracy))
            .then(a.cycles.unwrap_or(0.0).total_cmp(&b.cycles.unwrap_or(0.0)))
    });
    let mut front: Vec<usize> = Vec::new();
    for at in order {
        let point = &points[at];
        let beats = |other: &Point| {
            other.subset == point.subset
                && other.bits <= point.bits
                && other.accuracy >= point.accuracy
                && other.cycles.unwrap_or(0.0) <= point.cycles.unwrap_or(0.0)
        };
        if !front.iter().any(|&other| beats(&points[other])) {
            front.push(at);
        }
    }
    let front: HashSet<usize> = front.into_iter().collect();
    for (at, point) in points.iter_mut().enumerate() {
        point.is_on_front = front.contains(&at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::lenet;
    use crate::tune::Subset;

    #[test]
    fn the_front_has_no_point_that_another_one_beats() {
        let assignment = lenet().base();
        let point = |bits, accuracy, cycles| Point {
            subset: Subset::Full,
            assignment: assignment.clone(),
            bits,
            accuracy,
            cycles: Some(cycles),
            objective: bits,
            is_on_front: false,
            note: None,
        };
        let mut points = vec![
            point(10.0, 0.9, 5.0),
            point(10.0, 0.8, 5.0),
            point(12.0, 0.9, 4.0),
            point(9.0, 0.7, 9.0),
            point(20.0, 0.95, 9.0),
            point(21.0, 0.95, 9.0),
            point(10.0, 0.9, 5.0),
        ];
        points.push(Point { subset: Subset::Small, ..point(100.0, 0.1, 100.0) });
        mark(&mut points);
        let on_front: Vec<bool> = points.iter().map(|point| point.is_on_front).collect();
        assert_eq!(on_front, [true, false, true, true, true, false, false, true]);
    }
}
