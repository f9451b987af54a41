//! `Col2Im`: columns of numbers are added to the windows of an image.

use super::convolution::add_window;
use super::layout::{sizes, transposed};
use super::sliding::Sliding;
use super::{name, one};
use crate::node::{NodeReader, Operation};
use crate::session::Frame;
use crate::value::{Value, count, zeros};

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    if name(reader) != ("", "Col2Im") {
        return Ok(None);
    }
    let sliding = Sliding::read_without_kernel(reader)?;
    one(move |frame| image(frame, &sliding))
}

/// Returns the image of columns that have a number for each channel and place of a window.
fn image(frame: &Frame<'_>, sliding: &Sliding) -> Result<Value, String> {
    let value = frame.input(0)?;
    let &[images, rows, columns] = value.dims() else {
        return Err(format!("expected columns of images, found {:?}", value.dims()));
    };
    let plane = sizes(&frame.input(1)?.integers()?)?;
    let kernel = sizes(&frame.input(2)?.integers()?)?;
    if kernel.contains(&0) || kernel.len() != plane.len() {
        return Err(format!("windows of {kernel:?} do not fit an image of {plane:?}"));
    }
    let axes = sliding.axes(&plane, Some(&kernel))?;
    let (places, windows) = (count(&kernel, 1)?, count(&axes.map(|axis| axis.windows), 1)?);
    if !rows.is_multiple_of(places) || columns != windows {
        return Err(format!(
            "columns of {:?} do not fit windows of {kernel:?} in an image of {plane:?}",
            value.dims()
        ));
    }
    let channels = rows / places;
    let mut dims = vec![images, channels];
    dims.extend(&plane);
    let mut to: Vec<f32> = zeros(&dims)?;
    let turned = transposed(value, Some(&[0, 2, 1]))?;
    let columns = turned.all::<f32>()?.chunks_exact(rows.max(1)).enumerate();
    let size = to.len() / images.max(1);
    for (at, column) in columns {
        let (image, window) = (at / windows, at % windows);
        add_window(window, column, &axes, &mut to[image * size..][..size]);
    }
    Value::new(dims, to)
}
