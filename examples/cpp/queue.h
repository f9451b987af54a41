// A queue between threads, behind a lock.
#ifndef EXAMPLE_QUEUE_H_
#define EXAMPLE_QUEUE_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace example {

template <class T>
class Queue {
 public:
  using Clock = std::chrono::steady_clock;

  template <class Iterator>
  void Push(Iterator begin, Iterator end) {
    const auto now = Clock::now();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      flushing_ = false;
      for (; begin != end; ++begin) items_.push_back({*begin, now});
    }
    changed_.notify_all();
  }

  // Up to `most` items: as soon as there are that many, as soon as the oldest has waited for
  // `patience`, or at once after Flush(). Empty when the queue is closed and drained.
  std::vector<T> PopBatch(std::size_t most, Clock::duration patience) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return closed_ || !items_.empty(); });
      if (items_.empty()) return {};
      const auto due = items_.front().since + patience;
      const bool full = changed_.wait_until(lock, due, [&] {
        return closed_ || flushing_ || items_.size() >= most || items_.empty();
      });
      // Another thread may have taken what was waited for.
      if (items_.empty()) continue;
      if (full || Clock::now() >= items_.front().since + patience) return Take(most);
    }
  }

  // Until the next Push(), batches need not wait to be full.
  void Flush() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      flushing_ = true;
    }
    changed_.notify_all();
  }

  void Close() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  struct Item {
    T value;
    Clock::time_point since;
  };

  std::vector<T> Take(std::size_t most) {
    std::vector<T> batch;
    batch.reserve(std::min(most, items_.size()));
    while (!items_.empty() && batch.size() < most) {
      batch.push_back(std::move(items_.front().value));
      items_.pop_front();
    }
    return batch;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool flushing_ = false;
  bool closed_ = false;
};

}  // namespace example

#endif  // EXAMPLE_QUEUE_H_
