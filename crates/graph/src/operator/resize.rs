//! `Resize` and `Upsample`: nearest, linear and cubic interpolation.

use super::layout::sizes;
use super::{expect_single_precision, layout, name, one};
use crate::node::{NodeReader, Operation};
use crate::session::Frame;
use crate::value::{Value, axis, count, each, strides, zeros};

/// How a coordinate of the output becomes one of the input.
#[derive(Clone, Copy, PartialEq)]
enum Coordinates {
    HalfPixel,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    /// Rounded before version 11.
    HalfPixelSymmetric,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Nearest(Rounding),
    Linear,
    /// With the coefficient `a` of the standard.
    Cubic(f64),
}

impl Mode {
    /// Returns the distance from which on an element does not count, unless its filter is wider.
    fn reach(self) -> f64 {
        match self {
            Self::Cubic(_) => 2.0,
            Self::Nearest(_) | Self::Linear => 1.0,
        }
    }

    /// Returns the weight of an element at this distance.
    fn weight(self, distance: f64) -> f64 {
        let t = distance.abs();
        match self {
            Self::Cubic(a) if t < 1.0 => ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0,
            Self::Cubic(a) if t < 2.0 => a * (((t - 5.0) * t + 8.0) * t - 4.0),
            Self::Cubic(_) => 0.0,
            Self::Nearest(_) | Self::Linear => (1.0 - t).max(0.0),
        }
    }
}

/// How an element of the output is computed from those near its coordinate.
#[derive(Clone, Copy)]
struct Filter {
    mode: Mode,
    /// Whether the filter of a smaller output is wider.
    antialias: bool,
    /// Whether elements outside have no weight. Otherwise the element at the edge replaces them.
    exclude_outside: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Rounding {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
}

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let ("", operator @ ("Resize" | "Upsample")) = name(reader) else { return Ok(None) };
    let is_old = operator == "Upsample" || reader.version < 11;
    let default = if is_old { "asymmetric" } else { "half_pixel" };
    let coordinates = match reader.text("coordinate_transformation_mode", default)? {
        "half_pixel" => Coordinates::HalfPixel,
        "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
        "align_corners" => Coordinates::AlignCorners,
        "asymmetric" => Coordinates::Asymmetric,
        "half_pixel_symmetric" => Coordinates::HalfPixelSymmetric,
        other => return Err(format!("coordinates '{other}' are not supported")),
    };
    let rounding =
        match reader.text("nearest_mode", if is_old { "floor" } else { "round_prefer_floor" })? {
            "round_prefer_floor" => Rounding::PreferFloor,
            "round_prefer_ceil" => Rounding::PreferCeil,
            "floor" => Rounding::Floor,
            "ceil" => Rounding::Ceil,
            other => return Err(format!("rounding '{other}' is not supported")),
        };
    let mode = match reader.text("mode", "nearest")? {
        "nearest" => Mode::Nearest(rounding),
        "linear" | "bilinear" => Mode::Linear,
        "cubic" => Mode::Cubic(f64::from(reader.float("cubic_coeff_a", -0.75)?)),
        other => return Err(format!("mode '{other}' is not supported")),
    };
    if !matches!(mode, Mode::Nearest(_)) {
        expect_single_precision(reader)?;
    }
    let antialias = reader.flag("antialias")?;
    let filter = Filter { mode, antialias, exclude_outside: reader.flag("exclude_outside")? };
    if reader.text("keep_aspect_ratio_policy", "stretch")? != "stretch" {
        return Err("kept aspect ratios are not supported".into());
    }
    // Concern other modes only.
    for name in ["cubic_coeff_a", "extrapolation_value"] {
        reader.ignore(name);
    }
    let axes = reader.ints("axes")?;
    reader.check_axes(axes.as_deref().unwrap_or_default(), 0)?;
    let scales = match reader.attribute("scales") {
        Some(dyno_onnx::Attribute::Floats(scales)) => Some(scales.clone()),
        _ => None,
    };
    let first = if is_old { 1 } else { 2 };
    one(move |frame| {
        let (dims, scales) = target(frame, first, scales.as_deref(), axes.as_deref())?;
        if is_old && matches!(mode, Mode::Nearest(_)) && scales.iter().any(|scale| *scale < 1.0) {
            return Err("before version 11, no rounding is defined for scales below 1".into());
        }
        resize(frame.input(0)?, &dims, &scales, filter, coordinates)
    })
}

/// Returns the dimensions of the output and the scale of each axis.
fn target(
    frame: &Frame<'_>,
    first: usize,
    scales: Option<&[f32]>,
    axes: Option<&[i64]>,
) -> Result<(Vec<usize>, Vec<f64>), String> {
    let value = frame.input(0)?;
    let rank = value.dims().len();
    let all: Vec<i64> = (0..rank as i64).collect();
    let axes = axes.unwrap_or(&all);
    let given = match frame.get(first) {
        Some(given) if !given.is_empty() => Some(given.all::<f32>()?),
        _ => scales,
    };
    let (mut dims, mut scale) = (value.dims().to_vec(), vec![1.0; rank]);
    match (given, frame.get(first + 1)) {
        (Some(given), _) if given.len() == axes.len() => {
            for (along, factor) in axes.iter().zip(given) {
                let along = axis(*along, rank)?;
                scale[along] = f64::from(*factor);
                let size = (value.dims()[along] as f64 * scale[along]).floor();
                if !(0.0..1e15).contains(&size) {
                    return Err(format!("cannot scale an axis by {factor}"));
                }
                // The standard does not state the precision of the product.
                let from = value.dims()[along];
                if *factor != 1.0 && f64::from((from as f32 * factor).floor()) != size {
                    return Err(format!("{from} elements by {factor} have no exact size"));
                }
                dims[along] = size as usize;
            }
        }
        (None, Some(asked)) if asked.len() == axes.len() => {
            for (along, size) in axes.iter().zip(sizes(&asked.integers()?)?) {
                let along = axis(*along, rank)?;
                dims[along] = size;
                scale[along] = size as f64 / value.dims()[along] as f64;
            }
        }
        _ => return Err("expected a scale or a size of each axis".into()),
    }
    count(&dims, 4)?;
    if value.dims().iter().zip(&dims).any(|(from, to)| *from == 0 && *to > 0) {
        return Err("expected elements to interpolate".into());
    }
    Ok((dims, scale))
}

fn resize(
    value: &Value,
    dims: &[usize],
    scales: &[f64],
    filter: Filter,
    coordinates: Coordinates,
) -> Result<Value, String> {
    if dims.contains(&0) {
        // Other axes may be of any size.
        return each!(value, all => Value::new(dims, all[..0].to_vec()));
    }
    let mut found = value.clone();
    for (at, (size, scale)) in dims.iter().zip(scales).enumerate() {
        let from = value.dims()[at];
        if *size == from && *scale == 1.0 {
            continue;
        }
        let place = |index: usize| coordinate(index as f64, from, *size, *scale, coordinates);
        let places: Vec<f64> = (0..*size).map(place).collect();
        found = match filter.mode {
            Mode::Nearest(rounding) => nearest(&found, at, &places, rounding)?,
            Mode::Linear | Mode::Cubic(_) => {
                let most = (2.0 * filter.reach(*scale)) as usize + 1;
                count(&[*size, most], size_of::<(usize, f32)>())?;
                let taps = |place: &f64| filter.taps(*place, from, *scale);
                weighted(&found, at, &places.iter().map(taps).collect::<Vec<_>>())?
            }
        };
    }
    layout::expanded(&found, dims)
}

fn coordinate(index: f64, from: usize, to: usize, scale: f64, how: Coordinates) -> f64 {
    let (from, to) = (from as f64, to as f64);
    match how {
        Coordinates::Asymmetric => index / scale,
        Coordinates::AlignCorners if to == 1.0 => 0.0,
        Coordinates::AlignCorners => index * (from - 1.0) / (to - 1.0),
        Coordinates::PytorchHalfPixel if to <= 1.0 => 0.0,
        Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => (index + 0.5) / scale - 0.5,
        Coordinates::HalfPixelSymmetric => {
            let adjusted = to / (scale * from);
            from / 2.0 * (1.0 - adjusted) + (index + 0.5) / scale - 0.5
        }
    }
}

/// Returns the elements that are nearest to these places of one axis.
fn nearest(value: &Value, at: usize, places: &[f64], rounding: Rounding) -> Result<Value, String> {
    let last = value.dims()[at] as f64 - 1.0;
    let index = |x: &f64| {
        let rounded = match rounding {
            Rounding::PreferFloor => (x - 0.5).ceil(),
            Rounding::PreferCeil => (x + 0.5).floor(),
            Rounding::Floor => x.floor(),
            Rounding::Ceil => x.ceil(),
        };
        rounded.clamp(0.0, last) as i64
    };
    let indices = Value::list(places.iter().map(index).collect());
    super::gather::gather(value, &indices, at as i64)
}

/// Elements of one axis, with their weights.
type Taps = Vec<(usize, f32)>;

impl Filter {
    /// Returns the factor of distances. Below 1, more elements count.
    fn narrow(self, scale: f64) -> f64 {
        if self.antialias { scale.min(1.0) } else { 1.0 }
    }

    /// Returns the distance from which on an element does not count.
    fn reach(self, scale: f64) -> f64 {
        self.mode.reach() / self.narrow(scale)
    }

    /// Returns the elements near a place of an axis of `size` elements.
    fn taps(self, place: f64, size: usize, scale: f64) -> Taps {
        let (narrow, reach) = (self.narrow(scale), self.reach(scale));
        let last = size as f64 - 1.0;
        if self.mode == Mode::Linear && narrow == 1.0 {
            // Outside, one element has the weight 1, so that it stays as it is in float32, too.
            let place = place.clamp(0.0, last);
            let (low, share) = (place as usize, place.fract() as f32);
            return vec![(low, 1.0 - share), ((low + 1).min(size - 1), share)];
        }
        let first = (place - reach).floor() + 1.0;
        let count = ((place + reach).floor() - first) as usize + 1;
        let neighbors = (0..count).map(|number| first + number as f64);
        let near: Vec<(f64, f64)> = neighbors
            .filter(|at| !self.exclude_outside || (0.0..=last).contains(at))
            .map(|at| (at, self.mode.weight((at - place) * narrow)))
            .collect();
        // The weights of an exact filter add up to 1.
        let is_exact = narrow == 1.0 && near.len() == count;
        let total: f64 = if is_exact { 1.0 } else { near.iter().map(|(_, weight)| weight).sum() };
        near.iter()
            .map(|(at, weight)| (at.clamp(0.0, last) as usize, (weight / total) as f32))
            .collect()
    }
}

/// Computes each element of an axis as a weighted sum of the old ones.
fn weighted(value: &Value, at: usize, taps: &[Taps]) -> Result<Value, String> {
    let size = value.dims()[at];
    let inner = strides(value.dims())[at];
    let mut dims = value.dims().to_vec();
    dims[at] = taps.len();
    let from = value.all::<f32>()?;
    let mut to = zeros::<f32>(&dims)?;
    let blocks = from.chunks_exact((size * inner).max(1));
    let rows = to.chunks_exact_mut((taps.len() * inner).max(1));
    for (block, rows) in blocks.zip(rows) {
        for (row, taps) in rows.chunks_exact_mut(inner.max(1)).zip(taps) {
            let old = |index: usize| &block[index * inner..][..inner];
            if let [(low, a), (high, b)] = taps[..] {
                let pairs = old(low).iter().zip(old(high));
                row.iter_mut().zip(pairs).for_each(|(to, (x, y))| *to = x * a + y * b);
                continue;
            }
            for (index, weight) in taps {
                row.iter_mut().zip(old(*index)).for_each(|(sum, x)| *sum += x * weight);
            }
        }
    }
    Value::new(dims, to)
}
