// Exceptions out of callbacks, and what misuse throws.

#include <stdexcept>
#include <thread>

#include "harness.h"

namespace {

using mlperf::QuerySample;
using mlperf::QuerySampleResponse;

// Of no standard type, so that nobody can have copied it.
struct Broken {
  std::string where;
};

// Throws from the function that it is told to, at its n-th call, and notes what
// is called after that.
struct Fuse {
  void Call(const char* function) {
    if (blown) called_after = true;
    if (where == function && n-- == 0) {
      blown = true;
      throw Broken{where};
    }
  }

  std::string where;
  int n = 0;
  bool blown = false;
  bool called_after = false;
};

class System : public mlperf::SystemUnderTest {
 public:
  explicit System(Fuse& fuse) : fuse_(fuse) {}

  const std::string& Name() override {
    fuse_.Call("Name");
    return name_;
  }
  void IssueQuery(const std::vector<QuerySample>& samples) override {
    fuse_.Call("IssueQuery");
    for (const QuerySample& sample : samples) {
      QuerySampleResponse response(sample.id, 0, 0);
      mlperf::QuerySamplesComplete(&response, 1);
      last = response;
    }
    issued += samples.size();
  }
  void FlushQueries() override { fuse_.Call("FlushQueries"); }

  size_t issued = 0;
  QuerySampleResponse last;

 private:
  Fuse& fuse_;
  const std::string name_ = "system";
};

class BrokenLibrary : public Library {
 public:
  explicit BrokenLibrary(Fuse& fuse) : fuse_(fuse) {}

  const std::string& Name() override {
    fuse_.Call("QSL Name");
    return Library::Name();
  }
  size_t TotalSampleCount() override {
    fuse_.Call("TotalSampleCount");
    return Library::TotalSampleCount();
  }
  size_t PerformanceSampleCount() override {
    fuse_.Call("PerformanceSampleCount");
    return Library::PerformanceSampleCount();
  }
  void LoadSamplesToRam(const std::vector<mlperf::QuerySampleIndex>& samples) override {
    fuse_.Call("LoadSamplesToRam");
    Library::LoadSamplesToRam(samples);
  }
  void UnloadSamplesFromRam(const std::vector<mlperf::QuerySampleIndex>& samples) override {
    fuse_.Call("UnloadSamplesFromRam");
    Library::UnloadSamplesFromRam(samples);
  }

 private:
  Fuse& fuse_;
};

// A test that works, to show that the process is as before.
void CheckThatTestsRun(int test) {
  Fuse fuse;
  System sut(fuse);
  Library qsl;
  mlperf::StartTest(&sut, &qsl, ShortTest(mlperf::TestScenario::SingleStream), Logs(test));
  CHECK(sut.issued == 700);
}

}  // namespace

CASE(exceptions_of_callbacks) {
  const char* functions[] = {"Name",
                             "IssueQuery",
                             "FlushQueries",
                             "QSL Name",
                             "TotalSampleCount",
                             "PerformanceSampleCount",
                             "LoadSamplesToRam",
                             "UnloadSamplesFromRam"};
  int test = 0;
  for (const mlperf::TestScenario scenario : kScenarios) {
    for (const char* function : functions) {
      Fuse fuse;
      fuse.where = function;
      System sut(fuse);
      BrokenLibrary qsl(fuse);
      std::string thrown;
      try {
        mlperf::StartTest(&sut, &qsl, ShortTest(scenario), Logs(test));
      } catch (const Broken& broken) {
        thrown = broken.where;
      }
      CHECK(thrown == function);
      CHECK(!fuse.called_after);
    }
    CheckThatTestsRun(test++);
  }
}

CASE(exceptions_in_the_middle) {
  Fuse fuse;
  fuse.where = "IssueQuery";
  fuse.n = 300;
  System sut(fuse);
  Library qsl;
  const auto settings = ShortTest(mlperf::TestScenario::Server);
  bool is_thrown = false;
  try {
    mlperf::StartTest(&sut, &qsl, settings, Logs(0));
  } catch (const Broken&) {
    is_thrown = true;
  }
  CHECK(is_thrown);
  CHECK(sut.issued == 300);
}

CASE(exceptions_of_issue_threads) {
  class Throwing : public mlperf::SystemUnderTest {
   public:
    const std::string& Name() override { return name_; }
    void IssueQuery(const std::vector<QuerySample>&) override {
      throw std::logic_error("out of an issue thread");
    }
    void FlushQueries() override {}

   private:
    const std::string name_ = "throwing";
  };
  Throwing sut;
  Library qsl;
  mlperf::TestSettings settings = ShortTest(mlperf::TestScenario::Server);
  settings.server_num_issue_query_threads = 2;
  std::thread first(mlperf::RegisterIssueQueryThread);
  std::thread second(mlperf::RegisterIssueQueryThread);
  std::string thrown;
  try {
    mlperf::StartTest(&sut, &qsl, settings, Logs(0));
  } catch (const std::logic_error& error) {
    thrown = error.what();
  }
  CHECK(thrown == "out of an issue thread");
  first.join();
  second.join();
  CheckThatTestsRun(1);
}

// It leaves the function that called it, and if nobody catches it there, it is
// an exception of IssueQuery().
CASE(exceptions_of_response_callbacks) {
  class Fetching : public mlperf::SystemUnderTest {
   public:
    const std::string& Name() override { return name_; }
    void IssueQuery(const std::vector<QuerySample>& samples) override {
      std::vector<QuerySampleResponse> responses;
      for (const QuerySample& sample : samples) responses.push_back({sample.id, 0, 0});
      const std::string thrown = Thrown([&] {
        mlperf::QuerySamplesComplete(responses.data(), responses.size(),
                                     [](QuerySampleResponse*) { throw std::range_error("no"); });
      });
      CHECK(thrown == "no");
      caught += 1;
    }
    void FlushQueries() override {}

    size_t caught = 0;

   private:
    const std::string name_ = "fetching";
  };
  Fetching sut;
  Library qsl;
  mlperf::TestSettings settings = ShortTest(mlperf::TestScenario::Offline);
  settings.mode = mlperf::TestMode::AccuracyOnly;
  mlperf::StartTest(&sut, &qsl, settings, Logs(0));
  // Two sets of the size of a performance set.
  CHECK(sut.caught == 2);
}

CASE(two_tests_at_once) {
  class Nested : public mlperf::SystemUnderTest {
   public:
    explicit Nested(System& inner) : inner_(inner) {}

    const std::string& Name() override { return name_; }
    void IssueQuery(const std::vector<QuerySample>& samples) override {
      Library qsl;
      const auto settings = ShortTest(mlperf::TestScenario::Offline);
      const std::string thrown =
          Thrown([&] { mlperf::StartTest(&inner_, &qsl, settings, Logs(7)); });
      CHECK(Contains(thrown, "another test is running"));
      inner_.IssueQuery(samples);
    }
    void FlushQueries() override {}

   private:
    System& inner_;
    const std::string name_ = "nested";
  };
  Fuse fuse;
  System inner(fuse);
  Nested sut(inner);
  Library qsl;
  mlperf::StartTest(&sut, &qsl, ShortTest(mlperf::TestScenario::SingleStream), Logs(0));
  CHECK(inner.issued == 700);
}

CASE(logs_that_cannot_be_opened) {
  Fuse fuse;
  System sut(fuse);
  Library qsl;
  mlperf::LogSettings logs;
  logs.log_output.outdir = "no/such/folder";
  const auto settings = ShortTest(mlperf::TestScenario::SingleStream);
  const std::string thrown = Thrown([&] { mlperf::StartTest(&sut, &qsl, settings, logs); });
  CHECK(Contains(thrown, "no/such/folder"));
  CHECK(sut.issued == 0);
  CheckThatTestsRun(0);
}

CASE(libraries_without_samples) {
  Fuse fuse;
  System sut(fuse);
  Library empty(0, 0);
  const auto settings = ShortTest(mlperf::TestScenario::SingleStream);
  const std::string thrown = Thrown([&] { mlperf::StartTest(&sut, &empty, settings, Logs(0)); });
  CHECK(Contains(thrown, "is 0: expected 1 to"));
  CHECK(sut.issued == 0);
  CheckThatTestsRun(0);

  // One that has samples and claims to hold none of them in memory is told so.
  Library forgetful(100, 0);
  mlperf::StartTest(&sut, &forgetful, settings, Logs(1));
  CHECK(sut.issued == 700);
}

CASE(arguments_that_cannot_be) {
  Fuse fuse;
  System sut(fuse);
  Library qsl;
  mlperf::TestSettings settings = ShortTest(mlperf::TestScenario::SingleStream);
  CHECK(Contains(Thrown([&] { mlperf::StartTest(nullptr, &qsl, settings, Logs(0)); }), "null"));
  CHECK(Contains(Thrown([&] { mlperf::StartTest(&sut, nullptr, settings, Logs(0)); }), "null"));
  settings.scenario = static_cast<mlperf::TestScenario>(7);
  CHECK(Contains(Thrown([&] { mlperf::StartTest(&sut, &qsl, settings, Logs(0)); }), "scenario is 7"));
  CheckThatTestsRun(0);
}

// What the reference logs as an error and runs, runs.
CASE(settings_that_are_errors) {
  Fuse fuse;
  System sut(fuse);
  Library qsl;
  mlperf::TestSettings settings = ShortTest(mlperf::TestScenario::SingleStream);
  settings.performance_issue_unique = true;
  settings.performance_issue_same = true;
  settings.performance_issue_same_index = 100000;
  mlperf::StartTest(&sut, &qsl, settings, Logs(0));
  CHECK(sut.issued > 0);
}

CASE(completions_that_are_wrong) {
  Fuse fuse;
  System sut(fuse);
  Library qsl;
  const auto settings = ShortTest(mlperf::TestScenario::SingleStream);
  mlperf::StartTest(&sut, &qsl, settings, Logs(0));
  // After the end, of nothing at all, and of nobody.
  mlperf::QuerySamplesComplete(&sut.last, 1);
  mlperf::QuerySamplesComplete(nullptr, 0);
  CHECK(Contains(Thrown([] { mlperf::QuerySamplesComplete(nullptr, 1); }), "NULL"));
  CHECK(Contains(Thrown([] { mlperf::FirstTokenComplete(nullptr, 1); }), "NULL"));
  QuerySampleResponse unknown(12345, 0, 0);
  mlperf::QuerySamplesComplete(&unknown, 1);
  mlperf::StartTest(&sut, &qsl, settings, Logs(1));
}
