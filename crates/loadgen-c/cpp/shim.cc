/// The C++ interface of LoadGen over the C interface of this library.
///
/// What is C++ stays here: virtual classes, containers, exceptions. No
/// exception crosses the C interface: a callback that throws is noted, the test
/// is aborted, no callback of it runs any more, and StartTest() throws what was
/// noted.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <forward_list>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dyno_loadgen.h"
#include "loadgen.h"
#include "query_sample.h"
#include "query_sample_library.h"
#include "settings.h"
#include "system_under_test.h"
#include "test_settings.h"

// Samples and responses are passed on as they are.
static_assert(sizeof(mlperf::QuerySample) == sizeof(dyno_query_sample) &&
                  offsetof(mlperf::QuerySample, index) == offsetof(dyno_query_sample, index),
              "a sample has one layout in C and C++");
static_assert(
    sizeof(mlperf::QuerySampleResponse) == sizeof(dyno_response) &&
        offsetof(mlperf::QuerySampleResponse, data) == offsetof(dyno_response, data) &&
        offsetof(mlperf::QuerySampleResponse, size) == offsetof(dyno_response, size) &&
        offsetof(mlperf::QuerySampleResponse, n_tokens) == offsetof(dyno_response, n_tokens),
    "a response has one layout in C and C++");

namespace dyno {
namespace {

using mlperf::QuerySample;
using mlperf::QuerySampleResponse;
using Samples = std::vector<QuerySample>;

dyno_response* InC(QuerySampleResponse* responses) {
  return reinterpret_cast<dyno_response*>(responses);
}

/// Containers in which the load generator lists samples, so that IssueQuery()
/// gets a vector that nobody had to fill.
class SampleMemory {
 public:
  /// Room for `count` samples (>= 1) that stays where it is until it is released.
  QuerySample* Acquire(std::size_t count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot& slot = FreeSlot();
    slot.samples.resize(count);
    slot.begin.store(slot.samples.data(), std::memory_order_relaxed);
    return slot.samples.data();
  }

  void Release(const QuerySample* samples) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Slot& slot : slots_) {
      if (slot.begin.load(std::memory_order_relaxed) == samples) {
        slot.begin.store(nullptr, std::memory_order_relaxed);
        Samples().swap(slot.samples);
        return;
      }
    }
  }

  /// The vector that consists of exactly these samples, if there is one.
  ///
  /// Takes no lock: a slot that matches belongs to the calling thread, and slots
  /// are never removed.
  const Samples* Find(const QuerySample* samples, std::size_t count) const {
    for (const Slot* slot = newest_.load(std::memory_order_acquire); slot != nullptr;
         slot = slot->older) {
      if (slot->begin.load(std::memory_order_relaxed) == samples) {
        return slot->samples.size() == count ? &slot->samples : nullptr;
      }
    }
    return nullptr;
  }

 private:
  struct Slot {
    explicit Slot(const Slot* older_) : older(older_) {}

    const Slot* const older;
    Samples samples;
    /// Of the samples; null while the slot is free.
    std::atomic<const QuerySample*> begin{nullptr};
  };

  Slot& FreeSlot() {
    for (Slot& slot : slots_) {
      if (slot.begin.load(std::memory_order_relaxed) == nullptr) return slot;
    }
    slots_.emplace_front(newest_.load(std::memory_order_relaxed));
    newest_.store(&slots_.front(), std::memory_order_release);
    return slots_.front();
  }

  std::mutex mutex_;
  std::forward_list<Slot> slots_;
  std::atomic<const Slot*> newest_{nullptr};
};

/// Vectors for samples that lie elsewhere, as those of coalesced queries do.
class ScratchPool {
 public:
  Samples Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) return Samples();
    Samples samples = std::move(free_.back());
    free_.pop_back();
    return samples;
  }

  void GiveBack(Samples samples) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(samples));
  }

 private:
  std::mutex mutex_;
  std::vector<Samples> free_;
};

/// The first exception that left a callback, from whichever thread.
class Failure {
 public:
  bool IsSet() const { return is_set_.load(std::memory_order_relaxed); }

  void Keep(std::exception_ptr exception) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!first_) first_ = std::move(exception);
    is_set_.store(true, std::memory_order_relaxed);
  }

  void Rethrow() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::atomic<bool> is_set_{false};
  std::mutex mutex_;
  std::exception_ptr first_;
};

/// One call of StartTest(): the objects of the caller behind callbacks in C.
class Test {
 public:
  Test(mlperf::SystemUnderTest& system, mlperf::QuerySampleLibrary& library)
      : system_(system), library_(library) {}

  dyno_system_callbacks SystemCallbacks() {
    dyno_system_callbacks callbacks = {};
    callbacks.context = this;
    callbacks.name = [](void* test) { return Of(test).Name(Of(test).system_); };
    callbacks.issue = [](void* test, const dyno_query_sample* samples, std::size_t count) {
      return Of(test).Issue(reinterpret_cast<const QuerySample*>(samples), count);
    };
    callbacks.flush = [](void* test) {
      return Of(test).Guarded([test] { Of(test).system_.FlushQueries(); });
    };
    callbacks.acquire_samples = [](void* test, std::size_t count) {
      return Of(test).AcquireSamples(count);
    };
    callbacks.release_samples = [](void* test, dyno_query_sample* samples) {
      Of(test).memory_.Release(reinterpret_cast<QuerySample*>(samples));
    };
    return callbacks;
  }

  dyno_library_callbacks LibraryCallbacks() {
    using mlperf::QuerySampleLibrary;
    dyno_library_callbacks callbacks = {};
    callbacks.context = this;
    callbacks.name = [](void* test) { return Of(test).Name(Of(test).library_); };
    callbacks.total_sample_count = [](void* test) {
      return Of(test).Count(&QuerySampleLibrary::TotalSampleCount);
    };
    callbacks.performance_sample_count = [](void* test) {
      return Of(test).Count(&QuerySampleLibrary::PerformanceSampleCount);
    };
    callbacks.load = [](void* test, const std::uint64_t* samples, std::size_t count) {
      return Of(test).Move(&QuerySampleLibrary::LoadSamplesToRam, samples, count);
    };
    callbacks.unload = [](void* test, const std::uint64_t* samples, std::size_t count) {
      return Of(test).Move(&QuerySampleLibrary::UnloadSamplesFromRam, samples, count);
    };
    return callbacks;
  }

  /// Throws what a callback threw, if one did.
  void RethrowFailure() { failure_.Rethrow(); }

 private:
  static Test& Of(void* test) { return *static_cast<Test*>(test); }

  /// Runs a callback of the caller's, unless one has failed. 0, or 1 to have
  /// the test aborted.
  template <class Callback>
  int Guarded(Callback&& callback) {
    if (failure_.IsSet()) return 1;
    try {
      callback();
      return 0;
    } catch (...) {
      failure_.Keep(std::current_exception());
      return 1;
    }
  }

  // NULL tells of a failure, and no library of 0 samples is tested.

  template <class Named>
  const char* Name(Named& named) {
    const char* name = nullptr;
    Guarded([&] { name = named.Name().c_str(); });
    return name;
  }

  std::size_t Count(std::size_t (mlperf::QuerySampleLibrary::*count)()) {
    std::size_t samples = 0;
    Guarded([&] { samples = (library_.*count)(); });
    return samples;
  }

  dyno_query_sample* AcquireSamples(std::size_t count) {
    QuerySample* samples = nullptr;
    Guarded([&] { samples = memory_.Acquire(count); });
    return reinterpret_cast<dyno_query_sample*>(samples);
  }

  int Move(void (mlperf::QuerySampleLibrary::*move)(const std::vector<mlperf::QuerySampleIndex>&),
           const std::uint64_t* samples, std::size_t count) {
    return Guarded([&] {
      const std::vector<mlperf::QuerySampleIndex> indices(samples, samples + count);
      (library_.*move)(indices);
    });
  }

  int Issue(const QuerySample* samples, std::size_t count) {
    return Guarded([&] {
      if (const Samples* listed = memory_.Find(samples, count)) {
        system_.IssueQuery(*listed);
      } else {
        IssueCopy(samples, count);
      }
    });
  }

  void IssueCopy(const QuerySample* samples, std::size_t count) {
    Samples copy = scratch_.Take();
    copy.assign(samples, samples + count);
    system_.IssueQuery(copy);
    scratch_.GiveBack(std::move(copy));
  }

  mlperf::SystemUnderTest& system_;
  mlperf::QuerySampleLibrary& library_;
  SampleMemory memory_;
  ScratchPool scratch_;
  Failure failure_;
};

/// A response callback behind a callback in C.
class Fetch {
 public:
  explicit Fetch(const mlperf::ResponseCallback& callback) : callback_(callback) {}

  static void Call(void* context, dyno_response* response) {
    Fetch& fetch = *static_cast<Fetch*>(context);
    if (fetch.failure_) return;
    try {
      fetch.callback_(reinterpret_cast<QuerySampleResponse*>(response));
    } catch (...) {
      fetch.failure_ = std::current_exception();
    }
  }

  void RethrowFailure() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  const mlperf::ResponseCallback& callback_;
  std::exception_ptr failure_;
};

/// Throws if a completion was no completion at all. Ids that are wrong and
/// completions that come too late are counted and logged by the library.
void CheckCompletion(dyno_result result) {
  if (result != DYNO_OK && result != DYNO_ERROR_NOT_RUNNING) Check(result);
}

struct FreeSystem {
  void operator()(dyno_system* system) const { dyno_system_free(system); }
};
struct FreeLibrary {
  void operator()(dyno_library* library) const { dyno_library_free(library); }
};

}  // namespace
}  // namespace dyno

namespace mlperf {

void StartTest(SystemUnderTest* sut, QuerySampleLibrary* qsl,
               const TestSettings& requested_settings, const LogSettings& log_settings,
               const std::string audit_config_filename) {
  if (sut == nullptr || qsl == nullptr) {
    throw std::runtime_error(
        "StartTest needs a system under test and a query sample library; one of them is null");
  }
  const dyno::Settings settings = dyno::Convert(requested_settings);
  const dyno::LogSettings logs = dyno::Convert(log_settings);
  dyno::Test test(*sut, *qsl);
  const dyno_system_callbacks system_callbacks = test.SystemCallbacks();
  const dyno_library_callbacks library_callbacks = test.LibraryCallbacks();
  const std::unique_ptr<dyno_system, dyno::FreeSystem> system(dyno_system_new(&system_callbacks));
  const std::unique_ptr<dyno_library, dyno::FreeLibrary> library(
      dyno_library_new(&library_callbacks));
  const dyno_result result = dyno_start_test(system.get(), library.get(), settings.get(),
                                             logs.get(), audit_config_filename.c_str());
  // The failure of a callback is why the test failed, if it did.
  test.RethrowFailure();
  dyno::Check(result);
}

void AbortTest() {
  // That no test is on is no error here: one may just have ended.
  static_cast<void>(dyno_abort_test());
}

void QuerySamplesComplete(QuerySampleResponse* responses, std::size_t response_count,
                          const ResponseCallback& response_cb) {
  if (!response_cb) {
    dyno::CheckCompletion(dyno_complete(dyno::InC(responses), response_count));
    return;
  }
  dyno::Fetch fetch(response_cb);
  const dyno_result result = dyno_complete_fetching(dyno::InC(responses), response_count,
                                                    &dyno::Fetch::Call, &fetch);
  fetch.RethrowFailure();
  dyno::CheckCompletion(result);
}

void FirstTokenComplete(QuerySampleResponse* responses, std::size_t response_count,
                        const ResponseCallback&) {
  dyno::CheckCompletion(dyno_first_token(dyno::InC(responses), response_count));
}

void RegisterIssueQueryThread() { dyno_register_issue_thread(); }

}  // namespace mlperf
