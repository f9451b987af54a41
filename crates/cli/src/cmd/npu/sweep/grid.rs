//! A grid of points, by rows and columns.

use super::axis::Axis;
use super::point::{Found, Metric};

/// Points of one axis or two.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Rows, and columns if there are any.
    pub axes: Vec<Axis>,
    /// Row by row; of each, what came of it or why it cannot be had.
    pub points: Vec<Result<Found, String>>,
}

impl Grid {
    /// How many points there are to be.
    pub fn len(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product()
    }

    /// Whether it is one of the axes.
    pub fn varies(&self, key: &str) -> bool {
        self.axes.iter().any(|axis| axis.key == key)
    }

    /// How many columns there are; one where nothing varies from one to the next.
    pub fn columns(&self) -> usize {
        self.axes.get(1).map_or(1, |axis| axis.values.len())
    }

    /// What differs at a point.
    pub fn settings(&self, at: usize) -> Vec<(&str, &str)> {
        let of = [at / self.columns(), at % self.columns()];
        let places = self.axes.iter().zip(of);
        places.map(|(axis, at)| (axis.key.as_str(), axis.values[at].as_str())).collect()
    }

    /// The same in words.
    pub fn name(&self, at: usize) -> String {
        let words: Vec<String> =
            self.settings(at).iter().map(|(key, value)| format!("{key}={value}")).collect();
        words.join(", ")
    }

    /// The points that there are, and their places.
    pub fn found(&self) -> impl Iterator<Item = (usize, &Found)> {
        self.points.iter().enumerate().filter_map(|(at, point)| Some((at, point.as_ref().ok()?)))
    }

    /// Reasons why points cannot be had, each with the places of its points.
    pub fn failures(&self) -> Vec<(String, Vec<usize>)> {
        let failed = self.points.iter().enumerate();
        gathered(failed.filter_map(|(at, point)| Some((point.as_ref().err()?.clone(), at))))
    }

    /// What had to be done, each for how many points.
    pub fn remarks(&self) -> Vec<(String, usize)> {
        let each = |(at, found): (usize, &Found)| {
            found.remarks.iter().map(|remark| (remark.clone(), at)).collect::<Vec<_>>()
        };
        let all = gathered(self.found().flat_map(each));
        all.into_iter().map(|(remark, places)| (remark, places.len())).collect()
    }

    /// The place that is best in a metric, the first of equal ones.
    pub fn best(&self, metric: Metric) -> Option<(usize, f64)> {
        let sign = if metric.is_cost() { -1.0 } else { 1.0 };
        let all = self.found().filter_map(|(at, found)| Some((at, found.figure(metric)?)));
        all.reduce(|best, other| if sign * other.1 > sign * best.1 { other } else { best })
    }
}

/// Places by what is said of them, in the order in which it is said first.
fn gathered(said: impl Iterator<Item = (String, usize)>) -> Vec<(String, Vec<usize>)> {
    let mut all: Vec<(String, Vec<usize>)> = Vec::new();
    for (text, at) in said {
        match all.iter_mut().find(|(other, _)| *other == text) {
            Some((_, places)) => places.push(at),
            None => all.push((text, vec![at])),
        }
    }
    all
}
