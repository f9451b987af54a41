//! Real networks: graphs of this crate with published weights, written once into the cache as ONNX
//! files.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use dyno_onnx::{BuildError, Model, Tensor, Weights};
use dyno_tensors::files;

use crate::archive::entry;
use crate::files::{CacheKey, Files, OpenError};
use crate::graphs::{bert, efficientnet, g2p, rgat};
use crate::weights::{safetensors, torch};

/// Revision of the graphs: increases when one of them or the reading of weights changes.
const REVISION: u32 = 1;

/// Returns EfficientNet-Lite0 with the weights in the file `model`, which `torch.save` wrote, or
/// the user's ONNX file.
pub(crate) fn efficientnet_lite0(files: &Files<'_>) -> Result<PathBuf, OpenError> {
    from_torch(files, efficientnet::efficientnet_lite0)
}

/// Returns the network that `build` makes of the PyTorch weights in the file `model`, or that file
/// itself if it is an ONNX file.
fn from_torch(
    files: &Files<'_>,
    build: fn(Weights) -> Result<Model, BuildError>,
) -> Result<PathBuf, OpenError> {
    let weights = files.path("model")?;
    if weights.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("onnx")) {
        return Ok(weights);
    }
    build_from(files, "model", build, || {
        let bytes = files::read(&weights).map_err(OpenError::io_at(&weights))?;
        torch(&bytes).map_err(|error| content(&weights, &error))
    })
}

/// Returns R-GAT with the reference's weights in the file `model`, which `torch.save` wrote, or the
/// user's ONNX file.
pub(crate) fn rgat(files: &Files<'_>) -> Result<PathBuf, OpenError> {
    from_torch(files, |weights| rgat::IGBH.build(weights, rgat::Extent::Any))
}

/// Returns MiniLM-L6 for texts of any length, with the weights in the archive `reference`.
pub(crate) fn minilm_l6(files: &Files<'_>) -> Result<PathBuf, OpenError> {
    let archive = files.path("reference")?;
    build_from(files, "reference", bert::minilm_l6_of_any_length, || minilm_weights(&archive))
}

/// Returns the weights of MiniLM-L6 by name.
pub(crate) fn minilm_weights(archive: &Path) -> Result<BTreeMap<String, Tensor>, OpenError> {
    let bytes = entry(archive, "model.safetensors").map_err(OpenError::content)?;
    safetensors(&bytes).map_err(|error| content(archive, &error))
}

/// Returns the g2p network with the weights in the file `weights`; it is written when it is first
/// needed.
///
/// # Errors
/// The file is missing or malformed.
pub(crate) fn g2p(files: &Files<'_>) -> Result<PathBuf, OpenError> {
    let archive = files.path("weights")?;
    files.derive("g2p.onnx", 1, CacheKey::Files(&["weights"]), |file| {
        let given = g2p::weights(&archive).map_err(OpenError::content)?;
        let model = g2p::g2p(given).map_err(OpenError::content)?;
        let bytes = model.to_bytes().map_err(OpenError::content)?;
        file.write_all(&bytes).map_err(OpenError::content)
    })
}

fn build_from(
    files: &Files<'_>,
    file: &str,
    build: fn(Weights) -> Result<Model, BuildError>,
    weights: impl FnOnce() -> Result<BTreeMap<String, Tensor>, OpenError>,
) -> Result<PathBuf, OpenError> {
    files.derive("model.onnx", REVISION, CacheKey::Files(&[file]), |out| {
        let model = build(Weights::from_tensors(weights()?)).map_err(OpenError::content)?;
        let bytes = model.to_bytes().map_err(OpenError::content)?;
        out.write_all(&bytes).map_err(OpenError::content)
    })
}

/// Returns an error for the content of a file, with its name.
fn content(path: &Path, error: &dyn std::fmt::Display) -> OpenError {
    OpenError::content(format!("{}: {error}", path.display()))
}
