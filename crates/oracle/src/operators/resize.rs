//! Resizing by interpolation, one axis after the other.

use super::{Operator, operator};
use crate::call::{Call, axis_of, size_of};
use crate::fault::{Fault, fault};
use crate::tensor::{Lanes, Tensor, position};

const RESIZE: &[&str] = &[
    "antialias",
    "axes",
    "coordinate_transformation_mode",
    "cubic_coeff_a",
    "exclude_outside",
    "extrapolation_value",
    "keep_aspect_ratio_policy",
    "mode",
    "nearest_mode",
];

pub(super) const OPERATORS: &[Operator] = &[
    operator("Resize", 10, 4, RESIZE, resize),
    operator("Upsample", 7, 2, &["mode", "scales"], |call| {
        let scales = if call.opset < 9 {
            call.floats("scales")?
        } else {
            call.optional(1).map(Tensor::as_floats).transpose()?.map(<[f64]>::to_vec)
        };
        repeat(call, &scales.unwrap_or_default())
    }),
];

/// Repeats elements by whole factors. For others the opsets before 11 do not state coordinates.
fn repeat(call: &Call<'_>, scales: &[f64]) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let is_whole = |scale: &f64| scale.fract() == 0.0 && (1.0..=65536.0).contains(scale);
    if call.text("mode", "nearest")? != "nearest"
        || scales.len() != input.rank()
        || !scales.iter().all(is_whole)
    {
        return fault("before opset 11 only whole scales and mode nearest are defined");
    }
    let factors: Vec<i64> = scales.iter().map(|scale| *scale as i64).collect();
    let factors = crate::call::sizes_of(&factors)?;
    let shape: Vec<usize> =
        input.shape().iter().zip(&factors).map(|(size, factor)| size * factor).collect();
    call.spend_shape(&shape)?;
    Ok(vec![input.rearranged(&shape, |index| {
        let own: Vec<usize> = index.iter().zip(&factors).map(|(at, factor)| at / factor).collect();
        position(&own, input.shape())
    })?])
}

/// How one axis is resized.
struct Axis {
    /// Sizes before and after.
    from: usize,
    to: usize,
    scale: f64,
    /// Start and end of the region for `tf_crop_and_resize`.
    region: (f64, f64),
}

fn resize(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    if call.opset < 11 {
        return repeat(call, call.input(1)?.as_floats()?);
    }
    let mode = call.text("mode", "nearest")?;
    let coordinates = call.text("coordinate_transformation_mode", "half_pixel")?;
    let axes = axes(call, &coordinates)?;
    let is_fraction = |axis: &Axis| (axis.from as f64 * axis.scale - axis.to as f64).abs() > 1e-4;
    if coordinates == "align_corners" && axes.iter().any(is_fraction) {
        return fault(
            "align_corners with a fraction of an element: the standard's examples contradict its text",
        );
    }
    if input.count() == 0 {
        return fault("an axis is empty");
    }
    let mut output = input.clone();
    let mut outside = vec![Vec::new(); input.rank()];
    for (number, axis) in axes.iter().enumerate() {
        let mut shape = output.shape().to_vec();
        shape[number] = axis.to;
        // An antialiasing filter of a smaller output is wider.
        let is_stretched = call.flag("antialias", false)? && axis.scale < 1.0;
        let stretch = if is_stretched { 1.0 / axis.scale } else { 1.0 };
        let width = size_of((4.0 * stretch).ceil().min(1e12) as i64)?;
        call.spend_product(&[call.spend_shape(&shape)?, width])?;
        let mut taps = Vec::new();
        for index in 0..axis.to {
            let x = coordinate(&coordinates, axis, index)?;
            let last = (axis.from - 1) as f64;
            outside[number].push(coordinates == "tf_crop_and_resize" && !(0.0..=last).contains(&x));
            taps.push(taps_of(call, &mode, x, stretch, axis.from)?);
        }
        output = interpolate(&output, number, &shape, &taps)?;
    }
    if outside.iter().flatten().any(|is_outside| *is_outside) {
        let fill = call.float("extrapolation_value", 0.0)?;
        let value = Tensor::of_floats(output.element(), &[1], vec![fill])?;
        let all = output.reshaped(&[output.count()])?.followed_by(&value)?;
        output = all.rearranged(output.shape(), |index| {
            let is_outside = index.iter().zip(&outside).any(|(at, outside)| outside[*at]);
            if is_outside { output.count() } else { position(index, output.shape()) }
        })?;
    }
    Ok(vec![output])
}

/// Returns how each axis is resized, from the scales or the sizes of all axes or of some.
fn axes(call: &Call<'_>, coordinates: &str) -> Result<Vec<Axis>, Fault> {
    let input = call.input(0)?;
    let chosen = match call.integers("axes")? {
        Some(axes) => {
            axes.iter().map(|axis| axis_of(*axis, input.rank())).collect::<Result<_, _>>()?
        }
        None => (0..input.rank()).collect::<Vec<usize>>(),
    };
    let whole = |size: &usize| Axis { from: *size, to: *size, scale: 1.0, region: (0.0, 1.0) };
    let mut axes: Vec<Axis> = input.shape().iter().map(whole).collect();
    let given = |number| call.optional(number).filter(|tensor| tensor.count() > 0);
    if let Some(region) = given(1).filter(|_| coordinates == "tf_crop_and_resize") {
        let region = region.as_floats()?;
        if region.len() != 2 * chosen.len() {
            return fault(format!("expected a region of {} numbers", 2 * chosen.len()));
        }
        for (number, axis) in chosen.iter().enumerate() {
            axes[*axis].region = (region[number], region[chosen.len() + number]);
        }
    }
    let count = given(2).or(given(3)).map_or(0, Tensor::count);
    if count != chosen.len() || given(2).is_some() && given(3).is_some() {
        return fault(format!("expected scales or sizes of {} axes", chosen.len()));
    }
    if let Some(scales) = given(2) {
        for (axis, scale) in chosen.iter().zip(scales.as_floats()?) {
            let axis = &mut axes[*axis];
            let extent = axis.region.1 - axis.region.0;
            let to = (axis.from as f64 * extent * scale).floor();
            if scale.is_nan() || *scale <= 0.0 || !(0.0..1e12).contains(&to) {
                return fault(format!("a scale is {scale}"));
            }
            (axis.scale, axis.to) = (*scale, size_of(to as i64)?);
        }
    } else if let Some(sizes) = given(3) {
        let sizes = crate::call::sizes_of(sizes.as_integers()?)?;
        let ratios =
            chosen.iter().zip(&sizes).map(|(axis, size)| *size as f64 / axes[*axis].from as f64);
        let ratio = match call.text("keep_aspect_ratio_policy", "stretch")?.as_str() {
            "stretch" => None,
            "not_larger" => Some(ratios.fold(f64::INFINITY, f64::min)),
            "not_smaller" => Some(ratios.fold(0.0, f64::max)),
            other => return fault(format!("keep_aspect_ratio_policy {other:?} is not supported")),
        };
        for (axis, size) in chosen.iter().zip(sizes) {
            let axis = &mut axes[*axis];
            let scaled =
                ratio.map(|ratio| (ratio * axis.from as f64 + 0.5).floor().min(1e12) as i64);
            axis.to = scaled.map_or(Ok(size), size_of)?;
            axis.scale = ratio.unwrap_or(axis.to as f64 / axis.from as f64);
        }
    }
    Ok(axes)
}

/// Returns the coordinate in the input of an index of the output.
fn coordinate(coordinates: &str, axis: &Axis, index: usize) -> Result<f64, Fault> {
    let (x, scale) = (index as f64, axis.scale);
    let (from, to) = (axis.from as f64, axis.to as f64);
    let half_pixel = (x + 0.5) / scale - 0.5;
    Ok(match coordinates {
        "half_pixel" => half_pixel,
        "half_pixel_symmetric" => from / 2.0 * (1.0 - to / (from * scale)) + half_pixel,
        "pytorch_half_pixel" => {
            if axis.to > 1 {
                half_pixel
            } else {
                0.0
            }
        }
        "align_corners" => {
            if axis.to > 1 {
                x * (from - 1.0) / (to - 1.0)
            } else {
                0.0
            }
        }
        "asymmetric" => x / scale,
        "tf_crop_and_resize" => {
            let (start, end) = axis.region;
            if axis.to > 1 {
                (start + x * (end - start) / (to - 1.0)) * (from - 1.0)
            } else {
                0.5 * (start + end) * (from - 1.0)
            }
        }
        other => {
            return fault(format!("coordinate_transformation_mode {other:?} is not supported"));
        }
    })
}

/// Returns the indices that a coordinate reads, with their weights. Indices outside read the edge, or with
/// `exclude_outside` nothing. The distances of a filter are multiplied by `stretch`.
fn taps_of(
    call: &Call<'_>,
    mode: &str,
    x: f64,
    stretch: f64,
    size: usize,
) -> Result<Vec<(usize, f64)>, Fault> {
    let a = call.float("cubic_coeff_a", -0.75)?;
    let taps: Vec<(f64, f64)> = match mode {
        "nearest" => {
            let nearest = match call.text("nearest_mode", "round_prefer_floor")?.as_str() {
                "round_prefer_floor" => (x - 0.5).ceil(),
                "round_prefer_ceil" => (x + 0.5).floor(),
                "floor" => x.floor(),
                "ceil" => x.ceil(),
                other => return fault(format!("nearest_mode {other:?} is not supported")),
            };
            vec![(nearest, 1.0)]
        }
        "linear" => filtered(x, stretch, 1.0, |t| 1.0 - t),
        "cubic" => filtered(x, stretch, 2.0, |t| {
            if t <= 1.0 {
                ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0
            } else {
                ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a
            }
        }),
        other => return fault(format!("mode {other:?} is not supported")),
    };
    let excludes = call.flag("exclude_outside", false)? && mode != "nearest";
    let last = (size - 1) as f64;
    let is_kept = |at: f64| !excludes || (0.0..=last).contains(&at);
    let kept: Vec<(f64, f64)> = taps.into_iter().filter(|(at, _)| is_kept(*at)).collect();
    let is_normalized = excludes || stretch > 1.0;
    let total = if is_normalized { kept.iter().map(|(_, weight)| weight).sum() } else { 1.0 };
    kept.iter()
        .map(|(at, weight)| Ok((size_of(at.clamp(0.0, last) as i64)?, weight / total)))
        .collect()
}

/// Returns the indices that are nearer to a coordinate than `radius`, stretched, with the weights that a
/// filter gives to their distances.
fn filtered(x: f64, stretch: f64, radius: f64, filter: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    let reach = radius * stretch;
    let first = (x - reach).floor() + 1.0;
    (0..=(2.0 * reach) as usize)
        .map(|number| first + number as f64)
        .filter(|at| *at <= x + reach)
        .map(|at| (at, filter((at - x).abs() / stretch)))
        .collect()
}

/// Computes each element of the new axis as a weighted sum of those of the old one.
fn interpolate(
    input: &Tensor,
    axis: usize,
    shape: &[usize],
    taps: &[Vec<(usize, f64)>],
) -> Result<Tensor, Fault> {
    let single = taps.iter().all(|taps| taps.len() == 1);
    if single || input.shape()[axis] == shape[axis] && is_identity(taps) {
        return input.rearranged(shape, |index| {
            let mut own = index.to_vec();
            own[axis] = taps[index[axis]][0].0;
            position(&own, input.shape())
        });
    }
    let values = input.as_floats()?;
    let lanes = Lanes::new(input.shape(), axis).positions();
    let mut output = vec![0.0; crate::tensor::element_count(shape)?];
    for (lane, target) in lanes.zip(Lanes::new(shape, axis).positions()) {
        for (place, taps) in target.iter().zip(taps) {
            output[*place] = taps.iter().map(|(at, weight)| values[lane[*at]] * weight).sum();
        }
    }
    Tensor::of_floats(input.element(), shape, output)
}

/// Returns whether each index reads only itself, and reads it first.
fn is_identity(taps: &[Vec<(usize, f64)>]) -> bool {
    taps.iter().enumerate().all(|(index, taps)| {
        taps.first().is_some_and(|(at, weight)| *at == index && *weight == 1.0)
    })
}
