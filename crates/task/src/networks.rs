//! Real networks: graphs of this crate with the weights that others trained, written once
//! into the cache as ONNX files.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use dyno_onnx::{BuildError, Model, Tensor, Weights};

use crate::archive::entry;
use crate::files::{Files, Of, OpenError};
use crate::graphs::{bert, efficientnet, rgat};
use crate::weights::{safetensors, torch};

/// Of the graphs here: counts up when one of them, or what is read of weights, changes.
const REVISION: u32 = 1;

/// EfficientNet-Lite0 of the file `model`: weights that `torch.save` wrote, or a network of
/// the user's own as it is.
pub(crate) fn efficientnet_lite0(files: &Files<'_>) -> Result<PathBuf, OpenError> {
    of_torch(files, efficientnet::efficientnet_lite0)
}

/// Built of the file `model` where PyTorch wrote it; else that file.
fn of_torch(
    files: &Files<'_>,
    build: fn(Weights) -> Result<Model, BuildError>,
) -> Result<PathBuf, OpenError> {
    let weights = files.path("model")?;
    if weights.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("onnx")) {
        return Ok(weights);
    }
    built(files, "model", build, || {
        let bytes = std::fs::read(&weights).map_err(OpenError::io_at(&weights))?;
        torch(&bytes).map_err(|error| content(&weights, &error))
    })
}

/// R-GAT of the file `model`: the reference's weights that `torch.save` wrote, or a network
/// of the user's own as it is.
pub(crate) fn rgat(files: &Files<'_>) -> Result<PathBuf, OpenError> {
    of_torch(files, |weights| rgat::IGBH.build(weights, rgat::Extent::Any))
}

/// MiniLM-L6 for texts of any length, with the weights of the archive `reference`.
pub(crate) fn minilm_l6(files: &Files<'_>) -> Result<PathBuf, OpenError> {
    let archive = files.path("reference")?;
    built(files, "reference", bert::minilm_l6_of_any_length, || minilm_weights(&archive))
}

/// The weights of MiniLM-L6 by their names.
pub(crate) fn minilm_weights(archive: &Path) -> Result<BTreeMap<String, Tensor>, OpenError> {
    let bytes = entry(archive, "model.safetensors").map_err(OpenError::content)?;
    safetensors(&bytes).map_err(|error| content(archive, &error))
}

fn built(
    files: &Files<'_>,
    file: &str,
    build: fn(Weights) -> Result<Model, BuildError>,
    weights: impl FnOnce() -> Result<BTreeMap<String, Tensor>, OpenError>,
) -> Result<PathBuf, OpenError> {
    files.made("model.onnx", REVISION, Of::Files(&[file]), |out| {
        let model = build(Weights::given(weights()?)).map_err(OpenError::content)?;
        let bytes = model.to_bytes().map_err(OpenError::content)?;
        out.write_all(&bytes).map_err(OpenError::content)
    })
}

/// What is wrong within a file, with its name.
fn content(path: &Path, error: &dyn std::fmt::Display) -> OpenError {
    OpenError::content(format!("{}: {error}", path.display()))
}
