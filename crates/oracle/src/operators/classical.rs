//! Operators of classical machine learning (domain `ai.onnx.ml`) on tables with one row per sample.

mod trees;
mod vectors;

use super::reduce::check_order;
use super::{Operator, operator};
use crate::call::{Call, axis_of, size_of};
use crate::element::Element;
use crate::fault::{Fault, fault};
use crate::tensor::{Tensor, Values, position};

const LABELS: &[&str] = &[
    "default_float",
    "default_int64",
    "keys_floats",
    "keys_int64s",
    "values_floats",
    "values_int64s",
];
const IMPUTER: &[&str] = &[
    "imputed_value_floats",
    "imputed_value_int64s",
    "replaced_value_float",
    "replaced_value_int64",
];
const CLASSIFIER: &[&str] =
    &["classlabels_ints", "coefficients", "intercepts", "multi_class", "post_transform"];
const REGRESSOR: &[&str] = &["coefficients", "intercepts", "post_transform", "targets"];

pub(super) const OPERATORS: &[Operator] = &[
    operator("ai.onnx.ml.ArrayFeatureExtractor", 1, 2, &[], extract),
    operator("ai.onnx.ml.Binarizer", 1, 1, &["threshold"], binarize),
    operator("ai.onnx.ml.Imputer", 1, 1, IMPUTER, impute),
    operator("ai.onnx.ml.LabelEncoder", 2, 1, LABELS, encode),
    operator("ai.onnx.ml.LinearClassifier", 1, 1, CLASSIFIER, classify),
    operator("ai.onnx.ml.LinearRegressor", 1, 1, REGRESSOR, |call| {
        expect_no_transform(call)?;
        let targets = size_of(call.integer("targets", 1)?)?;
        let sums = sums(call, targets)?;
        Ok(vec![table(&sums, targets)?])
    }),
    operator("ai.onnx.ml.Normalizer", 1, 1, &["norm"], normalize),
    operator("ai.onnx.ml.SVMRegressor", 1, 1, vectors::REGRESSOR, vectors::regress),
    operator("ai.onnx.ml.Scaler", 1, 1, &["offset", "scale"], scale),
    operator("ai.onnx.ml.TreeEnsembleClassifier", 1, 1, trees::CLASSIFIER, trees::classify),
    operator("ai.onnx.ml.TreeEnsembleRegressor", 1, 1, trees::REGRESSOR, trees::regress),
];

/// Returns the rows of a table.
fn rows(call: &Call<'_>) -> Result<Vec<Vec<f64>>, Fault> {
    let input = call.input(0)?;
    let &[count, columns] = input.shape() else { return fault("expected a table") };
    let numbers = input.to_floats();
    Ok((0..count).map(|row| numbers[row * columns..][..columns].to_vec()).collect())
}

/// Returns a table with these rows.
fn table(rows: &[Vec<f64>], columns: usize) -> Result<Tensor, Fault> {
    Tensor::of_floats(Element::Float32, &[rows.len(), columns], rows.concat())
}

/// Returns the number of a column in a list that has one for all columns, or one for each.
fn number_of<T: Copy>(list: &[T], column: usize, columns: usize) -> Result<T, Fault> {
    match list {
        [only] => Ok(*only),
        _ if list.len() == columns => Ok(list[column]),
        _ => fault(format!("expected 1 number or {columns}, found {}", list.len())),
    }
}

fn extract(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (input, indices) = (call.input(0)?, call.input(1)?.as_integers()?);
    let last = axis_of(-1, input.rank())?;
    let size = input.shape()[last];
    let picked: Result<Vec<usize>, Fault> = indices.iter().map(|index| size_of(*index)).collect();
    let picked = picked?;
    if picked.iter().any(|index| *index >= size) {
        return fault("an index lies outside of the row");
    }
    let mut shape = input.shape().to_vec();
    shape[last] = picked.len();
    let output = input.rearranged(&shape, |index| {
        let mut own = index.to_vec();
        own[last] = picked[own[last]];
        position(&own, input.shape())
    })?;
    Ok(vec![if last == 0 { output.reshaped(&[1, picked.len()])? } else { output }])
}

fn binarize(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (input, threshold) = (call.input(0)?, call.float("threshold", 0.0)?);
    let element = input.element();
    let above = input.as_floats()?.iter().map(|term| {
        let x = element.round(*term);
        call.note_jump(element, &[*term], [x, threshold]);
        if x > threshold { 1.0 } else { 0.0 }
    });
    Ok(vec![Tensor::of_floats(input.element(), input.shape(), above.collect())?])
}

fn impute(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let &[_, columns] = input.shape() else { return fault("expected a table") };
    let output = match input.values() {
        Values::Floats(all) => {
            let imputed = call.floats("imputed_value_floats")?.unwrap_or_default();
            let replaced = call.float("replaced_value_float", 0.0)?;
            let is_it = |x: f64| x == replaced || x.is_nan() && replaced.is_nan();
            let number = |(at, x): (usize, &f64)| {
                let imputed = number_of(&imputed, at % columns, columns)?;
                Ok(if is_it(*x) { imputed } else { *x })
            };
            let all: Result<Vec<f64>, Fault> = all.iter().enumerate().map(number).collect();
            Tensor::of_floats(input.element(), input.shape(), all?)
        }
        Values::Integers(all) => {
            let imputed = call.integers("imputed_value_int64s")?.unwrap_or_default();
            let replaced = call.integer("replaced_value_int64", 0)?;
            let number = |(at, x): (usize, &i64)| {
                let imputed = number_of(&imputed, at % columns, columns)?;
                Ok(if *x == replaced { imputed } else { *x })
            };
            let all: Result<Vec<i64>, Fault> = all.iter().enumerate().map(number).collect();
            Tensor::of_integers(input.element(), input.shape(), all?)
        }
    };
    Ok(vec![output?])
}

/// Replaces keys by values.
fn encode(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let keys = (call.integers("keys_int64s")?, call.floats("keys_floats")?);
    let places: Vec<Option<usize>> = match (input.values(), keys) {
        (Values::Integers(all), (Some(keys), None)) => {
            call.spend_product(&[all.len(), keys.len()])?;
            all.iter().map(|x| keys.iter().position(|key| key == x)).collect()
        }
        (Values::Floats(all), (None, Some(keys))) => {
            call.spend_product(&[all.len(), keys.len()])?;
            let is_key = |term: f64, key: f64| {
                let x = input.element().round(term);
                call.note_jump(input.element(), &[term], [x, key]);
                x == key
            };
            all.iter().map(|x| keys.iter().position(|key| is_key(*x, *key))).collect()
        }
        _ => return fault("expected one list of keys, of the type of the input"),
    };
    let output = match (call.integers("values_int64s")?, call.floats("values_floats")?) {
        (Some(values), None) => {
            let found = picked(&places, &values, call.integer("default_int64", -1)?)?;
            Tensor::of_integers(Element::Int64, input.shape(), found)
        }
        (None, Some(values)) => {
            let found = picked(&places, &values, call.float("default_float", -0.0)?)?;
            Tensor::of_floats(Element::Float32, input.shape(), found)
        }
        _ => fault("expected one list of values"),
    };
    Ok(vec![output?])
}

fn picked<T: Copy>(places: &[Option<usize>], values: &[T], default: T) -> Result<Vec<T>, Fault> {
    let value = |place: &Option<usize>| match place {
        None => Some(default),
        Some(place) => values.get(*place).copied(),
    };
    let all: Option<Vec<T>> = places.iter().map(value).collect();
    all.map_or_else(|| fault("a key has no value"), Ok)
}

fn scale(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let offset = call.floats("offset")?.unwrap_or_default();
    let scale = call.floats("scale")?.unwrap_or_default();
    let (mut rows, columns) = (rows(call)?, call.input(0)?.shape()[1]);
    for row in &mut rows {
        for (column, x) in row.iter_mut().enumerate() {
            let offset = number_of(&offset, column, columns)?;
            *x = (*x - offset) * number_of(&scale, column, columns)?;
        }
    }
    Ok(vec![table(&rows, columns)?])
}

fn normalize(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let norm = call.text("norm", "MAX")?;
    let (mut rows, columns) = (rows(call)?, call.input(0)?.shape()[1]);
    for row in &mut rows {
        let size = match norm.as_str() {
            "MAX" if row.iter().any(|x| *x < 0.0) => {
                return fault("engines differ in the norm MAX of negative numbers");
            }
            "MAX" => row.iter().copied().fold(0.0, f64::max),
            "L1" => row.iter().map(|x| x.abs()).sum(),
            "L2" => row.iter().map(|x| x.powi(2)).sum::<f64>().sqrt(),
            other => return fault(format!("norm {other:?} is not supported")),
        };
        if size != 0.0 {
            row.iter_mut().for_each(|x| *x /= size);
        }
    }
    Ok(vec![table(&rows, columns)?])
}

/// Returns `count` weighted sums of each row.
fn sums(call: &Call<'_>, count: usize) -> Result<Vec<Vec<f64>>, Fault> {
    let weights = call.floats("coefficients")?.unwrap_or_default();
    let (rows, columns) = (rows(call)?, call.input(0)?.shape()[1]);
    if count.checked_mul(columns) != Some(weights.len()) || weights.is_empty() {
        let found = weights.len();
        return fault(format!("expected {count} rows of {columns} weights, found {found} weights"));
    }
    let start = call.floats("intercepts")?.unwrap_or_else(|| vec![0.0; count]);
    if start.len() != count {
        return fault(format!("expected {count} intercepts, found {}", start.len()));
    }
    call.spend_product(&[rows.len(), weights.len()])?;
    let sum = |row: &[f64], at: usize| {
        let products = weights[at * columns..][..columns].iter().zip(row).map(|(w, x)| w * x);
        start[at] + products.sum::<f64>()
    };
    Ok(rows.iter().map(|row| (0..count).map(|at| sum(row, at)).collect()).collect())
}

fn expect_no_transform(call: &Call<'_>) -> Result<(), Fault> {
    match call.text("post_transform", "NONE")?.as_str() {
        "NONE" => Ok(()),
        other => fault(format!("engines differ in {other} of a regressor")),
    }
}

/// Applies the transform of the node to the scores of a row.
fn transformed(call: &Call<'_>, scores: &[f64]) -> Result<Vec<f64>, Fault> {
    let exponential = |x: &f64| (x - scores.iter().copied().fold(f64::MIN, f64::max)).exp();
    Ok(match call.text("post_transform", "NONE")?.as_str() {
        "NONE" => scores.to_vec(),
        "LOGISTIC" => scores.iter().map(|x| logistic(*x)).collect(),
        "SOFTMAX" => {
            let sum: f64 = scores.iter().map(exponential).sum();
            scores.iter().map(|x| exponential(x) / sum).collect()
        }
        other => return fault(format!("post_transform {other:?} is not supported")),
    })
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Returns the index of the greatest score: the first one of equal ones.
fn best(call: &Call<'_>, scores: &[f64]) -> usize {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    scores.iter().for_each(|score| call.note_choice(*score, most));
    scores.iter().position(|score| *score == most).unwrap_or_default()
}

fn classify(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let labels = call.integers("classlabels_ints")?.unwrap_or_default();
    if labels.len() < 2 {
        return fault("expected labels of 2 classes or more, which are integers");
    }
    let sums = sums(call, labels.len())?;
    check_order(&table(&sums, labels.len())?)?;
    let chosen = sums.iter().map(|row| labels[best(call, row)]).collect();
    let scores: Result<Vec<Vec<f64>>, Fault> =
        sums.iter().map(|row| transformed(call, row)).collect();
    Ok(vec![
        Tensor::of_integers(Element::Int64, &[sums.len()], chosen)?,
        table(&scores?, labels.len())?,
    ])
}
