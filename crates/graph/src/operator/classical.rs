//! Operators of classical machine learning (domain `ai.onnx.ml`) on tables with one row per sample.

mod labels;
mod linear;
mod trees;
mod vectors;

use std::borrow::Cow;

use super::gather::gather;
use super::{expect_single_precision, name, one};
use crate::node::{NodeReader, Operation};
use crate::value::{Number, Value};

const DOMAIN: &str = "ai.onnx.ml";

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let (domain, operator) = name(reader);
    if domain != DOMAIN {
        return Ok(None);
    }
    if operator == "ArrayFeatureExtractor" {
        return one(|frame| columns(frame.input(0)?, frame.input(1)?));
    }
    expect_single_precision(reader)?;
    match operator {
        "Binarizer" => {
            let threshold = reader.float("threshold", 0.0)?;
            one(move |frame| {
                let value = frame.input(0)?;
                let above = value.all::<f32>()?.iter().map(|x| f32::from(*x > threshold));
                Value::new(value.dims(), above.collect())
            })
        }
        "Imputer" => imputer(reader),
        "LabelEncoder" => labels::encoder(reader),
        "LinearClassifier" => linear::classifier(reader),
        "LinearRegressor" => linear::regressor(reader),
        "Normalizer" => normalizer(reader),
        "SVMRegressor" => vectors::regressor(reader),
        "Scaler" => scaler(reader),
        "TreeEnsembleClassifier" => trees::classifier(reader),
        "TreeEnsembleRegressor" => trees::regressor(reader),
        "ZipMap" => {
            Err("its maps are no arrays; export the model without it, such as by the option \
                         zipmap=False of skl2onnx and onnxmltools"
                .into())
        }
        _ => Ok(None),
    }
}

/// A table with one row per sample.
struct Table<'a> {
    rows: usize,
    columns: usize,
    numbers: Cow<'a, [f32]>,
}

impl<'a> Table<'a> {
    /// Returns the table of a value. Integers become `f32`.
    fn new(value: &'a Value) -> Result<Self, String> {
        let &[rows, columns] = value.dims() else {
            return Err(format!("expected one row per sample, found {:?}", value.dims()));
        };
        let numbers = match value.as_slice::<f32>() {
            Some(all) => Cow::Borrowed(all),
            None => value.integers()?.iter().map(|n| *n as f32).collect(),
        };
        Ok(Self { rows, columns, numbers })
    }

    fn rows(&self) -> impl Iterator<Item = &[f32]> {
        (0..self.rows).map(move |row| &self.numbers[row * self.columns..][..self.columns])
    }
}

/// Returns the columns with these indices. A vector is a table with one row.
fn columns(value: &Value, indices: &Value) -> Result<Value, String> {
    if let Some(index) = indices.integers()?.iter().find(|index| **index < 0) {
        return Err(format!("expected the index of a column, found {index}"));
    }
    let count = indices.len();
    let found = gather(value, &indices.clone().reshaped(vec![count])?, -1)?;
    if found.dims().len() == 1 { found.reshaped(vec![1, count]) } else { Ok(found) }
}

/// Checks the number of an attribute's values: one for all columns, or one for each.
fn check_count(count: usize, columns: usize) -> Result<(), String> {
    if count == 1 || count == columns {
        return Ok(());
    }
    Err(format!("expected an attribute with 1 number or {columns}, found {count}"))
}

fn scaler(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let offset = reader.floats("offset")?.unwrap_or_default().to_vec();
    let scale = reader.floats("scale")?.unwrap_or_default().to_vec();
    if scale.is_empty() || offset.len() != scale.len() {
        let (offsets, scales) = (offset.len(), scale.len());
        return Err(format!("expected as many offsets as scales, found {offsets} and {scales}"));
    }
    one(move |frame| {
        let table = Table::new(frame.input(0)?)?;
        check_count(scale.len(), table.columns)?;
        let scaled = table.numbers.iter().enumerate().map(|(at, x)| {
            let column = at % scale.len();
            (x - offset[column]) * scale[column]
        });
        Value::new([table.rows, table.columns], scaled.collect())
    })
}

/// Divides each row by its norm. Rows of zeros stay.
fn normalizer(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let which = reader.text("norm", "MAX")?;
    let norm: fn(&[f32]) -> f32 = match which {
        "MAX" => |row| row.iter().fold(f32::NEG_INFINITY, |most, x| most.max(*x)),
        "L1" => |row| row.iter().map(|x| x.abs()).sum(),
        "L2" => |row| row.iter().map(|x| x * x).sum::<f32>().sqrt(),
        other => return Err(format!("norm '{other}' is not supported")),
    };
    let is_most = which == "MAX";
    one(move |frame| {
        let table = Table::new(frame.input(0)?)?;
        if is_most && table.numbers.iter().any(|x| *x < 0.0) {
            return Err("engines differ in norm 'MAX' of negative numbers; use 'L1' or 'L2'".into());
        }
        let mut normalized = Vec::with_capacity(table.numbers.len());
        for row in table.rows() {
            let norm = norm(row);
            let divisor = if norm == 0.0 { 1.0 } else { norm };
            normalized.extend(row.iter().map(|x| x / divisor));
        }
        Value::new([table.rows, table.columns], normalized)
    })
}

/// Replaces one number, or NaN, by a number for each column.
fn imputer(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let floats = reader.floats("imputed_value_floats")?.unwrap_or_default().to_vec();
    let integers = reader.ints("imputed_value_int64s")?.unwrap_or_default();
    let float = reader.float("replaced_value_float", 0.0)?;
    let integer = reader.int("replaced_value_int64", 0)?;
    one(move |frame| {
        let value = frame.input(0)?;
        match value.as_slice::<i64>() {
            Some(all) => imputed(value, all, &integers, |x| x == integer),
            None => imputed(value, value.all::<f32>()?, &floats, |x| {
                x == float || (x.is_nan() && float.is_nan())
            }),
        }
    })
}

fn imputed<T: Number>(
    value: &Value,
    all: &[T],
    imputed: &[T],
    is_replaced: impl Fn(T) -> bool,
) -> Result<Value, String> {
    let &[_, columns] = value.dims() else {
        return Err(format!("expected one row per sample, found {:?}", value.dims()));
    };
    check_count(imputed.len(), columns)?;
    let number =
        |(at, x): (usize, &T)| if is_replaced(*x) { imputed[at % imputed.len()] } else { *x };
    Value::new(value.dims(), all.iter().enumerate().map(number).collect())
}
