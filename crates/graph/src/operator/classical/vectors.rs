//! Support vector machines.

use super::super::one;
use super::Table;
use super::linear::Transform;
use crate::node::{NodeReader, Operation};
use crate::value::Value;

/// Function that compares a row with a support vector.
#[derive(Clone, Copy)]
enum Kernel {
    Linear,
    Polynomial { gamma: f64, start: f64, degree: f64 },
    Gaussian { gamma: f64 },
    Sigmoid { gamma: f64, start: f64 },
}

impl Kernel {
    fn read(reader: &NodeReader<'_>) -> Result<Self, String> {
        let numbers = reader.floats("kernel_params")?.unwrap_or_default();
        let name = reader.text("kernel_type", "LINEAR")?;
        if name == "LINEAR" {
            return Ok(Self::Linear);
        }
        let &[gamma, start, degree] = numbers else {
            return Err(format!("expected 3 numbers in kernel_params, found {}", numbers.len()));
        };
        let [gamma, start, degree] = [gamma, start, degree].map(f64::from);
        match name {
            "POLY" => Ok(Self::Polynomial { gamma, start, degree }),
            "RBF" => Ok(Self::Gaussian { gamma }),
            "SIGMOID" => Ok(Self::Sigmoid { gamma, start }),
            other => Err(format!("kernel_type '{other}' is not supported")),
        }
    }

    fn apply(self, row: &[f32], vector: &[f32]) -> f64 {
        let pairs = row.iter().zip(vector).map(|(a, b)| (f64::from(*a), f64::from(*b)));
        if let Self::Gaussian { gamma } = self {
            let distance: f64 = pairs.map(|(a, b)| (a - b).powi(2)).sum();
            return (-gamma * distance).exp();
        }
        let product: f64 = pairs.map(|(a, b)| a * b).sum();
        match self {
            Self::Polynomial { gamma, start, degree } => (gamma * product + start).powf(degree),
            Self::Sigmoid { gamma, start } => (gamma * product + start).tanh(),
            Self::Linear | Self::Gaussian { .. } => product,
        }
    }
}

/// Reads a regressor, or a model of one class, whose output is 1 for rows of the class and -1 for others.
/// The coefficients are the weights of the support vectors, or of the columns if there are none.
pub(super) fn regressor(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    Transform::expect_none(reader)?;
    let &[start] = reader.floats("rho")?.unwrap_or_default() else {
        return Err("expected 1 number in rho".into());
    };
    let mut kernel = Kernel::read(reader)?;
    let mut weights = reader.floats("coefficients")?.unwrap_or_default().to_vec();
    let mut vectors = reader.floats("support_vectors")?.unwrap_or_default().to_vec();
    let mut count = reader.int("n_supports", 0)?;
    if count == 0 && vectors.is_empty() {
        (kernel, vectors, weights, count) = (Kernel::Linear, weights, vec![1.0], 1);
    }
    if usize::try_from(count) != Ok(weights.len()) {
        return Err(format!("expected {count} coefficients, found {}", weights.len()));
    }
    if weights.is_empty() || vectors.is_empty() || !vectors.len().is_multiple_of(weights.len()) {
        return Err(format!("expected {count} support vectors, found {} numbers", vectors.len()));
    }
    let columns = vectors.len() / weights.len();
    let is_one_class = reader.int("one_class", 0)? != 0;
    one(move |frame| {
        let table = Table::new(frame.input(0)?)?;
        if table.columns != columns {
            return Err(format!("expected {columns} columns, found {}", table.columns));
        }
        let sum = |row: &[f32]| -> f64 {
            let pairs = weights.iter().zip(vectors.chunks_exact(columns));
            let terms =
                pairs.map(|(weight, vector)| f64::from(*weight) * kernel.apply(row, vector));
            f64::from(start) + terms.sum::<f64>()
        };
        let mut sums: Vec<f64> = table.rows().map(sum).collect();
        if is_one_class {
            if sums.iter().any(|sum| sum.is_nan()) {
                return Err("NaN has no order".into());
            }
            sums.iter_mut().for_each(|sum| *sum = if *sum > 0.0 { 1.0 } else { -1.0 });
        }
        Value::new([table.rows, 1], sums.iter().map(|sum| *sum as f32).collect())
    })
}
