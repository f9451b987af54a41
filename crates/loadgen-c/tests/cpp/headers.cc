// Every header, in no good order, with each function overridden or called as the
// reference declares it. Compiled with every compiler and standard, not run.

#include "query_dispatch_library.h"
#include "bindings/c_api.h"
#include "test_settings.h"
#include "query_sample.h"
#include "loadgen.h"
#include "query_sample_library.h"
#include "system_under_test.h"
#include "loadgen.h"

#include <type_traits>

namespace {

class System final : public mlperf::QueryDispatchLibrary {
 public:
  ~System() override = default;
  const std::string& Name() override { return name_; }
  void IssueQuery(const std::vector<mlperf::QuerySample>& samples) override {
    for (auto sample : samples) {
      mlperf::QuerySampleResponse response{sample.id, 0, 0};
      mlperf::QuerySampleResponse with_tokens{sample.id, 0, 0, 1};
      mlperf::FirstTokenComplete(&response, 1);
      mlperf::QuerySamplesComplete(&with_tokens, 1, [](mlperf::QuerySampleResponse*) {});
      mlperf::QuerySamplesComplete(&response, 1, {});
    }
  }
  void FlushQueries() override {}

 private:
  std::string name_ = "system";
};

class Library final : public mlperf::QuerySampleLibrary {
 public:
  ~Library() override = default;
  const std::string& Name() override { return name_; }
  size_t TotalSampleCount() override { return 1; }
  size_t PerformanceSampleCount() override { return 1; }
  void LoadSamplesToRam(const std::vector<mlperf::QuerySampleIndex>&) override {}
  void UnloadSamplesFromRam(const std::vector<mlperf::QuerySampleIndex>&) override {}

 private:
  std::string name_ = "library";
};

}  // namespace

static_assert(std::is_same<mlperf::ResponseId, uintptr_t>::value, "ResponseId");
static_assert(std::is_same<mlperf::QuerySampleIndex, size_t>::value, "QuerySampleIndex");
static_assert(std::is_same<mlperf::QuerySampleLatency, int64_t>::value, "QuerySampleLatency");
static_assert(mlperf::kResponseIdReserved == 0, "kResponseIdReserved");
static_assert(static_cast<int>(mlperf::TestScenario::Offline) == 3, "TestScenario");
static_assert(static_cast<int>(mlperf::TestMode::FindPeakPerformance) == 3, "TestMode");
static_assert(static_cast<int>(mlperf::LoggingMode::Synchronous) == 2, "LoggingMode");

// What LoadGen's headers include is there, too.
uint64_t Summed(const std::vector<uint64_t>& values) {
  const uint64_t total = std::accumulate(values.begin(), values.end(), uint64_t(0));
  std::unique_ptr<uint64_t> sum(new uint64_t(total));
  std::cout << *sum << std::endl;
  return *sum;
}

void RunBoth() {
  System system;
  Library library;
  mlperf::TestSettings settings;
  mlperf::LogSettings logs;
  if (settings.FromConfig("user.conf", "model", "Server", 1) != 0) return;
  mlperf::StartTest(&system, &library, settings, logs);
  mlperf::StartTest(&system, &library, settings, logs, "audit.config");
  mlperf::c::StartTest(nullptr, nullptr, settings, "audit.config");
  mlperf::AbortTest();
  mlperf::RegisterIssueQueryThread();
}
