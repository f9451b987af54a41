//! Windows that slide over up to three spatial axes.

use std::ops::Range;

use crate::node::NodeReader;
use crate::value::count;

/// Attributes of windows, one number for each spatial axis.
pub(super) struct Sliding {
    kernel: Option<Vec<usize>>,
    strides: Option<Vec<usize>>,
    dilations: Option<Vec<usize>>,
    pads: Option<Vec<usize>>,
    padding: Padding,
    rounds_up: bool,
}

/// How padding is found.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Padding {
    Given,
    None,
    /// As many windows as elements, by the stride; an odd element of padding is at the end.
    SameUpper,
    /// An odd element of padding is at the start.
    SameLower,
}

/// Windows along one axis, in elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    pub size: usize,
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    pub before: usize,
    pub after: usize,
    /// Number of windows.
    pub windows: usize,
}

impl Axis {
    /// An axis of one element.
    const ONE: Self =
        Self { size: 1, kernel: 1, stride: 1, dilation: 1, before: 0, after: 0, windows: 1 };

    /// Returns the element at a place of a window, unless it is padding.
    pub fn at(&self, window: usize, place: usize) -> Option<usize> {
        let at = (window * self.stride + place * self.dilation).checked_sub(self.before)?;
        (at < self.size).then_some(at)
    }

    /// Returns the windows whose element at a place is not padding.
    pub fn inside(&self, place: usize) -> Range<usize> {
        let place = place * self.dilation;
        let first = self.before.saturating_sub(place).div_ceil(self.stride);
        let end = (self.size + self.before).saturating_sub(place).div_ceil(self.stride);
        first..end.min(self.windows).max(first)
    }

    pub fn padded(&self) -> usize {
        self.size + self.before + self.after
    }
}

impl Sliding {
    /// Reads the attributes.
    pub fn read(reader: &NodeReader<'_>) -> Result<Self, String> {
        let padding = match reader.text("auto_pad", "NOTSET")? {
            "NOTSET" | "" => Padding::Given,
            "VALID" => Padding::None,
            "SAME_UPPER" => Padding::SameUpper,
            "SAME_LOWER" => Padding::SameLower,
            other => return Err(format!("auto_pad '{other}' is not supported")),
        };
        let all = Self {
            kernel: reader.sizes("kernel_shape")?,
            strides: reader.sizes("strides")?,
            dilations: reader.sizes("dilations")?,
            pads: reader.sizes("pads")?,
            padding,
            rounds_up: reader.node.op.ends_with("Pool") && reader.flag("ceil_mode")?,
        };
        all.check_steps()?;
        if let Some(axes) = reader.rank(0).and_then(|rank| rank.checked_sub(2)) {
            for (given, count) in [
                (&all.kernel, axes),
                (&all.strides, axes),
                (&all.dilations, axes),
                (&all.pads, 2 * axes),
            ] {
                if let Some(given) = given.as_ref().filter(|given| given.len() != count) {
                    return Err(format!("expected {count} numbers, found {given:?}"));
                }
            }
        }
        Ok(all)
    }

    /// Reads the attributes of windows whose sizes are an input.
    pub fn read_without_kernel(reader: &NodeReader<'_>) -> Result<Self, String> {
        let all = Self {
            kernel: None,
            strides: reader.sizes("strides")?,
            dilations: reader.sizes("dilations")?,
            pads: reader.sizes("pads")?,
            padding: Padding::Given,
            rounds_up: false,
        };
        all.check_steps()?;
        Ok(all)
    }

    fn check_steps(&self) -> Result<(), String> {
        let steps = [&self.kernel, &self.strides, &self.dilations];
        if steps.into_iter().flatten().flatten().any(|n| *n == 0) {
            return Err("expected sizes above 0 for kernels, strides and dilations".into());
        }
        Ok(())
    }

    pub fn padding(&self) -> Padding {
        self.padding
    }

    /// Returns kernel, stride, dilation, and padding before and after, of each axis.
    pub fn numbers(&self, kernel: &[usize]) -> Result<Vec<[usize; 5]>, String> {
        let rank = kernel.len();
        if self.kernel.as_ref().is_some_and(|given| given != kernel) {
            return Err(format!("kernels of {kernel:?} do not fit kernel_shape"));
        }
        if rank == 0 || rank > 3 {
            return Err(format!("expected one to three spatial axes, found {rank}"));
        }
        let list = |given: &Option<Vec<usize>>, count: usize, default: usize| match given {
            None => Ok(vec![default; count]),
            Some(given) if given.len() == count => Ok(given.clone()),
            Some(given) => Err(format!("expected {count} numbers, found {given:?}")),
        };
        let strides = list(&self.strides, rank, 1)?;
        let dilations = list(&self.dilations, rank, 1)?;
        let pads = list(&self.pads, 2 * rank, 0)?;
        let one = |at: usize| [kernel[at], strides[at], dilations[at], pads[at], pads[rank + at]];
        Ok((0..rank).map(one).collect())
    }

    /// Returns the windows over spatial axes of these sizes; three axes, the first may have one
    /// element. `kernel` is the size of a window, or the attribute's if `None`.
    pub fn axes(&self, sizes: &[usize], kernel: Option<&[usize]>) -> Result<[Axis; 3], String> {
        let kernel = kernel.or(self.kernel.as_deref()).ok_or("expected kernel_shape")?;
        if kernel.len() != sizes.len() {
            return Err(format!("expected {} spatial axes, found {}", kernel.len(), sizes.len()));
        }
        let mut axes = [Axis::ONE; 3];
        let first = 3_usize.saturating_sub(sizes.len());
        for (at, (size, numbers)) in sizes.iter().zip(self.numbers(kernel)?).enumerate() {
            axes[first + at] = self.axis(*size, numbers)?;
        }
        Ok(axes)
    }

    fn axis(
        &self,
        size: usize,
        [kernel, stride, dilation, before, after]: [usize; 5],
    ) -> Result<Axis, String> {
        let overflow = || format!("a window of {kernel} elements exceeds memory");
        let reach = (kernel - 1).checked_mul(dilation).and_then(|n| n.checked_add(1));
        let reach = reach.ok_or_else(overflow)?;
        let (before, after) = match self.padding {
            Padding::Given => (before, after),
            Padding::None => (0, 0),
            same => {
                let windows = size.div_ceil(stride);
                let needed = windows.saturating_sub(1).saturating_mul(stride).saturating_add(reach);
                let total = needed.saturating_sub(size);
                let less = total / 2;
                if same == Padding::SameUpper { (less, total - less) } else { (total - less, less) }
            }
        };
        let padded = size.checked_add(before).and_then(|n| n.checked_add(after));
        let padded = padded.ok_or_else(overflow)?;
        count(&[padded], 1)?;
        let room = padded
            .checked_sub(reach)
            .ok_or_else(|| format!("a window of {reach} elements exceeds an axis of {padded}"))?;
        if self.rounds_up && self.padding == Padding::None && room % stride != 0 {
            // The text rounds down nevertheless. Its shape inference and ONNX Runtime round up.
            return Err(
                "ceil_mode with auto_pad VALID is not clearly defined; use pads of 0".into()
            );
        }
        let mut windows = if self.rounds_up { room.div_ceil(stride) } else { room / stride } + 1;
        // A window that begins in the padding at the end does not count.
        let is_beyond = |windows: usize| {
            self.rounds_up && windows > 1 && (windows - 1) * stride >= size + before
        };
        windows -= usize::from(is_beyond(windows));
        if is_beyond(windows) {
            // The text ignores all such windows. The standard's shape inference ignores the last one.
            return Err(
                "with ceil_mode, several windows begin in the padding at the end, which is \
                        not clearly defined; use less padding"
                    .into(),
            );
        }
        Ok(Axis { size, kernel, stride, dilation, before, after, windows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_with_an_element_at_a_place_are_those_inside() {
        for size in 1..6 {
            for (stride, dilation, before) in
                (1..4).flat_map(|a| (1..3).flat_map(move |b| (0..4).map(move |c| (a, b, c))))
            {
                for windows in 1..5 {
                    let axis =
                        Axis { size, kernel: 3, stride, dilation, before, after: 2, windows };
                    for place in 0..3 {
                        let found: Vec<usize> = axis.inside(place).collect();
                        let expected: Vec<usize> =
                            (0..windows).filter(|at| axis.at(*at, place).is_some()).collect();
                        assert_eq!(found, expected, "{axis:?} {place}");
                    }
                }
            }
        }
    }
}
