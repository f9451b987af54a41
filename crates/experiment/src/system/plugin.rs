//! The system `plugin:FILE.so`: an engine that its user wrote in C.

use std::path::PathBuf;
use std::sync::Arc;

use dyno_plugin::{Plugin, PluginSystem};
use dyno_results::units::parse_duration;
use dyno_sut::tensors::{Element, ModelInput, Spans, TensorLibrary};

use super::kind::{Drive, OpenedSystem, Request, Resources, SystemKind};
use super::{lines, onnx, python, shapes};
use crate::failure::Failure;
use crate::options::RunOptions;

pub(super) const KIND: SystemKind = SystemKind {
    name: "plugin",
    operand: "FILE.so",
    help: "an engine in C or C++, compiled against dyno_engine.h (cargo xtask install-c): \
         plugin:FILE.so,OPTIONS, where the engine reads all OPTIONS except timeout=TIME (60s), \
         after which an engine without any completion is ended. It queues and batches by itself. \
         Samples are those that its inputs describe: --data FILE.npy or random; of an input of \
         bytes also the lines of --data FILE.txt or FILE.jsonl; numbers if it has no inputs. With \
         --labels, an answer is its class, an int64",
    accepts: &["data", "shape", "labels"],
    resources: |operand| {
        let libraries = vec![PathBuf::from(operand.split(',').next().unwrap_or_default())];
        Resources { libraries, ..Resources::default() }
    },
    check: Some(|operand, _| parse(operand).map(drop)),
    open,
};

/// Operand of `plugin:`.
struct Spec {
    path: PathBuf,
    /// What the engine reads.
    options: String,
    timeout: Option<u64>,
}

fn parse(operand: &str) -> Result<Spec, Failure> {
    let problem = |why: String| {
        Failure::usage(format!("system `plugin:{operand}`: {why}"))
            .hint("for example plugin:./my_engine.so,threads=4")
    };
    let (path, options) = operand.split_once(',').unwrap_or((operand, ""));
    if path.is_empty() {
        return Err(problem("expected FILE.so".into()));
    }
    if options.split(',').filter(|part| part.starts_with("timeout=")).count() > 1 {
        return Err(problem("`timeout` is given twice".into()));
    }
    let mut timeout = None;
    let own = |part: &&str| match part.strip_prefix("timeout=") {
        Some(value) => {
            timeout = Some(parse_duration(value));
            false
        }
        None => true,
    };
    let options = options.split(',').filter(own).collect::<Vec<_>>().join(",");
    Ok(Spec { path: path.into(), options, timeout: timeout.transpose().map_err(problem)? })
}

fn open(request: &Request<'_>) -> Result<OpenedSystem, Failure> {
    let Request { operand, run, .. } = *request;
    let Spec { path, options, timeout } = parse(operand)?;
    let plugin = Plugin::open(&path, &options).map_err(Failure::set_up)?;
    // Without inputs, samples are their numbers.
    let is_synthetic = run.data.is_empty() && !plugin.inputs().is_empty();
    let (library, remark) = library(&plugin, run)?;
    let library = Arc::new(library);
    let system = PluginSystem::new(plugin, &library, timeout).map_err(|why| {
        Failure::set_up(format!("plug-in {}: {why}", path.display()))
            .hint("--data NAME=FILE.npy gives the samples of an input")
    })?;
    Ok(OpenedSystem {
        labels: library.labels().map(<[i64]>::to_vec),
        tensors: Some(library.clone()),
        is_synthetic,
        remarks: remark.into_iter().collect(),
        ..OpenedSystem::new(Drive::Plugin(Arc::new(system)), library)
    })
}

/// Returns the samples for the inputs that the engine describes. The remark states that some are not
/// finite.
fn library(plugin: &Plugin, run: &RunOptions) -> Result<(TensorLibrary, Option<String>), Failure> {
    if let [input] = plugin.inputs()
        && input.element == Element::U8
        && let Some(lines) = lines::of_data(run)?
    {
        return lines.library(run);
    }
    if plugin.inputs().is_empty() {
        if !run.shapes.is_empty() {
            let problem = "--shape has no effect: the engine describes no inputs";
            return Err(Failure::usage(problem).hint("remove it, or describe the inputs"));
        }
        return python::arrays(run);
    }
    let input = |input: &dyno_plugin::PluginInput| ModelInput {
        name: input.name.clone(),
        element: input.element,
        shape: std::iter::once(None).chain(input.shape.iter().copied()).collect(),
    };
    let inputs: Vec<ModelInput> = plugin.inputs().iter().map(input).collect();
    if !run.data.is_empty() {
        return python::any_numbers(&onnx::named_files(&inputs, run)?, run);
    }
    Ok((onnx::library(&inputs, shapes::Symbols::new, &Spans::new(), run)?, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_gets_all_options_but_the_time_limit() {
        let spec = parse("./e.so,threads=4,timeout=2s,model=a b").unwrap();
        assert_eq!((spec.path, spec.options.as_str()), ("./e.so".into(), "threads=4,model=a b"));
        assert_eq!(spec.timeout, Some(2_000_000_000));
        let spec = parse("e.so").unwrap();
        assert_eq!((spec.options.as_str(), spec.timeout), ("", None));
        assert!(parse("").is_err() && parse("e.so,timeout=soon").is_err());
        assert!(parse("e.so,timeout=1s,timeout=2s").is_err());
        assert_eq!((KIND.resources)("e.so,a=b").libraries, [PathBuf::from("e.so")]);
    }
}
