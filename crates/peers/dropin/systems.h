// Systems under test that do nothing but answer, so that what a test costs is the load
// generator's.
#ifndef DYNO_DROPIN_SYSTEMS_H_
#define DYNO_DROPIN_SYSTEMS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "loadgen.h"
#include "observed.h"
#include "query_sample.h"
#include "system_under_test.h"

namespace dropin {

// Completes samples in batches. Copies answer with the same payload.
class Completer {
 public:
  Completer(size_t batch, size_t payload_bytes)
      : batch_(std::max<size_t>(batch, 1)),
        payload_(std::make_shared<std::vector<uint8_t>>(payload_bytes)),
        responses_(batch_ + kApart) {
    for (size_t i = 0; i < payload_bytes; ++i) (*payload_)[i] = static_cast<uint8_t>(i * 131);
    for (auto& response : responses_) {
      response.data = reinterpret_cast<uintptr_t>(payload_->data());
      response.size = payload_bytes;
    }
  }

  void Complete(const mlperf::QuerySample* samples, size_t count) {
    while (count > 0) {
      const size_t together = std::min(count, batch_);
      for (size_t i = 0; i < together; ++i) responses_[i].id = samples[i].id;
      mlperf::QuerySamplesComplete(responses_.data(), together);
      samples += together;
      count -= together;
    }
  }

 private:
  // Unused responses, so that those of two threads share no cache line.
  static constexpr size_t kApart = 8;

  size_t batch_;
  std::shared_ptr<std::vector<uint8_t>> payload_;
  std::vector<mlperf::QuerySampleResponse> responses_;
};

class NullSystem : public mlperf::SystemUnderTest {
 public:
  const std::string& Name() override { return name_; }
  void FlushQueries() override { observed.Flush(); }

  Observed observed;

 private:
  std::string name_{"null"};
};

// Completes in the thread that issues.
class InlineSystem : public NullSystem {
 public:
  explicit InlineSystem(Completer completer) : completer_(std::move(completer)) {}

  void IssueQuery(const std::vector<mlperf::QuerySample>& samples) override {
    observed.Issue(samples.size());
    completer_.Complete(samples.data(), samples.size());
  }

 private:
  Completer completer_;
};

// As InlineSystem, and notes when each query was issued, by its own clock.
class StampedSystem : public NullSystem {
 public:
  StampedSystem(Completer completer, size_t queries) : completer_(std::move(completer)) {
    // Writing each element brings its page into memory before the test.
    issued_at.assign(queries, 1);
    issued_at.clear();
  }

  void IssueQuery(const std::vector<mlperf::QuerySample>& samples) override {
    observed.Issue(samples.size());
    issued_at.insert(issued_at.end(), samples.size(), Now());
    completer_.Complete(samples.data(), samples.size());
  }

  std::vector<Nanos> issued_at;

 private:
  Completer completer_;
};

// Holds every sample until all are issued; then threads complete a part each.
class HoldingSystem : public NullSystem {
 public:
  HoldingSystem(const Completer& completer, size_t samples, size_t threads)
      : completers_(threads, completer) {
    held_.assign(samples, {1, 1});
    held_.clear();
  }

  void IssueQuery(const std::vector<mlperf::QuerySample>& samples) override {
    observed.Issue(samples.size());
    held_.insert(held_.end(), samples.begin(), samples.end());
  }

  void FlushQueries() override {
    observed.Flush();
    std::atomic<Nanos> spent{0};
    std::atomic<size_t> ready{0};
    const size_t threads = completers_.size();
    const auto complete = [&](size_t part) {
      const size_t begin = held_.size() * part / threads;
      const size_t end = held_.size() * (part + 1) / threads;
      for (++ready; ready < threads;) std::this_thread::yield();
      const Nanos begun_at = Now();
      completers_[part].Complete(&held_[begin], end - begin);
      spent += Now() - begun_at;
    };
    std::vector<std::thread> running;
    for (size_t part = 0; part < threads; ++part) running.emplace_back(complete, part);
    for (auto& thread : running) thread.join();
    observed.completing = spent;
    observed.completed_at = Now();
  }

 private:
  std::vector<Completer> completers_;
  std::vector<mlperf::QuerySample> held_;
};

// Hands each sample to one of several threads that spin, and yield when there is nothing to do.
class WorkerSystem : public NullSystem {
 public:
  WorkerSystem(size_t workers, const Completer& completer) {
    for (size_t i = 0; i < workers; ++i) workers_.emplace_back(new Worker(completer));
  }

  ~WorkerSystem() override {
    for (auto& worker : workers_) worker->stopping.store(true, std::memory_order_relaxed);
    for (auto& worker : workers_) worker->thread.join();
  }

  void IssueQuery(const std::vector<mlperf::QuerySample>& samples) override {
    observed.Issue(samples.size());
    for (const auto& sample : samples) workers_[next_++ % workers_.size()]->Push(sample);
  }

 private:
  // Spins that find nothing before the thread yields its core.
  static constexpr int kSpins = 2000;
  static constexpr size_t kSlots = 1 << 16;

  struct Worker {
    explicit Worker(const Completer& completer)
        : completer(completer), slots(kSlots), thread([this] { Run(); }) {}

    void Push(const mlperf::QuerySample& sample) {
      const size_t at = pushed.load(std::memory_order_relaxed);
      while (at - taken.load(std::memory_order_acquire) == kSlots) std::this_thread::yield();
      slots[at % kSlots] = sample;
      pushed.store(at + 1, std::memory_order_release);
    }

    void Run() {
      for (int spins = 0; !stopping.load(std::memory_order_relaxed);) {
        const size_t at = taken.load(std::memory_order_relaxed);
        if (pushed.load(std::memory_order_acquire) == at) {
          if (++spins > kSpins) std::this_thread::yield();
          continue;
        }
        spins = 0;
        const mlperf::QuerySample sample = slots[at % kSlots];
        taken.store(at + 1, std::memory_order_release);
        completer.Complete(&sample, 1);
      }
    }

    Completer completer;
    std::vector<mlperf::QuerySample> slots;
    // Apart, so that issuing and completing threads share no cache line by accident.
    char apart_1[128];
    std::atomic<size_t> pushed{0};
    char apart_2[128];
    std::atomic<size_t> taken{0};
    std::atomic<bool> stopping{false};
    // Last, because it runs on the others.
    std::thread thread;
  };

  std::vector<std::unique_ptr<Worker>> workers_;
  size_t next_ = 0;
};

}  // namespace dropin

#endif  // DYNO_DROPIN_SYSTEMS_H_
