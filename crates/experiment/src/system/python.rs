//! The system `py:FILE.py:FUNCTION`: a function of Python in processes of its own.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::settings::known_keys;
use dyno_results::units::parse_duration;
use dyno_sut::tensors::{Element, ModelInput, Spans, TensorError, TensorLibrary};

use super::kind::{OpenedSystem, Request, Resources, SystemKind};
use super::{SAMPLES_DEFAULT, lines, onnx, shapes};
use crate::failure::Failure;
use crate::options::RunOptions;

pub(super) const KIND: SystemKind = SystemKind {
    name: "py",
    operand: "FILE.py:FUNCTION",
    help: "a function of Python, py:FILE.py:FUNCTION or py:MODULE:FUNCTION, which takes a list of \
         samples and returns a list of outputs. It runs in a process of the active environment; \
         python=PATH selects another interpreter, workers=N starts N processes, timeout=TIME limits \
         a call (60s). A sample is an array of NumPy (bytes without NumPy) of --data FILE.npy, or \
         by input name if there are several; a line of --data FILE.txt (str) or FILE.jsonl (what \
         json.loads returns); random float32 with --shape x=1xN; otherwise its number (int64). \
         An output is an array, a number, bytes, text, or what json.dumps accepts",
    accepts: &["data", "shape", "labels", "workers", "cores", "warm-up", "batch", "batch-wait"],
    resources,
    check: Some(|operand, _| parse(operand).map(drop).map_err(|why| problem(operand, &why))),
    open,
};

/// Operand of `py:`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Spec {
    /// File or module.
    place: String,
    function: String,
    python: Option<PathBuf>,
    workers: Option<NonZero<usize>>,
    /// Maximum duration of a call, ns.
    timeout: Option<u64>,
}

const KEYS: [&str; 3] = ["python", "workers", "timeout"];

impl Spec {
    /// Returns the file, unless a module is named.
    fn file(&self) -> Option<PathBuf> {
        let is_file = Path::new(&self.place).extension().is_some_and(|ending| ending == "py");
        (is_file || self.place.contains('/')).then(|| PathBuf::from(&self.place))
    }
}

/// Parses the operand.
///
/// # Errors
/// A sentence fragment with the problem.
fn parse(operand: &str) -> Result<Spec, String> {
    // The name of a file may have commas.
    let file = operand.find(".py:").unwrap_or_default();
    let end = operand[file..].find(',').map_or(operand.len(), |comma| file + comma);
    let (named, keys) = operand.split_at(end);
    let expected = || format!("expected FILE.py:FUNCTION or MODULE:FUNCTION, found `{named}`");
    let (place, function) = named.rsplit_once(':').ok_or_else(expected)?;
    if place.is_empty() || function.is_empty() {
        return Err(expected());
    }
    let mut spec = Spec { place: place.into(), function: function.into(), ..Spec::default() };
    for part in keys.split(',').skip(1) {
        let (key, value) =
            part.split_once('=').filter(|(_, value)| !value.is_empty()).ok_or_else(|| {
                format!("expected python=PATH, workers=N or timeout=TIME, found `{part}`")
            })?;
        match key {
            "python" => spec.python = Some(value.into()),
            "workers" => {
                let workers = value.parse().ok();
                spec.workers = Some(workers.ok_or_else(|| {
                    format!("expected workers=N with N of at least 1, found `{value}`")
                })?);
            }
            "timeout" => spec.timeout = Some(parse_duration(value)?),
            _ => {
                let known = known_keys(key, KEYS.into_iter());
                return Err(format!("unknown key `{key}`; {known}"));
            }
        }
    }
    Ok(spec)
}

fn problem(operand: &str, why: &str) -> Failure {
    Failure::usage(format!("system `py:{operand}`: {why}")).hint("for example py:model.py:predict")
}

/// Its code is like a library: a worker needs consent to run it.
fn resources(operand: &str) -> Resources {
    let Ok(spec) = parse(operand) else { return Resources::default() };
    let code = spec.file().unwrap_or_else(|| PathBuf::from(&spec.place));
    let libraries = [Some(code), spec.python].into_iter().flatten().collect();
    Resources { libraries, ..Resources::default() }
}

#[cfg(not(unix))]
fn open(request: &Request<'_>) -> Result<OpenedSystem, Failure> {
    Err(problem(request.operand, "functions of Python are measured on Linux and macOS"))
}

#[cfg(unix)]
fn open(request: &Request<'_>) -> Result<OpenedSystem, Failure> {
    use dyno_sut::python::{Place, PythonEngine, PythonFunction, SampleForm, find_python};

    use super::kind::Drive;

    let Request { operand, run, .. } = *request;
    let spec = parse(operand).map_err(|why| problem(operand, &why))?;
    let place = match spec.file() {
        Some(file) if !file.is_file() => {
            return Err(Failure::no_file("file", &file));
        }
        Some(file) => Place::File(file),
        None => Place::Module(spec.place),
    };
    let lines = lines::of_data(run)?;
    let form = match &lines {
        Some(lines) if lines.is_json => SampleForm::Json,
        Some(_) => SampleForm::Text,
        None => SampleForm::Arrays,
    };
    let (samples, remark) = match lines {
        Some(lines) => lines.library(run)?,
        None => arrays(run)?,
    };
    let samples = Arc::new(samples);
    let processes = spec.workers.or(run.workers.and_then(NonZero::new));
    let python = spec.python.unwrap_or_else(find_python);
    let function = PythonFunction {
        processes: processes.unwrap_or(NonZero::<usize>::MIN),
        timeout: spec.timeout.unwrap_or(dyno_sut::python::TIMEOUT),
        largest_batch: onnx::largest_batch(run),
        form,
        is_classifier: run.labels.is_some(),
        ..PythonFunction::new(python, place, spec.function)
    };
    let workers = function.processes.get();
    // Processes inherit the cores of this thread.
    let _bound = super::policy::bound(run.cores.as_ref())?;
    let engine = PythonEngine::start(function, &samples).map_err(Failure::set_up)?;
    Ok(OpenedSystem {
        labels: samples.labels().map(<[i64]>::to_vec),
        tensors: Some(samples.clone()),
        remarks: remark.into_iter().collect(),
        workers: (workers > 1).then_some(workers),
        offline_workers: workers,
        ..OpenedSystem::new(Drive::Engine(Arc::new(engine)), samples)
    })
}

/// Returns the samples of NPY files, random ones of the given shapes, or numbers. The remark states that
/// some are not finite.
pub(super) fn arrays(run: &RunOptions) -> Result<(TensorLibrary, Option<String>), Failure> {
    if run.data.is_empty() && run.shapes.is_empty() {
        if run.labels.is_some() {
            return Err(Failure::usage("--labels needs the samples that they belong to")
                .hint("pass them with --data FILE.npy"));
        }
        let count = NonZero::new(run.samples_or_of_round(SAMPLES_DEFAULT));
        let count = count.unwrap_or(NonZero::<usize>::MIN);
        return Ok((TensorLibrary::numbers(count), None));
    }
    let name = |name: &Option<String>| name.clone().unwrap_or_else(|| INPUT.into());
    if run.data.is_empty() {
        let input = |shape: &crate::options::ShapeOption| ModelInput {
            name: name(&shape.input),
            element: Element::F32,
            shape: shape
                .dimensions
                .iter()
                .enumerate()
                .map(|(axis, n)| (axis > 0).then_some(*n))
                .collect(),
        };
        let inputs: Vec<ModelInput> = run.shapes.iter().map(input).collect();
        let library = onnx::library(&inputs, shapes::Symbols::new, &Spans::new(), run)?;
        return Ok((library, None));
    }
    let files: Vec<(String, PathBuf)> =
        run.data.iter().map(|(given, path)| (name(given), path.clone())).collect();
    if let Some((_, path)) =
        run.data.iter().find(|(given, _)| given.is_none() && run.data.len() > 1)
    {
        let path = path.display();
        return Err(Failure::usage(format!("--data {path} does not name its input"))
            .hint(format!("with several files, use --data NAME={path}")));
    }
    onnx::check_names(&files)?;
    any_numbers(&files, run)
}

/// Reads files for an engine of the user's, which may know missing values. The remark names the first
/// number that is not finite.
///
/// # Errors
/// Files that cannot be read, or that do not belong together.
pub(super) fn any_numbers(
    files: &[(String, PathBuf)],
    run: &RunOptions,
) -> Result<(TensorLibrary, Option<String>), Failure> {
    let title = files[0].1.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let opened = TensorLibrary::open_any(title, files, run.labels.as_deref());
    let (library, odd) = opened.map_err(Failure::set_up)?;
    let remark = odd.and_then(|odd| match odd {
        TensorError::NotFinite { path, index, value } => Some(format!(
            "{}: {value} at {index:?}. The engine gets numbers that are not finite as they are.",
            path.display()
        )),
        _ => None,
    });
    Ok((library, remark))
}

/// Name of an input that has none.
const INPUT: &str = "input";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_named_with_its_file_or_module() {
        let spec = parse("a/model.py:Net.predict,workers=2,timeout=5s,python=/x/python").unwrap();
        assert_eq!(spec.file(), Some("a/model.py".into()));
        assert_eq!((spec.function.as_str(), spec.timeout), ("Net.predict", Some(5_000_000_000)));
        assert_eq!((spec.workers.unwrap().get(), spec.python), (2, Some("/x/python".into())));
        let spec = parse("a,b=c/1,2.py:f,workers=2").unwrap();
        assert_eq!((spec.file(), spec.function.as_str()), (Some("a,b=c/1,2.py".into()), "f"));
        assert_eq!(spec.workers.unwrap().get(), 2);
        let spec = parse("package.model:predict").unwrap();
        assert_eq!((spec.file(), spec.place.as_str()), (None, "package.model"));
        for (text, expected) in [
            ("model.py", "expected FILE.py:FUNCTION"),
            ("model.py:", "expected FILE.py:FUNCTION"),
            ("m.py:f,worker=2", "the nearest key is `workers`"),
            ("m.py:f,workers=0", "at least 1"),
            ("m.py:f,workers", "expected python=PATH"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn its_code_is_a_library_that_workers_need_consent_for() {
        let named = resources("m.py:f,python=/x/python");
        assert_eq!(named.libraries, [PathBuf::from("m.py"), "/x/python".into()]);
        assert_eq!(named.files, Vec::<PathBuf>::new());
        assert_eq!(resources("package.m:f").libraries, [PathBuf::from("package.m")]);
    }
}
