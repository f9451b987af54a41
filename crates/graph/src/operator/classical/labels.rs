//! Labels of classes, and `LabelEncoder`.

use std::cmp::Ordering;

use super::super::one;
use crate::node::{NodeReader, Operation};
use crate::value::{Number, Value, is_nan};

/// Returns the labels of a classifier from the attribute with this name.
pub(super) fn read(reader: &NodeReader<'_>, name: &'static str) -> Result<Vec<i64>, String> {
    if reader.attribute("classlabels_strings").is_some() {
        return Err("labels that are texts are not supported; train the model with integers as \
                    classes"
            .into());
    }
    let labels = reader.ints(name)?.unwrap_or_default();
    if labels.len() < 2 {
        return Err(format!("expected labels of 2 classes or more, found {}", labels.len()));
    }
    Ok(labels)
}

/// Returns the index of the greatest score, the first one of equal ones.
pub(super) fn best(scores: &[f32]) -> usize {
    let better = |best: usize, at: usize| if scores[at] > scores[best] { at } else { best };
    (0..scores.len()).fold(0, better)
}

/// Reads a `LabelEncoder` without texts.
pub(super) fn encoder(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let integers = (reader.ints("keys_int64s")?, reader.ints("values_int64s")?);
    let floats = (reader.floats("keys_floats")?, reader.floats("values_floats")?);
    let float = reader.float("default_float", -0.0)?;
    let integer = reader.int("default_int64", -1)?;
    match (integers, floats) {
        ((Some(keys), Some(values)), (None, None)) => mapped(&keys, &values, integer),
        ((Some(keys), None), (None, Some(values))) => mapped(&keys, values, float),
        ((None, Some(values)), (Some(keys), None)) => mapped(keys, &values, integer),
        ((None, None), (Some(keys), Some(values))) => mapped(keys, values, float),
        _ => Err("expected one list of keys and one of values, which are no texts".into()),
    }
}

fn mapped<K: Number, V: Number>(
    keys: &[K],
    values: &[V],
    default: V,
) -> Result<Option<Operation>, String> {
    if keys.len() != values.len() {
        return Err(format!("expected {} values, found {}", keys.len(), values.len()));
    }
    if keys.iter().any(|key| is_nan(*key)) {
        return Err("a key that is NaN is not supported".into());
    }
    let mut pairs: Vec<(K, V)> = keys.iter().copied().zip(values.iter().copied()).collect();
    let order = |a: K, b: K| a.partial_cmp(&b).unwrap_or(Ordering::Less);
    pairs.sort_by(|a, b| order(a.0, b.0));
    if pairs.windows(2).any(|two| two[0].0 == two[1].0) {
        return Err("a key occurs twice".into());
    }
    one(move |frame| {
        let value = frame.input(0)?;
        let find = |x: &K| match pairs.binary_search_by(|pair| order(pair.0, *x)) {
            Ok(at) => pairs[at].1,
            Err(_) => default,
        };
        Value::new(value.dims(), value.all::<K>()?.iter().map(find).collect())
    })
}
