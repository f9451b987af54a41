//! A small 3D-UNet: the benchmark's with fewer levels and filters. `training/shapes3d.py` trained
//! it.

use std::path::PathBuf;

use super::{weights, write};
use crate::data::shapes3d::SIDE;
use crate::files::{CacheKey, Files, OpenError};
use crate::graphs::unet3d::Unet3d;

/// Revision of graph and weights: increases when one of them changes.
const REVISION: u32 = 1;
const WEIGHTS: &[u8] = include_bytes!("../../weights/shapes3d.safetensors");

/// Returns the network for an input of this name; classes are background, the large ellipsoid and a
/// small one.
fn net(input: &str) -> Unet3d<'_> {
    Unet3d { name: "shapes-3d", input, side: SIDE, filters: &[8, 16], bottleneck: 32, classes: 3 }
}

/// Returns the path of the network, which is written when it is first needed.
pub(crate) fn model(files: &Files<'_>) -> Result<PathBuf, OpenError> {
    let input = &files.card().data.inputs[0].name;
    files.derive("unet.onnx", REVISION, CacheKey::Card, |file| {
        write(net(input).build(weights(WEIGHTS)), file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_onnx::count;

    #[test]
    fn weights_fit_the_graph() {
        // Number of parameters that the script reports.
        let model = net("volume").build(weights(WEIGHTS)).unwrap();
        assert_eq!(count(&model).parameters, 85_195);
    }
}
