// Plays one test against a null system and prints what it cost, as words "key=value":
//
//   harness scenario=offline queries=1000000 system=holding batch=64 outdir=FOLDER
//
// Linked once with Dyno's library and once with the floor; both see the same source.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "loadgen.h"
#include "query_sample_library.h"
#include "systems.h"
#include "test_settings.h"

namespace {

using dropin::Nanos;

constexpr uint64_t kScheduleSeed = 3066443479025735752u;

// The words "key=value" of the command line. Every key that is given must be asked for.
class Options {
 public:
  Options(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      const size_t equals = word.find('=');
      if (equals == std::string::npos) throw std::invalid_argument(word + " is not KEY=VALUE");
      values_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }

  std::string Text(const std::string& key, const std::string& otherwise) {
    const auto found = values_.find(key);
    if (found == values_.end()) return otherwise;
    const std::string value = found->second;
    values_.erase(found);
    return value;
  }

  double Number(const std::string& key, double otherwise) {
    const std::string text = Text(key, "");
    return text.empty() ? otherwise : std::stod(text);
  }

  size_t Count(const std::string& key, size_t otherwise) {
    return static_cast<size_t>(Number(key, static_cast<double>(otherwise)));
  }

  void ExpectNoMore() const {
    if (!values_.empty()) throw std::invalid_argument("unknown key " + values_.begin()->first);
  }

 private:
  std::map<std::string, std::string> values_;
};

class NullLibrary : public mlperf::QuerySampleLibrary {
 public:
  NullLibrary(size_t samples, dropin::Observed& observed)
      : samples_(samples), observed_(observed) {}

  const std::string& Name() override { return name_; }
  size_t TotalSampleCount() override { return samples_; }
  size_t PerformanceSampleCount() override { return samples_; }
  void LoadSamplesToRam(const std::vector<mlperf::QuerySampleIndex>&) override {
    observed_.Load();
  }
  void UnloadSamplesFromRam(const std::vector<mlperf::QuerySampleIndex>&) override {}

 private:
  std::string name_{"null"};
  size_t samples_;
  dropin::Observed& observed_;
};

mlperf::TestScenario ScenarioNamed(const std::string& name) {
  if (name == "single") return mlperf::TestScenario::SingleStream;
  if (name == "multi") return mlperf::TestScenario::MultiStream;
  if (name == "server") return mlperf::TestScenario::Server;
  if (name == "offline") return mlperf::TestScenario::Offline;
  throw std::invalid_argument("unknown scenario " + name);
}

mlperf::TestSettings Settings(Options& options) {
  const double qps = options.Number("qps", 1e6);
  mlperf::TestSettings settings;
  settings.scenario = ScenarioNamed(options.Text("scenario", "single"));
  if (options.Count("accuracy", 0) != 0) settings.mode = mlperf::TestMode::AccuracyOnly;
  settings.single_stream_expected_latency_ns = 1e9 / qps;
  settings.multi_stream_expected_latency_ns = 1e9 / qps;
  settings.server_target_qps = qps;
  settings.server_target_latency_ns = 10000000000u;
  settings.server_coalesce_queries = options.Count("coalesce", 0) != 0;
  settings.offline_expected_qps = qps;
  settings.min_duration_ms = 0;
  settings.min_query_count = options.Count("queries", 1000);
  settings.schedule_rng_seed = kScheduleSeed;
  settings.token_latency_scaling_factor = 1;
  return settings;
}

std::unique_ptr<dropin::NullSystem> System(Options& options, size_t samples) {
  const std::string name = options.Text("system", "inline");
  const size_t threads = options.Count("threads", 1);
  const dropin::Completer completer(options.Count("batch", 1), options.Count("payload", 0));
  using Owned = std::unique_ptr<dropin::NullSystem>;
  if (name == "inline") return Owned(new dropin::InlineSystem(completer));
  if (name == "stamped") return Owned(new dropin::StampedSystem(completer, samples));
  if (name == "holding") return Owned(new dropin::HoldingSystem(completer, samples, threads));
  if (name == "workers") return Owned(new dropin::WorkerSystem(threads, completer));
  throw std::invalid_argument("unknown system " + name);
}

// How late each query was issued against the schedule that its seed says, ascending; the
// least late one counts as punctual. Gaps are exponential, in whole nanoseconds.
std::vector<Nanos> Lateness(std::vector<Nanos> issued_at, double qps) {
  std::mt19937 generator(kScheduleSeed);
  std::exponential_distribution<> gap_s(qps);
  Nanos due = 0;
  for (auto& at : issued_at) {
    at -= due;
    const std::chrono::duration<double> gap(gap_s(generator));
    due += std::chrono::duration_cast<std::chrono::nanoseconds>(gap).count();
  }
  std::sort(issued_at.begin(), issued_at.end());
  const Nanos least = issued_at.front();
  for (auto& late : issued_at) late -= least;
  return issued_at;
}

void Print(const char* key, double value) { std::printf("%s=%.9g ", key, value); }

void Report(const dropin::Observed& seen, Nanos begun_at, Nanos ended_at) {
  const double bytes_peak = dropin::MemoryBytes("VmHWM:");
  Print("samples", static_cast<double>(seen.samples));
  Print("prepare_ns", static_cast<double>(seen.first_issue_at - seen.loaded_at));
  Print("run_ns", static_cast<double>(seen.flushed_at - seen.first_issue_at));
  Print("finish_ns", static_cast<double>(ended_at - seen.completed_at));
  Print("completing_ns", static_cast<double>(seen.completing));
  Print("wall_ns", static_cast<double>(ended_at - begun_at));
  Print("prepared_bytes", seen.bytes_first_issue - seen.bytes_loaded);
  Print("peak_bytes", bytes_peak - seen.bytes_loaded);
}

void Play(Options& options) {
  const mlperf::TestSettings settings = Settings(options);
  const auto system = System(options, settings.min_query_count);
  NullLibrary library(options.Count("library", 1024), system->observed);
  mlperf::LogSettings logs;
  logs.log_output.outdir = options.Text("outdir", ".");
  logs.enable_trace = options.Count("trace", 0) != 0;
  options.ExpectNoMore();

  const Nanos begun_at = dropin::Now();
  mlperf::StartTest(system.get(), &library, settings, logs, "no-such-audit.config");
  const Nanos ended_at = dropin::Now();

  Report(system->observed, begun_at, ended_at);
  if (const auto* stamped = dynamic_cast<const dropin::StampedSystem*>(system.get())) {
    const auto late = Lateness(stamped->issued_at, settings.server_target_qps);
    Print("late_p50_ns", static_cast<double>(late[late.size() / 2]));
    Print("late_p99_ns", static_cast<double>(late[late.size() * 99 / 100]));
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options options(argc, argv);
    Play(options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "harness: %s\n", error.what());
    return 1;
  }
}
