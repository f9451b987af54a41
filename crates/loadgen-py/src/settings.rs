//! `TestSettings`: the reference's fields under the reference's Python names.

use std::path::Path;

use dyno_loadgen::settings::{Scenario, TestMode as Mode, TestSettings as Core};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::LOADGEN;
use crate::convert::{Count, Flag, Integer, Real, Text};
use crate::enums::{TestMode, TestScenario};

/// Type of a field in Python that mirrors a type of the load generator.
trait Mirror: Sized {
    type Core;
    fn mirror(core: &Self::Core) -> Self;
    fn back(&self) -> PyResult<Self::Core>;
}

macro_rules! same_value {
    ($($name:ident: $type:ty),+) => {
        $(impl Mirror for $name {
            type Core = $type;
            fn mirror(core: &$type) -> Self {
                Self(*core)
            }
            fn back(&self) -> PyResult<$type> {
                Ok(self.0)
            }
        })+
    };
}
same_value!(Count: u64, Integer: i32, Real: f64, Flag: bool);

macro_rules! same_order {
    ($($name:ident: $type:ty),+) => {
        $(impl Mirror for $name {
            type Core = $type;
            fn mirror(core: &$type) -> Self {
                Self(*core as i32)
            }
            fn back(&self) -> PyResult<$type> {
                self.core_value(<$type>::ALL)
            }
        })+
    };
}
same_order!(TestScenario: Scenario, TestMode: Mode);

macro_rules! test_settings {
    ($($field:ident = $of:ident: $type:ty,)+) => {
        /// Settings of a test, with the defaults of the reference.
        #[pyclass(weakref, subclass, module = "mlperf_loadgen")]
        #[derive(Debug)]
        pub struct TestSettings {
            $(#[pyo3(get, set)] $field: $type,)+
        }

        impl TestSettings {
            fn mirror(core: &Core) -> Self {
                Self { $($field: Mirror::mirror(&core.$of),)+ }
            }

            /// Returns the settings of the load generator.
            ///
            /// # Errors
            /// `ValueError` for a scenario or mode that does not exist.
            pub fn core(&self) -> PyResult<Core> {
                Ok(Core { $($of: self.$field.back()?,)+ ..Core::default() })
            }
        }
    };
}

test_settings! {
    scenario = scenario: TestScenario,
    mode = mode: TestMode,
    single_stream_expected_latency_ns = single_stream_expected_latency_ns: Real,
    single_stream_target_latency_percentile = single_stream_target_latency_percentile: Real,
    multi_stream_expected_latency_ns = multi_stream_expected_latency_ns: Real,
    multi_stream_target_latency_percentile = multi_stream_target_latency_percentile: Real,
    multi_stream_samples_per_query = multi_stream_samples_per_query: Count,
    server_target_qps = server_target_qps: Real,
    server_target_latency_ns = server_target_latency_ns: Count,
    server_target_latency_percentile = server_target_latency_percentile: Real,
    server_coalesce_queries = server_coalesce_queries: Flag,
    server_find_peak_qps_decimals_of_precision = server_find_peak_qps_decimals_of_precision: Integer,
    server_find_peak_qps_boundary_step_size = server_find_peak_qps_boundary_step_size: Real,
    server_max_async_queries = server_max_async_queries: Count,
    server_num_issue_query_threads = server_num_issue_query_threads: Count,
    offline_expected_qps = offline_expected_qps: Real,
    sample_concatenate_permutation = sample_concatenate_permutation: Flag,
    min_duration_ms = min_duration_ms: Count,
    max_duration_ms = max_duration_ms: Count,
    min_query_count = min_query_count: Count,
    max_query_count = max_query_count: Count,
    qsl_rng_seed = qsl_rng_seed: Count,
    sample_index_rng_seed = sample_index_rng_seed: Count,
    schedule_rng_seed = schedule_rng_seed: Count,
    accuracy_log_rng_seed = accuracy_log_rng_seed: Count,
    accuracy_log_probability = accuracy_log_probability: Real,
    accuracy_log_sampling_target = accuracy_log_sampling_target: Count,
    test05 = test05: Flag,
    test05_qsl_rng_seed = test05_qsl_rng_seed: Count,
    test05_sample_index_rng_seed = test05_sample_index_rng_seed: Count,
    test05_schedule_rng_seed = test05_schedule_rng_seed: Count,
    print_timestamps = print_timestamps: Flag,
    performance_issue_unique = performance_issue_unique: Flag,
    performance_issue_same = performance_issue_same: Flag,
    performance_issue_same_index = performance_issue_same_index: Count,
    performance_sample_count_override = performance_sample_count_override: Count,
    accuracy_sample_count_override = accuracy_sample_count_override: Count,
    use_token_latencies = use_token_latencies: Flag,
    ttft_latency = server_ttft_latency: Count,
    tpot_latency = server_tpot_latency: Count,
    infer_token_latencies = infer_token_latencies: Flag,
    token_latency_scaling_factor = token_latency_scaling_factor: Count,
}

#[pymethods]
impl TestSettings {
    /// Accepts any arguments, for derived classes; `__init__` accepts none.
    #[new]
    #[pyo3(signature = (*_args, **_kwargs), text_signature = "()")]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self::mirror(&Core::default())
    }

    #[expect(clippy::unused_self, reason = "a method of Python")]
    fn __init__(&self) {}

    /// Applies a configuration file for a model and a scenario; does not set the
    /// scenario. `conf_type` 1 is a user's file; the first such call of a process
    /// applies the built-in table of models before it. 0 is only that table, 2 is an
    /// audit's file.
    ///
    /// Returns 0, -2 if the file cannot be read, or -22 if a line is invalid; the
    /// detail log of the next test then names the line.
    #[pyo3(
        name = "FromConfig",
        signature = (path, model, scenario, conf_type = Integer(1)),
        text_signature = "($self, path, model, scenario, conf_type=1)"
    )]
    #[expect(clippy::needless_pass_by_value, reason = "arguments are converted")]
    fn configure(
        &mut self,
        path: Text,
        model: Text,
        scenario: Text,
        conf_type: Integer,
    ) -> PyResult<i32> {
        let mut core = self.core()?;
        let path = Path::new(&path.0);
        let code = LOADGEN.from_config(&mut core, path, &model.0, &scenario.0, conf_type.0);
        *self = Self::mirror(&core);
        Ok(code)
    }
}
