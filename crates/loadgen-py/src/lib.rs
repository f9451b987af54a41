//! The Python module `mlperf_loadgen`, over [`dyno_loadgen::drop_in`]: every name, signature,
//! default and conversion of the reference's module, and completions in bulk.
//!
//! `python/mlperf_loadgen/__init__.pyi` describes it for readers and type checkers. No lock of this
//! crate is held while a thread waits for the interpreter.

mod adapter;
mod bulk;
mod completion;
mod convert;
mod enums;
mod exports;
mod handles;
mod interrupt;
mod log_settings;
mod memory;
mod process;
mod records;
mod settings;
mod test;
mod vector;

use dyno_loadgen::drop_in::LoadGen;
use pyo3::prelude::*;

/// Load generator of the process.
static LOADGEN: LoadGen = LoadGen::new();

/// The extension inside of the package `mlperf_loadgen`.
#[pymodule(name = "_native")]
mod native {
    use pyo3::prelude::*;

    use crate::records::{QUERY_SAMPLE, QUERY_SAMPLE_RESPONSE};

    #[pymodule_export]
    use crate::bulk::{first_token_complete_buffer, query_samples_complete_buffer};
    #[pymodule_export]
    use crate::completion::{first_token_complete, query_samples_complete};
    #[pymodule_export]
    use crate::enums::{LoggingMode, TestMode, TestScenario};
    #[pymodule_export]
    use crate::handles::{
        construct_buffer_sut, construct_fast_sut, construct_qdl, construct_qsl, construct_sut,
        destroy_buffer_sut, destroy_fast_sut, destroy_qdl, destroy_qsl, destroy_sut,
    };
    #[pymodule_export]
    use crate::log_settings::{LogOutputSettings, LogSettings};
    #[pymodule_export]
    use crate::settings::TestSettings;
    #[pymodule_export]
    use crate::test::{
        abort_test, register_issue_query_thread, start_test, start_test_with_log_settings,
    };
    #[pymodule_export]
    use crate::vector::{VectorQuerySample, VectorQuerySampleResponse};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        module.add("QuerySample", QUERY_SAMPLE.class(py)?)?;
        module.add("QuerySampleResponse", QUERY_SAMPLE_RESPONSE.class(py)?)?;
        crate::process::watch(module)
    }
}
