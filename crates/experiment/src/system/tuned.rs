//! The systems `tuned:model=FILE` and `tuned:packed=FILE`: a model in number formats of few bits, in Dyno's own engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::settings::known_keys;
use dyno_number::Dictionary;
use dyno_number::evaluate::{PackedLayer, PackedSource, ProductPath};
use dyno_sut::onnx::tuned::{TunedEngine, TunedModel};
use dyno_sut::onnx::{Answer, EngineOptions, OnnxError};
use dyno_sut::tensors::{Spans, TensorLibrary};
use dyno_tensors::npy::{Npy, NpyError};
use dyno_tensors::{Element, files};

use super::kind::{Drive, OpenedSystem, Request, Resources, SystemKind};
use super::{onnx, shapes};
use crate::failure::Failure;
use crate::options::RunOptions;
use crate::tune::model_hash;

pub(super) const KIND: SystemKind = SystemKind {
    name: "tuned",
    operand: "model=FILE,formats=FILE",
    help: "an ONNX model in number formats, in Dyno's own engine: \
         tuned:model=FILE.onnx,formats=opt_conf.txt from dyno tune (any model that dyno tune run \
         evaluates without a program); without formats everything is FLOAT 32; or \
         tuned:packed=FILE from dyno tune pack. --data and --labels as for onnx:FILE; \
         lengths=FILE.npy has the used length of each sample's first axis, for padded samples",
    accepts: onnx::TRACT.accepts,
    resources: |operand| Resources::files(files(operand)),
    check: Some(|_, _| Ok(())),
    open,
};

fn open(request: &Request<'_>) -> Result<OpenedSystem, Failure> {
    let loaded = load(request.operand, request.run)?;
    Ok(OpenedSystem {
        labels: loaded.library.labels().map(<[i64]>::to_vec),
        tensors: Some(loaded.library.clone()),
        is_synthetic: request.run.data.is_empty(),
        remarks: loaded.remarks,
        ..OpenedSystem::new(Drive::Engine(loaded.engine), loaded.library)
    })
}

const KEYS: [&str; 4] = ["model", "formats", "packed", "lengths"];

/// A loaded model with its samples.
pub struct LoadedTunedModel {
    /// Engine that computes batches.
    pub engine: Arc<TunedEngine>,
    /// Samples of the model.
    pub library: Arc<TensorLibrary>,
    /// Remarks on how its layers are executed.
    pub remarks: Vec<String>,
}

/// Operand of `tuned:`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// File of the model.
    pub model: Option<PathBuf>,
    /// File of the formats.
    pub formats: Option<PathBuf>,
    /// File with weights in their formats.
    pub packed: Option<PathBuf>,
    /// File with the lengths of padded samples.
    pub lengths: Option<PathBuf>,
}

/// Parses the operand.
///
/// # Errors
/// A sentence fragment with the problem.
pub fn parse(text: &str) -> Result<Spec, String> {
    let mut spec = Spec::default();
    for option in text.split(',').filter(|option| !option.is_empty()) {
        let expected = || {
            format!(
                "expected model=FILE, formats=FILE, packed=FILE or lengths=FILE, found `{option}`"
            )
        };
        let (key, value) = option.split_once('=').ok_or_else(expected)?;
        let place = match key {
            "model" => &mut spec.model,
            "formats" => &mut spec.formats,
            "packed" => &mut spec.packed,
            "lengths" => &mut spec.lengths,
            _ => {
                let known = known_keys(key, KEYS.into_iter());
                return Err(format!("unknown key `{key}`; {known}"));
            }
        };
        if value.is_empty() {
            return Err(expected());
        }
        if place.replace(value.into()).is_some() {
            return Err(format!("`{key}` is given twice"));
        }
    }
    Ok(spec)
}

/// Returns the files that a specification names.
pub fn files(text: &str) -> Vec<PathBuf> {
    let spec = parse(text).unwrap_or_default();
    [spec.model, spec.formats, spec.packed, spec.lengths].into_iter().flatten().collect()
}

/// Returns the file of the model that a specification names, packed or not.
pub fn model(text: &str) -> Option<PathBuf> {
    let spec = parse(text).ok()?;
    spec.model.or(spec.packed)
}

/// Loads the operand of `tuned:`; the model may also come from `--model`.
///
/// # Errors
/// A missing file, formats of objects that the model does not have, or samples that do not fit.
pub fn load(text: &str, run: &RunOptions) -> Result<LoadedTunedModel, Failure> {
    let example =
        "for example tuned:model=lenet.onnx,formats=opt_conf.txt; see dyno info systems tuned";
    let spec = parse(text)
        .map_err(|why| Failure::usage(format!("system `tuned:{text}`: {why}")).hint(example))?;
    if spec.lengths.is_some() && run.data.is_empty() {
        let problem = format!("system `tuned:{text}`: lengths need samples");
        return Err(Failure::usage(problem).hint("name them with --data FILE.npy"));
    }
    let lengths = spec.lengths.as_deref();
    let model = spec.model.or_else(|| run.model.clone());
    if let Some(path) = &spec.packed {
        if spec.formats.is_some() {
            let problem = format!("system `tuned:{text}`: a packed model has its own formats");
            return Err(Failure::usage(problem).hint("remove formats=, or pack the model again"));
        }
        return load_file(path, lengths, run, || open_packed(path, model.as_deref()));
    }
    let path = model.ok_or_else(|| {
        Failure::usage(format!("system `tuned:{text}` needs a model")).hint(example)
    })?;
    let formats = match &spec.formats {
        Some(path) => read(path)?,
        None => Dictionary::new(),
    };
    let open = || TunedModel::open(&path, &formats);
    load_file(&path, lengths, run, open).map_err(|failure| match &spec.formats {
        Some(path) => failure.hint(format!("formats are those of {}", path.display())),
        None => failure,
    })
}

/// Opens a packed model. With `model`, checks that it was packed from this model.
///
/// # Errors
/// A file cannot be read, or the packed model is that of another one.
pub(super) fn open_packed(path: &Path, model: Option<&Path>) -> Result<TunedModel, OnnxError> {
    let source = |model: &Path| {
        packed_source(model).map_err(|why| OnnxError::Model { path: model.to_path_buf(), why })
    };
    let source = model.map(source).transpose()?;
    TunedModel::open_packed(path, source.as_ref())
}

/// Returns what a packed file states about its model: the name of its file, and the SHA-256 of the
/// model with all its weights.
///
/// # Errors
/// The model cannot be read.
pub fn packed_source(model: &Path) -> Result<PackedSource, String> {
    let name = model.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(PackedSource { name, sha256: model_hash(model)? })
}

/// Reads a Number configuration file.
///
/// # Errors
/// It cannot be read, or a line is invalid.
pub fn read(path: &Path) -> Result<Dictionary, Failure> {
    if !path.is_file() {
        return Err(
            Failure::no_file("formats file", path).hint("dyno tune run writes one: opt_conf.txt")
        );
    }
    let text = files::read_to_string(path).map_err(|error| Failure::unreadable(path, &error))?;
    text.parse::<Dictionary>()
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

/// Loads a model with `open`, and the samples that the options name.
fn load_file(
    path: &Path,
    lengths: Option<&Path>,
    run: &RunOptions,
    open: impl FnOnce() -> Result<TunedModel, OnnxError>,
) -> Result<LoadedTunedModel, Failure> {
    if !path.is_file() {
        return Err(Failure::no_file("model", path));
    }
    let model = open().map_err(|error| match error {
        OnnxError::Model { path, why } => Failure::usage(format!("{}: {why}", path.display())),
        error => onnx::missing(error, &[], run),
    })?;
    let mut library = onnx::library(model.inputs(), || shapes::symbols(path), &Spans::new(), run)?;
    if let Some(path) = lengths {
        if !path.exists() {
            return Err(Failure::no_file("lengths file", path));
        }
        let lengths = whole_numbers(path).map_err(Failure::usage)?;
        let of = |error| Failure::usage(format!("{}: {error}", path.display()));
        library = library.without_padding(&lengths).map_err(of)?;
    }
    let library = Arc::new(library);
    let remarks = vec![remark(model.layers())];
    let options = EngineOptions {
        answer: if run.labels.is_some() { Answer::Argmax } else { Answer::Output },
        largest_batch: onnx::largest_batch(run).get(),
        output: 0,
        separate: dyno_onnx::Model::read(path)
            .ok()
            .and_then(|model| dyno_onnx::batch_obstacle(model, Some(0))),
    };
    let inputs = model.inputs().to_vec();
    let engine = model.engine(&library, options);
    let engine = engine.map_err(|error| onnx::missing(error, &inputs, run))?;
    Ok(LoadedTunedModel { engine: Arc::new(engine), library, remarks })
}

/// Maximum number of layers of each kind that a remark names.
const NAMED: usize = 6;

/// Returns a remark on the size of the weights, and on how products are computed.
fn remark(layers: &[PackedLayer]) -> String {
    let packed: usize = layers.iter().map(|layer| layer.codes.len()).sum();
    let whole: usize = layers.iter().map(|layer| 4 * layer.weights).sum();
    let count = |path| layers.iter().filter(|layer| layer.path == path).count();
    let [int8, int16] = [ProductPath::Bytes, ProductPath::Int16].map(count);
    let mut others: Vec<(ProductPath, Vec<&str>)> = Vec::new();
    for layer in layers.iter().filter(|layer| matches!(layer.path, ProductPath::F32(_))) {
        match others.iter_mut().find(|(path, _)| *path == layer.path) {
            Some((_, names)) => names.push(&layer.name),
            None => others.push((layer.path, vec![&layer.name])),
        }
    }
    let of = |(path, names): &(ProductPath, Vec<&str>)| {
        let more = names.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more} in {path}", names[..names.len().min(NAMED)].join(", "))
    };
    let others = match &others[..] {
        [] => String::new(),
        others => format!(": {}", others.iter().map(of).collect::<Vec<_>>().join("; ")),
    };
    format!(
        "Weights are packed into {packed} bytes of {whole} in FLOAT 32; {} of {} layers multiply whole \
         numbers with exact sums ({int8} of 8 bits, {int16} of 16){others}.",
        int8 + int16,
        layers.len()
    )
}

/// Largest number up to which `f64` represents all whole numbers: 2^53.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// Reads an array of NumPy with whole numbers, one for each sample. Floats may be whole, too.
///
/// # Errors
/// A file that cannot be read, or numbers that are not whole.
pub fn whole_numbers(path: &Path) -> Result<Vec<usize>, String> {
    let wrong = || format!("{}: expected whole numbers of at least 0", path.display());
    let found = array_as(path, Npy::parse_integers)?;
    if found.elements.element() == Element::Bool {
        return Err(format!(
            "{}; found bool; save array.astype('int64') if 0 and 1 are meant",
            wrong()
        ));
    }
    let found = match found.elements.to_i64() {
        Some(integers) => integers.into_owned(),
        None => {
            // NumPy makes floats of integers easily.
            let whole = |x: f64| {
                let is_whole = x.fract() == 0.0 && x.abs() < MOST_EXACT;
                is_whole.then_some(x as i64).ok_or_else(|| format!("{}; found {x}", wrong()))
            };
            found.elements.to_f64().into_iter().map(whole).collect::<Result<Vec<i64>, _>>()?
        }
    };
    let number = |(at, number): (usize, &i64)| {
        usize::try_from(*number).map_err(|_| format!("{}; {number} is at {at}", wrong()))
    };
    found.iter().enumerate().map(number).collect()
}

/// Reads an array of NumPy.
///
/// # Errors
/// A file that cannot be read or does not parse.
pub fn array(path: &Path) -> Result<Npy, String> {
    array_as(path, Npy::parse)
}

fn array_as(path: &Path, parse: fn(&[u8]) -> Result<Npy, NpyError>) -> Result<Npy, String> {
    let bytes =
        files::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    parse(&bytes).map_err(|problem| format!("{}: {problem}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specification_names_files() {
        let spec = parse("model=a b/lenet.onnx,formats=opt_conf.txt").unwrap();
        assert_eq!(spec.model, Some("a b/lenet.onnx".into()));
        assert_eq!(spec.formats, Some("opt_conf.txt".into()));
        assert_eq!(model("formats=x,model=y"), Some("y".into()));
        assert_eq!(model("packed=lenet.packed"), Some("lenet.packed".into()));
        assert_eq!(files("packed=x,model=y"), [PathBuf::from("y"), "x".into()]);
        assert_eq!(parse(""), Ok(Spec::default()));
        for (text, expected) in [
            (
                "lenet.onnx",
                "expected model=FILE, formats=FILE, packed=FILE or lengths=FILE, found `lenet.onnx`",
            ),
            (
                "model=",
                "expected model=FILE, formats=FILE, packed=FILE or lengths=FILE, found `model=`",
            ),
            ("format=x", "unknown key `format`; the nearest key is `formats`"),
            ("model=a,model=b", "`model` is given twice"),
        ] {
            assert_eq!(parse(text), Err(expected.to_owned()), "{text}");
        }
    }
}
