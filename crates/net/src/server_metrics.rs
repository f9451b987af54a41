//! The metrics of inference servers in common terms: which series of which server is the number of
//! waiting requests, and so on.

use std::collections::{BTreeMap, BTreeSet};

use crate::exposition::{Exposition, Sample};

dyno_loadgen::named_enum! {
    /// A quantity of a server. Counters grow from the start of the server, gauges are values of a
    /// moment.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Quantity {
        /// Requests in work.
        Running = "running",
        /// Requests that wait in the server.
        Waiting = "waiting",
        /// Used share of the cache of keys and values, in [0, 1].
        KvCacheUse = "kv_cache_use",
        /// Requests or sequences computed together.
        BatchSize = "batch_size",
        /// Counter: sum of the sizes of all batches.
        BatchSizeSum = "batch_size_sum",
        /// Counter: batches.
        Batches = "batches",
        /// Share of the input that was found in the cache of prefixes, in [0, 1].
        PrefixHitRatio = "prefix_hit_ratio",
        /// Counter: tokens or blocks looked up in that cache.
        PrefixQueries = "prefix_queries",
        /// Counter: tokens or blocks found in it.
        PrefixHits = "prefix_hits",
        /// Counter: input tokens.
        PromptTokens = "prompt_tokens",
        /// Counter: output tokens.
        GeneratedTokens = "generated_tokens",
        /// Counter: energy of accelerators, J.
        Joules = "joules",
        /// Power of accelerators, W.
        Watts = "watts",
    }
}

impl Quantity {
    /// Returns whether the quantity is counted from the start of the server.
    pub fn is_counter(self) -> bool {
        matches!(
            self,
            Self::BatchSizeSum
                | Self::Batches
                | Self::PrefixQueries
                | Self::PrefixHits
                | Self::PromptTokens
                | Self::GeneratedTokens
                | Self::Joules
        )
    }

    /// Returns whether values of several servers are averaged, because they are shares or sizes.
    pub(crate) fn is_intensive(self) -> bool {
        matches!(self, Self::KvCacheUse | Self::BatchSize | Self::PrefixHitRatio)
    }
}

/// A series of a server and its meaning.
struct Row {
    server: &'static str,
    quantity: Quantity,
    series: &'static str,
    /// Label that the samples must have.
    label: Option<(&'static str, &'static str)>,
    /// Factor to the unit of the quantity.
    factor: f64,
    /// Label of the device that the series measures. Each part of a divided device repeats its value.
    device: Option<&'static str>,
}

const fn row(server: &'static str, quantity: Quantity, series: &'static str) -> Row {
    Row { server, quantity, series, label: None, factor: 1.0, device: None }
}

const fn labeled(
    server: &'static str,
    quantity: Quantity,
    series: &'static str,
    label: (&'static str, &'static str),
) -> Row {
    Row { server, quantity, series, label: Some(label), factor: 1.0, device: None }
}

/// The known series. Where a server has several series of a quantity, the first that its page has
/// counts: names changed between versions. The names are facts of these projects: vLLM
/// (`v1/metrics/loggers.py`), SGLang (`srt/metrics/collector.py`), Text Generation Inference
/// (`router`), Triton (`docs/user_guide/metrics.md`) and its TensorRT-LLM backend
/// (`custom_metrics_reporter.cc`), TensorRT-LLM (`trtllm-serve`), llama.cpp (`tools/server`), and
/// NVIDIA's DCGM exporter (`etc/dcp-metrics-included.csv`).
const TABLE: &[Row] = &[
    row("vLLM", Quantity::Running, "vllm:num_requests_running"),
    row("vLLM", Quantity::Waiting, "vllm:num_requests_waiting"),
    row("vLLM", Quantity::KvCacheUse, "vllm:kv_cache_usage_perc"),
    row("vLLM", Quantity::KvCacheUse, "vllm:gpu_cache_usage_perc"),
    row("vLLM", Quantity::PrefixQueries, "vllm:prefix_cache_queries_total"),
    row("vLLM", Quantity::PrefixQueries, "vllm:gpu_prefix_cache_queries_total"),
    row("vLLM", Quantity::PrefixHits, "vllm:prefix_cache_hits_total"),
    row("vLLM", Quantity::PrefixHits, "vllm:gpu_prefix_cache_hits_total"),
    row("vLLM", Quantity::PromptTokens, "vllm:prompt_tokens_total"),
    row("vLLM", Quantity::GeneratedTokens, "vllm:generation_tokens_total"),
    row("SGLang", Quantity::Running, "sglang:num_running_reqs"),
    row("SGLang", Quantity::Waiting, "sglang:num_queue_reqs"),
    row("SGLang", Quantity::KvCacheUse, "sglang:token_usage"),
    row("SGLang", Quantity::PrefixHitRatio, "sglang:cache_hit_rate"),
    row("SGLang", Quantity::PromptTokens, "sglang:prompt_tokens_total"),
    row("SGLang", Quantity::GeneratedTokens, "sglang:generation_tokens_total"),
    row("TGI", Quantity::Waiting, "tgi_queue_size"),
    row("TGI", Quantity::BatchSize, "tgi_batch_current_size"),
    row("TGI", Quantity::PromptTokens, "tgi_request_input_length_sum"),
    row("TGI", Quantity::GeneratedTokens, "tgi_request_generated_tokens_sum"),
    row("llama.cpp", Quantity::Running, "llamacpp:requests_processing"),
    row("llama.cpp", Quantity::Waiting, "llamacpp:requests_deferred"),
    row("llama.cpp", Quantity::KvCacheUse, "llamacpp:kv_cache_usage_ratio"),
    row("llama.cpp", Quantity::PromptTokens, "llamacpp:prompt_tokens_total"),
    row("llama.cpp", Quantity::GeneratedTokens, "llamacpp:tokens_predicted_total"),
    row("TensorRT-LLM", Quantity::Running, "trtllm_num_requests_running"),
    row("TensorRT-LLM", Quantity::Waiting, "trtllm_num_requests_waiting"),
    row("TensorRT-LLM", Quantity::KvCacheUse, "trtllm_kv_cache_utilization"),
    row("TensorRT-LLM", Quantity::PrefixHitRatio, "trtllm_kv_cache_hit_rate"),
    labeled(
        "TensorRT-LLM in Triton",
        Quantity::Running,
        "nv_trt_llm_request_metrics",
        ("request_type", "scheduled"),
    ),
    labeled(
        "TensorRT-LLM in Triton",
        Quantity::Waiting,
        "nv_trt_llm_request_metrics",
        ("request_type", "waiting"),
    ),
    labeled(
        "TensorRT-LLM in Triton",
        Quantity::KvCacheUse,
        "nv_trt_llm_kv_cache_block_metrics",
        ("kv_cache_block_type", "fraction"),
    ),
    row("Triton", Quantity::Waiting, "nv_inference_pending_request_count"),
    row("Triton", Quantity::BatchSizeSum, "nv_inference_count"),
    row("Triton", Quantity::Batches, "nv_inference_exec_count"),
    row("Triton", Quantity::Joules, "nv_energy_consumption"),
    row("Triton", Quantity::Watts, "nv_gpu_power_usage"),
    row("dyno serve", Quantity::Running, "dyno_requests_running"),
    row("dyno serve", Quantity::Waiting, "dyno_queue_depth"),
    row("dyno serve", Quantity::BatchSizeSum, "dyno_batch_size_sum"),
    row("dyno serve", Quantity::Batches, "dyno_batch_size_count"),
    row("dyno serve", Quantity::GeneratedTokens, "dyno_tokens_total"),
    Row {
        factor: 1e-3,
        device: Some("UUID"),
        ..row("DCGM", Quantity::Joules, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")
    },
    Row { device: Some("UUID"), ..row("DCGM", Quantity::Watts, "DCGM_FI_DEV_POWER_USAGE") },
];

/// The known quantities of one page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Quantities {
    /// Names of the servers whose series the page has, such as `vLLM`.
    pub servers: Vec<&'static str>,
    /// Values: of models and ranks of a server the sum, of shares and sizes the mean. Values that are
    /// negative or not finite are left out: no quantity can be.
    pub values: BTreeMap<Quantity, f64>,
    /// Models whose values are combined, if there are several; in order.
    pub models: BTreeSet<String>,
}

impl Quantities {
    /// Returns the quantities of several pages together: sums, and means of shares and sizes.
    pub fn together(pages: &[Self]) -> Self {
        let mut all = Self::default();
        all.models.extend(pages.iter().flat_map(|page| &page.models).cloned());
        for server in pages.iter().flat_map(|page| &page.servers) {
            if !all.servers.contains(server) {
                all.servers.push(server);
            }
        }
        for quantity in Quantity::ALL {
            let values = pages.iter().filter_map(|page| page.values.get(&quantity));
            let values: Vec<f64> = values.copied().collect();
            let sum: f64 = values.iter().sum();
            let count = if quantity.is_intensive() { values.len() } else { 1 };
            if !values.is_empty() {
                all.values.insert(quantity, sum / count as f64);
            }
        }
        all
    }

    /// Finds the known quantities of a page. Of a series whose samples name models, those of `model`
    /// count, if there are any; otherwise those of all models are combined.
    pub fn from_page(page: &Exposition<'_>, model: Option<&str>) -> Self {
        let mut found = Self::default();
        for row in TABLE {
            if found.values.contains_key(&row.quantity) {
                continue;
            }
            let has_label = |sample: &&Sample<'_>| {
                row.label.is_none_or(|(name, value)| sample.label(name) == Some(value))
            };
            let is_series = |sample: &&Sample<'_>| is_name(&sample.name, row.series);
            let mut devices = BTreeSet::new();
            let is_new = |sample: &&Sample<'_>| {
                let device = row.device.and_then(|label| sample.label(label));
                device.is_none_or(|device| devices.insert(device.to_owned()))
            };
            let samples = page.samples.iter().filter(is_series).filter(has_label).filter(is_new);
            let mut samples: Vec<_> = samples.collect();
            if model.is_some() && samples.iter().any(|sample| model_of(sample) == model) {
                samples.retain(|sample| model_of(sample) == model);
            }
            samples.retain(|sample| sample.value.is_finite() && sample.value >= 0.0);
            let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
            if values.is_empty() {
                continue;
            }
            let models: BTreeSet<&str> =
                samples.iter().filter_map(|sample| model_of(sample)).collect();
            if models.len() > 1 {
                found.models.extend(models.into_iter().map(str::to_owned));
            }
            let sum: f64 = values.iter().sum();
            let value = if row.quantity.is_intensive() { sum / values.len() as f64 } else { sum };
            let value = value * row.factor;
            if !value.is_finite() {
                continue;
            }
            found.values.insert(row.quantity, value);
            if !found.servers.contains(&row.server) {
                found.servers.push(row.server);
            }
        }
        found
    }
}

/// Returns the model that a sample belongs to: vLLM and SGLang name it `model_name`, Triton `model`.
fn model_of<'a>(sample: &'a Sample<'_>) -> Option<&'a str> {
    sample.label("model_name").or_else(|| sample.label("model"))
}

/// Returns whether a name is that of a series. OpenMetrics has no colon in names and writes `_`.
fn is_name(name: &str, series: &str) -> bool {
    name.len() == series.len()
        && name.bytes().zip(series.bytes()).all(|(a, b)| a == b || (a, b) == (b'_', b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Quantities {
        let page = Exposition::parse(text);
        assert_eq!(page.malformed, 0);
        Quantities::from_page(&page, None)
    }

    #[test]
    fn of_several_models_the_one_under_test_counts() {
        let text = "vllm:num_requests_running{model_name=\"a\"} 3\n\
                    vllm:num_requests_running{model_name=\"b\",engine=\"0\"} 5\n\
                    vllm:num_requests_running{model_name=\"b\",engine=\"1\"} 7\n\
                    nv_inference_count{model=\"b\",version=\"1\"} 20\n\
                    nv_energy_consumption{gpu_uuid=\"GPU-1\"} 9\n";
        let page = Exposition::parse(text);
        let running = |model| {
            let found = Quantities::from_page(&page, model);
            let models = found.models.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
            (found.values[&Quantity::Running], models)
        };
        assert_eq!(running(Some("a")), (3.0, String::new()));
        assert_eq!(running(Some("b")), (12.0, String::new()));
        // An adapter has another name than the model that serves it.
        assert_eq!(running(Some("adapter")), (15.0, "a b".into()));
        assert_eq!(running(None), (15.0, "a b".into()));
        let found = Quantities::from_page(&page, Some("a"));
        assert_eq!(found.values[&Quantity::Joules], 9.0);
    }

    #[test]
    fn quantities_of_several_models_are_added_and_shares_are_averaged() {
        let vllm = found(
            "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} 5\n\
             vllm:gpu_cache_usage_perc{engine=\"0\"} 0.25\nvllm:gpu_cache_usage_perc{engine=\"1\"} 0.75\n\
             vllm:generation_tokens_total 1.2e4\nvllm:num_requests_waiting NaN\n",
        );
        let expected = [
            (Quantity::Running, 8.0),
            (Quantity::KvCacheUse, 0.5),
            (Quantity::GeneratedTokens, 12_000.0),
        ];
        assert_eq!((vllm.values, vllm.servers), (expected.into(), vec!["vLLM"]));
    }

    #[test]
    fn a_divided_device_counts_once() {
        let found = found(
            "DCGM_FI_DEV_POWER_USAGE{UUID=\"GPU-1\",GPU_I_ID=\"1\"} 300\n\
             DCGM_FI_DEV_POWER_USAGE{UUID=\"GPU-1\",GPU_I_ID=\"2\"} 300\n\
             DCGM_FI_DEV_POWER_USAGE{UUID=\"GPU-2\"} 100\n",
        );
        assert_eq!(found.values, [(Quantity::Watts, 400.0)].into());
    }

    #[test]
    fn negative_values_are_left_out() {
        let found = found("vllm:num_requests_running -1\nvllm:num_requests_waiting 2\n");
        assert_eq!(found.values, [(Quantity::Waiting, 2.0)].into());
    }

    #[test]
    fn names_may_have_no_colon() {
        let found = found("vllm_num_requests_waiting{model_name=\"a\"} 3\n# EOF\n");
        assert_eq!(found.values, [(Quantity::Waiting, 3.0)].into());
    }

    #[test]
    fn of_two_names_of_one_quantity_one_counts() {
        let both = found("vllm:kv_cache_usage_perc 0.5\nvllm:gpu_cache_usage_perc 0.5\n");
        assert_eq!(both.values, [(Quantity::KvCacheUse, 0.5)].into());
    }

    #[test]
    fn labels_and_units_are_those_of_the_table() {
        let triton = found(
            "nv_trt_llm_request_metrics{model=\"m\",request_type=\"scheduled\",version=\"1\"} 4\n\
             nv_trt_llm_request_metrics{model=\"m\",request_type=\"max\",version=\"1\"} 512\n\
             nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\"} 0.3\n\
             DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"0\"} 5000\n",
        );
        let expected =
            [(Quantity::Running, 4.0), (Quantity::KvCacheUse, 0.3), (Quantity::Joules, 5.0)];
        assert_eq!(triton.values, expected.into());
        assert_eq!(triton.servers, ["TensorRT-LLM in Triton", "DCGM"]);
        assert_eq!(found("go_goroutines 7\n"), Quantities::default());
    }
}
