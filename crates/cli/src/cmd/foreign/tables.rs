//! Tables of flags and commands of other tools, each with the advice.

const URL: &str = "pass the URL without a flag: dyno run http://HOST:PORT";
const RATE: &str = "use --request-rate RATE";
const ARRIVALS: &str = "use --request-rate RATE for random arrivals, --max-concurrency N for a \
                        fixed number in flight, or dyno run --sweep for several loads";
const CONCURRENCY: &str = "use --max-concurrency N";
const REQUESTS: &str = "use --num-prompts N";
const DURATION: &str = "use --duration TIME, such as --duration 60s; dyno search --max-time TIME \
                        limits a whole search";
const WARM_UP: &str = "use --warm-up N";
const RAMP: &str = "use --ramp TIME";
const INPUT: &str = "add input=N to the URL: dyno run http://HOST:PORT,input=N";
const OUTPUT: &str = "add output=N to the URL: dyno run http://HOST:PORT,output=N; with \
                      force-output=true answers have exactly this length";
const LIMIT: &str = "add max-tokens=N to the URL: dyno run http://HOST:PORT,max-tokens=N";
const PREFIX: &str = "add prefix=N to the URL: dyno run http://HOST:PORT,prefix=N";
const DATA: &str = "use --data FILE; without it, prompts are random words";
const TOKEN: &str = "add token-env=NAME to the URL: dyno run http://HOST:PORT,token-env=NAME, \
                     where NAME is the environment variable with the token";
const HEADER: &str = "add header.NAME=TEXT to the URL: dyno run http://HOST:PORT,header.NAME=TEXT";
const MEMBER: &str = "add KEY:=JSON to the URL: dyno run 'http://HOST:PORT,temperature:=0'";
const INTERFACE: &str = "Dyno identifies the server; api=NAME selects another interface: \
                         dyno run http://HOST:PORT,api=chat";
const STREAMING: &str = "Dyno streams by default; stream=false disables it: \
                         dyno run http://HOST:PORT,stream=false";
const TOKENIZER: &str =
    "add tokenizer=FILE.json to the URL: dyno run http://HOST:PORT,tokenizer=FILE.json";
const TIMEOUT: &str = "add timeout=TIME to the URL: dyno run http://HOST:PORT,timeout=30s";
const SESSIONS: &str =
    "add sessions=live to the URL: dyno run http://HOST:PORT,sessions=live,turns=N";
const OUT: &str = "use --out DIR; each run writes summary.json and report.html";

const PATH: &str = "pass the URL with its path: dyno run http://HOST:PORT/v1/completions";
const MODEL: &str = "pass a model file without a flag: dyno run MODEL.onnx; for a server, add model=NAME \
                     to the URL: dyno run http://HOST:PORT,model=NAME";
const DEVICE: &str = "remove it: Dyno runs models on the CPU in its own process; for another device, \
                      start a model server and measure it: dyno run http://HOST:PORT";
const PRECISION: &str =
    "remove it: the model file has the precision; dyno tune finds number formats";
const BATCH: &str = "use --batch N; a query of MultiStream has \
                     --settings.multi_stream_samples_per_query N";
const SHAPE: &str = "use --shape INPUT=DIMS, such as --shape input_ids=1x128";
const THREADS: &str = "use --threads N for the threads of a model, --workers N for calls at the same \
                       time; for the client of a server, add threads=N to the URL";
const LIMITS: &str = "use --goodput ttft:200,tpot:50 with limits in ms, --require 'p99<=50ms' for a \
                      verdict, or dyno search for the highest load within limits";
const LATENCY: &str = "use --require 'p99<=50ms', or --settings.server_target_latency_ns 50ms";
const STAGES: &str = "use dyno run --stages, or dyno sweep --over request-rate=1,2,4";
const RANGE: &str = "use dyno sweep --over max-concurrency=1,2,4 or --over request-rate=1..8:x2";
const PERCENTILES: &str =
    "remove it: each run has the percentiles; --metric-percentiles adds others";
const REQUEST: &str = "use the system raw for any request over HTTP: \
                       dyno run raw:http://HOST:PORT/PATH,method=POST,body=TEXT";
const HTTP2: &str = "add http2=true to the URL: dyno run http://HOST:PORT,http2=true";
const INSECURE: &str = "add insecure=true to the URL: dyno run https://HOST:PORT,insecure=true";
const PROXY: &str = "add proxy=http://HOST:PORT to the URL: \
                     dyno run http://HOST:PORT,proxy=http://PROXY:PORT";
const HEADLESS: &str = "remove it: Dyno has no web page; --no-progress hides the progress line";
const REPORT: &str =
    "remove it: each run writes summary.json and report.html to the folder of --out DIR";
const EXPORT: &str = "remove it: dyno export RUN --format csv converts a finished run";
const PROFILE: &str = "remove it: each run measures every request, and ends when --duration or \
                       --num-prompts is reached; dyno compare decides whether runs differ";
const SCRIPT: &str = "remove it: use the system raw for any request, or the system py for a function \
                      of Python: dyno run py:FILE.py:FUNCTION";
const WORKERS: &str =
    "use dyno run --remote-workers N and start dyno worker --join HOST:PORT on each machine";
const METRICS: &str = "remove it: Dyno reads the metrics page of a server by itself; metrics=URL names \
                       another page: dyno run http://HOST:PORT,metrics=http://HOST:8002/metrics";
const CONF: &str = "use --conf FILE";
const COUNT: &str = "use --samples N";
const QUERIES: &str = "use --num-prompts N, or --settings.min_query_count N";
const BODY_OR_TIME: &str = "use --duration TIME for a length; for the body of a request, use the \
                            system raw: dyno run raw:http://HOST:PORT/PATH,body=TEXT";
const MODEL_OR_METHOD: &str = "pass a model file without a flag: dyno run MODEL.onnx; for the method \
                               of a request: dyno run raw:http://HOST:PORT/PATH,method=POST";
const TIME_OR_THREADS: &str = "use --duration TIME for a length; for client threads, add threads=N to \
                               the URL: dyno run http://HOST:PORT,threads=4";
const URL_OR_USERS: &str = "pass the URL without a flag: dyno run http://HOST:PORT; use \
                            --max-concurrency N for users";
pub const NUMBER: &str = "a number needs a flag: --request-rate RATE, --max-concurrency N, \
                          --num-prompts N or --duration TIME; -q is --quiet";
/// Formats of `dyno export`, which are flags of other tools.
pub const FORMATS: [&str; 6] = ["csv", "jsonl", "parquet", "metrics", "prometheus", "junit"];
pub const VERSION: &str = "use dyno -V";
const OVERWRITE: &str = "remove it: each run has a folder of its own; --out DIR selects a new one";

/// Flags, each with the advice, in lower case and with hyphens. Their names differ from those of Dyno.
/// A flag with one letter has the meanings of the most used tools.
pub const FLAGS: &[(&str, &str)] = &[
    ("--accuracy", "use --mode accuracy"),
    ("--accuracy-only", "use --mode accuracy"),
    ("--address", URL),
    ("--api", INTERFACE),
    ("--api-key", TOKEN),
    ("--append-result", EXPORT),
    ("--arrival-pattern", ARRIVALS),
    ("--artifact-dir", OUT),
    ("--audit-conf", "use --audit FILE"),
    ("--auth", TOKEN),
    ("--auth-token", TOKEN),
    ("--autostart", HEADLESS),
    ("--avgruns", PROFILE),
    ("--backend", INTERFACE),
    ("--backend-type", INTERFACE),
    ("--base-url", URL),
    ("--batch-size", BATCH),
    ("--bearer-token", TOKEN),
    ("--benchmark-duration", DURATION),
    ("--best", PRECISION),
    ("--bf16", PRECISION),
    ("--binary-search", RANGE),
    ("--body", REQUEST),
    ("--body-path", REQUEST),
    ("--clients", CONCURRENCY),
    ("--collect-metrics", METRICS),
    ("--concurrency", CONCURRENCY),
    ("--concurrency-ramp-duration", RAMP),
    ("--concurrency-range", RANGE),
    ("--connections", CONCURRENCY),
    ("--content-type", REQUEST),
    ("--conversation-num", SESSIONS),
    ("--conversation-turn-mean", SESSIONS),
    ("--cooldown", PROFILE),
    ("--count", COUNT),
    ("--cpus", THREADS),
    ("--csv", EXPORT),
    ("--custom-dataset-path", DATA),
    ("--custom-dataset-type", DATA),
    ("--custom-endpoint", INTERFACE),
    ("--custom-output-len", OUTPUT),
    ("--data-path", DATA),
    ("--data-raw", REQUEST),
    ("--data-shape", SHAPE),
    ("--dataset", DATA),
    ("--dataset-name", DATA),
    ("--dataset-path", DATA),
    ("--detect-saturation", "use --stop-on-saturation"),
    ("--device", DEVICE),
    ("--devices", DEVICE),
    ("--disable-console", HEADLESS),
    ("--disable-console-outputs", HEADLESS),
    (
        "--disable-keepalive",
        "add keep-alive=false to the URL: dyno run http://HOST:PORT,keep-alive=false",
    ),
    ("--disable-tqdm", "use --no-progress"),
    ("--distributed", WORKERS),
    ("--dtype", PRECISION),
    ("--duration-s", DURATION),
    ("--enable-log-trace", "use --trace-log"),
    ("--endpoint", PATH),
    ("--endpoint-type", INTERFACE),
    ("--endpoint-url", URL),
    ("--execution-provider", DEVICE),
    ("--execution-providers", DEVICE),
    ("--expect-workers", WORKERS),
    ("--export", EXPORT),
    ("--export-json", REPORT),
    ("--exporttimes", EXPORT),
    ("--extra-args", MEMBER),
    ("--extra-body", MEMBER),
    ("--extra-inputs", MEMBER),
    ("--extra-request-body", MEMBER),
    ("--find-peak-performance", RANGE),
    ("--force", OVERWRITE),
    ("--form", REQUEST),
    ("--format", EXPORT),
    ("--fp16", PRECISION),
    ("--fp8", PRECISION),
    ("--frequency-penalty", MEMBER),
    ("--goodput-constraints", LIMITS),
    ("--gpu", DEVICE),
    ("--gpus", DEVICE),
    ("--header", HEADER),
    ("--headers", HEADER),
    ("--headless", HEADLESS),
    ("--hf-output-len", OUTPUT),
    ("--host", URL),
    ("--html", REPORT),
    ("--http-proxy", PROXY),
    ("--http-version", HTTP2),
    ("--http2", HTTP2),
    (
        "--ignore-eos",
        "add force-output=true to the URL: dyno run http://HOST:PORT,force-output=true",
    ),
    ("--input-data", DATA),
    ("--input-file", DATA),
    ("--input-len", INPUT),
    ("--input-tokens", INPUT),
    ("--inputs", DATA),
    ("--insecure", INSECURE),
    ("--insecure-skip-tls-verify", INSECURE),
    ("--int8", PRECISION),
    ("--inter-op-num-threads", THREADS),
    ("--intra-op-num-threads", THREADS),
    ("--isl", INPUT),
    ("--iterations", REQUESTS),
    ("--json-path", REPORT),
    ("--junit", "remove it: dyno export RUN --format junit converts a finished run"),
    ("--label", "use --name NAME"),
    ("--latency", PERCENTILES),
    ("--latency-correction", "remove it: latency always counts from the scheduled time"),
    ("--latency-report-file", REPORT),
    ("--latency-slo", LATENCY),
    ("--latency-threshold", LATENCY),
    ("--limit", LIMITS),
    ("--load-profile", STAGES),
    ("--loadengine", MODEL),
    ("--locustfile", SCRIPT),
    ("--log-path", OUT),
    ("--logprobs", MEMBER),
    ("--lua", SCRIPT),
    (
        "--markdown",
        "remove it: dyno compare appends a table to the file that GITHUB_STEP_SUMMARY names",
    ),
    ("--master", WORKERS),
    ("--max-batch-size", BATCH),
    ("--max-batchsize", BATCH),
    ("--max-error-rate", "use --require 'errors<=1%'"),
    ("--max-errors", "use --require 'errors<=1%', or --fail-fast"),
    ("--max-latency", LATENCY),
    ("--max-new-tokens", LIMIT),
    ("--max-output-tokens", LIMIT),
    ("--max-prompts", REQUESTS),
    ("--max-qps", RATE),
    ("--max-requests", REQUESTS),
    ("--max-rps", RATE),
    ("--max-seconds", DURATION),
    ("--max-threads", THREADS),
    ("--max-time-seconds", DURATION),
    ("--max-tokens", LIMIT),
    ("--max-trials", PROFILE),
    ("--max-vus", CONCURRENCY),
    ("--maxshapes", SHAPE),
    ("--mean-input-tokens", INPUT),
    ("--mean-output-tokens", OUTPUT),
    ("--measurement-interval", DURATION),
    ("--measurement-mode", PROFILE),
    ("--measurement-request-count", REQUESTS),
    ("--metadata", "use --name NAME; summary.json records the settings"),
    ("--method", REQUEST),
    ("--min-p", MEMBER),
    ("--min-query-count", QUERIES),
    ("--minshapes", SHAPE),
    ("--mlperf-conf", CONF),
    ("--mlperf-config", CONF),
    ("--model-id", MODEL),
    ("--model-name", MODEL),
    ("--model-names", MODEL),
    ("--model-path", MODEL),
    ("--multi-turn", SESSIONS),
    ("--niter", REQUESTS),
    ("--no-color", "remove it, and set NO_COLOR=1"),
    ("--no-stream", STREAMING),
    ("--no-tui", "use --no-progress"),
    ("--no-verify", INSECURE),
    ("--nthreads", THREADS),
    ("--num-concurrent-requests", CONCURRENCY),
    ("--num-conversations", SESSIONS),
    ("--num-dataset-entries", REQUESTS),
    ("--num-iters", REQUESTS),
    ("--num-iters-warmup", WARM_UP),
    ("--num-prefix-prompts", PREFIX),
    ("--num-prompt-tokens", INPUT),
    ("--num-queries", QUERIES),
    ("--num-requests", REQUESTS),
    ("--num-samples", COUNT),
    ("--num-sessions", SESSIONS),
    ("--num-threads", THREADS),
    ("--num-users", CONCURRENCY),
    ("--num-warmups", WARM_UP),
    ("--num-workers", THREADS),
    ("--number", REQUESTS),
    ("--number-iterations", REQUESTS),
    ("--number-threads", THREADS),
    ("--onnx", MODEL),
    ("--openai-backend", INTERFACE),
    ("--optshapes", SHAPE),
    ("--osl", OUTPUT),
    ("--outdir", OUT),
    ("--output", OUT),
    ("--output-artifact-dir", OUT),
    ("--output-csv", EXPORT),
    ("--output-csv-path", EXPORT),
    ("--output-dir", OUT),
    ("--output-file", OUT),
    ("--output-format", REPORT),
    ("--output-len", OUTPUT),
    ("--output-log-dir", OUT),
    ("--output-path", OUT),
    ("--output-path-dir", OUT),
    ("--output-tokens", OUTPUT),
    ("--output-tokens-mean", OUTPUT),
    ("--output-tokens-stddev", OUTPUT),
    ("--overwrite", OVERWRITE),
    ("--parallelism", CONCURRENCY),
    ("--path-to-model", MODEL),
    ("--percentile", PERCENTILES),
    ("--percentiles", PERCENTILES),
    ("--performance-only", "use --mode performance"),
    ("--performance-sample-count", COUNT),
    ("--port", URL),
    ("--precision", PRECISION),
    ("--prefix-len", PREFIX),
    ("--prefix-prompt-length", PREFIX),
    ("--presence-penalty", MEMBER),
    ("--print-percentiles", PERCENTILES),
    ("--print-report", REPORT),
    ("--processes", THREADS),
    ("--processor", TOKENIZER),
    ("--profile-export-file", REPORT),
    ("--prometheus", "remove it: dyno export RUN --format prometheus converts a finished run"),
    ("--prompt-file", DATA),
    ("--prompt-input-tokens-mean", INPUT),
    ("--prompt-output-tokens-mean", OUTPUT),
    ("--prompt-tokens", INPUT),
    ("--prompts", DATA),
    ("--protocol", INTERFACE),
    ("--provider", DEVICE),
    ("--providers", DEVICE),
    ("--proxy", PROXY),
    ("--public-dataset", DATA),
    ("--query-count", QUERIES),
    ("--query-per-sec", RATE),
    ("--query-per-second", RATE),
    ("--ramp-time", RAMP),
    ("--ramp-up", RAMP),
    ("--ramp-up-end-rps", RAMP),
    ("--ramp-up-start-rps", RAMP),
    ("--ramp-up-strategy", RAMP),
    ("--rampup", RAMP),
    ("--random-input-len", INPUT),
    ("--random-output-len", OUTPUT),
    ("--random-prefix-len", PREFIX),
    ("--random-range-ratio", INPUT),
    ("--random-seed", "use --seed N"),
    ("--rate", RATE),
    ("--rate-range", RANGE),
    ("--rate-type", ARRIVALS),
    ("--ready-check-timeout-sec", "use --ready-timeout TIME"),
    ("--repetition-penalty", MEMBER),
    ("--report", REPORT),
    ("--report-folder", REPORT),
    ("--report-type", REPORT),
    ("--request-count", REQUESTS),
    ("--request-distribution", ARRIVALS),
    ("--request-rate-mode", ARRIVALS),
    ("--request-rate-range", RANGE),
    ("--request-timeout", TIMEOUT),
    ("--request-timeout-seconds", TIMEOUT),
    ("--request-type", INTERFACE),
    ("--requests", REQUESTS),
    ("--requests-per-second", RATE),
    ("--result-dir", OUT),
    ("--result-filename", OUT),
    ("--result-name", "use --name NAME"),
    ("--retries", "add retries=N to the URL: dyno run http://HOST:PORT,retries=2"),
    ("--rps", RATE),
    ("--run-time", DURATION),
    ("--sample-count", COUNT),
    ("--samples-per-query", "use --settings.multi_stream_samples_per_query N"),
    ("--sampling-params", MEMBER),
    ("--save-detailed", REPORT),
    ("--save-result", OUT),
    ("--schedule", ARRIVALS),
    ("--script", SCRIPT),
    ("--served-model-name", MODEL),
    ("--server-url", URL),
    ("--service-kind", INTERFACE),
    ("--session-turns-mean", SESSIONS),
    ("--shapes", SHAPE),
    ("--shared-memory", "remove it: Dyno sends tensors in the request"),
    ("--shared-prefix-len", PREFIX),
    ("--sharegpt-output-len", OUTPUT),
    ("--skip-tls-verify", INSECURE),
    ("--sla", LIMITS),
    ("--slo", LIMITS),
    ("--slos", LIMITS),
    ("--sonnet-input-len", INPUT),
    ("--sonnet-output-len", OUTPUT),
    ("--sonnet-prefix-len", PREFIX),
    ("--spawn-rate", RAMP),
    ("--spawn-rate-qps", RATE),
    ("--stability-percentage", PROFILE),
    ("--stage", STAGES),
    ("--stop-over-saturated", "use --stop-on-saturation"),
    ("--stop-timeout", PROFILE),
    ("--strategy", ARRIVALS),
    ("--stream", STREAMING),
    ("--streaming", STREAMING),
    ("--summary-export", REPORT),
    ("--summary-trend-stats", PERCENTILES),
    ("--synthetic-input-tokens-mean", INPUT),
    ("--synthetic-input-tokens-stddev", INPUT),
    ("--target", URL),
    ("--target-device", DEVICE),
    ("--target-latency", LATENCY),
    ("--target-qps", RATE),
    ("--targets", URL),
    ("--temperature", MEMBER),
    ("--tensor-parallel-size", DEVICE),
    ("--test-duration", DURATION),
    ("--test-mode", "use --mode accuracy, --mode performance or --mode both"),
    ("--test-scenario", "use --scenario NAME"),
    ("--time", DURATION),
    ("--timeout", TIMEOUT),
    ("--token", TOKEN),
    ("--tokenizer", TOKENIZER),
    ("--tokenizer-mode", TOKENIZER),
    ("--tokenizer-name", TOKENIZER),
    ("--tokenizer-path", TOKENIZER),
    ("--top-k", MEMBER),
    ("--top-p", MEMBER),
    ("--total-sample-count", COUNT),
    ("--trust-remote-code", "remove it: Dyno runs no code of models"),
    ("--ui", HEADLESS),
    ("--ui-type", HEADLESS),
    ("--uri", URL),
    ("--url", URL),
    ("--use-gpu", DEVICE),
    ("--usecudagraph", DEVICE),
    ("--user-conf", CONF),
    ("--user-config", CONF),
    ("--users", CONCURRENCY),
    ("--verify-ssl", INSECURE),
    ("--version", VERSION),
    ("--vus", CONCURRENCY),
    ("--warmup", WARM_UP),
    ("--warmup-duration", WARM_UP),
    ("--warmup-iters", WARM_UP),
    ("--warmup-request-count", WARM_UP),
    ("--warmup-requests", WARM_UP),
    ("--warmup-runs", WARM_UP),
    ("--web-port", HEADLESS),
    ("--worker", WORKERS),
    ("-A", TOKEN),
    ("-D", REQUEST),
    ("-H", HEADER),
    ("-L", PERCENTILES),
    ("-R", RATE),
    ("-T", REQUEST),
    ("-V", VERSION),
    ("-X", PROXY),
    ("-a", TOKEN),
    ("-b", BATCH),
    ("-c", CONCURRENCY),
    ("-d", BODY_OR_TIME),
    ("-e", DEVICE),
    ("-f", SCRIPT),
    ("-i", DATA),
    ("-k", INSECURE),
    ("-m", MODEL_OR_METHOD),
    ("-n", REQUESTS),
    ("-o", OUT),
    ("-p", BODY_OR_TIME),
    ("-r", RATE),
    ("-s", PROFILE),
    ("-t", TIME_OR_THREADS),
    ("-u", URL_OR_USERS),
    ("-w", REPORT),
    ("-x", THREADS),
    ("-y", THREADS),
    ("-z", DURATION),
];

/// Flags of other servers, with those of `dyno serve`.
pub const SERVE_FLAGS: &[(&str, &str)] = &[
    ("--address", "use --http HOST:PORT, and --grpc HOST:PORT for a second address"),
    ("--bind", "use --http HOST:PORT, and --grpc HOST:PORT for a second address"),
    ("--device", "remove it: Dyno serves models on the CPU"),
    ("--host", "use --http HOST:PORT, and --grpc HOST:PORT for a second address"),
    ("--listen", "use --http HOST:PORT, and --grpc HOST:PORT for a second address"),
    ("--max-batch-size", "use --batch N"),
    ("--model", "use --system onnx:MODEL.onnx"),
    ("--model-path", "use --system onnx:MODEL.onnx"),
    ("--port", "use --http HOST:PORT, and --grpc HOST:PORT for a second address"),
    ("--served-model-name", "use --model-name NAME"),
];

const RUN: &str =
    "use dyno run: dyno run http://HOST:PORT measures a server, dyno run MODEL.onnx a model";

/// Words that people write as the command, each with the advice.
pub const WORDS: &[(&str, &str)] = &[
    ("attack", RUN),
    ("bench", RUN),
    ("benchmark", RUN),
    ("diff", "use dyno compare RUN RUN"),
    ("download", "use dyno fetch"),
    ("list", "use dyno info, or dyno task list"),
    ("load", RUN),
    ("loadtest", RUN),
    ("measure", RUN),
    ("perf", RUN),
    ("profile", RUN),
    ("pull", "use dyno fetch"),
    ("quantize", "use dyno tune"),
    ("start", RUN),
    ("stress", RUN),
    ("submit", "use dyno package"),
    ("test", "use dyno run for a system, or dyno selftest for this machine"),
    ("validate", "use dyno check"),
    ("version", VERSION),
];
