//! A grid of points, by rows and columns.

use super::axis::Axis;
use super::point::{Metric, PointOutcome};

/// Results of all points over one axis or two.
#[derive(Clone, Debug)]
pub struct Grid {
    /// The axis of rows, then that of columns if there is one.
    pub axes: Vec<Axis>,
    /// Row by row: the result of each point, or why it is not feasible.
    pub points: Vec<Result<PointOutcome, String>>,
}

impl Grid {
    /// Returns the number of points of the axes.
    pub fn len(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product()
    }

    /// Whether a setting is one of the axes.
    pub fn varies(&self, key: &str) -> bool {
        self.axes.iter().any(|axis| axis.key == key)
    }

    /// Returns the number of columns; 1 without a column axis.
    pub fn columns(&self) -> usize {
        self.axes.get(1).map_or(1, |axis| axis.values.len())
    }

    /// Returns the keys and values of the axes at a point.
    pub fn settings(&self, at: usize) -> Vec<(&str, &str)> {
        let indices = [at / self.columns(), at % self.columns()];
        let places = self.axes.iter().zip(indices);
        places.map(|(axis, at)| (axis.key.as_str(), axis.values[at].as_str())).collect()
    }

    /// Returns the settings of a point as text.
    pub fn name(&self, at: usize) -> String {
        let words: Vec<String> =
            self.settings(at).iter().map(|(key, value)| format!("{key}={value}")).collect();
        words.join(", ")
    }

    /// Returns the feasible points with their indices.
    pub fn feasible(&self) -> impl Iterator<Item = (usize, &PointOutcome)> {
        self.points.iter().enumerate().filter_map(|(at, point)| Some((at, point.as_ref().ok()?)))
    }

    /// Returns the reasons of infeasible points, each with the indices of its points.
    pub fn failures(&self) -> Vec<(String, Vec<usize>)> {
        let failed = self.points.iter().enumerate();
        group_by_text(failed.filter_map(|(at, point)| Some((point.as_ref().err()?.clone(), at))))
    }

    /// Returns the remarks, each with the number of its points.
    pub fn remarks(&self) -> Vec<(String, usize)> {
        let each = |(at, outcome): (usize, &PointOutcome)| {
            outcome.remarks.iter().map(|remark| (remark.clone(), at)).collect::<Vec<_>>()
        };
        let all = group_by_text(self.feasible().flat_map(each));
        all.into_iter().map(|(remark, places)| (remark, places.len())).collect()
    }

    /// Returns the index and value of the point that is best in a metric; the first one of a tie.
    pub fn best(&self, metric: Metric) -> Option<(usize, f64)> {
        let sign = if metric.is_cost() { -1.0 } else { 1.0 };
        let all = self.feasible().filter_map(|(at, outcome)| Some((at, outcome.figure(metric)?)));
        all.reduce(|best, other| if sign * other.1 > sign * best.1 { other } else { best })
    }
}

/// Groups indices by their text, in the order in which the texts occur first.
fn group_by_text(texts: impl Iterator<Item = (String, usize)>) -> Vec<(String, Vec<usize>)> {
    let mut all: Vec<(String, Vec<usize>)> = Vec::new();
    for (text, at) in texts {
        match all.iter_mut().find(|(other, _)| *other == text) {
            Some((_, places)) => places.push(at),
            None => all.push((text, vec![at])),
        }
    }
    all
}
