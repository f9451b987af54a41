//! Answers tasks with ONNX Runtime, for all tests that need it; they are skipped without it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use dyno_loadgen::qsl::SampleLibrary as _;
use dyno_loadgen::record::Failure;
use dyno_loadgen::sut::{QuerySample, ResponseId};
use dyno_sut::engine::{Answers, Engine};
use dyno_sut::onnx::OnnxError;
use dyno_sut::onnx::ort::{OrtModel, OrtOptions};
use dyno_sut::onnx::runtime::Search;
use dyno_sut::tensors::TensorLibrary;
use dyno_task::open::TaskModel;

/// Reports on stderr, which tests do not capture here, that a test is skipped because ONNX Runtime
/// is missing.
///
/// # Panics
/// Panics if `DYNO_DEMAND_ORT` is set.
fn without_onnx_runtime(why: &dyn std::fmt::Display) {
    let is_demanded = std::env::var_os("DYNO_DEMAND_ORT").is_some_and(|value| !value.is_empty());
    assert!(!is_demanded, "DYNO_DEMAND_ORT is set, and {why}");
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Returns an engine with at most this many samples per call; `None`, with a message, without ONNX
/// Runtime.
pub fn engine(
    model: TaskModel,
    library: &Arc<TensorLibrary>,
    batch: usize,
) -> Option<Result<Arc<dyn Engine>, OnnxError>> {
    let search = Search::from_environment(None);
    let open = |path: &Path| OrtModel::open(path, &search, OrtOptions::default());
    let batch = NonZero::new(batch).expect("a call has samples");
    match model.engine(library, batch, &open) {
        Err(OnnxError::Runtime(missing)) => {
            without_onnx_runtime(&missing);
            None
        }
        engine => Some(engine),
    }
}

/// Returns the answer to each sample of the library; all samples are issued at once.
pub fn answers(
    engine: &dyn Engine,
    library: &TensorLibrary,
) -> BTreeMap<u64, Result<Vec<u8>, Failure>> {
    let all: Vec<u32> = (0..library.total_sample_count() as u32).collect();
    library.load(&all);
    let sample = |&index: &u32| QuerySample { id: ResponseId(index.into()), index: index.into() };
    let mut answers = Answers::new();
    engine.answer(&all.iter().map(sample).collect::<Vec<_>>(), &mut answers);
    answers.iter().map(|(id, answer)| (id.0, answer.map(<[u8]>::to_vec))).collect()
}
