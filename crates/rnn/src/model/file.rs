//! Models from files.

use std::path::Path;

use super::chain::{Chain, ChainError, chain};
use super::start::Start;
use super::{Model, ModelError, weights};
use crate::import;

/// Reads the layers of a file, or the named one. `options` are those after `?`.
pub(super) fn open(path: &Path, options: &str, named: Option<&str>) -> Result<Model, ModelError> {
    let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
    let text = path.display().to_string();
    let name = named.map_or(text.clone(), |layer| format!("{text}#{layer}"));
    match ending.to_str() {
        Some("onnx") => {
            if let Some(option) = options.split('&').find(|option| !option.is_empty()) {
                let expected = "an ONNX file has no options".to_owned();
                let (path, option) = (path.to_owned(), option.to_owned());
                return Err(ModelError::Option { path, option, expected });
            }
            let Chain { layers, starts, rearranged } = read_onnx(path, named)?;
            let model = Model { starts, rearranged, ..Model::from_layers(name, layers)? };
            let mut rows = model.starts.iter().filter_map(Start::rows);
            match (rows.next(), rows.find(|rows| Some(*rows) != model.rows())) {
                (Some(one), Some(other)) => {
                    Err(ModelError::Rows { path: path.to_owned(), rows: [one, other] })
                }
                _ => Ok(model),
            }
        }
        Some("safetensors") => {
            let (layers, assumption) = weights::read(path, options, named)?;
            Ok(Model { assumption, ..Model::from_layers(name, layers)? })
        }
        _ => Err(ModelError::Format(path.to_owned())),
    }
}

fn read_onnx(path: &Path, named: Option<&str>) -> Result<Chain, ModelError> {
    let model = dyno_onnx::Model::read(path)
        .map_err(|why| ModelError::Unreadable { path: path.to_owned(), why: why.to_string() })?;
    let failed = |error| ModelError::Import { path: path.to_owned(), error };
    let path = path.to_owned();
    let Some(name) = named else {
        return chain(&model).map_err(|error| {
            let layers = import::names(&model);
            match error {
                _ if layers.is_empty() => ModelError::Empty(path.clone()),
                ChainError::Import(error) => failed(error),
                ChainError::Broken { name, why } => {
                    ModelError::Broken { path: path.clone(), name, why, layers }
                }
            }
        });
    };
    let mut found = import::named(&model, name).map_err(failed)?;
    let Some(imported) = found.pop() else {
        let layers = import::names(&model);
        if layers.is_empty() {
            return Err(ModelError::Empty(path));
        }
        return Err(ModelError::Unknown { path, name: name.to_owned(), layers });
    };
    if !found.is_empty() {
        return Err(ModelError::Ambiguous { path, name: name.to_owned() });
    }
    let start = Start::new(&imported).map_err(|what| {
        failed(import::ImportError::Invalid { node: imported.name.clone(), what })
    })?;
    Ok(Chain { layers: vec![imported.layer], starts: vec![start], rearranged: None })
}
