#include "settings.h"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "dyno_loadgen.h"
#include "test_settings.h"

namespace dyno {
namespace {

using mlperf::TestMode;
using mlperf::TestScenario;

/// Spelling of each value, by its number.
constexpr const char* kScenarios[] = {"SingleStream", "MultiStream", "Server", "Offline"};
constexpr const char* kModes[] = {"SubmissionRun", "AccuracyOnly", "PerformanceOnly",
                                  "FindPeakPerformance"};

template <class Enum, std::size_t N>
const char* NameOf(const char* key, Enum value, const char* const (&names)[N]) {
  const auto at = static_cast<std::size_t>(value);
  if (at >= N) {
    throw std::runtime_error("TestSettings." + std::string(key) + " is " + std::to_string(at) +
                             ", which is none of its values; set one of " + names[0] + " to " +
                             names[N - 1]);
  }
  return names[at];
}

/// Calls `visit` with the key and a reference for each field.
template <class Settings, class Visit>
void ForEachField(Settings& settings, Visit&& visit) {
#define DYNO_FIELD(name) visit(#name, settings.name)
  DYNO_FIELD(scenario);
  DYNO_FIELD(mode);
  DYNO_FIELD(single_stream_expected_latency_ns);
  DYNO_FIELD(single_stream_target_latency_percentile);
  DYNO_FIELD(multi_stream_expected_latency_ns);
  DYNO_FIELD(multi_stream_target_latency_percentile);
  DYNO_FIELD(multi_stream_samples_per_query);
  DYNO_FIELD(server_target_qps);
  DYNO_FIELD(server_target_latency_ns);
  DYNO_FIELD(server_target_latency_percentile);
  DYNO_FIELD(server_coalesce_queries);
  DYNO_FIELD(server_find_peak_qps_decimals_of_precision);
  DYNO_FIELD(server_find_peak_qps_boundary_step_size);
  DYNO_FIELD(server_max_async_queries);
  DYNO_FIELD(server_num_issue_query_threads);
  DYNO_FIELD(offline_expected_qps);
  DYNO_FIELD(sample_concatenate_permutation);
  DYNO_FIELD(min_duration_ms);
  DYNO_FIELD(max_duration_ms);
  DYNO_FIELD(min_query_count);
  DYNO_FIELD(max_query_count);
  DYNO_FIELD(qsl_rng_seed);
  DYNO_FIELD(sample_index_rng_seed);
  DYNO_FIELD(schedule_rng_seed);
  DYNO_FIELD(accuracy_log_rng_seed);
  DYNO_FIELD(accuracy_log_probability);
  DYNO_FIELD(accuracy_log_sampling_target);
  DYNO_FIELD(test05);
  DYNO_FIELD(test05_qsl_rng_seed);
  DYNO_FIELD(test05_sample_index_rng_seed);
  DYNO_FIELD(test05_schedule_rng_seed);
  DYNO_FIELD(print_timestamps);
  DYNO_FIELD(performance_issue_unique);
  DYNO_FIELD(performance_issue_same);
  DYNO_FIELD(performance_issue_same_index);
  DYNO_FIELD(performance_sample_count_override);
  DYNO_FIELD(accuracy_sample_count_override);
  DYNO_FIELD(use_token_latencies);
  DYNO_FIELD(server_ttft_latency);
  DYNO_FIELD(server_tpot_latency);
  DYNO_FIELD(infer_token_latencies);
  DYNO_FIELD(token_latency_scaling_factor);
#undef DYNO_FIELD
}

/// Copies fields into settings of the C interface.
class Writer {
 public:
  explicit Writer(dyno_settings* settings) : settings_(settings) {}

  void operator()(const char* key, std::uint64_t value) const {
    Check(dyno_settings_set_u64(settings_, key, value));
  }
  void operator()(const char* key, double value) const {
    Check(dyno_settings_set_f64(settings_, key, value));
  }
  void operator()(const char* key, bool value) const { Set(key, value ? "true" : "false"); }
  void operator()(const char* key, std::int32_t value) const {
    Set(key, std::to_string(value).c_str());
  }
  void operator()(const char* key, TestScenario value) const {
    Set(key, NameOf(key, value, kScenarios));
  }
  void operator()(const char* key, TestMode value) const { Set(key, NameOf(key, value, kModes)); }

 private:
  void Set(const char* key, const char* value) const {
    Check(dyno_settings_set(settings_, key, value));
  }

  dyno_settings* const settings_;
};

/// Copies fields back.
class Reader {
 public:
  explicit Reader(const dyno_settings* settings) : settings_(settings) {}

  void operator()(const char* key, std::uint64_t& value) const {
    Check(dyno_settings_get_u64(settings_, key, &value));
  }
  void operator()(const char* key, double& value) const {
    Check(dyno_settings_get_f64(settings_, key, &value));
  }
  void operator()(const char* key, bool& value) const {
    std::uint64_t number = 0;
    Check(dyno_settings_get_u64(settings_, key, &number));
    value = number != 0;
  }
  void operator()(const char* key, std::int32_t& value) const { value = std::stoi(Get(key)); }
  void operator()(const char* key, TestScenario& value) const { Find(key, kScenarios, value); }
  void operator()(const char* key, TestMode& value) const { Find(key, kModes, value); }

 private:
  std::string Get(const char* key) const {
    char text[64];
    Check(dyno_settings_get(settings_, key, text, sizeof text, nullptr));
    return text;
  }

  template <class Enum, std::size_t N>
  void Find(const char* key, const char* const (&names)[N], Enum& value) const {
    const std::string name = Get(key);
    for (std::size_t at = 0; at < N; ++at) {
      if (name == names[at]) value = static_cast<Enum>(at);
    }
  }

  const dyno_settings* const settings_;
};

template <class Handle>
Handle NotNull(Handle handle) {
  if (!handle) throw std::runtime_error(dyno_last_error());
  return handle;
}

}  // namespace

void Check(dyno_result result) {
  if (result == DYNO_OK) return;
  const std::string why = dyno_last_error();
  throw std::runtime_error(why.empty() ? dyno_result_message(result) : why);
}

Settings Convert(const mlperf::TestSettings& from) {
  Settings settings = NotNull(Settings(dyno_settings_new()));
  ForEachField(from, Writer(settings.get()));
  return settings;
}

LogSettings Convert(const mlperf::LogSettings& from) {
  LogSettings settings = NotNull(LogSettings(dyno_log_settings_new()));
  const auto set = [&](const char* key, const std::string& value) {
    Check(dyno_log_settings_set(settings.get(), key, value.c_str()));
  };
  const auto set_flag = [&](const char* key, bool value) { set(key, value ? "true" : "false"); };
  const mlperf::LogOutputSettings& output = from.log_output;
  set("outdir", output.outdir);
  set("prefix", output.prefix);
  set("suffix", output.suffix);
  set_flag("prefix_with_datetime", output.prefix_with_datetime);
  set_flag("copy_detail_to_stdout", output.copy_detail_to_stdout);
  set_flag("copy_summary_to_stdout", output.copy_summary_to_stdout);
  set_flag("enable_trace", from.enable_trace);
  return settings;
}

}  // namespace dyno

namespace mlperf {

int TestSettings::FromConfig(const std::string& path, const std::string& model,
                             const std::string& scenario_name, int conf_type) {
  const dyno::Settings settings = dyno::Convert(*this);
  const dyno_result result = dyno_settings_from_config(settings.get(), path.c_str(), model.c_str(),
                                                       scenario_name.c_str(), conf_type);
  // What was applied before a file that cannot be used stays.
  dyno::ForEachField(*this, dyno::Reader(settings.get()));
  switch (result) {
    case DYNO_ERROR_CONFIG_UNREADABLE:
      return -2;
    case DYNO_ERROR_CONFIG_LINE:
      return -22;
    default:
      dyno::Check(result);
      return 0;
  }
}

}  // namespace mlperf
