//! A small 3D-UNet, trained by `training/shapes3d.py`: the benchmark's, with fewer levels
//! and filters.

use std::path::PathBuf;

use super::{weights, write};
use crate::data::shapes3d::SIDE;
use crate::files::{CacheKey, Files, OpenError};
use crate::graphs::unet3d::Unet3d;

/// Counts up when graph or weights become other ones.
const REVISION: u32 = 1;
const WEIGHTS: &[u8] = include_bytes!("../../weights/shapes3d.safetensors");

/// For an input of this name; nothing, the large ellipsoid, a small one.
fn net(input: &str) -> Unet3d<'_> {
    Unet3d { name: "shapes-3d", input, side: SIDE, filters: &[8, 16], bottleneck: 32, classes: 3 }
}

/// The network, written unless that was done before.
pub(crate) fn model(files: &Files<'_>) -> Result<PathBuf, OpenError> {
    let input = &files.card().data.inputs[0].name;
    files.derive("unet.onnx", REVISION, CacheKey::Card, |file| {
        write(net(input).built(weights(WEIGHTS)), file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_onnx::count;

    #[test]
    fn weights_fit_the_graph() {
        // The number that the script tells.
        let model = net("volume").built(weights(WEIGHTS)).unwrap();
        assert_eq!(count(&model).parameters, 85_195);
    }
}
