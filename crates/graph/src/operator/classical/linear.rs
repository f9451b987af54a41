//! Linear models, and the transforms of scores.

use super::super::one;
use super::super::reduce::check_order;
use super::{Table, labels};
use crate::node::{NodeReader, Operation};
use crate::value::{Value, count};

/// Function that makes probabilities of the scores of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Transform {
    None,
    Logistic,
    Softmax,
}

impl Transform {
    pub fn read(reader: &NodeReader<'_>) -> Result<Self, String> {
        match reader.text("post_transform", "NONE")? {
            "NONE" => Ok(Self::None),
            "LOGISTIC" => Ok(Self::Logistic),
            "SOFTMAX" => Ok(Self::Softmax),
            other => Err(format!("post_transform '{other}' is not supported")),
        }
    }

    /// Checks that a regressor has no transform: engines differ in whether they apply it to one target.
    pub fn expect_none(reader: &NodeReader<'_>) -> Result<(), String> {
        match reader.text("post_transform", "NONE")? {
            "NONE" => Ok(()),
            other => Err(format!("post_transform '{other}' of a regressor is not supported")),
        }
    }

    pub fn apply(self, scores: &mut [f32]) {
        match self {
            Self::None => {}
            Self::Logistic => scores.iter_mut().for_each(|x| *x = logistic(*x)),
            Self::Softmax => {
                let most = scores.iter().fold(f32::NEG_INFINITY, |most, x| most.max(*x));
                scores.iter_mut().for_each(|x| *x = (*x - most).exp());
                let sum: f32 = scores.iter().sum();
                scores.iter_mut().for_each(|x| *x /= sum);
            }
        }
    }
}

pub(super) fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Sums of weighted columns.
struct Sums {
    /// Weights of the columns for each sum.
    weights: Vec<f32>,
    /// One number for each sum.
    start: Vec<f32>,
}

impl Sums {
    fn read(reader: &NodeReader<'_>, count: usize) -> Result<Self, String> {
        let weights = reader.floats("coefficients")?.unwrap_or_default().to_vec();
        if weights.is_empty() || !weights.len().is_multiple_of(count) {
            let found = weights.len();
            return Err(format!("expected rows of coefficients for {count} scores, found {found}"));
        }
        let start = reader.floats("intercepts")?.map_or_else(|| vec![0.0; count], <[f32]>::to_vec);
        if start.len() != count {
            return Err(format!("expected {count} intercepts, found {}", start.len()));
        }
        Ok(Self { weights, start })
    }

    /// Returns a row of sums for each row of the table.
    fn compute(&self, table: &Table<'_>) -> Result<Value, String> {
        if self.start.len() * table.columns != self.weights.len() {
            let (expected, found) = (self.weights.len() / self.start.len(), table.columns);
            return Err(format!("expected {expected} columns, found {found}"));
        }
        let dims = [table.rows, self.start.len()];
        let mut all = Vec::with_capacity(count(&dims, size_of::<f32>())?);
        for row in table.rows() {
            for (at, start) in self.start.iter().enumerate() {
                let weights = &self.weights[at * table.columns..][..table.columns];
                all.push(start + weights.iter().zip(row).map(|(w, x)| w * x).sum::<f32>());
            }
        }
        Value::new(dims, all)
    }
}

pub(super) fn regressor(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    Transform::expect_none(reader)?;
    let sums = Sums::read(reader, targets(reader, "targets")?)?;
    one(move |frame| sums.compute(&Table::new(frame.input(0)?)?))
}

/// Returns the number of targets of a regressor.
pub(super) fn targets(reader: &NodeReader<'_>, name: &'static str) -> Result<usize, String> {
    let count = reader.int(name, 1)?;
    let targets = usize::try_from(count).ok().filter(|targets| *targets > 0);
    targets.ok_or_else(|| format!("expected 1 target or more, found {count}"))
}

pub(super) fn classifier(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let labels = labels::read(reader, "classlabels_ints")?;
    let transform = Transform::read(reader)?;
    reader.ignore("multi_class");
    let sums = Sums::read(reader, labels.len())?;
    Ok(Some(Box::new(move |frame| {
        let found = sums.compute(&Table::new(frame.input(0)?)?)?;
        check_order(&found)?;
        let dims = found.dims().to_vec();
        let mut scores = found.into_vec::<f32>()?;
        let mut chosen = Vec::with_capacity(dims[0]);
        for row in scores.chunks_exact_mut(labels.len()) {
            chosen.push(labels[labels::best(row)]);
            transform.apply(row);
        }
        Ok(vec![Value::new([dims[0]], chosen)?, Value::new(dims, scores)?])
    })))
}
