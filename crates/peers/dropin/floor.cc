// The floor: the least work behind the load generator's interface that still keeps the
// reference's schedule, stamps every completion, checks ids and double completion, keeps
// every latency, computes exact percentiles and writes the accuracy log in hex. It has no
// settings to resolve, detail log, trace, early stopping or audit, and counts misuse without
// telling it apart. It is evidence of what is possible, not a lower bound.

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "floor_answers.h"
#include "loadgen.h"
#include "query_sample_library.h"
#include "system_under_test.h"
#include "test_settings.h"

namespace {

using Nanos = int64_t;

constexpr Nanos kSecond = 1000000000;
constexpr Nanos kNotComplete = INT64_MIN;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr double kPercentiles[] = {.50, .90, .95, .97, .99, .999};

// Sleeps end this long before the time that is waited for; the rest is spun.
constexpr Nanos kGuard = 60000;
// Spins for a completion before the core is yielded.
constexpr int kSpins = 4000;
// Queries that are handed over together at most.
constexpr size_t kCoalesced = 4096;

inline Nanos Now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

void WaitUntil(Nanos time) {
  if (time - Now() > kGuard + kGuard / 3) {
    const Nanos wake = time - kGuard;
    const timespec absolute{static_cast<time_t>(wake / kSecond), static_cast<long>(wake % kSecond)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &absolute, nullptr);
  }
  while (Now() < time) Pause();
}

// An array on huge pages where the kernel gives them.
template <class T>
class Column {
 public:
  explicit Column(size_t size) : size_(size) {
    const size_t bytes = (size * sizeof(T) / kHugePage + 1) * kHugePage;
    data_.reset(static_cast<T*>(aligned_alloc(kHugePage, bytes)));
    if (data_ == nullptr) std::abort();
    madvise(data_.get(), bytes, MADV_HUGEPAGE);
  }

  T& operator[](size_t i) { return data_.get()[i]; }
  T* begin() { return data_.get(); }
  T* end() { return data_.get() + size_; }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_;
};

struct Run {
  Run(const mlperf::TestSettings& settings, size_t queries, size_t samples_per_query)
      : server(settings.scenario == mlperf::TestScenario::Server),
        accuracy(settings.mode == mlperf::TestMode::AccuracyOnly),
        samples(queries * samples_per_query),
        samples_per_query(samples_per_query),
        latencies(samples),
        indices(samples),
        scheduled(server ? queries : 1) {}

  mlperf::QuerySample Sample(size_t i) { return {i + 1, indices[i]}; }

  const bool server;
  const bool accuracy;
  const size_t samples;
  const size_t samples_per_query;
  Column<Nanos> latencies;
  Column<uint32_t> indices;
  // What latencies count from, since `begin`: the due time of each Server query, else the
  // issue time of the query that is out.
  Column<Nanos> scheduled;
  Nanos begin = 0;
  alignas(128) std::atomic<uint64_t> done{0};
  alignas(128) std::atomic<uint64_t> errors{0};
  dropin::Answers answers;
};

Run* the_run = nullptr;

size_t SamplesPerQuery(const mlperf::TestSettings& settings, mlperf::QuerySampleLibrary& library) {
  switch (settings.scenario) {
    case mlperf::TestScenario::MultiStream:
      return settings.multi_stream_samples_per_query;
    case mlperf::TestScenario::Offline:
      return settings.mode == mlperf::TestMode::AccuracyOnly ? library.TotalSampleCount()
                                                             : settings.min_query_count;
    default:
      return 1;
  }
}

std::unique_ptr<Run> Prepare(const mlperf::TestSettings& settings,
                             mlperf::QuerySampleLibrary& library) {
  const bool offline = settings.scenario == mlperf::TestScenario::Offline;
  const size_t queries = offline ? 1 : settings.min_query_count;
  std::unique_ptr<Run> run(new Run(settings, queries, SamplesPerQuery(settings, library)));
  std::fill(run->latencies.begin(), run->latencies.end(), kNotComplete);
  const auto loaded = static_cast<uint32_t>(library.PerformanceSampleCount());
  std::mt19937 generator(settings.sample_index_rng_seed);
  std::uniform_int_distribution<uint32_t> any(0, loaded - 1);
  for (size_t i = 0; i < run->samples; ++i) {
    run->indices[i] = offline ? static_cast<uint32_t>(i % loaded) : any(generator);
  }
  generator.seed(settings.schedule_rng_seed);
  std::exponential_distribution<> gap_s(settings.server_target_qps);
  Nanos due = 0;
  for (Nanos& scheduled : run->scheduled) {
    scheduled = due;
    if (run->server) due += static_cast<Nanos>(gap_s(generator) * kSecond);
  }
  return run;
}

void IssueOffline(Run& run, mlperf::SystemUnderTest& system) {
  std::vector<mlperf::QuerySample> query(run.samples);
  for (size_t i = 0; i < run.samples; ++i) query[i] = run.Sample(i);
  run.begin = Now();
  system.IssueQuery(query);
}

// SingleStream and MultiStream.
void IssueStream(Run& run, mlperf::SystemUnderTest& system) {
  std::vector<mlperf::QuerySample> query(run.samples_per_query);
  run.begin = Now();
  for (size_t issued = 0; issued < run.samples;) {
    for (auto& sample : query) sample = run.Sample(issued++);
    run.scheduled[0] = Now() - run.begin;
    system.IssueQuery(query);
    for (int spins = 0; run.done.load(std::memory_order_acquire) != issued;) {
      if (++spins > kSpins) {
        sched_yield();
      } else {
        Pause();
      }
    }
  }
}

void IssueServer(Run& run, mlperf::SystemUnderTest& system, bool coalesce) {
  std::vector<mlperf::QuerySample> query;
  query.reserve(kCoalesced);
  run.begin = Now();
  for (size_t issued = 0; issued < run.samples;) {
    const Nanos due = run.scheduled[issued];
    Nanos now = Now() - run.begin;
    if (now < due) {
      WaitUntil(run.begin + due);
      now = due;
    }
    query.clear();
    do {
      query.push_back(run.Sample(issued++));
    } while (coalesce && issued < run.samples && query.size() < kCoalesced &&
             run.scheduled[issued] <= now);
    system.IssueQuery(query);
  }
}

void WriteLatencies(Run& run, const std::string& path) {
  const Nanos least = *std::min_element(run.latencies.begin(), run.latencies.end());
  const Nanos most = *std::max_element(run.latencies.begin(), run.latencies.end());
  double sum = 0;
  for (const Nanos latency : run.latencies) sum += static_cast<double>(latency);
  FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) std::abort();
  const auto line = [file](const std::string& key, Nanos value) {
    std::fprintf(file, ":::MLLOG {\"key\": \"result_%s_latency_ns\", \"value\": %lld, }\n",
                 key.c_str(), static_cast<long long>(value));
  };
  line("min", least);
  line("max", most);
  line("mean", static_cast<Nanos>(sum / static_cast<double>(run.samples)));
  Nanos* from = run.latencies.begin();
  for (const double percentile : kPercentiles) {
    Nanos* rank = run.latencies.begin() + static_cast<size_t>(run.samples * percentile);
    std::nth_element(from, rank, run.latencies.end());
    char name[32];
    std::snprintf(name, sizeof name, "%.2f_percentile", percentile * 100);
    line(name, *rank);
    from = rank;
  }
  std::fclose(file);
}

}  // namespace

namespace mlperf {

void QuerySamplesComplete(QuerySampleResponse* responses, size_t count, const ResponseCallback&) {
  Run& run = *the_run;
  const Nanos at = Now() - run.begin;
  const bool server = run.server;
  for (size_t i = 0; i < count; ++i) {
    const size_t sample = responses[i].id - 1;
    if (sample >= run.samples || run.latencies[sample] != kNotComplete) {
      run.errors.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    run.latencies[sample] = at - run.scheduled[server ? sample : 0];
  }
  if (run.accuracy) {
    for (size_t i = 0; i < count; ++i) run.answers.Keep(responses[i]);
  }
  run.done.fetch_add(count, std::memory_order_release);
}

void StartTest(SystemUnderTest* system, QuerySampleLibrary* library, const TestSettings& settings,
               const LogSettings& logs, const std::string) {
  prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
  std::vector<QuerySampleIndex> set(library->PerformanceSampleCount());
  library->LoadSamplesToRam(set);
  const std::unique_ptr<Run> run = Prepare(settings, *library);
  the_run = run.get();
  switch (settings.scenario) {
    case TestScenario::Offline:
      IssueOffline(*run, *system);
      break;
    case TestScenario::Server:
      IssueServer(*run, *system, settings.server_coalesce_queries);
      break;
    default:
      IssueStream(*run, *system);
  }
  system->FlushQueries();
  while (run->done.load(std::memory_order_acquire) < run->samples) sched_yield();
  if (run->errors.load() != 0) std::abort();
  const std::string prefix = logs.log_output.outdir + "/" + logs.log_output.prefix;
  WriteLatencies(*run, prefix + "detail.txt");
  if (run->accuracy) run->answers.Write(prefix + "accuracy.json", run->indices.begin());
  library->UnloadSamplesFromRam(set);
}

}  // namespace mlperf
