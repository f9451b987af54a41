//! Pareto front of several runs, and its bend: the point beyond which more gain costs
//! disproportionately more.

/// Two figures of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Figure of which more is better, such as a rate.
    pub gain: f64,
    /// Figure of which less is better, such as a latency.
    pub cost: f64,
}

/// Returns the positions of the candidates on the Pareto front, by ascending gain: those that no
/// other candidate beats in one figure without losing in the other.
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

/// Minimum distance of the bend from the straight line between the ends of the front, in a unit
/// square.
const BENT: f64 = 0.05;

/// Returns the position of the bend of a front: the point that is farthest on the better side of
/// the straight line between its ends. Both axes are scaled to 0 to 1; costs are logarithmic.
/// `None` for fewer than three points and for a nearly straight front ([`BENT`]).
///
/// It is not called a knee: the knee of a load curve has another definition.
///
/// Source: Kneedle (Satopää and others, 2011), without its smoothing because a front has few
/// points.
pub fn bend(front: &[Candidate]) -> Option<usize> {
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
    fn the_bend_of_a_queue_is_where_it_begins_to_wait() {
        // M/M/1: the mean response time at load r is 1 / (1 - r). By theory, with the
        // logarithm of it from 0 to ln 50, the distance r / 0.98 - ln(1 / (1 - r)) / ln 50
        // is largest where 1 / (1 - r) = ln 50 / 0.98, which is r = 0.7495.
        let loads: Vec<f64> = (0..99).map(|n| f64::from(n) / 100.0).collect();
        let queue: Vec<(f64, f64)> = loads.iter().map(|&r| (r, 1.0 / (1.0 - r))).collect();
        assert_eq!(bend(&of(&queue)), Some(75));
    }

    #[test]
    fn a_straight_front_has_no_bend() {
        let straight: Vec<(f64, f64)> =
            (0..9).map(|n| (f64::from(n), f64::from(n).exp())).collect();
        assert_eq!(bend(&of(&straight)), None);
        assert_eq!(bend(&of(&[(1.0, 1.0), (2.0, 2.0)])), None);
        assert_eq!(bend(&of(&[(1.0, 0.0), (2.0, 2.0), (3.0, 4.0)])), None, "no logarithm");
    }
}
