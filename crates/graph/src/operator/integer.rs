//! Products of codes of 8 bits with packed integer weights. All sums are exact.

use dyno_kernels::{Isa, MAX_BYTES, Windows};

use super::convolution::{Convolution, FilterDims, Filters};
use super::product::{Operand, PackedMatrix};
use crate::session::Workspace;
use crate::value::{Data, Value, count};

/// Number type of packed weights.
#[derive(Clone, Copy, Debug, PartialEq)]
enum WeightType {
    I8,
    I16,
}

/// Returns the largest magnitude of a sum of products of a row of `k` integers with integers of 9
/// bits.
fn largest_sum(rows: &[f32], k: usize) -> f64 {
    let magnitude = |row: &[f32]| row.iter().map(|w| f64::from(w.abs())).sum::<f64>();
    255.0 * rows.chunks(k.max(1)).map(magnitude).fold(0.0, f64::max)
}

/// Returns the type of rows of `k` integers of up to 9 bits. `None` if their products with such
/// integers may not fit in sums of 32 bits.
fn weight_type(rows: &[f32], k: usize) -> Option<WeightType> {
    if largest_sum(rows, k) > f64::from(i32::MAX) {
        return None;
    }
    let is_byte = rows.iter().all(|w| (-128.0..=127.0).contains(w));
    // Rows are padded to whole words.
    let fits = is_byte && k.saturating_mul(u8::PER_WORD) <= MAX_BYTES;
    Some(if fits { WeightType::I8 } else { WeightType::I16 })
}

/// Returns the sum of each row of `k` integers.
fn totals(rows: &[f32], k: usize) -> Vec<i32> {
    rows.chunks(k.max(1)).map(|row| row.iter().map(|w| *w as i32).sum()).collect()
}

/// A code of 8 bits.
trait Code: Copy {
    /// Code whose byte is 128, from which on bytes count.
    const MIDDLE: i32;
    fn byte(self) -> u8;
    fn wide(self) -> i16;
}

impl Code for u8 {
    const MIDDLE: i32 = 128;
    fn byte(self) -> u8 {
        self
    }
    fn wide(self) -> i16 {
        self.into()
    }
}

impl Code for i8 {
    const MIDDLE: i32 = 0;
    fn byte(self) -> u8 {
        self.cast_unsigned() ^ 0x80
    }
    fn wide(self) -> i16 {
        self.into()
    }
}

/// A constant matrix of integers, packed for the kernels.
pub(super) struct IntegerMatrix {
    k: usize,
    outputs: usize,
    packed: PackedIntegers,
}

enum PackedIntegers {
    /// With the sum of each output's weights.
    I8(PackedMatrix<u8>, Vec<i32>),
    I16(PackedMatrix<i16>),
}

impl IntegerMatrix {
    /// Packs outputs x k integers of up to 9 bits. `None` if their sums may exceed 32 bits.
    pub fn new(rows: &Value) -> Result<Option<Self>, String> {
        let (&[outputs, k], all) = (rows.dims(), rows.all::<f32>()?) else {
            return Err("expected a matrix".into());
        };
        let packed = match weight_type(all, k) {
            None => return Ok(None),
            Some(WeightType::I8) => PackedIntegers::I8(PackedMatrix::new(k, all), totals(all, k)),
            Some(WeightType::I16) => PackedIntegers::I16(PackedMatrix::new(k, all)),
        };
        Ok(Some(Self { k, outputs, packed }))
    }

    /// Multiplies the last axis of codes, less their zero point: one for all rows, or one for each.
    pub fn multiply(&self, isa: Isa, codes: &Value, zeros: &[i16]) -> Result<Value, String> {
        let mut dims = codes.dims().to_vec();
        let Some(last) = dims.last_mut().filter(|k| **k == self.k) else {
            return Err(format!("expected rows of {} numbers, found {:?}", self.k, codes.dims()));
        };
        *last = self.outputs;
        count(&dims, size_of::<i32>())?;
        let sums = match codes.data() {
            Data::U8(all) => self.sums(isa, all.as_slice(), zeros),
            Data::I8(all) => self.sums(isa, all.as_slice(), zeros),
            _ => return Err(format!("expected bytes, found {}", codes.element())),
        };
        Value::new(dims, sums)
    }

    fn sums<C: Code>(&self, isa: Isa, codes: &[C], zeros: &[i16]) -> Vec<i32> {
        let zero = |row: usize| zeros[if zeros.len() == 1 { 0 } else { row }];
        match &self.packed {
            PackedIntegers::I8(weights, totals) => {
                let mut bytes: Vec<u8> = codes.iter().map(|code| code.byte()).collect();
                self.rows(isa, weights, &mut bytes, |row, sums, to| {
                    // Bytes count from the middle on instead of from the zero point on.
                    let by = C::MIDDLE - i32::from(zero(row));
                    to.extend(sums.iter().zip(totals).map(|(sum, total)| sum + by * total));
                })
            }
            PackedIntegers::I16(weights) => {
                let mut numbers = Vec::with_capacity(codes.len() + 1);
                for (row, codes) in codes.chunks(self.k.max(1)).enumerate() {
                    let zero = zero(row);
                    numbers.extend(codes.iter().map(|code| code.wide() - zero));
                }
                self.rows(isa, weights, &mut numbers, |_, sums, to| to.extend_from_slice(sums))
            }
        }
    }

    /// Multiplies rows of `k` numbers. `take` appends the sums of a row to the result.
    fn rows<T: Operand<Sum = i32>>(
        &self,
        isa: Isa,
        weights: &PackedMatrix<T>,
        numbers: &mut Vec<T>,
        take: impl Fn(usize, &[i32], &mut Vec<i32>),
    ) -> Vec<i32> {
        let starts: Vec<usize> = (0..numbers.len()).step_by(self.k.max(1)).collect();
        // The last word of a row extends beyond it; weights are zeros there.
        numbers.extend(std::iter::repeat_n(T::default(), T::PER_WORD - 1));
        let run = self.k.div_ceil(T::PER_WORD);
        let words = T::words(numbers);
        let windows = Windows { words, starts: &starts, runs: 1, run, apart: 0 };
        let mut to = Vec::with_capacity(starts.len() * self.outputs);
        weights.each_block(isa, &windows, |first, sums, width| {
            for (row, sums) in sums.chunks_exact(width).enumerate() {
                take(first + row, &sums[..self.outputs], &mut to);
            }
        });
        to
    }
}

/// Integer filters of a convolution, packed for the kernels.
pub(super) struct IntegerFilters {
    dims: FilterDims,
    packed: PackedFilters,
}

enum PackedFilters {
    /// Filters whose sums are exact in `f32`.
    F32(Filters),
    /// Filters of each group, and the sum of each filter's weights.
    I8(Vec<PackedMatrix<u8>>, Vec<i32>),
    I16(Vec<PackedMatrix<i16>>),
}

impl IntegerFilters {
    /// Packs integers of up to 9 bits.
    ///
    /// # Errors
    /// Their sums may exceed 32 bits.
    pub fn new(weights: &Value, groups: usize) -> Result<Self, String> {
        let dims = FilterDims::new(weights, groups)?;
        let (window, all) = (dims.window(), weights.all::<f32>()?);
        let parts = all.chunks_exact(dims.outputs * window);
        let packed = match weight_type(all, window) {
            None => return Err(format!("windows of {window} numbers are not supported")),
            Some(_) if dims.is_plain() && is_exact(all, window) => {
                PackedFilters::F32(Filters::new(weights, groups)?)
            }
            Some(WeightType::I8) => {
                PackedFilters::I8(parts.map(|part| dims.pack(part)).collect(), totals(all, window))
            }
            Some(WeightType::I16) => {
                PackedFilters::I16(parts.map(|part| dims.pack(part)).collect())
            }
        };
        Ok(Self { dims, packed })
    }

    /// Convolves codes, less their zero point. The padding is zeros.
    pub fn convolve(
        &self,
        workspace: &Workspace,
        codes: &Value,
        zero: i16,
        convolution: &Convolution,
    ) -> Result<Value, String> {
        match codes.data() {
            Data::U8(all) => {
                let zero = u8::try_from(zero).map_err(|error| error.to_string())?;
                self.sums(workspace, (codes.dims(), all.as_slice()), zero, convolution)
            }
            Data::I8(all) => {
                let zero = i8::try_from(zero).map_err(|error| error.to_string())?;
                self.sums(workspace, (codes.dims(), all.as_slice()), zero, convolution)
            }
            _ => Err(format!("expected bytes, found {}", codes.element())),
        }
    }

    fn sums<C: Code>(
        &self,
        workspace: &Workspace,
        (dims, all): (&[usize], &[C]),
        zero: C,
        convolution: &Convolution,
    ) -> Result<Value, String> {
        let (isa, buffers) = (workspace.isa, &workspace.buffers);
        let shift = zero.wide();
        let number = |code: C| code.wide() - shift;
        match &self.packed {
            PackedFilters::F32(filters) => {
                let numbers = all.iter().map(|code| f32::from(number(*code))).collect();
                let value = Value::new(dims, numbers)?;
                let found = filters.convolve(workspace, &value, None, convolution)?;
                let sums = found.all::<f32>()?.iter().map(|sum| *sum as i32).collect();
                Value::new(found.dims(), sums)
            }
            PackedFilters::I8(groups, totals) => {
                // Bytes count from the middle on instead of from the zero point on.
                let by = C::MIDDLE - i32::from(shift);
                let bias: Vec<i32> = totals.iter().map(|total| by * total).collect();
                let bytes = (zero.byte(), |code: C| code.byte());
                self.dims.convolve(
                    buffers,
                    (dims, all),
                    Some(&bias[..]),
                    convolution,
                    |group, x, axes, to| {
                        self.dims.add_packed(isa, (x, axes), bytes, &groups[group], to)
                    },
                )
            }
            PackedFilters::I16(groups) => {
                let bias = None::<&[i32]>;
                self.dims.convolve(buffers, (dims, all), bias, convolution, |group, x, axes, to| {
                    self.dims.add_packed(isa, (x, axes), (0_i16, number), &groups[group], to)
                })
            }
        }
    }
}

/// Returns whether sums of rows of `k` integers times integers of 9 bits are exact in `f32`.
fn is_exact(rows: &[f32], k: usize) -> bool {
    largest_sum(rows, k) <= f64::from(1 << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_weights_holds_them_and_their_sums() {
        let byte = [-128.0, 127.0, 0.0, 1.0];
        assert_eq!(weight_type(&byte, 2), Some(WeightType::I8));
        assert_eq!(weight_type(&[128.0, 0.0], 2), Some(WeightType::I16));
        assert_eq!(weight_type(&[-255.0, 255.0], 1), Some(WeightType::I16));
        // 255 * 255 * 33,025 = 2,147,450,625, and 255 * 255 more exceed 2,147,483,647.
        let long = vec![255.0_f32; 33_026];
        assert_eq!(weight_type(&long[1..], 33_025), Some(WeightType::I16));
        assert_eq!(weight_type(&long, 33_026), None);
        // Products with 258 and 259 weights of 255 are 16,776,450 and 16,841,475.
        assert!(is_exact(&long[..258], 258) && !is_exact(&long[..259], 259));
    }

    /// Rows that do not fill words, with a zero point for each row.
    #[test]
    fn rows_of_codes_have_their_zero_points() {
        let codes = Value::new(vec![2, 3], vec![-128_i8, 0, 127, 1, 2, 3]).expect("six codes");
        for most in [-128.0, -255.0] {
            let rows = Value::new(vec![2, 3], vec![1.0_f32, 2.0, 3.0, most, 0.0, 0.0]);
            let matrix = IntegerMatrix::new(&rows.expect("six")).expect("f32").expect("few");
            for isa in Isa::all() {
                let found = matrix.multiply(isa, &codes, &[-128, 1]).expect("rows of three");
                // Codes less zero points: 0, 128, 255 and 0, 1, 2.
                assert_eq!(found.all::<i32>().expect("sums"), [256 + 765, 0, 2 + 6, 0], "{isa}");
                let found = matrix.multiply(isa, &codes, &[3]).expect("rows of three");
                // -131, -3, 124 and -2, -1, 0.
                let least = -(most as i32) * 131;
                let expected = [-131 - 6 + 372, least, -2 - 2, -(most as i32) * 2];
                assert_eq!(found.all::<i32>().expect("sums"), expected, "{isa}");
            }
        }
    }
}
