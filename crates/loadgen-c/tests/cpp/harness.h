// What the harnesses in this folder share: a data set, settings of a short run,
// checks, and the list of cases. Nothing but the headers of LoadGen is used, so
// that the harnesses would compile against the reference.

#ifndef HARNESS_H_
#define HARNESS_H_

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "loadgen.h"
#include "query_sample_library.h"
#include "system_under_test.h"
#include "test_settings.h"

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);    \
      std::abort();                                                           \
    }                                                                         \
  } while (false)

// A case is a function that runs in a process and a folder of its own.
struct Case {
  Case(const char* name_, void (*run_)()) : name(name_), run(run_), next(first) { first = this; }

  const char* name;
  void (*run)();
  Case* next;
  static Case* first;
};

#define CASE(name)                                \
  static void name();                             \
  static const Case name##_case(#name, name);     \
  static void name()

class Library : public mlperf::QuerySampleLibrary {
 public:
  explicit Library(size_t total = 256, size_t performance = 128)
      : total_(total), performance_(performance) {}

  const std::string& Name() override { return name_; }
  size_t TotalSampleCount() override { return total_; }
  size_t PerformanceSampleCount() override { return performance_; }
  void LoadSamplesToRam(const std::vector<mlperf::QuerySampleIndex>& samples) override {
    loaded += samples.size();
  }
  void UnloadSamplesFromRam(const std::vector<mlperf::QuerySampleIndex>& samples) override {
    unloaded += samples.size();
  }

  size_t loaded = 0;
  size_t unloaded = 0;

 private:
  const std::string name_ = "library";
  const size_t total_;
  const size_t performance_;
};

// Enough queries for every early-stopping criterion, and no bound that a busy
// machine could miss.
inline mlperf::TestSettings ShortTest(mlperf::TestScenario scenario) {
  mlperf::TestSettings settings;
  settings.scenario = scenario;
  settings.min_duration_ms = 0;
  settings.min_query_count = 700;
  settings.server_target_qps = 50000;
  settings.server_target_latency_ns = 100000000000;
  settings.server_ttft_latency = 100000000000;
  settings.server_tpot_latency = 100000000000;
  return settings;
}

const mlperf::TestScenario kScenarios[] = {
    mlperf::TestScenario::SingleStream, mlperf::TestScenario::MultiStream,
    mlperf::TestScenario::Server, mlperf::TestScenario::Offline};

// Logs of the n-th test of a case.
inline mlperf::LogSettings Logs(int n) {
  mlperf::LogSettings logs;
  logs.log_output.prefix = std::to_string(n) + "_";
  logs.enable_trace = false;
  return logs;
}

// What `run` throws, as text; "" if nothing.
template <class Run>
std::string Thrown(Run&& run) {
  try {
    run();
  } catch (const std::exception& exception) {
    return exception.what();
  }
  return "";
}

inline bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

#endif  // HARNESS_H_
