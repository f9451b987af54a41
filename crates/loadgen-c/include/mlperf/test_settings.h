/// What is asked of a test, and where its logs go.
///
/// Field names, order, types and defaults are those of MLPerf LoadGen 6.0; on
/// x86-64 and AArch64 Linux the layout is too. docs/drop-in.md lists the fields
/// that are accepted and have no effect.

#ifndef DYNO_MLPERF_TEST_SETTINGS_H_
#define DYNO_MLPERF_TEST_SETTINGS_H_

#include <cstdint>
#include <string>

namespace mlperf {

/// How queries reach the system under test, and what the result is.
enum class TestScenario {
  /// One query of one sample at a time; the next is issued when the last is
  /// complete. Result: a percentile of latency.
  SingleStream,
  /// One query of N contiguous samples at a time; the next is issued when all
  /// samples of the last are complete. Result: a percentile of query latency.
  MultiStream,
  /// Queries of one sample arrive at random (Poisson), whether or not earlier
  /// ones are complete; latency counts from the scheduled arrival. Result:
  /// completed samples per second while a percentile of latency stays within a
  /// bound.
  Server,
  /// One query with all samples, issued at the start. Result: samples per second.
  Offline,
};

/// What a test does.
enum class TestMode {
  /// An accuracy run followed by a performance run.
  SubmissionRun,
  /// Every sample of the data set once; all responses are logged.
  AccuracyOnly,
  /// Latency or throughput on the loaded performance set.
  PerformanceOnly,
  /// Server only: search for the highest rate that meets the latency bound.
  FindPeakPerformance,
};

/// Settings of a test. Latencies ending in `_ns` are nanoseconds, percentiles
/// and probabilities are fractions, 0 means "none" where a limit is optional.
struct TestSettings {
  /// How queries are issued and what the result is.
  TestScenario scenario = TestScenario::SingleStream;
  /// Performance, accuracy, both, or the search for the peak.
  TestMode mode = TestMode::PerformanceOnly;

  /// SingleStream: expected latency in ns; sets how many queries are generated.
  double single_stream_expected_latency_ns = 1000000;
  /// SingleStream: the percentile that is the result.
  double single_stream_target_latency_percentile = 0.90;

  /// MultiStream: expected query latency in ns; sets how many queries are generated.
  double multi_stream_expected_latency_ns = 8000000;
  /// MultiStream: the percentile that is the result.
  double multi_stream_target_latency_percentile = 0.99;
  /// MultiStream: samples in a query.
  std::uint64_t multi_stream_samples_per_query = 8;

  /// Server: mean arrival rate in queries/s.
  double server_target_qps = 1;
  /// Server: the latency bound in ns.
  std::uint64_t server_target_latency_ns = 100000000;
  /// Server: the share of queries that must meet the bound.
  double server_target_latency_percentile = 0.99;
  /// Server: hand all queries that are due to the system in one call.
  bool server_coalesce_queries = false;
  /// FindPeakPerformance: decimals of the rate found.
  std::int32_t server_find_peak_qps_decimals_of_precision = 1;
  /// FindPeakPerformance: each bracketing step multiplies the rate by 1 + this.
  double server_find_peak_qps_boundary_step_size = 1;
  /// Server: end the run when more queries than this are outstanding.
  std::uint64_t server_max_async_queries = 0;
  /// Server: threads that register to issue; 0 is the thread of StartTest().
  std::uint64_t server_num_issue_query_threads = 0;

  /// Offline: expected throughput in samples/s; sets the size of the query.
  double offline_expected_qps = 1;

  /// Issue each sample of the set equally often.
  bool sample_concatenate_permutation = false;

  /// The run lasts at least this long, in ms.
  std::uint64_t min_duration_ms = 10000;
  /// The run ends early after this long, in ms.
  std::uint64_t max_duration_ms = 0;
  /// At least this many queries are issued.
  std::uint64_t min_query_count = 100;
  /// The run ends early after this many queries.
  std::uint64_t max_query_count = 0;

  /// Seed of the order in which samples are loaded.
  std::uint64_t qsl_rng_seed = 0;
  /// Seed of the choice of samples for queries.
  std::uint64_t sample_index_rng_seed = 0;
  /// Seed of the arrival times.
  std::uint64_t schedule_rng_seed = 0;
  /// Seed of the choice of responses that a performance run logs.
  std::uint64_t accuracy_log_rng_seed = 0;
  /// Share of responses that a performance run logs.
  double accuracy_log_probability = 0;
  /// Expected number of responses that a performance run logs; if not 0 it
  /// replaces the share.
  std::uint64_t accuracy_log_sampling_target = 0;

  /// Audit: performance run with the alternative seeds below.
  bool test05 = false;
  /// Audit: replaces qsl_rng_seed.
  std::uint64_t test05_qsl_rng_seed = 0;
  /// Audit: replaces sample_index_rng_seed.
  std::uint64_t test05_sample_index_rng_seed = 0;
  /// Audit: replaces schedule_rng_seed.
  std::uint64_t test05_schedule_rng_seed = 0;

  /// Print begin and end of the performance run on stdout.
  bool print_timestamps = false;

  /// Audit: issue each sample once, in a shuffled order.
  bool performance_issue_unique = false;
  /// Audit: issue the same sample every time.
  bool performance_issue_same = false;
  /// Audit: which one, as a position in the loaded set.
  std::uint64_t performance_issue_same_index = 0;
  /// Size of the performance set; 0 is what the data set reports.
  std::uint64_t performance_sample_count_override = 0;
  /// Samples of an accuracy run; 0 is all of them.
  std::uint64_t accuracy_sample_count_override = 0;

  /// Judge time to first token and time per output token instead of latency.
  bool use_token_latencies = false;
  /// Bound of the time to first token in ns.
  std::uint64_t server_ttft_latency = 100000000;
  /// Bound of the time per output token in ns.
  std::uint64_t server_tpot_latency = 100000000;
  /// Report tokens/s as samples/s times the factor below.
  bool infer_token_latencies = false;
  /// Tokens per sample, for inferred tokens.
  std::uint64_t token_latency_scaling_factor = 0;

  /// Applies the lines of a configuration file that are meant for `model` and
  /// `scenario` ("SingleStream", "MultiStream", "Server" or "Offline"; the field
  /// `scenario` is left alone).
  ///
  /// `conf_type` 1 is a user's file: the first such call in a process applies
  /// the built-in settings of the model before it. 0 applies only the built-in
  /// ones and ignores `path`. 2 is an audit's file.
  ///
  /// Returns 0, -22 if a line cannot be read (then none of the file's apply), or
  /// -2 if the file cannot be opened.
  int FromConfig(const std::string& path, const std::string& model, const std::string& scenario,
                 int conf_type = 1);
};

/// Accepted and without effect: the logs are written after the run, and nothing
/// is logged while it is timed.
enum class LoggingMode {
  AsyncPoll,
  EndOfTestOnly,
  Synchronous,
};

/// Names of the log files: `outdir`/`prefix`[time_]{summary,detail}`suffix`.txt
/// and {accuracy,trace}`suffix`.json.
struct LogOutputSettings {
  /// A folder that exists.
  std::string outdir = ".";
  /// Begin of each name.
  std::string prefix = "mlperf_log_";
  /// End of each name, before the extension.
  std::string suffix = "";
  /// Put the time of the test into the names.
  bool prefix_with_datetime = false;
  /// Print the detail log as well.
  bool copy_detail_to_stdout = false;
  /// Print the summary as well.
  bool copy_summary_to_stdout = false;
};

/// Which logs are written, and where.
struct LogSettings {
  /// Names of the log files.
  LogOutputSettings log_output;
  /// Without effect.
  LoggingMode log_mode = LoggingMode::AsyncPoll;
  /// Without effect.
  std::uint64_t log_mode_async_poll_interval_ms = 1000;
  /// Write the trace of every query; costs the run nothing.
  bool enable_trace = true;
};

}  // namespace mlperf

#endif  // DYNO_MLPERF_TEST_SETTINGS_H_
