//! Support vector machines.

use super::{expect_no_transform, rows, table};
use crate::call::{Call, size_of};
use crate::fault::{Fault, fault};
use crate::tensor::Tensor;

pub(super) const REGRESSOR: &[&str] = &[
    "coefficients",
    "kernel_params",
    "kernel_type",
    "n_supports",
    "one_class",
    "post_transform",
    "rho",
    "support_vectors",
];

pub(super) fn regress(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    expect_no_transform(call)?;
    let weights = call.floats("coefficients")?.unwrap_or_default();
    let vectors = call.floats("support_vectors")?.unwrap_or_default();
    let rho = call.floats("rho")?.unwrap_or_default();
    let [rho] = rho[..] else { return fault("expected one number in rho") };
    let count = size_of(call.integer("n_supports", 0)?)?;
    let (rows, columns) = (rows(call)?, call.input(0)?.shape()[1]);
    // Without support vectors, each column has a weight.
    let expected = if count == 0 { columns } else { count };
    if weights.len() != expected || count.checked_mul(columns) != Some(vectors.len()) {
        let (weights, vectors) = (weights.len(), vectors.len());
        return fault(format!(
            "{weights} weights and {vectors} numbers of vectors do not fit {count} vectors of {columns}"
        ));
    }
    call.spend_product(&[rows.len(), count.max(1), columns])?;
    let mut found = Vec::new();
    for row in &rows {
        let mut terms = vec![rho];
        for (at, weight) in weights.iter().enumerate() {
            let factor =
                if count == 0 { row[at] } else { kernel(call, row, &vectors[at * columns..])? };
            terms.push(weight * factor);
        }
        let is_one_class = call.flag("one_class", false)?;
        found.push(vec![if is_one_class { side(call, &terms)? } else { terms.iter().sum() }]);
    }
    Ok(vec![table(&found, 1)?])
}

/// Returns the kernel of a row and the vector that begins a list.
fn kernel(call: &Call<'_>, row: &[f64], vector: &[f64]) -> Result<f64, Fault> {
    let pairs = || row.iter().zip(vector);
    let product: f64 = pairs().map(|(a, b)| a * b).sum();
    let name = call.text("kernel_type", "LINEAR")?;
    if name == "LINEAR" {
        return Ok(product);
    }
    let numbers = call.floats("kernel_params")?.unwrap_or_default();
    let [gamma, start, degree] = numbers[..] else {
        return fault("expected three numbers in kernel_params");
    };
    match name.as_str() {
        "POLY" => Ok((gamma * product + start).powf(degree)),
        "RBF" => Ok((-gamma * pairs().map(|(a, b)| (a - b) * (a - b)).sum::<f64>()).exp()),
        "SIGMOID" => Ok((gamma * product + start).tanh()),
        other => fault(format!("kernel_type {other:?} is not supported")),
    }
}

/// Returns 1 if the sum of the terms is positive, and -1 otherwise.
fn side(call: &Call<'_>, terms: &[f64]) -> Result<f64, Fault> {
    if terms.iter().sum::<f64>().is_nan() {
        return fault("the standard does not order NaN");
    }
    let above: f64 = terms.iter().filter(|term| **term > 0.0).sum();
    let below: f64 = terms.iter().filter(|term| **term < 0.0).map(|term| -term).sum();
    call.note_choice(above, below);
    Ok(if above > below { 1.0 } else { -1.0 })
}
