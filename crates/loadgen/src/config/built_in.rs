//! The built-in table: values that the rules fix for every test and for each model.
//!
//! It has the values of LoadGen 6.0.17 (SPEC section 2.5). Rows that no release reads
//! (`Server.target_duration`, `Offline.target_latency_percentile`) are left out.

use super::grammar::Entry;

/// Row of the table: scenario, name, value.
type Row = (&'static str, &'static str, &'static str);

const PSC: &str = "performance_sample_count_override";
const CAT: &str = "sample_concatenate_permutation";
const TOKENS: &str = "use_token_latencies";
const COUNT: &str = "min_query_count";
const LATENCY: &str = "target_latency";
const TTFT: &str = "ttft_latency";
const TPOT: &str = "tpot_latency";

/// Rows of each model; `*` is every model.
#[rustfmt::skip]
const TABLE: &[(&str, &[Row])] = &[
    ("*", &[
        ("*", "qsl_rng_seed", "2085463073848966840"),
        ("*", "sample_index_rng_seed", "2747215439041700203"),
        ("*", "schedule_rng_seed", "16159082839903944936"),
        ("*", "test05_qsl_rng_seed", "7975553102935885558"),
        ("*", "test05_sample_index_rng_seed", "11403566307062068064"),
        ("*", "test05_schedule_rng_seed", "15816800565822761601"),
        ("SingleStream", "target_latency_percentile", "90"),
        ("SingleStream", "min_duration", "600000"),
        ("SingleStream", LATENCY, "10"),
        ("MultiStream", "target_latency_percentile", "99"),
        ("MultiStream", "samples_per_query", "8"),
        ("MultiStream", "min_duration", "600000"),
        ("MultiStream", COUNT, "662"),
        ("MultiStream", LATENCY, "80"),
        ("Server", LATENCY, "10"),
        ("Server", "target_latency_percentile", "99"),
        ("Server", "min_duration", "600000"),
        ("Server", "target_qps", "1.0"),
        ("Offline", "min_duration", "600000"),
        ("Offline", "target_qps", "1.0"),
    ]),
    ("resnet50", &[("*", PSC, "1024"), ("Server", LATENCY, "15"), ("Offline", COUNT, "24576")]),
    ("ssd-mobilenet", &[("*", PSC, "256")]),
    ("retinanet", &[("*", PSC, "64"), ("Server", LATENCY, "100"), ("Offline", COUNT, "24576"), ("MultiStream", LATENCY, "528")]),
    ("bert", &[("*", PSC, "10833"), ("Server", LATENCY, "130"), ("Offline", COUNT, "10833")]),
    ("dlrm", &[("*", PSC, "204800"), ("Server", LATENCY, "60")]),
    ("dlrm-v2", &[("*", PSC, "204800"), ("Server", LATENCY, "60"), ("Offline", COUNT, "24576")]),
    ("dlrm-v3", &[("Server", LATENCY, "80")]),
    ("rnnt", &[("*", PSC, "2513"), ("Server", LATENCY, "1000"), ("Offline", COUNT, "2513")]),
    ("gptj", &[("*", PSC, "13368"), ("*", CAT, "1"), ("Server", LATENCY, "20000"), ("*", "infer_token_latencies", "1"), ("*", "token_latency_scaling_factor", "69"), ("Offline", COUNT, "13368")]),
    ("mixtral-8x7b", &[("*", PSC, "15000"), ("*", CAT, "1"), ("*", TOKENS, "1"), ("Server", LATENCY, "0"), ("Server", TTFT, "2000"), ("Server", TPOT, "200"), ("Offline", COUNT, "15000")]),
    ("llama2-70b", &[("*", PSC, "24576"), ("*", CAT, "1"), ("*", TOKENS, "1"), ("Server", LATENCY, "0"), ("Server", TTFT, "2000"), ("Server", TPOT, "200"), ("Offline", COUNT, "24576")]),
    ("llama2-70b-interactive", &[("*", PSC, "24576"), ("*", CAT, "1"), ("*", TOKENS, "1"), ("Server", LATENCY, "0"), ("Server", TTFT, "450"), ("Server", TPOT, "40")]),
    ("llama3_1-405b", &[("*", PSC, "8313"), ("*", CAT, "1"), ("*", TOKENS, "1"), ("Server", LATENCY, "0"), ("Server", TTFT, "6000"), ("Server", TPOT, "175"), ("Offline", COUNT, "8313")]),
    ("llama3_1-405b-interactive", &[("*", PSC, "8313"), ("*", CAT, "1"), ("*", TOKENS, "1"), ("Server", LATENCY, "0"), ("Server", TTFT, "4500"), ("Server", TPOT, "80")]),
    ("llama3_1-8b", &[("*", PSC, "13368"), ("*", CAT, "1"), ("*", TOKENS, "1"), ("Server", LATENCY, "0"), ("Server", TTFT, "2000"), ("Server", TPOT, "100"), ("Offline", COUNT, "13368")]),
    ("llama3_1-8b-edge", &[("*", PSC, "5000"), ("*", CAT, "1"), ("*", TOKENS, "1"), ("Offline", COUNT, "5000")]),
    ("llama3_1-8b-interactive", &[("*", PSC, "13368"), ("*", CAT, "1"), ("*", TOKENS, "1"), ("Server", LATENCY, "0"), ("Server", TTFT, "500"), ("Server", TPOT, "30")]),
    ("stable-diffusion-xl", &[("*", PSC, "5000"), ("Server", LATENCY, "20000"), ("Offline", COUNT, "5000")]),
    ("wan-2.2-t2v-a14b", &[("*", PSC, "248"), ("Offline", COUNT, "248")]),
    ("rgat", &[("*", PSC, "788379"), ("*", CAT, "1"), ("Offline", COUNT, "788379")]),
    ("pointpainting", &[("*", PSC, "1024"), ("SingleStream", "target_latency_percentile", "99.9")]),
    ("deepseek-r1", &[("*", PSC, "4388"), ("*", CAT, "1"), ("*", TOKENS, "1"), ("Server", LATENCY, "0"), ("Server", TTFT, "2000"), ("Server", TPOT, "80"), ("Offline", COUNT, "4388")]),
    ("deepseek-r1-interactive", &[("*", PSC, "4388"), ("*", CAT, "1"), ("*", TOKENS, "1"), ("Server", LATENCY, "0"), ("Server", TTFT, "1500"), ("Server", TPOT, "15")]),
    ("whisper", &[("*", PSC, "1633"), ("*", CAT, "1"), ("*", TOKENS, "1"), ("Offline", COUNT, "1633")]),
    ("qwen3-vl-235b-a22b", &[("*", PSC, "48289"), ("*", CAT, "1"), ("*", TOKENS, "0"), ("Server", LATENCY, "12000"), ("Offline", COUNT, "48289")]),
    ("yolo", &[("*", PSC, "64")]),
    ("3d-unet", &[("*", PSC, "0"), ("*", CAT, "1"), ("Offline", COUNT, "43")]),
    ("gpt-oss-120b", &[("*", PSC, "6396"), ("*", "accuracy_sample_count_override", "4395"), ("*", CAT, "1"), ("*", TOKENS, "1"), ("Server", LATENCY, "0"), ("Server", TTFT, "3000"), ("Server", TPOT, "80")]),
    ("gpt-oss-120b-interactive", &[("*", PSC, "6396"), ("*", "accuracy_sample_count_override", "4395"), ("*", CAT, "1"), ("*", TOKENS, "1"), ("Server", LATENCY, "0"), ("Server", TTFT, "2000"), ("Server", TPOT, "15")]),
];

/// Returns the models of the built-in table.
pub fn built_in_models() -> impl Iterator<Item = &'static str> + Clone {
    TABLE.iter().map(|(model, _)| *model).filter(|model| *model != "*")
}

pub(super) fn entries() -> Vec<Entry> {
    let rows = TABLE.iter().flat_map(|(model, rows)| rows.iter().map(move |row| (model, row)));
    rows.map(|(model, (scenario, name, value))| Entry {
        line: 0,
        key: format!("{model}.{scenario}.{name}"),
        value: (*value).to_string(),
        values: 1,
    })
    .collect()
}
