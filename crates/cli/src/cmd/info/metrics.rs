//! Definitions of the metrics.

/// The definition of a metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Display name.
    pub name: &'static str,
    /// Keys in `summary.json`.
    #[cfg_attr(not(test), expect(dead_code, reason = "the reference page, which a test makes"))]
    pub keys: &'static [&'static str],
    /// Formula, and the part of the run that it covers.
    pub what: &'static str,
    /// Names in other tools and how their definitions differ; empty if no other tool has it.
    pub elsewhere: &'static str,
}

impl Metric {
    /// Returns the formula, its window, and the names in other tools.
    pub fn description(&self) -> String {
        match self.elsewhere {
            "" => self.what.to_owned(),
            elsewhere => format!("{} Elsewhere: {elsewhere}.", self.what),
        }
    }
}

/// All metrics.
pub const METRICS: [Metric; 29] = [
    Metric {
        name: "latency",
        keys: &["latency_ns"],
        what: "completion - scheduled time, per sample, in ns. A query is scheduled by its \
               arrival process (Server), at the start (Offline), or when it is issued \
               (SingleStream, MultiStream). Window: samples that were answered.",
        elsewhere: "e2el_ms (vllm bench) and request_latency (aiperf) count from when the request was sent, latency of the official endpoints tool from when it was issued; aiperf's effective_latency counts from the release of the request, after it waited for a concurrency slot",
    },
    Metric {
        name: "query latency",
        keys: &["query_latency_ns"],
        what: "MultiStream: completion of the query's last sample - scheduled time. Window: \
               queries whose samples were all answered.",
        elsewhere: "",
    },
    Metric {
        name: "percentiles",
        keys: &["p50", "p90", "p95", "p97", "p99", "p99.9", "target"],
        what: "sorted[floor(count * q)], no interpolation, as the reference does. p90 is q = \
               0.9; target is the percentile that the test is judged by.",
        elsewhere: "",
    },
    Metric {
        name: "result",
        keys: &["result", "name", "value", "unit"],
        what: "the number that counts: the latency at the target percentile (SingleStream, of \
               queries in MultiStream), completed queries/s (Server), samples/s (Offline), \
               the rate that a search for the peak found, or the number of streams (MultiStream \
               at a fixed interval).",
        elsewhere: "",
    },
    Metric {
        name: "95 % interval",
        keys: &["interval"],
        what: "where the result of another run like this one lies: the run is cut into 20 \
               batches, and counts for as many independent queries as their spread allows. Of \
               percentiles by order statistics, of rates by the times between completions. \
               None of a run that is too short.",
        elsewhere: "",
    },
    Metric {
        name: "completed queries/s (Server)",
        keys: &["completed_samples_per_s"],
        what: "(answered samples - 1) / time until the last query issued was done; of servers that \
               stream answered samples / time until the last completion. Failed and \
               missing samples are no throughput.",
        elsewhere: "request_throughput (vllm bench, aiperf) is answered requests / duration; qps of the official endpoints tool is this by default for Poisson",
    },
    Metric {
        name: "scheduled queries/s (Server)",
        keys: &["scheduled_samples_per_s"],
        what: "(issued queries - 1) / time at which the last of them was due: the load as it \
               was offered.",
        elsewhere: "",
    },
    Metric {
        name: "goodput (Server)",
        keys: &["goodput_samples_per_s"],
        what: "samples that were answered within every bound / time until the last completion: \
               within the bound on latency, or on both time to first token and time per output \
               token; with --goodput within the limits that it names, as the next figure.",
        elsewhere: "request_goodput (vllm bench), goodput (aiperf)",
    },
    Metric {
        name: "goodput under limits",
        keys: &["goodput", "samples", "share", "unmeasured", "ttft_ms", "tpot_ms", "e2el_ms"],
        what: "with --goodput: samples that were answered within every limit that was named / time \
               until the last completion; share is of the samples issued, so that failed and \
               missing ones count against it. ttft and e2el are from the scheduled time; a sample \
               of one token has no tpot to miss. Answers that were not streamed are unmeasured under \
               limits on ttft and tpot, and not within them; if no answer was, there is no figure.",
        elsewhere: "request_goodput (vllm bench, whose --goodput has the same grammar), goodput \
                    (aiperf); both from when the request was sent",
    },
    Metric {
        name: "distributions (servers of texts)",
        keys: &["distributions", "peak_concurrency", "stages", "steady"],
        what: "of each metric the mean, the standard deviation (of all values, not of a sample), the \
               extremes and percentiles, sorted[floor(count * q)]; of rates the mean over the run, and \
               the rest of the requests and tokens that were completed in each whole second of it. \
               peak_concurrency is the most requests in flight at once. stages and steady are parts of \
               the run: the stages of --stages, or the part that is left when the beginning is cut where \
               the variance of the means of five latencies each, divided by their number, is lowest \
               (MSER-5); there is none if that is in the second half. Times are those of the requests \
               that are due in the part, rates those of what was answered within it.",
        elsewhere: "--percentile-metrics and --metric-percentiles (vllm bench)",
    },
    Metric {
        name: "inter-token latency (servers)",
        keys: &["inter_token_ns"],
        what: "time between one part with output of an answer and the next, of all answers, as \
               the client's threads saw them; percentiles of a histogram, each at most 1/64 too \
               high. A part may hold several tokens, or less than one.",
        elsewhere: "itl_ms (vllm bench)",
    },
    Metric {
        name: "latency from the issue time (servers)",
        keys: &["latency_from_issue_ns"],
        what: "completion - issue, per answered sample: what tools report that begin to count \
               when they send. Less than latency wherever the client was late.",
        elsewhere: "sample_latency_ns (endpoints)",
    },
    Metric {
        name: "the client (servers)",
        keys: &[
            "clients",
            "lateness_ns",
            "busy",
            "sent",
            "retries",
            "troubles",
            "connects",
            "lost_connections",
            "connection_waits",
            "waited_ns",
            "longest_wait_ns",
            "queue_waits",
            "limit_waits",
            "limited_ns",
            "longest_limited_ns",
            "parser_waits",
            "unrequested_compression",
            "bytes_sent",
            "bytes_received",
            "tokens_counted_by",
        ],
        what: "lateness is when the whole request was first handed to a socket - its scheduled time; \
               over max_client_lag_ns at the target percentile, a Server run is INVALID. busy is \
               CPU time of the client's threads / (their number * the time that the test took); \
               above 0.95 any run is INVALID. Waits are of samples that found no connection free; \
               queue_waits are those for a connection that another request had, which make a run \
               INVALID where they delay requests by more than 5 % of the latency. limit_waits are \
               waits for max-concurrency: they count in the latency and not in the lateness. \
               Requests that are sent again (retries=N) are counted, and their latency still \
               counts from the schedule, the waits that a server asks for (Retry-After) included.",
        elsewhere: "",
    },
    Metric {
        name: "time lost by the client (real time)",
        keys: &["observers"],
        what: "what kept Dyno's own process from running in the last run of a test: pauses of at \
               least 10 ms that a thread sees which beats every 10 ms, brief stops by the beats that fall into them, and what took the time \
               (stopped: a signal or a debugger; quota: of the control group; processors: other \
               programs; hypervisor). Over a network, the client's part of each latency is from \
               when the request was due to its write, and from when the kernel had the answer to \
               the read (Linux); figures have each percentile with and without that part. Where one \
               read brought a token and later bytes, the token may have been there for as long as \
               the thread waited for a processor: a run that this decides is UNDECIDED. A run is \
               INVALID, cause client, where p50, p90, p99 or the target percentile of the latency \
               or of the time to first token differs by more than 5 % and 200 us, or where the \
               process was stopped for more than 5 % of the run and 50 ms (Offline over a network: \
               did not run, for whatever reason). In process, a quota or other programs delay the \
               system, too: that is shown, and is no reason.",
        elsewhere: "",
    },
    Metric {
        name: "samples/s (Offline)",
        keys: &["samples_per_s"],
        what: "answered samples / the longest latency.",
        elsewhere: "",
    },
    Metric {
        name: "queries/s (SingleStream)",
        keys: &["queries_per_s_with_overhead", "queries_per_s_without_overhead"],
        what: "with the client's overhead: (answered queries - 1) / time of the last issue; \
               without: 1 / mean latency.",
        elsewhere: "",
    },
    Metric {
        name: "error rate",
        keys: &["error_rate", "failed", "missing"],
        what: "(failed + missing samples) / issued samples. Failed is what the system \
               refused, timed out on, lost or reported an error for; missing is what never \
               came back.",
        elsewhere: "",
    },
    Metric {
        name: "samples over a bound (Server)",
        keys: &["over_bound"],
        what: "samples whose latency, time to first token or time per output token is above \
               its bound; failed and missing ones count as over. Null for a bound that is not \
               judged.",
        elsewhere: "",
    },
    Metric {
        name: "intervals (MultiStream at a fixed interval)",
        keys: &["intervals"],
        what: "(due time of the next query - own due time) / interval; of the last query its \
               latency / interval, rounded up. over: queries above 1 or with a sample that \
               failed or is missing; allowed: queries - floor(queries * percentile) - 1, as the \
               reference's index has it; skipped: the sum of what is above 1; by_client: \
               queries that were answered before a tick that was skipped all the same.",
        elsewhere: "",
    },
    Metric {
        name: "client lag",
        keys: &["lag_ns", "client_lag_ns"],
        what: "how much later than scheduled a query was issued through the client's own \
               doing: issue - max(scheduled time, time when the system last returned \
               control). Over max_client_lag_ns at the target percentile, a Server run is \
               INVALID: its latencies would be the client's. lag_ns is issue - scheduled \
               time, whoever was the cause.",
        elsewhere: "",
    },
    Metric {
        name: "time to first token",
        keys: &["first_token_ns"],
        what: "first token - scheduled time; needs use_token_latencies and a system that \
               reports it.",
        elsewhere: "ttft (endpoints), ttft_ms (vllm bench), time_to_first_token (aiperf), each from when the request was sent or issued",
    },
    Metric {
        name: "time per output token",
        keys: &["time_per_output_token_ns"],
        what: "(last token - first token) / (tokens - 1). An answer with one token, or with all \
               tokens at once, has none. The last token is the last part with output; what follows it \
               in a stream is in end_of_stream_ns. Logs in LoadGen's format have the reference's \
               definition (docs/fidelity.md).",
        elsewhere: "tpot (endpoints), tpot_ms (vllm bench), inter_token_latency (aiperf, whose name means this mean of a request)",
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
        what: "output tokens of answered samples (token_count; null where they are not counted) / \
               time until the last query issued was done, or of servers the last completion \
               (completed), until the last issue (with overhead), the sum of all latencies \
               (without overhead), or the longest latency (Offline). Where \
               they are inferred, samples/s * token_latency_scaling_factor.",
        elsewhere: "tps (endpoints), output_throughput (vllm bench), output_token_throughput (aiperf)",
    },
    Metric {
        name: "tokens (servers of texts)",
        keys: &[
            "tokens",
            "input",
            "cached",
            "output",
            "reasoning",
            "total",
            "input_per_s",
            "output_per_s",
            "total_per_s",
            "output_counted_by",
            "input_counted_by",
            "lengths",
            "requested",
            "delivered",
            "contradictions",
        ],
        what: "sums over answered samples, each null where an answer lacks the count; cached and \
               reasoning tokens are part of input and output, and null where no answer states them. \
               Rates divide by the same time as tokens/s. Output tokens are those of usage; those of a \
               tokenizer where usage is missing or contradicts itself; else one for each part with \
               output. lengths compares max_tokens of the requests with the output tokens of their \
               answers. A run is INVALID if a figure rests on counts that contradict themselves.",
        elsewhere: "total_token_throughput (vllm bench), total_token_throughput (aiperf)",
    },
    Metric {
        name: "answers (servers of texts)",
        keys: &["answers", "accepted", "finish_reasons", "oddities", "end_of_stream_ns"],
        what: "samples by what became of them: whole, empty, cut, aborted, filtered, error (in the \
               answer), short, failed_on_the_wire. Only whole answers succeed, and those of accepted \
               classes (accept-answers). end_of_stream_ns is end of the stream - scheduled time.",
        elsewhere: "",
    },
    Metric {
        name: "sessions",
        keys: &[
            "sessions",
            "started",
            "completed",
            "aborted",
            "cut_off",
            "turns_not_sent",
            "held",
            "duration_ns",
            "turns",
            "by_turn",
            "turn",
            "and_later",
            "issued",
            "answered",
            "input_tokens",
        ],
        what: "conversations that were played with live answers (sessions=live), by how they ended, and \
               figures by the number of the turn. A turn is due when the answer before it is complete \
               and its think time is over; latencies count from then. duration_ns is the time from \
               the due time of the first turn to the last answer.",
        elsewhere: "",
    },
    Metric {
        name: "early stopping",
        keys: &["early_stopping"],
        what: "whether so many queries with so few over the bound could, with a probability \
               above 1 % (1 - early_stopping_confidence), come from a system that misses it. \
               Judged once after the run; further queries it would take are told.",
        elsewhere: "",
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
        elsewhere: "",
    },
    Metric {
        name: "counts and length",
        keys: &["query_count", "sample_count", "lasted_ns", "ended", "rates", "conditions"],
        what: "queries issued, samples answered, the time from the start to the last \
               completion, why issuing stopped, and what the verdict is made of.",
        elsewhere: "",
    },
];
