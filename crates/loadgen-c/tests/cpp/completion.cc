// Harnesses that complete queries in the ways harnesses do.

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "harness.h"
#include "query_dispatch_library.h"

namespace {

using mlperf::QuerySample;
using mlperf::QuerySampleResponse;

// Completes in the call that issues.
class Inline : public mlperf::SystemUnderTest {
 public:
  const std::string& Name() override { return name_; }

  void IssueQuery(const std::vector<QuerySample>& samples) override {
    std::vector<QuerySampleResponse> responses;
    for (const QuerySample& sample : samples) responses.push_back({sample.id, 0, 0});
    mlperf::QuerySamplesComplete(responses.data(), responses.size());
    issued += samples.size();
    calls += 1;
    CHECK(flushes == 0);
  }

  void FlushQueries() override { flushes += 1; }

  size_t issued = 0;
  size_t calls = 0;
  size_t flushes = 0;

 private:
  const std::string name_ = "inline";
};

// Puts samples into a queue from which worker threads take batches.
class Queue : public mlperf::SystemUnderTest {
 public:
  explicit Queue(size_t workers) {
    for (size_t i = 0; i < workers; ++i) workers_.emplace_back([this] { Work(); });
  }

  ~Queue() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_done_ = true;
    }
    changed_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  const std::string& Name() override { return name_; }

  void IssueQuery(const std::vector<QuerySample>& samples) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      queue_.insert(queue_.end(), samples.begin(), samples.end());
    }
    changed_.notify_one();
  }

  void FlushQueries() override {}

 private:
  static constexpr size_t kMaxBatch = 16;

  void Work() {
    for (;;) {
      std::vector<QuerySample> batch;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return is_done_ || !queue_.empty(); });
        if (queue_.empty()) return;
        while (!queue_.empty() && batch.size() < kMaxBatch) {
          batch.push_back(queue_.front());
          queue_.pop_front();
        }
      }
      // The answer to a sample is its position.
      std::vector<uint64_t> answers;
      for (const QuerySample& sample : batch) answers.push_back(sample.index);
      std::vector<QuerySampleResponse> responses;
      for (size_t i = 0; i < batch.size(); ++i) {
        const auto data = reinterpret_cast<uintptr_t>(&answers[i]);
        responses.push_back({batch[i].id, data, sizeof answers[i]});
      }
      mlperf::QuerySamplesComplete(responses.data(), responses.size());
    }
  }

  const std::string name_ = "queue";
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<QuerySample> queue_;
  bool is_done_ = false;
  std::vector<std::thread> workers_;
};

// Completes each query from a thread of its own.
class Async : public mlperf::SystemUnderTest {
 public:
  const std::string& Name() override { return name_; }

  void IssueQuery(const std::vector<QuerySample>& samples) override {
    pending_.push_back(std::async(std::launch::async, [samples] {
      std::vector<QuerySampleResponse> responses;
      for (const QuerySample& sample : samples) responses.push_back({sample.id, 0, 0});
      mlperf::QuerySamplesComplete(responses.data(), responses.size());
    }));
  }

  void FlushQueries() override { pending_.clear(); }

 private:
  const std::string name_ = "async";
  std::vector<std::future<void>> pending_;
};

// Brings answers only where they are logged.
class Fetching : public mlperf::SystemUnderTest {
 public:
  const std::string& Name() override { return name_; }

  void IssueQuery(const std::vector<QuerySample>& samples) override {
    for (const QuerySample& sample : samples) {
      QuerySampleResponse response(sample.id, 0, 0);
      const uint32_t answer = static_cast<uint32_t>(sample.index);
      mlperf::QuerySamplesComplete(&response, 1, [&](QuerySampleResponse* fetched) {
        CHECK(fetched->id == sample.id);
        fetched->data = reinterpret_cast<uintptr_t>(&answer);
        fetched->size = sizeof answer;
        fetches += 1;
      });
    }
  }

  void FlushQueries() override {}

  size_t fetches = 0;

 private:
  const std::string name_ = "fetching";
};

// Reports first tokens and counts of tokens.
class Tokens : public mlperf::QueryDispatchLibrary {
 public:
  const std::string& Name() override {
    name_ = "model behind a network, asked " + std::to_string(++names) + " times";
    return name_;
  }

  void IssueQuery(const std::vector<QuerySample>& samples) override {
    for (const QuerySample& sample : samples) {
      const char text[] = "tokens";
      const auto data = reinterpret_cast<uintptr_t>(text);
      const int64_t n_tokens = 2 + static_cast<int64_t>(sample.index % 3);
      QuerySampleResponse first(sample.id, data, 3);
      mlperf::FirstTokenComplete(&first, 1, [](QuerySampleResponse*) { CHECK(false); });
      QuerySampleResponse all(sample.id, data, 6, n_tokens);
      mlperf::QuerySamplesComplete(&all, 1);
    }
  }

  void FlushQueries() override {}

  int names = 0;

 private:
  std::string name_;
};

// Tells where the samples lie.
class Places : public mlperf::SystemUnderTest {
 public:
  const std::string& Name() override { return name_; }

  void IssueQuery(const std::vector<QuerySample>& samples) override {
    places.insert(samples.data());
    sizes.insert(samples.size());
    for (const QuerySample& sample : samples) {
      QuerySampleResponse response(sample.id, 0, 0);
      mlperf::QuerySamplesComplete(&response, 1);
    }
  }

  void FlushQueries() override {}

  std::set<const QuerySample*> places;
  std::set<size_t> sizes;

 private:
  const std::string name_ = "places";
};

}  // namespace

CASE(inline_completion) {
  int test = 0;
  for (const mlperf::TestScenario scenario : kScenarios) {
    Inline sut;
    Library qsl;
    mlperf::StartTest(&sut, &qsl, ShortTest(scenario), Logs(test++));
    const size_t spq = scenario == mlperf::TestScenario::MultiStream ? 8 : 1;
    CHECK(sut.issued == 700 * spq);
    CHECK(sut.calls == (scenario == mlperf::TestScenario::Offline ? 1 : 700));
    CHECK(sut.flushes == 1);
    CHECK(qsl.loaded == qsl.unloaded && qsl.loaded >= 128);
  }
}

CASE(coalesced_queries) {
  Inline sut;
  Library qsl;
  mlperf::TestSettings settings = ShortTest(mlperf::TestScenario::Server);
  settings.server_target_qps = 1e9;
  settings.server_coalesce_queries = true;
  mlperf::StartTest(&sut, &qsl, settings, Logs(0));
  CHECK(sut.issued == 700);
  CHECK(sut.calls < 700);
}

CASE(queue_and_workers) {
  int test = 0;
  for (const mlperf::TestScenario scenario : kScenarios) {
    Queue sut(3);
    Library qsl;
    mlperf::StartTest(&sut, &qsl, ShortTest(scenario), Logs(test++));
  }
}

CASE(a_thread_for_each_query) {
  int test = 0;
  for (const mlperf::TestScenario scenario : kScenarios) {
    Async sut;
    Library qsl;
    mlperf::StartTest(&sut, &qsl, ShortTest(scenario), Logs(test++));
  }
}

CASE(accuracy_payloads) {
  int test = 0;
  for (const mlperf::TestScenario scenario : kScenarios) {
    Queue sut(2);
    Library qsl;
    mlperf::TestSettings settings = ShortTest(scenario);
    settings.mode = mlperf::TestMode::AccuracyOnly;
    mlperf::StartTest(&sut, &qsl, settings, Logs(test++));
    CHECK(qsl.loaded == qsl.unloaded && qsl.loaded >= 256);
  }
}

CASE(response_callback) {
  Fetching sut;
  Library qsl;
  mlperf::TestSettings settings = ShortTest(mlperf::TestScenario::Offline);
  mlperf::StartTest(&sut, &qsl, settings, Logs(0));
  CHECK(sut.fetches == 0);
  settings.mode = mlperf::TestMode::AccuracyOnly;
  mlperf::StartTest(&sut, &qsl, settings, Logs(1));
  CHECK(sut.fetches == 256);
}

CASE(token_metrics) {
  int test = 0;
  for (const mlperf::TestScenario scenario : kScenarios) {
    Tokens sut;
    Library qsl;
    mlperf::TestSettings settings = ShortTest(scenario);
    settings.mode = mlperf::TestMode::SubmissionRun;
    settings.use_token_latencies = true;
    mlperf::StartTest(&sut, &qsl, settings, Logs(test++));
    CHECK(sut.names >= 1);
  }
}

// The container that IssueQuery gets is the load generator's own list.
CASE(samples_are_not_copied) {
  for (const mlperf::TestScenario scenario : kScenarios) {
    Places sut;
    Library qsl;
    mlperf::StartTest(&sut, &qsl, ShortTest(scenario), Logs(0));
    CHECK(sut.places.size() == 1);
    CHECK(sut.sizes.size() == 1);
  }
}

CASE(the_peak_is_found) {
  Inline sut;
  Library qsl;
  mlperf::TestSettings settings = ShortTest(mlperf::TestScenario::Server);
  settings.mode = mlperf::TestMode::FindPeakPerformance;
  settings.server_target_latency_ns = 1;
  mlperf::StartTest(&sut, &qsl, settings, Logs(0));
  CHECK(sut.issued == 700);
}
