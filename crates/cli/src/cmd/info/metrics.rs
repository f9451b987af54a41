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
            elsewhere => format!("{} Other tools: {elsewhere}.", self.what),
        }
    }
}

/// All metrics.
pub const METRICS: [Metric; 31] = [
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
        what: "the main figure of the test: the latency at the target percentile (SingleStream, of \
               queries in MultiStream), completed queries/s (Server), samples/s (Offline), the \
               rate that a search for the peak found, or the number of streams (MultiStream at a \
               fixed interval).",
        elsewhere: "",
    },
    Metric {
        name: "95 % interval",
        keys: &["interval"],
        what: "confidence interval of the result over runs like this one. The spread of 20 \
               batches of the run determines the effective number of independent queries. \
               Intervals of percentiles come from order statistics, those of rates from the times \
               between completions, or, with a fixed number of queries in flight, from the times \
               of their rounds. A run that is too short, and one with stages, has none.",
        elsewhere: "",
    },
    Metric {
        name: "completed queries/s (Server)",
        keys: &["completed_samples_per_s"],
        what: "answered samples / counted_over_ns: the rate of the system under the load, without \
               the fill at the start and the drain at the end. Failed and missing samples do not \
               count. With a fixed number N of queries (or sessions) in flight, the whole rounds \
               of N queries determine the time: if the queries are numbered from 1 in the order \
               of their issue, B is the issue of query N, and E is the issue of the last query \
               whose number is a multiple of N. counted_over_ns = (E - B) * (samples answered or \
               failed) / (queries issued after B and until E). Of sessions that are played once, \
               only queries until the begin of the last session determine B and E. If there are \
               fewer than two rounds, or no query was issued after B, it is lasted_ns, and a note \
               states that the rate includes the fill and the drain. At a rate, for servers that \
               stream and profile llm: counted_over_ns = L * (1 + S), where L is the due time of \
               the last query * queries / (queries - 1), and S is the growth of the backlog: by \
               how much longer the answers take than the arrivals. If the answered samples are \
               numbered in the order in which they were due, and the answers in the order in \
               which they came, D(k) is the time from due time k to answer k, in whatever order \
               the system answers. n is the number of answers until the last due time, or of all \
               answers if these are fewer than 32. S = (D(n) - D(m)) / (due time n - due time m), \
               where m = n/4 + 1 (n/4 rounded down). S is 0 if it is at most its standard error, \
               that of the sum of the growths of D in 16 equal parts. S is also 0 if the system \
               only fills: fewer than 32 answers came until the last due time, or those of the \
               second half of this time exceed those of the first by more than 2 standard errors; \
               and the mean latency of the late half of the samples exceeds that of the early \
               half by at most 3 standard errors, or by at most 0.33 of S * load / 2. \
               counted_over_ns is at most lasted_ns, or L if that is \
               longer. A system that never queues completes what it is offered, however long its \
               answers take. It is lasted_ns if there is only one query or all are due at the \
               start, and for sessions that begin at a rate. Other runs at a rate, as in the \
               logs: (answered samples - 1) / time \
               until the last issued query was complete.",
        elsewhere: "request_throughput (vllm bench, aiperf) is answered requests / duration; qps of the official endpoints tool is this by default for Poisson",
    },
    Metric {
        name: "scheduled queries/s (Server)",
        keys: &["scheduled_samples_per_s"],
        what: "(issued queries - 1) / time at which the last of them was due: the offered load. \
               Queries that failed and those that the client cancelled (cancel=) belong to it; \
               those of the ramp do not.",
        elsewhere: "",
    },
    Metric {
        name: "goodput (Server)",
        keys: &["goodput_samples_per_s"],
        what: "samples that were answered within every bound / counted_over_ns, so that it never \
               exceeds the completed rate. The bounds are that of latency, or those of time to \
               first token and time per output token. A bound that is not set limits nothing: \
               without bounds, goodput is the completed rate. An answer without a time per output \
               token (one token, or several that came at once) is within the bound on it, as in \
               the verdict; an answer without a first token is outside both bounds, and if all \
               are, there is no figure. With --goodput, its limits are the bounds, as in the next \
               figure.",
        elsewhere: "request_goodput (vllm bench), goodput (aiperf)",
    },
    Metric {
        name: "goodput under limits",
        keys: &["goodput", "samples", "share", "unmeasured", "ttft_ms", "tpot_ms", "e2el_ms"],
        what: "with --goodput: samples that were answered within every given limit / \
               counted_over_ns (in other scenarios than Server: lasted_ns). share is relative to \
               the issued samples, so failed and missing ones count against it. ttft and e2el \
               count from the scheduled time; a sample of one token has no tpot and meets its \
               limit. With limits on ttft or tpot, answers without a first token are unmeasured \
               and count as outside. With a limit on tpot, so are answers of several tokens that \
               came at once, or of which an unknown number was streamed. If all answers are unmeasured, there is no figure.",
        elsewhere: "request_goodput (vllm bench, whose --goodput has the same grammar), goodput \
                    (aiperf); both count from when the request was sent",
    },
    Metric {
        name: "distributions (servers of texts)",
        keys: &["distributions", "peak_concurrency", "stages", "models", "steady"],
        what: "for each metric, the mean, the standard deviation (of all values, not of a \
               sample), the extremes and percentiles, sorted[floor(count * q)]. For rates, the \
               mean counts over counted_over_ns, without the fill and the drain, so that \
               in a short run it may be above the maximum or below the minimum; the other figures \
               describe the requests, their images, \
               their input tokens and the output tokens in each second, where less than a second at the end \
               counts with the second before it. The output tokens of an answer are spread evenly \
               from its first to its last token, because their own times are not recorded. The mean of \
               images/s is that of requests/s, times the mean number of images in an answer. \
               peak_concurrency is the maximum number of requests on the wire; a request that \
               waits in the client, also for its retry, is not. stages and steady are parts of the run: the stages of --stages, or the steady part. The steady part \
               begins where the variance of the means of five latencies each, divided by their \
               number, is lowest (MSER-5); there is none if it would begin in the second half. \
               models has the figures of each model, if requests name several. Times of a part \
               are those of the requests due in it; rates are those of the answers within it.",
        elsewhere: "--percentile-metrics and --metric-percentiles (vllm bench)",
    },
    Metric {
        name: "requests that are not measured",
        keys: &["excluded", "ramp_ns", "ramp_requests", "ramp_lost", "cancelled"],
        what: "requests that the run sent and does not measure: those due in the ramp (--ramp), \
               and those after it that the client cancelled on purpose (cancel=). No other figure \
               includes them, except that the scheduled rate includes the cancelled ones. Times \
               count from the end of the ramp. A request that is complete before it would be \
               cancelled counts as usual.",
        elsewhere: "warmup requests and cancelled requests (aiperf)",
    },
    Metric {
        name: "inter-token latency (servers)",
        keys: &["inter_token_ns"],
        what: "time between two successive parts with output of the same answer, over all answers, \
               as the client's threads saw them. Percentiles come from a histogram; each is at \
               most 1/64 too high. A part may contain several tokens, or less than one.",
        elsewhere: "itl_ms (vllm bench)",
    },
    Metric {
        name: "latency from the issue time (servers)",
        keys: &["latency_from_issue_ns"],
        what: "completion - issue, per answered sample, as reported by tools that start the clock \
               when they send. It is lower than latency if the client was late.",
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
            "stream_limit",
            "retry_wait_ns",
        ],
        what: "lateness is the time when the request was first passed to a socket - its scheduled \
               time, plus the client's delays of later parts that the socket did not take at once; \
               it does not include the time to establish a connection over HTTP/1.1; over max_client_lag_ns at the target percentile, a Server run is \
               INVALID. busy is CPU time of the client's threads / (their number * the time that \
               the test took); above 0.95 any run is INVALID. Waits are those of samples for which \
               no connection was free. queue_waits are waits for a connection that another request \
               occupied; they make a run INVALID if they delay requests by more than 5 % of the \
               latency. stream_limit is the number of streams that a server permits on a \
               connection of HTTP/2; samples beyond it wait, which counts in their latency. \
               limit_waits are waits for max-concurrency: they count in the latency but \
               not in the lateness. Requests that are sent again (retries=N) are counted. Their \
               latency still counts from the schedule and includes the waits that a server \
               requests (Retry-After), whose sum is retry_wait_ns.",
        elsewhere: "",
    },
    Metric {
        name: "time lost by the client (real time)",
        keys: &["observers"],
        what: "pauses of Dyno's own process in the last run of a test, with their causes (stopped: \
               a signal or a debugger; quota: of the control group; processors: other programs; \
               hypervisor). A thread that wakes every 10 ms detects pauses of at least 10 ms, and \
               brief stops that include one of its wake-ups. Over a network, the client's part of \
               each latency is the time from when the request was due to its write, plus the time \
               from when the kernel had the answer to the read (Linux); figures have each \
               percentile with and without that part. If one read returned a token and later \
               bytes, the token may have arrived at any time while the thread waited for a \
               processor; a run whose verdict depends on this is UNDECIDED. A run is INVALID, \
               cause client, if p50, p90, p99, the target percentile or a percentile of --require, \
               of the latency, of the time to first token or of the time per output token differs \
               by more than 5 % and 200 us, or if the process was stopped for more than 5 % of \
               the run and 50 ms (Offline over a network: did not run, for any reason). In \
               process, a quota or other programs also delay the system; Dyno shows this but does \
               not reject the run.",
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
        what: "(failed + missing samples) / issued samples. Failed samples were refused, timed \
               out, were lost, or were answered with an error. Missing samples were never \
               answered.",
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
        what: "(due time of the next query - own due time) / interval; for the last query, its \
               latency / interval, rounded up. over: queries above 1 or with a failed or missing \
               sample; allowed: queries - floor(queries * percentile) - 1, from the index of the \
               reference; skipped: the sum of the excess over 1; by_client: queries that were \
               answered before a tick that was nevertheless skipped.",
        elsewhere: "",
    },
    Metric {
        name: "client lag",
        keys: &["lag_ns", "client_lag_ns"],
        what: "delay of the issue of a query that the client itself caused: issue - max(scheduled \
               time, time when the system last returned control). Over max_client_lag_ns at the \
               target percentile, a Server run is INVALID, because its latencies would be those of \
               the client. lag_ns is issue - scheduled time, whatever the cause.",
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
               tokens at once, has none. Tokens of thoughts that usage counts and the server does \
               not stream are left out. If it is unknown how many tokens were streamed (a part or a \
               summary of a thought, or a thought of unknown length), the answer has none; a note \
               states the number of such answers. The last token is the last part with output; \
               end_of_stream_ns covers the rest of the stream. Logs in LoadGen's format use the \
               definition of the reference (docs/fidelity.md).",
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
        what: "output tokens of answered samples (token_count; null if they are not counted), \
               divided by a time: in Server the time of the completed rate, otherwise until the \
               last completion (completed; in logs: until the last issued query was complete); \
               until the last issue (with overhead); the sum of all latencies (without overhead); \
               or the longest latency (Offline). If tokens are inferred, samples/s * \
               token_latency_scaling_factor.",
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
        what: "sums over answered samples; each is null if an answer lacks the count. Cached and \
               reasoning tokens are part of input and output, and null if no answer states them. \
               Rates divide by the same time as tokens/s. Output tokens are those of usage; if \
               usage is missing or contradicts itself, those of a tokenizer; otherwise one for \
               each part with output. lengths compares max_tokens of the requests with the output \
               tokens of their answers. A run is INVALID if a figure is based on counts that \
               contradict themselves.",
        elsewhere: "total_token_throughput (vllm bench), total_token_throughput (aiperf)",
    },
    Metric {
        name: "answers (servers of texts)",
        keys: &["answers", "accepted", "finish_reasons", "oddities", "end_of_stream_ns"],
        what: "samples by outcome: whole, empty, cut, aborted, filtered, error (in the answer), \
               short, failed_on_the_wire. Only whole answers succeed, and those of accepted \
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
            "cancelled",
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
        what: "conversations with live answers (sessions=live) by how they ended, and figures by \
               the number of the turn. A turn is due when the previous answer is complete and the \
               think time is over; latencies count from then. duration_ns is the time from the due \
               time of the first turn to the last answer.",
        elsewhere: "",
    },
    Metric {
        name: "tasks of sessions",
        keys: &[
            "tasks",
            "max_steps",
            "at_limit",
            "unfinished",
            "steps",
            "tool_calls",
            "output_tokens",
            "calls_answered",
            "calls_failed",
        ],
        what: "turns that go on while answers call tools (steps=N), by how they ended: answered \
               (by an answer without calls), at_limit (no such answer within max_steps requests), \
               failed, or unfinished. duration_ns is the time from the due time of the first \
               request to the last answer of answered tasks, tools included; latency_ns, steps, \
               tool_calls and tokens are sums over the requests of an answered task. calls_answered and \
               calls_failed count the calls that the client answered in all runs of the test \
               (tools=COMMAND or tools-result=LENGTHS).",
        elsewhere: "",
    },
    Metric {
        name: "early stopping",
        keys: &["early_stopping"],
        what: "whether so many queries with so few over the bound could come, with a probability \
               above 1 % (1 - early_stopping_confidence), from a system that misses the bound. \
               Judged once after the run; if the run is too short, the number of further queries \
               is reported.",
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
            "excluded",
            "answered",
            "lower_is_better",
        ],
        what: "for labeled samples, top-1: the share of all samples of the library whose answer \
               equals the label; samples that failed count as wrong. For a task, the figure of its \
               card, as `dyno task methods` defines it. Percentages are given as shares. For error \
               rates, lower is better.",
        elsewhere: "",
    },
    Metric {
        name: "counts and length",
        keys: &[
            "query_count",
            "sample_count",
            "lasted_ns",
            "counted_over_ns",
            "last_issue_ns",
            "ended",
            "rates",
            "conditions",
        ],
        what: "queries issued, samples answered, the time from the start to the last completion \
               (for sessions, to the end of the run, with think times), the time over which the \
               answers of Server count in rates (counted_over_ns), the time of the last issue, \
               the reason why issuing stopped, and the parts of the verdict.",
        elsewhere: "",
    },
];
