// What the null systems of the benchmark see of a test, from outside of the load generator.
#ifndef DYNO_DROPIN_OBSERVED_H_
#define DYNO_DROPIN_OBSERVED_H_

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

namespace dropin {

// Ns of the monotonic clock.
using Nanos = int64_t;

inline Nanos Now() {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot).count();
}

// Bytes of this process in memory: `VmRSS:` now, `VmHWM:` at most so far; 0 where the
// kernel does not say.
inline double MemoryBytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.compare(0, field.size(), field) == 0) {
      return std::strtod(line.c_str() + field.size(), nullptr) * 1024;
    }
  }
  return 0;
}

// When and at which cost the phases of the test began and ended.
struct Observed {
  Nanos loaded_at = 0;
  Nanos first_issue_at = 0;
  Nanos flushed_at = 0;
  // When a system that held samples had completed them.
  Nanos completed_at = 0;
  double bytes_loaded = 0;
  double bytes_first_issue = 0;
  uint64_t samples = 0;
  // Spent by the threads that complete what was held, all together.
  Nanos completing = 0;

  void Load() {
    bytes_loaded = MemoryBytes("VmRSS:");
    loaded_at = Now();
  }

  // To be called first in each IssueQuery.
  void Issue(size_t count) {
    if (samples == 0) Begin();
    samples += count;
  }

  // To be called first in FlushQueries.
  void Flush() {
    flushed_at = completed_at = Now();
  }

 private:
  void Begin() {
    const Nanos generated_at = Now();
    bytes_first_issue = MemoryBytes("VmRSS:");
    loaded_at += Now() - generated_at;
    first_issue_at = Now();
  }
};

}  // namespace dropin

#endif  // DYNO_DROPIN_OBSERVED_H_
