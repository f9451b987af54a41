//! Discrete Fourier transforms, as front ends of speech models have them.

use std::f64::consts::TAU;

use dyno_tensors::Element;

use super::cast::cast_to;
use super::{name, one};
use crate::node::{NodeReader, Operation};
use crate::session::Frame;
use crate::value::{self, Value, axis, zeros};

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    match name(reader) {
        ("", "DFT") => {
            let (is_inverse, is_half) = (reader.flag("inverse")?, reader.flag("onesided")?);
            // Since version 20, the axis is an input.
            let along = if reader.version < 20 { reader.int("axis", 1)? } else { -2 };
            one(move |frame| {
                let along = frame.get(2).map_or(Ok(along), Value::integer)?;
                spectrum(frame, along, is_inverse, is_half)
            })
        }
        ("", "STFT") => {
            let is_half = reader.int("onesided", 1)? != 0;
            one(move |frame| spectra(frame, is_half))
        }
        ("", operator @ ("HannWindow" | "HammingWindow" | "BlackmanWindow")) => {
            window(reader, operator)
        }
        _ => Ok(None),
    }
}

/// Reads a window: a sum of cosines of one turn and of two.
fn window(reader: &NodeReader<'_>, operator: &str) -> Result<Option<Operation>, String> {
    let is_periodic = reader.int("periodic", 1)? != 0;
    let to = match reader.int("output_datatype", 1)? {
        1 => Element::F32,
        11 => Element::F64,
        other => return Err(format!("windows of type {other} are not supported")),
    };
    let [mean, one_turn, two_turns] = match operator {
        "HannWindow" => [0.5, 0.5, 0.0],
        "HammingWindow" => [25.0 / 46.0, 21.0 / 46.0, 0.0],
        _ => [0.42, 0.5, 0.08],
    };
    one(move |frame| {
        let size = length(frame, 0)?.ok_or("expected a size")?;
        value::count(&[size], 8)?;
        let steps = size - usize::from(!is_periodic);
        if steps == 0 {
            return Err("a symmetric window of one number is not defined".into());
        }
        let number = |at: usize| {
            let angle = TAU * at as f64 / steps as f64;
            mean - one_turn * angle.cos() + two_turns * (2.0 * angle).cos()
        };
        let all: Vec<f64> = (0..size).map(number).collect();
        cast_to(Value::new([size], all)?, to)
    })
}

/// The roots of one for transforms of so many numbers.
struct Transform {
    roots: Vec<[f64; 2]>,
    /// Numbers that are computed.
    bins: usize,
    /// Factor of the results.
    scale: f64,
}

impl Transform {
    fn new(length: usize, is_inverse: bool, is_half: bool) -> Self {
        let turn = if is_inverse { TAU } else { -TAU };
        let root = |at: usize| {
            let (sine, cosine) = (turn * at as f64 / length as f64).sin_cos();
            [cosine, sine]
        };
        let roots = (0..length).map(root).collect();
        let bins = if is_half { length / 2 + 1 } else { length };
        Self { roots, bins, scale: if is_inverse { 1.0 / length as f64 } else { 1.0 } }
    }

    /// Returns a number of the spectrum of complex numbers.
    fn bin(&self, all: &[[f64; 2]], bin: usize) -> [f32; 2] {
        let mut sum = [0.0; 2];
        let mut at = 0;
        for [x, y] in all {
            let [cosine, sine] = self.roots[at];
            sum[0] += x * cosine - y * sine;
            sum[1] += x * sine + y * cosine;
            // The product of both indices, which repeats after all roots.
            at += bin;
            if at >= self.roots.len() {
                at -= self.roots.len();
            }
        }
        sum.map(|part| (part * self.scale) as f32)
    }
}

/// Returns a size that an optional input states.
fn length(frame: &Frame<'_>, input: usize) -> Result<Option<usize>, String> {
    let stated = frame.get(input).map(Value::integer).transpose()?;
    let size = |n: i64| usize::try_from(n).ok().filter(|n| *n > 0);
    stated.map(|n| size(n).ok_or_else(|| format!("expected a length, found {n}"))).transpose()
}

/// Returns the real and imaginary part of a number of `parts` parts.
fn complex(number: &[f32]) -> [f64; 2] {
    [number[0].into(), number.get(1).copied().unwrap_or(0.0).into()]
}

/// Transforms the numbers along an axis. The last axis has the parts of a number. The inverse of one
/// side of a spectrum is a real signal.
fn spectrum(
    frame: &Frame<'_>,
    along: i64,
    is_inverse: bool,
    is_half: bool,
) -> Result<Value, String> {
    let value = frame.input(0)?;
    let dims = value.dims();
    let at = axis(along, dims.len())?;
    let parts = dims.split_last().map(|(parts, outer)| (*parts, outer));
    let Some((parts @ (1 | 2), outer)) = parts else {
        return Err(format!("expected one or two parts of each number, found {dims:?}"));
    };
    if at == outer.len() {
        return Err("the axis is that of the parts of a number".into());
    }
    let is_real = is_inverse && is_half;
    if is_half && !is_real && parts == 2 {
        return Err("one side of a complex signal's spectrum is not supported".into());
    }
    let default = if is_real { dims[at].saturating_sub(1).saturating_mul(2) } else { dims[at] };
    let count = length(frame, 1)?.unwrap_or(default);
    value::count(&[count], size_of::<[f64; 2]>())?;
    if is_real && (parts == 1 || count == 0 || count / 2 + 1 != dims[at]) {
        return Err(format!("{dims:?} is no side of a spectrum of {count} numbers"));
    }
    let transform = Transform::new(count, is_inverse, is_half && !is_real);
    let (size, inner) = (dims[at], outer[at + 1..].iter().product::<usize>());
    let mut to_dims = dims.to_vec();
    let to_parts = if is_real { 1 } else { 2 };
    [to_dims[at], to_dims[outer.len()]] = [transform.bins, to_parts];
    let (from, mut to) = (value.all::<f32>()?, zeros::<f32>(&to_dims)?);
    // Numbers after the last one are 0.
    let mut line = vec![[0.0; 2]; if is_real { count } else { size.min(count) }];
    for lane in 0..outer[..at].iter().product::<usize>() * inner {
        let (row, column) = (lane / inner, lane % inner);
        for (step, number) in line.iter_mut().take(size).enumerate() {
            let place = ((row * size + step) * inner + column) * parts;
            *number = complex(&from[place..][..parts]);
        }
        // The other side has the conjugate numbers.
        for step in size..line.len() {
            let [x, y] = line[count - step];
            line[step] = [x, -y];
        }
        for bin in 0..transform.bins {
            let place = ((row * transform.bins + bin) * inner + column) * to_parts;
            to[place..][..to_parts].copy_from_slice(&transform.bin(&line, bin)[..to_parts]);
        }
    }
    Value::new(to_dims, to)
}

/// Transforms frames of a signal that are multiplied by a window.
fn spectra(frame: &Frame<'_>, is_half: bool) -> Result<Value, String> {
    let signal = frame.input(0)?;
    let (batch, samples, parts) = match *signal.dims() {
        [batch, samples] => (batch, samples, 1),
        [batch, samples, parts @ (1 | 2)] => (batch, samples, parts),
        ref dims => return Err(format!("expected signals, found {dims:?}")),
    };
    let step = length(frame, 1)?.ok_or("expected the step of frames")?;
    let window = frame.get(2).map(Value::all::<f32>).transpose()?;
    let count = match (length(frame, 3)?, window) {
        (Some(count), Some(window)) if window.len() != count => {
            return Err(format!("a window of {} numbers for frames of {count}", window.len()));
        }
        (Some(count), _) => count,
        (None, Some(window)) if !window.is_empty() => window.len(),
        _ => return Err("expected a window, or the length of frames".into()),
    };
    if count > samples {
        return Err(format!("a frame of {count} of {samples} samples"));
    }
    if is_half && parts == 2 {
        return Err("one side of a complex signal's spectrum is not supported".into());
    }
    let frames = (samples - count) / step + 1;
    let transform = Transform::new(count, false, is_half);
    let dims = [batch, frames, transform.bins, 2];
    let from = signal.all::<f32>()?;
    let mut to = Vec::with_capacity(value::count(&dims, 4)?);
    for at in 0..batch * frames {
        let start = (at / frames * samples + at % frames * step) * parts;
        let number = |(at, number): (usize, &[f32])| {
            let weight = window.map_or(1.0, |window| f64::from(window[at]));
            complex(number).map(|part| part * weight)
        };
        let numbers = from[start..][..count * parts].chunks_exact(parts).enumerate();
        let line: Vec<[f64; 2]> = numbers.map(number).collect();
        to.extend((0..transform.bins).flat_map(|bin| transform.bin(&line, bin)));
    }
    Value::new(dims, to)
}
