//! Windows that slide over the spatial dimensions of convolutions and pools.

use crate::call::{Call, sizes_of};
use crate::fault::{Fault, fault};

/// How windows lie on each spatial dimension.
#[derive(Debug)]
pub(super) struct Windows {
    pub kernel: Vec<usize>,
    pub strides: Vec<usize>,
    pub dilations: Vec<usize>,
    /// Padding before the first element.
    pub begins: Vec<usize>,
    /// Padding after the last element.
    pub ends: Vec<usize>,
    /// Number of windows.
    pub outputs: Vec<usize>,
}

impl Windows {
    /// Reads strides, dilations and padding, and counts the windows on `sizes`.
    pub fn new(call: &Call<'_>, sizes: &[usize], kernel: &[usize]) -> Result<Windows, Fault> {
        let mut windows = Windows::unplaced(call, sizes.len(), kernel)?;
        let rounds_up = call.flag("ceil_mode", false)?;
        let mode = call.text("auto_pad", "NOTSET")?;
        for (axis, size) in sizes.iter().enumerate() {
            let (extent, stride) = (windows.extent(axis)?, windows.strides[axis]);
            if mode.starts_with("SAME") {
                let count = size.div_ceil(stride);
                let covered = count.saturating_sub(1) * stride + extent;
                let total = covered.saturating_sub(*size);
                windows.place(axis, total, mode == "SAME_LOWER");
                windows.outputs.push(count);
                continue;
            }
            let padded = size + windows.begins[axis] + windows.ends[axis];
            let Some(room) = padded.checked_sub(extent) else {
                return fault(format!("a window of {extent} on {padded} elements"));
            };
            if rounds_up && mode == "VALID" && room % stride != 0 {
                return fault("the text and the shape inference of VALID round differently");
            }
            let mut count = if rounds_up { room.div_ceil(stride) } else { room / stride } + 1;
            // Windows that would start after the last element do not count.
            if rounds_up && (count - 1) * stride >= size + windows.begins[axis] {
                count -= 1;
            }
            if rounds_up && count > 1 && (count - 1) * stride >= size + windows.begins[axis] {
                return fault("the text and the shape inference ignore different windows");
            }
            windows.outputs.push(count);
        }
        Ok(windows)
    }

    /// Reads strides, dilations and explicit padding.
    pub fn unplaced(call: &Call<'_>, rank: usize, kernel: &[usize]) -> Result<Windows, Fault> {
        let sizes = |name: &str, default: usize, count: usize| match call.integers(name)? {
            None => Ok(vec![default; count]),
            Some(values) if values.len() == count => sizes_of(&values),
            Some(values) => {
                fault(format!("attribute {name:?}: {} numbers for {count}", values.len()))
            }
        };
        let (strides, dilations) = (sizes("strides", 1, rank)?, sizes("dilations", 1, rank)?);
        if kernel.len() != rank || [kernel, &strides, &dilations].concat().contains(&0) {
            return fault("kernel, strides and dilations must be 1 or more, for each dimension");
        }
        let pads = sizes("pads", 0, 2 * rank)?;
        let limit = crate::tensor::MAX_ELEMENTS;
        if [&pads, &strides, &dilations].iter().any(|list| list.iter().any(|size| *size > limit)) {
            return fault("the windows are too large to verify");
        }
        let mode = call.text("auto_pad", "NOTSET")?;
        match mode.as_str() {
            "NOTSET" => {}
            "VALID" | "SAME_UPPER" | "SAME_LOWER" => {
                if pads.iter().any(|pad| *pad != 0) {
                    return fault(format!("both pads and auto_pad={mode}"));
                }
            }
            other => return fault(format!("auto_pad {other} is not supported")),
        }
        let (begins, ends) = pads.split_at(rank);
        Ok(Windows {
            kernel: kernel.to_vec(),
            strides,
            dilations,
            begins: begins.to_vec(),
            ends: ends.to_vec(),
            outputs: Vec::new(),
        })
    }

    /// Returns the number of elements from the first to the last one of a window.
    pub fn extent(&self, axis: usize) -> Result<usize, Fault> {
        let reach = (self.kernel[axis] - 1).checked_mul(self.dilations[axis]);
        match reach.filter(|reach| *reach < crate::tensor::MAX_ELEMENTS) {
            Some(reach) => Ok(reach + 1),
            None => fault("the windows are too large to verify"),
        }
    }

    /// Distributes padding; an odd element goes to the end unless `prefers_begin`.
    pub fn place(&mut self, axis: usize, total: usize, prefers_begin: bool) {
        let (small, large) = (total / 2, total - total / 2);
        let (begin, end) = if prefers_begin { (large, small) } else { (small, large) };
        self.begins[axis] = begin;
        self.ends[axis] = end;
    }

    /// Returns the index that a window sees at an index of the kernel, `None` in the padding.
    pub fn source(&self, window: &[usize], tap: &[usize], sizes: &[usize]) -> Option<Vec<usize>> {
        let coordinate = |axis: usize| {
            let padded = window[axis] * self.strides[axis] + tap[axis] * self.dilations[axis];
            padded.checked_sub(self.begins[axis]).filter(|index| *index < sizes[axis])
        };
        (0..sizes.len()).map(coordinate).collect()
    }
}

/// Splits a shape into batch, channels and spatial sizes.
pub(super) fn image(shape: &[usize]) -> Result<(usize, usize, &[usize]), Fault> {
    match shape {
        [batch, channels, sizes @ ..] if !sizes.is_empty() => Ok((*batch, *channels, sizes)),
        _ => fault(format!("expected batch, channels and spatial dimensions, found {shape:?}")),
    }
}
