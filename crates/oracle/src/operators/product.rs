//! Products of matrices.

use super::{Operator, operator};
use crate::call::Call;
use crate::element::Element;
use crate::fault::{Fault, fault};
use crate::tensor::{Tensor, Values, broadcast_shape, for_each_index, position};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Gemm", 7, 3, &["alpha", "beta", "transA", "transB"], general_product),
    operator("MatMul", 7, 2, &[], |call| Ok(vec![multiply(call, call.input(0)?, call.input(1)?)?])),
    operator("MatMulInteger", 10, 4, &[], integer_product),
];

/// Multiplies matrices in the last two dimensions, with broadcasting of the others; a vector is a row on
/// the left and a column on the right.
pub(super) fn multiply(call: &Call<'_>, a: &Tensor, b: &Tensor) -> Result<Tensor, Fault> {
    if a.rank() == 0 || b.rank() == 0 || a.element() != b.element() {
        return fault(format!(
            "no product of {} {:?} and {} {:?}",
            a.element(),
            a.shape(),
            b.element(),
            b.shape()
        ));
    }
    let rows = if a.rank() == 1 { vec![1, a.shape()[0]] } else { a.shape().to_vec() };
    let columns = if b.rank() == 1 { vec![b.shape()[0], 1] } else { b.shape().to_vec() };
    let (a_batch, a_matrix) = rows.split_at(rows.len() - 2);
    let (b_batch, b_matrix) = columns.split_at(columns.len() - 2);
    let ([m, k], [k_b, n]) = (a_matrix, b_matrix) else { return fault("expected matrices") };
    if k != k_b {
        return fault(format!("shapes {:?} and {:?} have no product", a.shape(), b.shape()));
    }
    let batch = broadcast_shape(&[a_batch, b_batch])?;
    let mut shape = batch.clone();
    if a.rank() > 1 {
        shape.push(*m);
    }
    if b.rank() > 1 {
        shape.push(*n);
    }
    let count = call.spend_shape(&shape)?;
    call.spend_product(&[count, *k])?;
    // Where the matrices of each product begin.
    let mut begins = Vec::new();
    for_each_index(&batch, |index| {
        let begin = |own: &[usize], size: usize| {
            let index = &index[index.len() - own.len()..];
            let kept: Vec<usize> = index
                .iter()
                .zip(own)
                .map(|(index, size)| if *size == 1 { 0 } else { *index })
                .collect();
            position(&kept, own) * size
        };
        begins.push((begin(a_batch, m * k), begin(b_batch, k * n)));
    });
    match (a.values(), b.values()) {
        (Values::Floats(x), Values::Floats(y)) => {
            let values = products(x, y, &begins, [*m, *k, *n], |sum, x, y| sum + x * y);
            Tensor::of_floats(a.element(), &shape, values)
        }
        (Values::Integers(x), Values::Integers(y)) => {
            let add = |sum: i64, x: i64, y| sum.wrapping_add(x.wrapping_mul(y));
            let values = products(x, y, &begins, [*m, *k, *n], add);
            Tensor::of_integers(a.element(), &shape, values)
        }
        _ => fault("inputs are of different types"),
    }
}

fn products<T: Copy + Default>(
    a: &[T],
    b: &[T],
    begins: &[(usize, usize)],
    [m, k, n]: [usize; 3],
    add: impl Fn(T, T, T) -> T,
) -> Vec<T> {
    let mut values = Vec::with_capacity(begins.len() * m * n);
    for (a_begin, b_begin) in begins {
        for row in 0..m {
            // Rows of B are read in their order, which is much faster than by columns.
            let mut sums = vec![T::default(); n];
            for step in 0..k {
                let x = a[a_begin + row * k + step];
                let terms = &b[b_begin + step * n..][..n];
                sums.iter_mut().zip(terms).for_each(|(sum, y)| *sum = add(*sum, x, *y));
            }
            values.append(&mut sums);
        }
    }
    values
}

/// Computes alpha · A · B + beta · C of matrices, of which A and B may be transposed before.
fn general_product(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let matrix = |number: usize, flag: &str| -> Result<Tensor, Fault> {
        let input = call.input(number)?;
        if input.rank() != 2 {
            return fault(format!("expected a matrix, found shape {:?}", input.shape()));
        }
        let is_transposed = call.integer(flag, 0)? != 0;
        if is_transposed { super::layout::transpose(input, &[1, 0]) } else { Ok(input.clone()) }
    };
    let (alpha, beta) = (call.float("alpha", 1.0)?, call.float("beta", 1.0)?);
    let product = multiply(call, &matrix(0, "transA")?, &matrix(1, "transB")?)?;
    let added = match call.optional(2) {
        Some(added) if added.element() == product.element() => {
            Some(added.broadcast(product.shape())?)
        }
        Some(added) => return fault(format!("input 2 is of type {}", added.element())),
        None if call.opset < 11 => return fault("input 2 is missing"),
        None => None,
    };
    if !product.element().is_float() {
        return fault(format!("elements of type {} are not supported", product.element()));
    }
    let mut values: Vec<f64> = product.as_floats()?.iter().map(|value| alpha * value).collect();
    if let Some(added) = added {
        for (value, added) in values.iter_mut().zip(added.as_floats()?) {
            *value += beta * added;
        }
    }
    Ok(vec![Tensor::of_floats(product.element(), product.shape(), values)?])
}

/// Multiplies integers of 8 bits less their zero points, to `int32`.
fn integer_product(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    // The zero point of A belongs to its rows, that of B to its columns.
    let a = shifted(a, call.optional(2), a.rank().checked_sub(2))?;
    let b = shifted(b, call.optional(3), b.rank().checked_sub(1))?;
    Ok(vec![multiply(call, &a, &b)?])
}

/// Subtracts a zero point, which is one number, or one for each index of the axis.
pub(super) fn shifted(
    input: &Tensor,
    zero: Option<&Tensor>,
    axis: Option<usize>,
) -> Result<Tensor, Fault> {
    let values = input.as_integers()?;
    let Some(zero) = zero else {
        return Tensor::of_integers(Element::Int32, input.shape(), values.to_vec());
    };
    if zero.element() != input.element() {
        return fault(format!("zero point of type {} for {}", zero.element(), input.element()));
    }
    let zero = match (zero.count(), zero.rank(), axis) {
        (1, 0 | 1, _) => zero.reshaped(&[])?,
        (count, 1, Some(axis)) if count == input.shape()[axis] => {
            let mut shape = vec![1; input.rank()];
            shape[axis] = count;
            zero.reshaped(&shape)?
        }
        _ => zero.clone(),
    };
    let zeros = zero.broadcast(input.shape())?;
    let values = values.iter().zip(zeros.as_integers()?).map(|(x, zero)| x - zero).collect();
    Tensor::of_integers(Element::Int32, input.shape(), values)
}
