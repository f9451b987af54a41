//! Matrix products.

use std::marker::PhantomData;
use std::ops::AddAssign;

use dyno_kernels::{
    Isa, LANES, MAX_VECTORS, Panels, Precision, Rows, WindowWeights, Windows, Words, dots, mix,
    multiply_windows, sum_windows,
};

use super::broadcast::{broadcast, broadcast_strides, for_each_row, sum, zip, zip_into};
use super::{einsum, layout, name, one};
use crate::node::{NodeReader, Operation};
use crate::session::Workspace;
use crate::value::{Data, Value, zeros};

/// Numbers of a block of sums, so that they stay in the L2 cache until they are moved.
const BLOCK: usize = 1 << 15;
/// Minimum windows of a block: each block reads all weights, which may exceed the caches.
const BLOCK_ROWS: usize = 48;
/// Products with fewer rows are sums of weighted rows, without a transposed operand.
const FEW_ROWS: usize = 4;

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    match name(reader) {
        ("", "MatMul") => match packed_weights(reader, 1, false)? {
            Some(weights) => one(move |frame| weights.multiply(frame.workspace, frame.input(0)?)),
            None => one(|frame| {
                let isa = frame.workspace.isa;
                matmul(isa, frame.input(0)?, frame.input(1)?)
            }),
        },
        ("", "Gemm") => gemm(reader),
        ("com.microsoft", "FusedMatMul") => {
            let alpha = reader.float("alpha", 1.0)?;
            let turned = [reader.flag("transA")?, reader.flag("transB")?];
            if reader.flag("transBatchA")? || reader.flag("transBatchB")? {
                return Err("transposed batches are not supported".into());
            }
            one(move |frame| {
                let isa = frame.workspace.isa;
                let a = if turned[0] { swapped(frame.input(0)?)? } else { frame.input(0)?.clone() };
                let b = if turned[1] { swapped(frame.input(1)?)? } else { frame.input(1)?.clone() };
                zip::<f32, f32>(&matmul(isa, &a, &b)?, &Value::scalar(alpha), |x, y| x * y)
            })
        }
        ("", "Einsum") => einsum::read(reader),
        _ => Ok(None),
    }
}

/// Numbers that packed weights multiply.
pub(super) trait Operand: Copy + Default {
    /// Type of the sums of products.
    type Sum: Sum;
    /// Numbers in a word of the kernels.
    const PER_WORD: usize;
    /// Form of the weights that multiply these numbers.
    const WEIGHTS: WeightForm;

    fn words(all: &[Self]) -> Words<'_>;
}

/// Form of packed weights.
pub(super) enum WeightForm {
    F32,
    /// Integers from -128 to 127.
    I8,
    /// Integers of 16 bits.
    I16,
}

/// A type of sums of products.
pub(super) trait Sum: Copy + Default + AddAssign {
    fn multiply(isa: Isa, windows: &Windows<'_>, weights: &WindowWeights, to: &mut [Self]);
}

impl Sum for f32 {
    fn multiply(isa: Isa, windows: &Windows<'_>, weights: &WindowWeights, to: &mut [f32]) {
        multiply_windows(isa, windows, weights, to);
    }
}

impl Sum for i32 {
    fn multiply(isa: Isa, windows: &Windows<'_>, weights: &WindowWeights, to: &mut [i32]) {
        sum_windows(isa, windows, weights, to);
    }
}

impl Operand for f32 {
    type Sum = f32;
    const PER_WORD: usize = 1;
    const WEIGHTS: WeightForm = WeightForm::F32;

    fn words(all: &[Self]) -> Words<'_> {
        Words::F32(all)
    }
}

/// Counts from 128 on.
impl Operand for u8 {
    type Sum = i32;
    const PER_WORD: usize = 4;
    const WEIGHTS: WeightForm = WeightForm::I8;

    fn words(all: &[Self]) -> Words<'_> {
        Words::Bytes { bytes: all, unit: 1.0 }
    }
}

impl Operand for i16 {
    type Sum = i32;
    const PER_WORD: usize = 2;
    const WEIGHTS: WeightForm = WeightForm::I16;

    fn words(all: &[Self]) -> Words<'_> {
        Words::Int16 { numbers: all, unit: 1.0 }
    }
}

/// A constant matrix, packed for the kernels, and multiplied by numbers of type `T`.
pub(super) struct PackedMatrix<T = f32> {
    weights: WindowWeights,
    /// Rows of the other operand's numbers.
    k: usize,
    outputs: usize,
    operand: PhantomData<T>,
}

impl<T: Operand> PackedMatrix<T> {
    /// Packs outputs x `k` numbers.
    pub fn new(k: usize, numbers: &[f32]) -> Self {
        let outputs = numbers.len() / k.max(1);
        // Few outputs leave most of a wide panel empty.
        let vectors = outputs.div_ceil(LANES).clamp(1, MAX_VECTORS);
        let zeros = vec![0.0; k];
        let units = outputs.div_ceil(vectors * LANES) * LANES;
        let row = |vector: usize, unit: usize| {
            let output = (unit / LANES * vectors + vector) * LANES + unit % LANES;
            if output < outputs { &numbers[output * k..][..k] } else { &zeros[..] }
        };
        let weights: WindowWeights = match T::WEIGHTS {
            WeightForm::F32 => Panels::pack(Precision::F32, vectors, units, k, row).into(),
            WeightForm::I8 => Panels::pack_whole(vectors, units, k, 1.0, row).into(),
            WeightForm::I16 => WindowWeights::int16(vectors, units, k, 1.0, row),
        };
        Self { weights, k, outputs, operand: PhantomData }
    }

    /// Multiplies windows, and passes the sums of some windows at a time: the index of the first
    /// window, and rows of sums with the width of a row.
    pub fn each_block(
        &self,
        isa: Isa,
        windows: &Windows<'_>,
        mut take: impl FnMut(usize, &[T::Sum], usize),
    ) {
        let (width, all) = (self.weights.width(), windows.starts.len());
        // Blocks of similar sizes: the kernels compute a few rows that are left one by one.
        let most = (BLOCK / width.max(1)).max(BLOCK_ROWS);
        let rows = all.div_ceil(all.div_ceil(most).max(1)).max(1);
        let mut sums = vec![T::Sum::default(); rows.min(all) * width];
        for (block, starts) in windows.starts.chunks(rows).enumerate() {
            let sums = &mut sums[..starts.len() * width];
            T::Sum::multiply(isa, &Windows { starts, ..*windows }, &self.weights, sums);
            take(block * rows, sums, width);
        }
    }
}

impl PackedMatrix {
    /// Multiplies the last axis.
    pub fn multiply(&self, workspace: &Workspace, value: &Value) -> Result<Value, String> {
        let (k, from) = (value.dims().last().copied().unwrap_or(0), value.all::<f32>()?);
        if k != self.k {
            return Err(format!("expected rows of {} numbers, found {k}", self.k));
        }
        let mut dims = value.dims().to_vec();
        *dims.last_mut().expect("there is a last axis") = self.outputs;
        let mut to = workspace.buffers.room(&dims)?;
        let starts: Vec<usize> = (0..from.len() / k).map(|row| row * k).collect();
        let windows =
            Windows { words: Words::F32(from), starts: &starts, runs: 1, run: k, apart: 0 };
        self.each_block(workspace.isa, &windows, |_, sums, width| {
            sums.chunks_exact(width).for_each(|row| to.extend_from_slice(&row[..self.outputs]));
        });
        Value::new(dims, to)
    }
}

/// Packs an input that is a constant matrix of `f32`: k x outputs, or outputs x k if `turned`.
pub(super) fn packed_weights(
    reader: &NodeReader<'_>,
    input: usize,
    turned: bool,
) -> Result<Option<PackedMatrix>, String> {
    let Some(value) = reader.constant(input) else { return Ok(None) };
    let &[rows, columns] = value.dims() else { return Ok(None) };
    if rows == 0 || columns == 0 || value.as_slice::<f32>().is_none() {
        return Ok(None);
    }
    reader.consume(input);
    if turned {
        return Ok(Some(PackedMatrix::new(columns, value.all()?)));
    }
    Ok(Some(PackedMatrix::new(rows, layout::transposed(value, None)?.all()?)))
}

/// Swaps the last two axes.
fn swapped(value: &Value) -> Result<Value, String> {
    let rank = value.dims().len();
    if rank < 2 {
        return Err("expected a matrix".into());
    }
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(rank - 2, rank - 1);
    layout::transposed(value, Some(&order))
}

/// Multiplies matrices, or batches of them with broadcasting.
pub(super) fn matmul(isa: Isa, a: &Value, b: &Value) -> Result<Value, String> {
    let is_row = a.dims().len() == 1;
    let is_column = b.dims().len() == 1;
    let left = if is_row { layout::unsqueeze(a.clone(), &[0])? } else { a.clone() };
    let right = if is_column { layout::unsqueeze(b.clone(), &[1])? } else { b.clone() };
    let (&[ref batch_a @ .., m, k], &[ref batch_b @ .., k_b, n]) = (left.dims(), right.dims())
    else {
        return Err("expected matrices".into());
    };
    if k != k_b || a.element() != b.element() {
        let (x, y) = (a.element(), b.element());
        return Err(format!("cannot multiply {x} {:?} and {y} {:?}", a.dims(), b.dims()));
    }
    let batch = broadcast(batch_a, batch_b)?;
    let mut dims = batch.clone();
    dims.extend([m, n]);
    let found = match (left.data(), right.data()) {
        (Data::F32(x), Data::F32(y)) => {
            let mut to = zeros(&dims)?;
            each_matrix(&dims, [batch_a, batch_b], [m * k, k * n, m * n], |i, j, o| {
                multiply(isa, &x[i..][..m * k], &y[j..][..k * n], k, &mut to[o..][..m * n]);
            });
            Value::new(dims, to)?
        }
        _ if !left.element().is_real() => whole(&left, &right, [batch_a, batch_b], dims, k)?,
        _ => {
            let [x, y] = [&left, &right]
                .map(|value| super::cast::cast_to(value.clone(), dyno_tensors::Element::F64));
            let (x, y) = (x?, y?);
            let (x, y) = (x.all::<f64>()?, y.all::<f64>()?);
            let mut to = zeros(&dims)?;
            each_matrix(&dims, [batch_a, batch_b], [m * k, k * n, m * n], |i, j, o| {
                naive(&x[i..], &y[j..], k, n, &mut to[o..][..m * n], |sum, a, b| sum + a * b);
            });
            Value::new(dims, to)?
        }
    };
    let found = if is_row { layout::squeeze(found, Some(&[-2]))? } else { found };
    if is_column { layout::squeeze(found, Some(&[-1])) } else { Ok(found) }
}

/// Calls a function with the offsets of both matrices and of the result, for each pair of a batch.
fn each_matrix(
    dims: &[usize],
    batches: [&[usize]; 2],
    sizes: [usize; 3],
    mut run: impl FnMut(usize, usize, usize),
) {
    let batch = &dims[..dims.len() - 2];
    let mut shape = batch.to_vec();
    shape.push(1);
    let strides = batches.map(|own| {
        let mut strides = broadcast_strides(own, batch);
        strides.push(0);
        strides
    });
    let mut at = 0;
    for_each_row(&shape, &strides, &mut |[i, j]| {
        run(i * sizes[0], j * sizes[1], at * sizes[2]);
        at += 1;
    });
}

fn naive<T: Copy>(a: &[T], b: &[T], k: usize, n: usize, to: &mut [T], add: impl Fn(T, T, T) -> T) {
    for (row, to) in to.chunks_exact_mut(n.max(1)).enumerate() {
        for (at, a) in a[row * k..][..k].iter().enumerate() {
            to.iter_mut().zip(&b[at * n..][..n]).for_each(|(sum, b)| *sum = add(*sum, *a, *b));
        }
    }
}

/// Multiplies integers, which wrap.
fn whole(
    a: &Value,
    b: &Value,
    batches: [&[usize]; 2],
    dims: Vec<usize>,
    k: usize,
) -> Result<Value, String> {
    let element = a.element();
    let [x, y] =
        [a, b].map(|value| super::cast::cast_to(value.clone(), dyno_tensors::Element::I64));
    let (x, y) = (x?, y?);
    let (x, y) = (x.all::<i64>()?, y.all::<i64>()?);
    let &[.., m, n] = &dims[..] else { return Err("expected matrices".into()) };
    let mut to = zeros(&dims)?;
    each_matrix(&dims, batches, [m * k, k * n, m * n], |i, j, o| {
        let add = |sum: i64, a: i64, b: i64| sum.wrapping_add(a.wrapping_mul(b));
        naive(&x[i..], &y[j..], k, n, &mut to[o..][..m * n], add);
    });
    super::cast::cast_to(Value::new(dims, to)?, element)
}

/// Multiplies m x `k` by `k` x n numbers.
pub(super) fn multiply(isa: Isa, a: &[f32], b: &[f32], k: usize, to: &mut [f32]) {
    if k == 0 || to.is_empty() {
        return;
    }
    let (m, n) = (a.len() / k, b.len() / k);
    if m < FEW_ROWS {
        for (a, to) in a.chunks_exact(k).zip(to.chunks_exact_mut(n)) {
            mix(isa, a, Rows::new(b, k, n, n), to);
        }
        return;
    }
    let mut turned = vec![0.0; b.len()];
    for (row, b) in b.chunks_exact(n).enumerate() {
        b.iter().enumerate().for_each(|(column, x)| turned[column * k + row] = *x);
    }
    dots(isa, Rows::new(a, m, k, k), Rows::new(&turned, n, k, k), to);
}

fn gemm(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let (alpha, beta) = (reader.float("alpha", 1.0)?, reader.float("beta", 1.0)?);
    let (a_turned, b_turned) = (reader.flag("transA")?, reader.flag("transB")?);
    reader.expect_rank(0, 2)?;
    reader.expect_rank(1, 2)?;
    let packed = packed_weights(reader, 1, b_turned)?;
    one(move |frame| {
        let isa = frame.workspace.isa;
        let a = frame.take(0)?;
        if a.dims().len() != 2 {
            return Err(format!("expected a matrix, found {:?}", a.dims()));
        }
        let a = if a_turned { swapped(&a)? } else { a };
        let mut sums = match &packed {
            Some(packed) => packed.multiply(frame.workspace, &a)?,
            None if b_turned => matmul(isa, &a, &swapped(frame.input(1)?)?)?,
            None => matmul(isa, &a, frame.input(1)?)?,
        };
        let scaled = |value: &Value, factor: f32| match value.element() {
            dyno_tensors::Element::F32 => {
                zip::<f32, f32>(value, &Value::scalar(factor), |x, y| x * y)
            }
            dyno_tensors::Element::F64 => {
                zip::<f64, f64>(value, &Value::scalar(f64::from(factor)), |x, y| x * y)
            }
            other => Err(format!("factors of {other} are not supported")),
        };
        if alpha != 1.0 {
            sums = scaled(&sums, alpha)?;
        }
        let Some(bias) = frame.get(2) else { return Ok(sums) };
        let bias = if beta == 1.0 { bias.clone() } else { scaled(bias, beta)? };
        if broadcast(bias.dims(), sums.dims())? != sums.dims() {
            return Err(format!("cannot broadcast {:?} to {:?}", bias.dims(), sums.dims()));
        }
        match sums.element() {
            dyno_tensors::Element::F32 => sum(sums, bias),
            dyno_tensors::Element::F64 => zip_into::<f64>(sums, bias, |x, y| x + y),
            _ => zip_into::<i64>(sums, bias, i64::wrapping_add),
        }
    })
}
