// Registered issue threads, threads that leave, tests that are aborted.

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "harness.h"

namespace {

using mlperf::QuerySample;
using mlperf::QuerySampleResponse;

void Complete(const std::vector<QuerySample>& samples) {
  for (const QuerySample& sample : samples) {
    QuerySampleResponse response(sample.id, 0, 0);
    mlperf::QuerySamplesComplete(&response, 1);
  }
}

// Notes which threads issue.
class ManyIssuers : public mlperf::SystemUnderTest {
 public:
  const std::string& Name() override { return name_; }

  void IssueQuery(const std::vector<QuerySample>& samples) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      threads.insert(std::this_thread::get_id());
      for (const QuerySample& sample : samples) CHECK(ids.insert(sample.id).second);
    }
    Complete(samples);
  }

  void FlushQueries() override {}

  std::set<std::thread::id> threads;
  std::set<mlperf::ResponseId> ids;

 private:
  const std::string name_ = "many issuers";
  std::mutex mutex_;
};

// Completes everything at flush, from threads that then exit.
class Holding : public mlperf::SystemUnderTest {
 public:
  const std::string& Name() override { return name_; }

  void IssueQuery(const std::vector<QuerySample>& samples) override {
    held_.insert(held_.end(), samples.begin(), samples.end());
  }

  void FlushQueries() override {
    const size_t half = held_.size() / 2;
    std::thread first([&] { Complete({held_.begin(), held_.begin() + half}); });
    std::thread second([&] { Complete({held_.begin() + half, held_.end()}); });
    first.join();
    second.join();
    held_.clear();
  }

 private:
  const std::string name_ = "holding";
  std::vector<QuerySample> held_;
};

// Never answers.
class Silent : public mlperf::SystemUnderTest {
 public:
  const std::string& Name() override { return name_; }
  void IssueQuery(const std::vector<QuerySample>&) override { issued = true; }
  void FlushQueries() override {}

  std::atomic<bool> issued{false};

 private:
  const std::string name_ = "silent";
};

void TestWithIssueThreads(int test, size_t count, bool coalesce) {
  ManyIssuers sut;
  Library qsl;
  mlperf::TestSettings settings = ShortTest(mlperf::TestScenario::Server);
  settings.server_num_issue_query_threads = count;
  settings.server_coalesce_queries = coalesce;
  settings.server_target_qps = coalesce ? 1e9 : 50000;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) threads.emplace_back(mlperf::RegisterIssueQueryThread);
  mlperf::StartTest(&sut, &qsl, settings, Logs(test));
  for (std::thread& thread : threads) thread.join();
  CHECK(sut.ids.size() == 700);
  CHECK(sut.threads.size() == count);
  CHECK(sut.threads.count(std::this_thread::get_id()) == 0);
}

}  // namespace

CASE(issue_threads_twice) {
  TestWithIssueThreads(0, 2, false);
  TestWithIssueThreads(1, 3, false);
  TestWithIssueThreads(2, 2, true);
}

CASE(threads_exit_at_flush) {
  int test = 0;
  for (const auto scenario : {mlperf::TestScenario::Server, mlperf::TestScenario::Offline}) {
    Holding sut;
    Library qsl;
    mlperf::StartTest(&sut, &qsl, ShortTest(scenario), Logs(test++));
  }
}

CASE(abort_from_another_thread) {
  Silent sut;
  Library qsl;
  std::thread aborts([&] {
    while (!sut.issued) std::this_thread::yield();
    mlperf::AbortTest();
  });
  mlperf::StartTest(&sut, &qsl, ShortTest(mlperf::TestScenario::SingleStream), Logs(0));
  aborts.join();
  CHECK(qsl.loaded == qsl.unloaded);

  // With none to abort it does nothing, and later tests run.
  mlperf::AbortTest();
  ManyIssuers next;
  mlperf::StartTest(&next, &qsl, ShortTest(mlperf::TestScenario::SingleStream), Logs(1));
  CHECK(next.ids.size() == 700);
}
