//! Systems for `dyno serve`: models of systems under test, without data sets.

use std::path::PathBuf;
use std::sync::Arc;

use dyno_net::serve::{Station, Tokens};
use dyno_number::Dictionary;
use dyno_sut::digits::DigitsPerceptron;
use dyno_sut::infer::{InferenceModel, Value, trial_ones, trial_zeros};
use dyno_sut::null::Null;
use dyno_sut::onnx::ort::OrtModel;
use dyno_sut::onnx::runtime::Search;
use dyno_sut::onnx::tuned::TunedModel;

use super::{BATCH_DEFAULT, onnx, policy, rnn, shapes, tokens, tuned};
use crate::failure::Failure;
use crate::options::RunOptions;

/// Specifications that can be served, for help texts.
pub(crate) const SERVED: &str = "digits, digits-lstm, null, onnx:FILE, tuned:model=FILE,formats=FILE, \
     rnn:MODEL (as dyno info systems has them), and tokens:first=TIME,each=TIME,tokens=N";

/// A loaded model that answers requests.
pub enum ServerModel {
    /// A model of tensors, with the stations that compute it, and how it was verified.
    Tensors(Arc<dyn InferenceModel>, Vec<Station>, Option<String>),
    /// A model of text in tokens.
    Text(Tokens),
}

/// Loads the model of a specification; at most `waiting` requests wait.
///
/// # Errors
/// An invalid specification, or a missing file.
pub fn load(spec: &str, waiting: usize, run: &RunOptions) -> Result<ServerModel, Failure> {
    let (name, argument) = spec.split_once(':').unwrap_or((spec, ""));
    let workers = run.workers.unwrap_or(1).max(1);
    let batch = run.batch.as_ref().map_or(BATCH_DEFAULT, |_| onnx::largest_batch(run)).get();
    let stations = || (0..workers).map(|_| Station { cores: run.cores.clone() }).collect();
    let model: Arc<dyn InferenceModel> = match name {
        "digits" => Arc::new(DigitsPerceptron::new().by_value(batch)),
        "null" => Arc::new(Null.by_value()),
        "onnx" => {
            let mut model = load_onnx(argument, batch, run)?;
            let symbols = || shapes::symbols(argument.as_ref());
            let inputs = if run.shapes.is_empty() {
                model.inputs().to_vec()
            } else {
                shapes::bound(model.inputs(), symbols, run)?
            };
            let remark = shapes::allow_other_rows(&mut model, &symbols())
                .or_else(|| onnx::separate(&mut model, Some(argument.as_ref()), &inputs));
            return Ok(ServerModel::Tensors(Arc::new(model), stations(), remark));
        }
        "tuned" => {
            let mut model = tuned_model(argument)?.by_value(batch);
            let inputs = if run.shapes.is_empty() {
                model.inputs().to_vec()
            } else {
                let symbols = || {
                    tuned::model(argument)
                        .map_or_else(Default::default, |file| shapes::symbols(&file))
                };
                shapes::bound(model.inputs(), symbols, run)?
            };
            // A packed model is not an ONNX file.
            let is_onnx = |file: &PathBuf| dyno_onnx::Model::read(file).is_ok();
            let file = tuned::model(argument).filter(is_onnx);
            let remark = onnx::separate(&mut model, file.as_deref(), &inputs);
            return Ok(ServerModel::Tensors(Arc::new(model), stations(), remark));
        }
        "rnn" | "digits-lstm" => {
            let rnn::ByValue { model, cores, remark } = rnn::by_value(name, argument, run)?;
            let stations = cores.into_iter().map(|cores| Station { cores }).collect();
            return Ok(ServerModel::Tensors(model, stations, remark));
        }
        "tokens" => return tokens::load(argument, waiting).map(ServerModel::Text),
        _ => {
            return Err(Failure::usage(format!("system `{spec}` cannot be served"))
                .hint(format!("systems that can be served: {SERVED}")));
        }
    };
    Ok(ServerModel::Tensors(model, stations(), None))
}

/// Calls a model `calls` times with zeros, or with ones if it rejects zeros. Dynamic dimensions are those
/// of `--shape`, or without one the least of a few sizes that the model accepts, because requests have
/// their own shapes.
///
/// # Errors
/// The model fails, or a shape does not fit it.
pub fn warm_up(
    model: &dyn InferenceModel,
    calls: usize,
    spec: &str,
    run: &RunOptions,
) -> Result<(), Failure> {
    let symbols = || {
        let argument = spec.split_once(':').map_or("", |(_, argument)| argument);
        let named = tuned::model(argument).or_else(|| rnn::files(argument).into_iter().next());
        let file = named.unwrap_or_else(|| PathBuf::from(argument));
        shapes::symbols(&file)
    };
    let inputs = if run.shapes.is_empty() {
        model.inputs().to_vec()
    } else {
        shapes::bound(model.inputs(), symbols, run)?
    };
    let call = |request: &[Value]| model.infer(&[request]).remove(0);
    let mut refused = None;
    let requests = trial_zeros(&inputs).chain(trial_ones(&inputs));
    for request in requests.take_while(|_| calls > 0) {
        match (0..calls).try_for_each(|_| call(&request).map(drop)) {
            Ok(()) => return Ok(()),
            Err((_, why)) => refused = refused.or(Some(why)),
        }
    }
    refused.map_or(Ok(()), |why| {
        Err(Failure::set_up(format!("{} fails on zeros: {why}", model.name()))
            .hint("--shape sets dimensions other than 1; --warm-up 0 skips these calls"))
    })
}

fn load_onnx(
    operand: &str,
    batch: usize,
    run: &RunOptions,
) -> Result<dyno_sut::infer::RowModel, Failure> {
    let onnx::Operand { file, output } = onnx::parse(operand);
    if let Some(name) = output {
        return Err(onnx::no_choice_of_output("onnx", name));
    }
    let path = PathBuf::from(file);
    if !path.is_file() {
        return Err(Failure::no_file("model", &path).hint("use --system onnx:FILE.onnx"));
    }
    let _bound = policy::bound(run.cores.as_ref())?;
    let search = Search::from_environment(run.ort_lib.clone());
    let model = OrtModel::open(&path, &search, onnx::ort_options(run));
    let model = model.map_err(|error| onnx::missing(error, &[], run))?;
    Ok(model.into_callable().by_value(batch))
}

fn tuned_model(text: &str) -> Result<TunedModel, Failure> {
    let files = tuned::parse(text)
        .map_err(|why| Failure::usage(format!("system `tuned:{text}`: {why}")))?;
    if files.lengths.is_some() {
        return Err(Failure::usage(format!(
            "system `tuned:{text}`: requests have their own lengths"
        ))
        .hint("remove lengths=, which belongs to samples of --data"));
    }
    let opened = match (&files.packed, &files.model) {
        (Some(packed), model) => tuned::open_packed(packed, model.as_deref()),
        (None, Some(model)) => {
            let formats = match &files.formats {
                Some(path) => tuned::read(path)?,
                None => Dictionary::new(),
            };
            TunedModel::open(model, &formats)
        }
        (None, None) => {
            return Err(Failure::usage(format!("system `tuned:{text}` needs a model"))
                .hint("for example tuned:model=lenet.onnx,formats=opt_conf.txt"));
        }
    };
    opened.map_err(Failure::set_up)
}

#[cfg(test)]
mod tests {
    use dyno_sut::engine::EngineInfo;
    use dyno_sut::infer::RowModel;
    use dyno_sut::tensors::{Element, ModelInput};

    use super::*;

    /// A window of four elements needs as many, which 1 and 3 are not, and 16 is.
    #[test]
    fn a_warm_up_tries_larger_sizes() {
        let model = |least: usize| {
            let shape = vec![None, None];
            let input = ModelInput { name: "x".into(), element: Element::F32, shape };
            let call = move |values: &[Value]| match values[0].shape[1] {
                width if width < least => Err(format!("a window of {least} over {width}")),
                _ => Ok(values.to_vec()),
            };
            RowModel::new("window", vec![input], EngineInfo::default(), Box::new(call))
        };
        let run = RunOptions::default();
        assert!(warm_up(&model(4), 2, "", &run).is_ok());
        let error = warm_up(&model(1_000), 1, "", &run).unwrap_err().problems().join(" ");
        assert!(error.contains("fails on zeros: a window of 1000 over 1"), "{error}");
        assert!(warm_up(&model(1_000), 0, "", &run).is_ok());
    }

    /// A model that divides by an input, as the mean of a sequence whose padding is 0 does.
    #[test]
    fn a_warm_up_tries_ones_if_zeros_are_rejected() {
        let input = ModelInput { name: "n".into(), element: Element::I64, shape: vec![None] };
        let call = |values: &[Value]| match values[0].elements.as_slice::<i64>() {
            Some([1, ..]) => Ok(values.to_vec()),
            _ => Err("a number is divided by zero".to_owned()),
        };
        let model = RowModel::new("divides", vec![input], EngineInfo::default(), Box::new(call));
        assert!(warm_up(&model, 1, "", &RunOptions::default()).is_ok());
    }
}
