//! Pipelines: systems whose answer takes several calls of one or more models, such as decoders and
//! chains of models. A pipeline is timed as a whole.

mod beam;
mod decoder;
pub(crate) mod diffusion;
pub mod euler;
pub(crate) mod generation;
pub(crate) mod neighbors;
mod recurrent;
pub(crate) mod transducer;
pub(crate) mod translation;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use dyno_loadgen::clock::Clock;
use dyno_loadgen::record::Failure;
use dyno_loadgen::sut::{QuerySample, ResponseId};
use dyno_sut::engine::{Answers, Engine, EngineInfo, Port};
use dyno_sut::onnx::OnnxError;
use dyno_sut::onnx::ort::{CallableModel, OrtModel};
use dyno_sut::tensors::{SampleTensor, TensorLibrary};

/// Loads a model with the options of a run.
pub type ModelOpener<'a> = dyn Fn(&Path) -> Result<OrtModel, OnnxError> + 'a;

/// Creates a pipeline when the loader of models is known.
pub(crate) type PipelineLoader =
    Box<dyn FnOnce(&ModelOpener<'_>) -> Result<Box<dyn Pipeline>, OnnxError> + Send>;

/// Answers samples with several calls of models.
pub(crate) trait Pipeline: Send + Sync {
    /// Returns the models; the result is named after the first.
    fn models(&self) -> Vec<&CallableModel>;

    /// Answers each of the samples, of which there is at least one. An error fails the samples that
    /// have no answer yet and is reported unchanged.
    ///
    /// # Errors
    /// The cause, with the name of the failed model.
    fn answer(&self, batch: &[LoadedSample], answers: &mut Answers) -> Result<(), String>;

    /// Checks that the models run on a sample, in as few calls as possible.
    ///
    /// # Errors
    /// The cause, with the name of the failed model.
    fn try_out(&self, first: &LoadedSample) -> Result<(), String>;

    /// Whether the pipeline reports first tokens and counts tokens.
    fn is_streaming(&self) -> bool {
        false
    }

    /// Whether a model has a batch dimension of 1, so that samples cannot share a call.
    fn takes_one(&self) -> bool {
        false
    }
}

/// A sample with its inputs in memory.
#[derive(Debug, Clone)]
pub(crate) struct LoadedSample {
    /// Identifies the answer.
    pub sample: QuerySample,
    /// Inputs in the order of the card.
    pub inputs: Arc<[SampleTensor]>,
}

/// The engine of a pipeline. It keeps no state between calls except the first error.
struct PipelineEngine {
    name: String,
    pipeline: Box<dyn Pipeline>,
    library: Arc<TensorLibrary>,
    info: EngineInfo,
    trouble: OnceLock<String>,
}

/// Returns the engine of a pipeline, which has been tried on the first sample.
///
/// # Errors
/// A model does not load or fit, or fails on the sample.
pub(crate) fn engine(
    load: PipelineLoader,
    library: &Arc<TensorLibrary>,
    largest_batch: usize,
    open: &ModelOpener<'_>,
) -> Result<Arc<dyn Engine>, OnnxError> {
    let pipeline = load(open)?;
    let models = pipeline.models();
    let named = |model: &CallableModel, port: &Port| Port {
        name: match models.len() {
            1 => port.name.clone(),
            _ => format!("{}.{}", model.name(), port.name),
        },
        ..port.clone()
    };
    let ports = |list: fn(&CallableModel) -> Vec<Port>| {
        let all = models.iter().map(|model| (model, list(model)));
        all.flat_map(|(model, ports)| ports.into_iter().map(|port| named(model, &port))).collect()
    };
    let largest_batch = if pipeline.takes_one() { 1 } else { largest_batch };
    let info = EngineInfo {
        inputs: ports(|model| model.inputs().iter().map(Port::from).collect()),
        outputs: ports(|model| model.outputs().to_vec()),
        largest_batch,
        ..OrtModel::info()
    };
    let name = models.first().map_or("pipeline", |model| model.name());
    let name = format!("onnxruntime-{name}");
    let library = Arc::clone(library);
    let mut running = PipelineEngine { name, pipeline, library, info, trouble: OnceLock::new() };
    let clock = Clock::start();
    let first = running.load(QuerySample { id: ResponseId(1), index: 0 });
    let tried = first.and_then(|first| running.pipeline.try_out(&first));
    tried.map_err(|why| OnnxError::Trial { why })?;
    running.info.first_call = Some(clock.now());
    Ok(Arc::new(running))
}

/// Whether one of these inputs has a fixed first dimension of `rows`; the first dimension is that
/// of the rows.
///
/// # Errors
/// An input has another fixed number of rows.
fn has_rows(
    model: &CallableModel,
    mut inputs: impl Iterator<Item = usize>,
    rows: usize,
) -> Result<bool, OnnxError> {
    inputs.try_fold(false, |has, at| {
        let port = &model.inputs()[at];
        match port.shape.first() {
            Some(Some(found)) if *found == rows => Ok(true),
            Some(None) => Ok(has),
            _ => Err(model.unfit(format!(
                "its input '{}' is {}; expected any number of rows, or {rows}: export it with a \
                 dynamic axis",
                port.name,
                recurrent::shape(port)
            ))),
        }
    })
}

impl PipelineEngine {
    fn load(&self, sample: QuerySample) -> Result<LoadedSample, String> {
        Ok(LoadedSample { sample, inputs: self.library.loaded_sample(sample.index)? })
    }

    fn fail(&self, ids: impl Iterator<Item = ResponseId>, why: String, answers: &mut Answers) {
        ids.for_each(|id| answers.fail(id, Failure::Internal));
        self.trouble.get_or_init(|| why);
    }
}

impl Engine for PipelineEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
        for samples in samples.chunks(self.info.largest_batch.max(1)) {
            let mut batch = Vec::with_capacity(samples.len());
            for sample in samples {
                match self.load(*sample) {
                    Ok(one) => batch.push(one),
                    Err(why) => {
                        answers.fail(sample.id, Failure::Rejected);
                        self.trouble.get_or_init(|| why);
                    }
                }
            }
            if batch.is_empty() {
                continue;
            }
            if let Err(why) = self.pipeline.answer(&batch, answers) {
                let done: Vec<ResponseId> = answers.answered().collect();
                let ids = batch.iter().map(|batch| batch.sample.id);
                self.fail(ids.filter(|id| !done.contains(id)), why, answers);
            }
        }
    }

    fn failure_reason(&self) -> Option<&str> {
        self.trouble.get().map(String::as_str)
    }

    fn info(&self) -> EngineInfo {
        self.info.clone()
    }

    fn is_streaming(&self) -> bool {
        self.pipeline.is_streaming()
    }

    /// Uses trial calls, because a full answer may take minutes and the trial covers what is slow
    /// at first.
    fn warm_up(&self, calls: usize, _: std::num::NonZero<usize>) {
        let first = self.load(QuerySample { id: ResponseId(1), index: 0 });
        let models = self.pipeline.models();
        let prefer = |session: usize| {
            models.iter().for_each(|model| model.prefer(session % model.sessions()));
        };
        // Each session needs its own warm-up.
        for session in 0..models.iter().map(|model| model.sessions()).max().unwrap_or(1) {
            prefer(session);
            for _ in 0..calls {
                let tried = first.as_ref().map_err(String::clone);
                if let Err(why) = tried.and_then(|first| self.pipeline.try_out(first)) {
                    self.trouble.get_or_init(|| why);
                }
            }
        }
        prefer(0);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::num::NonZero;

    use dyno_onnx::{Builder, Dim, Element, Weights};
    use dyno_sut::onnx::ort::{InputValue, OrtOptions};
    use dyno_sut::onnx::runtime::Search;
    use dyno_sut::tensors::{Elements, Tensor};

    use super::*;

    /// Answers numbers with themselves; the number 2 is an error.
    struct UntilTwo;

    impl Pipeline for UntilTwo {
        fn models(&self) -> Vec<&CallableModel> {
            Vec::new()
        }

        fn answer(&self, batch: &[LoadedSample], answers: &mut Answers) -> Result<(), String> {
            for LoadedSample { sample, inputs } in batch {
                let Elements::I32(number) = &inputs[0].elements else { panic!("i32 is fed") };
                if number[0] == 2 {
                    return Err("two".into());
                }
                answers.push(sample.id, &number[0].to_le_bytes());
            }
            Ok(())
        }

        fn try_out(&self, first: &LoadedSample) -> Result<(), String> {
            self.answer(std::slice::from_ref(first), &mut Answers::new())
        }
    }

    fn library(numbers: &[i32]) -> Arc<TensorLibrary> {
        let elements = Elements::I32(numbers.to_vec().into());
        let tensor = Tensor { name: "number".into(), sample_shape: vec![], elements };
        Arc::new(TensorLibrary::new("numbers", vec![tensor], None).unwrap())
    }

    #[test]
    fn an_error_fails_those_without_an_answer_and_no_other_call() {
        let open = |_: &Path| -> Result<OrtModel, OnnxError> { panic!("no model is opened") };
        let load = || -> PipelineLoader { Box::new(|_| Ok(Box::new(UntilTwo))) };
        let engine = engine(load(), &library(&[7, 1, 2, 3, 4]), 4, &open).unwrap();
        let batch = [0, 1, 2, 3, 4, 9].map(|n| QuerySample { id: ResponseId(n + 1), index: n });
        let mut answers = Answers::new();
        engine.answer(&batch, &mut answers);
        let mut found: Vec<_> = answers.iter().map(|(id, answer)| (id.0, answer.ok())).collect();
        found.sort_unstable();
        let number = |n: u8| [n, 0, 0, 0];
        let (seven, one, four) = (number(7), number(1), number(4));
        let expected = [
            (1, Some(&seven[..])),
            (2, Some(&one)),
            (3, None),
            (4, None),
            (5, Some(&four)),
            (10, None),
        ];
        assert_eq!(found, expected);
        assert_eq!(engine.failure_reason(), Some("two"));
        let refused = super::engine(load(), &library(&[2]), 4, &open).map(drop).unwrap_err();
        assert_eq!(refused, OnnxError::Trial { why: "two".into() });
    }

    /// A model that outputs another number in each call of a session.
    struct RandomModel(Arc<CallableModel>);

    impl RandomModel {
        fn call(&self) -> Result<Vec<f32>, String> {
            let call =
                self.0.call(&[InputValue::Elements(&[1], Elements::F32(vec![0.0].into()))])?;
            Ok(call[0].read()?.1.to_f32().into_owned())
        }
    }

    impl Pipeline for RandomModel {
        fn models(&self) -> Vec<&CallableModel> {
            vec![&self.0]
        }

        fn answer(&self, _: &[LoadedSample], _: &mut Answers) -> Result<(), String> {
            Err("it is only tried".into())
        }

        fn try_out(&self, _: &LoadedSample) -> Result<(), String> {
            self.call().map(drop)
        }
    }

    /// Reports on stderr, which tests do not capture here, that a test is skipped because ONNX
    /// Runtime is missing.
    ///
    /// # Panics
    /// Panics if `DYNO_DEMAND_ORT` is set.
    fn without_onnx_runtime(why: &dyn std::fmt::Display) {
        let is_demanded =
            std::env::var_os("DYNO_DEMAND_ORT").is_some_and(|value| !value.is_empty());
        assert!(!is_demanded, "DYNO_DEMAND_ORT is set, and {why}");
        let _ = writeln!(std::io::stderr(), "skipped: {why}");
    }

    #[test]
    fn every_session_is_warmed_up() {
        let mut net = Builder::new("dice", Weights::seeded(1));
        let x = net.input("x", Element::F32, &[Dim::Fixed(1)]);
        let y = net.node("Identity", &[&x], &[]).unwrap();
        net.output("y", &y).unwrap();
        let mut model = net.finish();
        // The builder cannot create this operator.
        model.nodes[0].op = "RandomUniformLike".into();
        model.nodes[0].attributes.push(("seed".into(), 7.0_f32.into()));
        let path = std::env::temp_dir().join(format!("dyno-dice-{}.onnx", std::process::id()));
        model.write(&path).unwrap();
        let open = |sessions: usize| {
            let sessions = NonZero::new(sessions).unwrap();
            let options = OrtOptions { sessions, ..OrtOptions::default() };
            OrtModel::open(&path, &Search::from_environment(None), options)
        };
        let found = open(1).and_then(|one| Ok((one.into_callable(), open(2)?.into_callable())));
        std::fs::remove_file(&path).unwrap();
        let (one, two) = match found {
            Err(OnnxError::Runtime(missing)) => return without_onnx_runtime(&missing),
            found => found.unwrap(),
        };
        let one = RandomModel(Arc::new(one));
        let expected: Vec<Vec<f32>> = (0..5).map(|_| one.call().unwrap()).collect();
        assert_ne!(expected[3], expected[4]);
        let two = Arc::new(two);
        let load: PipelineLoader = Box::new({
            let two = Arc::clone(&two);
            move |_| Ok(Box::new(RandomModel(two)))
        });
        let none = |_: &Path| -> Result<OrtModel, OnnxError> { panic!("it is open") };
        let engine = engine(load, &library(&[1]), 4, &none).unwrap();
        engine.warm_up(3, NonZero::<usize>::MIN);
        // The first session has had a trial call before.
        let dice = RandomModel(Arc::clone(&two));
        assert_eq!(dice.call().unwrap(), expected[4]);
        two.prefer(1);
        assert_eq!(dice.call().unwrap(), expected[3]);
        assert_eq!(engine.failure_reason(), None);
    }
}
