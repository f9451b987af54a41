// Settings: layout, defaults, configuration files, logs.

#include <cstddef>
#include <fstream>
#include <limits>

#include "harness.h"
#include "query_sample.h"

using mlperf::LogOutputSettings;
using mlperf::LogSettings;
using mlperf::TestSettings;

// Layout of the reference on x86-64 Linux with libstdc++, so that objects that
// were compiled against its headers link.
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBCXX__) && _GLIBCXX_USE_CXX11_ABI
#define AT(type, field, offset) static_assert(offsetof(type, field) == (offset), #field)
AT(TestSettings, scenario, 0);
AT(TestSettings, mode, 4);
AT(TestSettings, single_stream_expected_latency_ns, 8);
AT(TestSettings, single_stream_target_latency_percentile, 16);
AT(TestSettings, multi_stream_expected_latency_ns, 24);
AT(TestSettings, multi_stream_target_latency_percentile, 32);
AT(TestSettings, multi_stream_samples_per_query, 40);
AT(TestSettings, server_target_qps, 48);
AT(TestSettings, server_target_latency_ns, 56);
AT(TestSettings, server_target_latency_percentile, 64);
AT(TestSettings, server_coalesce_queries, 72);
AT(TestSettings, server_find_peak_qps_decimals_of_precision, 76);
AT(TestSettings, server_find_peak_qps_boundary_step_size, 80);
AT(TestSettings, server_max_async_queries, 88);
AT(TestSettings, server_num_issue_query_threads, 96);
AT(TestSettings, offline_expected_qps, 104);
AT(TestSettings, sample_concatenate_permutation, 112);
AT(TestSettings, min_duration_ms, 120);
AT(TestSettings, max_duration_ms, 128);
AT(TestSettings, min_query_count, 136);
AT(TestSettings, max_query_count, 144);
AT(TestSettings, qsl_rng_seed, 152);
AT(TestSettings, sample_index_rng_seed, 160);
AT(TestSettings, schedule_rng_seed, 168);
AT(TestSettings, accuracy_log_rng_seed, 176);
AT(TestSettings, accuracy_log_probability, 184);
AT(TestSettings, accuracy_log_sampling_target, 192);
AT(TestSettings, test05, 200);
AT(TestSettings, test05_qsl_rng_seed, 208);
AT(TestSettings, test05_sample_index_rng_seed, 216);
AT(TestSettings, test05_schedule_rng_seed, 224);
AT(TestSettings, print_timestamps, 232);
AT(TestSettings, performance_issue_unique, 233);
AT(TestSettings, performance_issue_same, 234);
AT(TestSettings, performance_issue_same_index, 240);
AT(TestSettings, performance_sample_count_override, 248);
AT(TestSettings, accuracy_sample_count_override, 256);
AT(TestSettings, use_token_latencies, 264);
AT(TestSettings, server_ttft_latency, 272);
AT(TestSettings, server_tpot_latency, 280);
AT(TestSettings, infer_token_latencies, 288);
AT(TestSettings, token_latency_scaling_factor, 296);
static_assert(sizeof(TestSettings) == 304, "TestSettings");
AT(LogOutputSettings, outdir, 0);
AT(LogOutputSettings, prefix, 32);
AT(LogOutputSettings, suffix, 64);
AT(LogOutputSettings, prefix_with_datetime, 96);
AT(LogOutputSettings, copy_detail_to_stdout, 97);
AT(LogOutputSettings, copy_summary_to_stdout, 98);
static_assert(sizeof(LogOutputSettings) == 104, "LogOutputSettings");
AT(LogSettings, log_mode, 104);
AT(LogSettings, log_mode_async_poll_interval_ms, 112);
AT(LogSettings, enable_trace, 120);
static_assert(sizeof(LogSettings) == 128, "LogSettings");
static_assert(sizeof(mlperf::QuerySample) == 16, "QuerySample");
static_assert(sizeof(mlperf::QuerySampleResponse) == 32, "QuerySampleResponse");
#endif

namespace {

class Inline : public mlperf::SystemUnderTest {
 public:
  const std::string& Name() override { return name_; }
  void IssueQuery(const std::vector<mlperf::QuerySample>& samples) override {
    for (const mlperf::QuerySample& sample : samples) {
      mlperf::QuerySampleResponse response(sample.id, 0, 0);
      mlperf::QuerySamplesComplete(&response, 1);
    }
  }
  void FlushQueries() override {}

 private:
  const std::string name_ = "inline";
};

void Write(const char* path, const char* text) { std::ofstream(path) << text; }

}  // namespace

CASE(from_config) {
  Write("user.conf",
        "*.Server.target_qps = 1234.5\n"
        "*.Server.coalesce_queries = 1\n"
        "*.SingleStream.target_latency = 0.125\n"
        "*.*.mode = 1\n"
        "*.*.min_query_count = 18446744073709551615\n"
        "other.Server.target_qps = 1\n");
  Write("bad.conf", "*.Server.target_qps = 5 # a comment\n*.Server.target_latency = 1\n");
  Write("infinite.conf", "*.Server.target_qps = inf\n");

  TestSettings settings;
  CHECK(settings.FromConfig("user.conf", "resnet50", "Server") == 0);
  CHECK(settings.server_target_qps == 1234.5);
  CHECK(settings.server_coalesce_queries);
  CHECK(settings.single_stream_expected_latency_ns == 125000);
  CHECK(settings.mode == mlperf::TestMode::AccuracyOnly);
  CHECK(settings.min_query_count == std::numeric_limits<uint64_t>::max());
  // The first call in a process brings the built-in table, and no other does.
  CHECK(settings.server_target_latency_ns == 15000000);
  CHECK(settings.performance_sample_count_override == 1024);
  CHECK(settings.qsl_rng_seed == 2085463073848966840ULL);
  CHECK(settings.scenario == mlperf::TestScenario::SingleStream);

  TestSettings second;
  CHECK(second.FromConfig("user.conf", "resnet50", "Server") == 0);
  CHECK(second.server_target_qps == 1234.5);
  CHECK(second.qsl_rng_seed == 0);

  TestSettings third;
  third.server_find_peak_qps_decimals_of_precision = -3;
  third.offline_expected_qps = 0.1;
  CHECK(third.FromConfig("bad.conf", "resnet50", "Server") == -22);
  CHECK(third.server_target_qps == 1);
  CHECK(third.server_find_peak_qps_decimals_of_precision == -3);
  CHECK(third.offline_expected_qps == 0.1);
  CHECK(third.FromConfig("no.conf", "resnet50", "Server") == -2);
  CHECK(third.FromConfig("", "gptj", "Server", 0) == 0);
  CHECK(third.infer_token_latencies && third.token_latency_scaling_factor == 69);
  CHECK(third.server_target_latency_ns == 20000000000ULL);
  CHECK(third.FromConfig("infinite.conf", "gptj", "Server", 2) == 0);
  CHECK(third.server_target_qps == std::numeric_limits<double>::infinity());
}

CASE(audit_files) {
  Write("audit.config", "*.*.min_query_count = 77\n");
  Write("mine.config", "*.*.min_query_count = 88\n");
  Inline sut;
  Library qsl;
  const auto settings = ShortTest(mlperf::TestScenario::SingleStream);
  mlperf::StartTest(&sut, &qsl, settings, Logs(0));
  mlperf::StartTest(&sut, &qsl, settings, Logs(1), "mine.config");
  mlperf::StartTest(&sut, &qsl, settings, Logs(2), "no.config");
}

CASE(logs_on_stdout) {
  Inline sut;
  Library qsl;
  LogSettings logs;
  logs.log_output.outdir = "logs";
  logs.log_output.prefix = "begin ";
  logs.log_output.suffix = " end";
  logs.log_output.copy_detail_to_stdout = true;
  logs.log_output.copy_summary_to_stdout = true;
  logs.log_mode = mlperf::LoggingMode::Synchronous;
  logs.log_mode_async_poll_interval_ms = 1;
  mlperf::StartTest(&sut, &qsl, ShortTest(mlperf::TestScenario::Offline), logs);
}
