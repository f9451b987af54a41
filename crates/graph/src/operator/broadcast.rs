//! Broadcasting: values of different dimensions are combined row by row.

use crate::value::{Number, Value, count, strides};

/// Returns the dimensions of a value to which both are broadcast.
pub(super) fn broadcast(a: &[usize], b: &[usize]) -> Result<Vec<usize>, String> {
    let rank = a.len().max(b.len());
    let size =
        |dims: &[usize], at: usize| (at + dims.len()).checked_sub(rank).map_or(1, |at| dims[at]);
    let join = |at| match (size(a, at), size(b, at)) {
        (1, n) | (n, 1) => Ok(n),
        (n, m) if n == m => Ok(n),
        _ => Err(format!("cannot broadcast {a:?} and {b:?}")),
    };
    (0..rank).map(join).collect()
}

/// Returns the strides of a value among these dimensions: 0 where it is repeated.
pub(super) fn broadcast_strides(from: &[usize], to: &[usize]) -> Vec<usize> {
    let own = strides(from);
    let stride = |at: usize| {
        (at + from.len())
            .checked_sub(to.len())
            .map_or(0, |at| if from[at] == 1 { 0 } else { own[at] })
    };
    (0..to.len()).map(stride).collect()
}

/// Calls a function for each row along the last axis, with the offsets of the row in each operand.
pub(super) fn for_each_row<const N: usize>(
    dims: &[usize],
    strides: &[Vec<usize>; N],
    run: &mut dyn FnMut([usize; N]),
) {
    let outer = dims.len().saturating_sub(1);
    if dims.contains(&0) {
        return;
    }
    let mut index = vec![0; outer];
    let mut offsets = [0; N];
    loop {
        run(offsets);
        let mut axis = outer;
        loop {
            let Some(next) = axis.checked_sub(1) else { return };
            axis = next;
            index[axis] += 1;
            for (offset, strides) in offsets.iter_mut().zip(strides) {
                *offset += strides[axis];
            }
            if index[axis] < dims[axis] {
                break;
            }
            for (offset, strides) in offsets.iter_mut().zip(strides) {
                *offset -= strides[axis] * dims[axis];
            }
            index[axis] = 0;
        }
    }
}

/// Returns dimensions and strides without axes of one element, and with neighboring axes joined
/// where each operand continues from one to the next: the last axis becomes as long as possible.
pub(super) fn joined<const N: usize>(
    dims: &[usize],
    strides: &[Vec<usize>; N],
) -> (Vec<usize>, [Vec<usize>; N]) {
    let mut sizes: Vec<usize> = Vec::new();
    let mut own: [Vec<usize>; N] = std::array::from_fn(|_| Vec::new());
    for (axis, size) in dims.iter().enumerate().filter(|(_, size)| **size != 1) {
        let continues = own
            .iter()
            .zip(strides)
            .all(|(own, strides)| own.last().is_some_and(|outer| *outer == strides[axis] * size));
        match sizes.last_mut() {
            Some(last) if continues => *last *= size,
            _ => sizes.push(*size),
        }
        for (own, strides) in own.iter_mut().zip(strides) {
            if continues {
                own.pop();
            }
            own.push(strides[axis]);
        }
    }
    (sizes, own)
}

/// Combines two values of equal types with broadcasting.
pub(super) fn zip<T: Number, U: Number>(
    a: &Value,
    b: &Value,
    f: impl Fn(T, T) -> U,
) -> Result<Value, String> {
    let (x, y) = (a.all::<T>()?, b.all::<T>()?);
    if a.dims() == b.dims() {
        return Value::new(a.dims(), x.iter().zip(y).map(|(x, y)| f(*x, *y)).collect());
    }
    let dims = broadcast(a.dims(), b.dims())?;
    let mut all = Vec::with_capacity(count(&dims, size_of::<U>())?);
    let own = [broadcast_strides(a.dims(), &dims), broadcast_strides(b.dims(), &dims)];
    let (sizes, own) = joined(&dims, &own);
    let width = sizes.last().copied().unwrap_or(1);
    let steps = [0, 1].map(|at: usize| own[at].last().copied().unwrap_or(0));
    for_each_row(&sizes, &own, &mut |[i, j]| match steps {
        [1, 1] => all.extend(x[i..][..width].iter().zip(&y[j..][..width]).map(|(x, y)| f(*x, *y))),
        [1, 0] => {
            let y = y[j];
            all.extend(x[i..][..width].iter().map(|x| f(*x, y)));
        }
        [0, 1] => {
            let x = x[i];
            all.extend(y[j..][..width].iter().map(|y| f(x, *y)));
        }
        _ => all.extend((0..width).map(|at| f(x[i + at * steps[0]], y[j + at * steps[1]]))),
    });
    Value::new(dims, all)
}

/// Combines two values of equal types with broadcasting, in the memory of one of them if it has the
/// dimensions of the result and no other value shares it.
pub(super) fn zip_into<T: Number>(
    mut a: Value,
    mut b: Value,
    f: impl Fn(T, T) -> T,
) -> Result<Value, String> {
    let dims = broadcast(a.dims(), b.dims())?;
    if a.dims() == dims && replace::<T>(&mut a, &b, &f)? {
        return Ok(a);
    }
    if b.dims() == dims && replace::<T>(&mut b, &a, |y, x| f(x, y))? {
        return Ok(b);
    }
    zip(&a, &b, f)
}

/// Returns the sum of two values with broadcasting.
pub(super) fn sum(a: Value, b: Value) -> Result<Value, String> {
    zip_into::<f32>(a, b, |x, y| x + y)
}

/// Replaces each element of `a` by its combination with one of `b`, which is broadcast to it. Returns
/// false, and changes nothing, if other values share the elements of `a`.
fn replace<T: Number>(a: &mut Value, b: &Value, f: impl Fn(T, T) -> T) -> Result<bool, String> {
    let y = b.all::<T>()?;
    let own = [broadcast_strides(a.dims(), a.dims()), broadcast_strides(b.dims(), a.dims())];
    let (sizes, own) = joined(a.dims(), &own);
    let Some(x) = a.unshared::<T>() else { return Ok(false) };
    let width = sizes.last().copied().unwrap_or(1);
    let is_repeated = own[1].last().is_none_or(|step| *step == 0);
    for_each_row(&sizes, &own, &mut |[i, j]| {
        let x = &mut x[i..][..width];
        if is_repeated {
            let y = y[j];
            x.iter_mut().for_each(|x| *x = f(*x, y));
        } else {
            x.iter_mut().zip(&y[j..][..width]).for_each(|(x, y)| *x = f(*x, *y));
        }
    });
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(dims: &[usize], first: i64) -> Value {
        let count = dims.iter().product::<usize>() as i64;
        Value::new(dims, (0..count).map(|at| first + at * at).collect()).expect("as many")
    }

    /// Returns the element of a value for an index of the result, by the definition.
    fn element(value: &Value, dims: &[usize], mut index: usize) -> i64 {
        let (mut at, mut step) = (0, 1);
        for (axis, size) in dims.iter().enumerate().rev() {
            let own = (axis + value.dims().len()).checked_sub(dims.len());
            let own = own.map_or(1, |own| value.dims()[own]);
            at += if own == 1 { 0 } else { index % size * step };
            (index, step) = (index / size, step * own);
        }
        value.as_slice::<i64>().expect("integers")[at]
    }

    /// Equal dimensions, scalars, values repeated along leading, trailing, outer and inner axes.
    #[test]
    fn elements_are_those_of_the_definition_in_all_forms() {
        let forms: [&[usize]; 16] = [
            &[],
            &[1],
            &[1, 1, 1, 1, 1],
            &[7],
            &[1, 7],
            &[5, 7],
            &[5, 1],
            &[3, 1, 1],
            &[1, 3, 1, 1],
            &[2, 3, 5, 7],
            &[2, 1, 1, 1],
            &[2, 1, 5, 1],
            &[1, 3, 1, 7],
            &[2, 3, 1, 1],
            &[1, 1, 5, 7],
            &[0, 1, 1, 7],
        ];
        for (a, b) in forms.iter().flat_map(|a| forms.iter().map(move |b| (*a, *b))) {
            let (x, y) = (value(a, 3), value(b, -50));
            let Ok(dims) = broadcast(a, b) else {
                assert!(zip::<i64, i64>(&x, &y, |x, _| x).is_err(), "{a:?} {b:?}");
                continue;
            };
            let expected = (0..dims.iter().product::<usize>())
                .map(|at| 10 * element(&x, &dims, at) - element(&y, &dims, at))
                .collect::<Vec<i64>>();
            let expected = Value::new(dims, expected).expect("as many");
            let f = |x: i64, y: i64| 10 * x - y;
            assert_eq!(zip::<i64, i64>(&x, &y, f).as_ref(), Ok(&expected), "{a:?} {b:?}");
            let shared = (x.clone(), y.clone());
            let unshared = (value(a, 3), value(b, -50));
            for (x, y) in [(x.clone(), unshared.1), (unshared.0, y.clone()), (x, y)] {
                assert_eq!(zip_into(x, y, f).as_ref(), Ok(&expected), "{a:?} {b:?}");
            }
            // Values that others share stay as they were.
            assert_eq!(shared, (value(a, 3), value(b, -50)), "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_result_takes_the_memory_of_an_operand() {
        let first = |value: &Value| value.as_slice::<i64>().expect("integers").as_ptr();
        let (large, small) = (value(&[2, 3], 0), value(&[3], 0));
        let place = first(&large);
        let sum = zip_into::<i64>(large, small.clone(), |x, y| x + y).expect("they fit");
        assert_eq!(first(&sum), place);
        let sum = zip_into::<i64>(small, sum, |x, y| x + y).expect("they fit");
        assert_eq!(first(&sum), place);
        let shared = sum.clone();
        let sum = zip_into::<i64>(sum, value(&[1], 1), |x, y| x + y).expect("they fit");
        assert_ne!(first(&sum), first(&shared));
    }

    /// One number for each channel: the pixels of a channel are one row.
    #[test]
    fn axes_are_joined_where_all_operands_continue() {
        let dims = [2, 3, 4, 5];
        let own = [&[2, 3, 4, 5][..], &[1, 3, 1, 1]].map(|own| broadcast_strides(own, &dims));
        let (sizes, own) = joined(&dims, &own);
        assert_eq!((sizes, own), (vec![2, 3, 20], [vec![60, 20, 1], vec![0, 1, 0]]));
    }
}
