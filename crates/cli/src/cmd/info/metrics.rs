//! What each figure is.

/// A figure.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// As people call it.
    pub name: &'static str,
    /// Its keys in `summary.json`.
    #[cfg_attr(not(test), expect(dead_code, reason = "the reference page, which a test makes"))]
    pub keys: &'static [&'static str],
    /// Formula and window.
    pub what: &'static str,
}

/// Formula and window of each figure.
pub const METRICS: [Metric; 20] = [
    Metric {
        name: "latency",
        keys: &["latency_ns"],
        what: "completion - scheduled time, per sample, in ns. A query is scheduled by its \
               arrival process (Server), at the start (Offline), or when it is issued \
               (SingleStream, MultiStream). Window: samples that were answered.",
    },
    Metric {
        name: "query latency",
        keys: &["query_latency_ns"],
        what: "MultiStream: completion of the query's last sample - scheduled time. Window: \
               queries whose samples were all answered.",
    },
    Metric {
        name: "percentiles",
        keys: &["p50", "p90", "p95", "p97", "p99", "p99.9", "target"],
        what: "sorted[floor(count * q)], no interpolation, as the reference does. p90 is q = \
               0.9; target is the percentile that the test is judged by.",
    },
    Metric {
        name: "result",
        keys: &["result", "name", "value", "unit"],
        what: "the number that counts: the latency at the target percentile (SingleStream, of \
               queries in MultiStream), completed queries/s (Server), samples/s (Offline), \
               the rate that a search for the peak found, or the number of streams (MultiStream \
               at a fixed interval).",
    },
    Metric {
        name: "95 % interval",
        keys: &["interval"],
        what: "where the result of another run like this one lies: the run is cut into 20 \
               batches, and counts for as many independent queries as their spread allows. Of \
               percentiles by order statistics, of rates by the times between completions. \
               None of a run that is too short.",
    },
    Metric {
        name: "completed queries/s (Server)",
        keys: &["completed_samples_per_s"],
        what: "(answered samples - 1) / time until the last query issued was done. Failed and \
               missing samples are no throughput.",
    },
    Metric {
        name: "scheduled queries/s (Server)",
        keys: &["scheduled_samples_per_s"],
        what: "(issued queries - 1) / time at which the last of them was due: the load as it \
               was offered.",
    },
    Metric {
        name: "goodput (Server)",
        keys: &["goodput_samples_per_s"],
        what: "completed queries/s * the share of the answered samples that were within every \
               bound: of the latency, or of both time to first token and time per output \
               token.",
    },
    Metric {
        name: "samples/s (Offline)",
        keys: &["samples_per_s"],
        what: "answered samples / the longest latency.",
    },
    Metric {
        name: "queries/s (SingleStream)",
        keys: &["queries_per_s_with_overhead", "queries_per_s_without_overhead"],
        what: "with the client's overhead: (answered queries - 1) / time of the last issue; \
               without: 1 / mean latency.",
    },
    Metric {
        name: "error rate",
        keys: &["error_rate", "failed", "missing"],
        what: "(failed + missing samples) / issued samples. Failed is what the system \
               refused, timed out on, lost or reported an error for; missing is what never \
               came back.",
    },
    Metric {
        name: "samples over a bound (Server)",
        keys: &["over_bound"],
        what: "samples whose latency, time to first token or time per output token is above \
               its bound; failed and missing ones count as over.",
    },
    Metric {
        name: "intervals (MultiStream at a fixed interval)",
        keys: &["intervals"],
        what: "(due time of the next query - own due time) / interval; of the last query its \
               latency / interval, rounded up. over: queries above 1 or with a sample that \
               failed or is missing; allowed: queries - floor(queries * percentile) - 1, as the \
               reference's index has it; skipped: the sum of what is above 1; by_client: \
               queries that were answered before a tick that was skipped all the same.",
    },
    Metric {
        name: "client lag",
        keys: &["lag_ns", "client_lag_ns"],
        what: "how much later than scheduled a query was issued through the client's own \
               doing: issue - max(scheduled time, time when the system last returned \
               control). Over max_client_lag_ns at the target percentile, a Server run is \
               INVALID: its latencies would be the client's. lag_ns is issue - scheduled \
               time, whoever was the cause.",
    },
    Metric {
        name: "time to first token",
        keys: &["first_token_ns"],
        what: "first token - scheduled time; needs use_token_latencies and a system that \
               reports it.",
    },
    Metric {
        name: "time per output token",
        keys: &["time_per_output_token_ns"],
        what: "(completion - first token) / (tokens - 1).",
    },
    Metric {
        name: "tokens/s",
        keys: &[
            "token_rates",
            "token_count",
            "completed_tokens_per_s",
            "tokens_per_s_with_overhead",
            "tokens_per_s_without_overhead",
            "tokens_per_s",
        ],
        what: "output tokens of answered samples / time until the last query issued was done \
               (completed), until the last issue (with overhead), the sum of all latencies \
               (without overhead), or the longest latency (Offline). Where \
               they are inferred, samples/s * token_latency_scaling_factor.",
    },
    Metric {
        name: "early stopping",
        keys: &["early_stopping"],
        what: "whether so many queries with so few over the bound could, with a probability \
               above 1 % (1 - early_stopping_confidence), come from a system that misses it. \
               Judged once after the run; further queries it would take are told.",
    },
    Metric {
        name: "accuracy",
        keys: &[
            "accuracy",
            "metric",
            "correct",
            "scored",
            "malformed",
            "short_of",
            "answered",
            "lower_is_better",
        ],
        what: "of labelled samples top-1, the share whose answer is their label, over every \
               sample of the library; of a task the figure of its card, as `dyno task methods` \
               defines it. Percentages are told as shares. An error rate is better the lower \
               it is.",
    },
    Metric {
        name: "counts and length",
        keys: &["query_count", "sample_count", "lasted_ns", "ended", "rates", "conditions"],
        what: "queries issued, samples answered, the time from the start to the last \
               completion, why issuing stopped, and what the verdict is made of.",
    },
];
