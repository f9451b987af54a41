//! Which of several runs nobody would leave for another, and where more load
//! begins to cost more than it gives.

/// A run as two figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// More is better, such as a rate.
    pub gain: f64,
    /// Less is better, such as a latency.
    pub cost: f64,
}

/// The candidates that no other one beats in one figure without losing in the
/// other, as positions in the list, by ascending gain.
pub fn front(of: &[Candidate]) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..of.len()).filter(|&at| of[at].gain.is_finite() && of[at].cost.is_finite()).collect();
    order.sort_by(|&a, &b| {
        of[b].gain.total_cmp(&of[a].gain).then(of[a].cost.total_cmp(&of[b].cost))
    });
    let mut best = f64::INFINITY;
    order.retain(|&at| {
        let is_better = of[at].cost < best;
        best = best.min(of[at].cost);
        is_better
    });
    order.reverse();
    order
}

/// A front is bent if a point of it is at least so far from the straight line
/// between its ends, of a square with sides of 1.
const BENT: f64 = 0.05;

/// The knee of a front: the point on the better side of the straight line between
/// its ends that is farthest from it, where both axes go from 0 to 1 and costs are
/// taken by their logarithm. As Kneedle finds it (Satopää and others, 2011), but
/// without its smoothing: a front has few points. `None` for fewer than three
/// points, and for a front that is not bent.
pub fn knee(front: &[Candidate]) -> Option<usize> {
    let (first, last) = (front.first()?, front.last()?);
    let gains = last.gain - first.gain;
    let costs = (last.cost / first.cost).ln();
    if front.len() < 3 || gains <= 0.0 || !costs.is_finite() || costs <= 0.0 {
        return None;
    }
    let distance = |of: &Candidate| {
        let gain = (of.gain - first.gain) / gains;
        let cost = (of.cost / first.cost).ln() / costs;
        (gain - cost) / std::f64::consts::SQRT_2
    };
    let farthest = (1..front.len() - 1)
        .max_by(|&a, &b| distance(&front[a]).total_cmp(&distance(&front[b])))?;
    (distance(&front[farthest]) >= BENT).then_some(farthest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(points: &[(f64, f64)]) -> Vec<Candidate> {
        points.iter().map(|&(gain, cost)| Candidate { gain, cost }).collect()
    }

    #[test]
    fn the_front_has_no_point_that_another_beats() {
        let all =
            of(&[(1.0, 5.0), (2.0, 4.0), (3.0, 9.0), (2.5, 9.5), (f64::NAN, 1.0), (3.0, 8.0)]);
        assert_eq!(front(&all), [1, 5]);
        assert_eq!(front(&[]), [0; 0]);
        // The same figures twice are one point of the front.
        assert_eq!(front(&of(&[(1.0, 1.0), (1.0, 1.0)])).len(), 1);
    }

    #[test]
    fn the_knee_of_a_queue_is_where_it_begins_to_wait() {
        // M/M/1: the mean response time at load r is 1 / (1 - r). By theory, with the
        // logarithm of it from 0 to ln 50, the distance r / 0.98 - ln(1 / (1 - r)) / ln 50
        // is largest where 1 / (1 - r) = ln 50 / 0.98, which is r = 0.7495.
        let loads: Vec<f64> = (0..99).map(|n| f64::from(n) / 100.0).collect();
        let queue: Vec<(f64, f64)> = loads.iter().map(|&r| (r, 1.0 / (1.0 - r))).collect();
        assert_eq!(knee(&of(&queue)), Some(75));
    }

    #[test]
    fn a_straight_front_has_no_knee() {
        let straight: Vec<(f64, f64)> =
            (0..9).map(|n| (f64::from(n), f64::from(n).exp())).collect();
        assert_eq!(knee(&of(&straight)), None);
        assert_eq!(knee(&of(&[(1.0, 1.0), (2.0, 2.0)])), None);
        assert_eq!(knee(&of(&[(1.0, 0.0), (2.0, 2.0), (3.0, 4.0)])), None, "no logarithm");
    }
}
