/// The system under test: the interface that a harness implements.

#ifndef DYNO_MLPERF_SYSTEM_UNDER_TEST_H_
#define DYNO_MLPERF_SYSTEM_UNDER_TEST_H_

#include <string>
#include <vector>

#include "query_sample.h"

namespace mlperf {

/// What is measured.
///
/// An exception that leaves one of the functions aborts the test and comes out
/// of StartTest().
class SystemUnderTest {
 public:
  virtual ~SystemUnderTest() {}

  /// Name for the logs. Asked for at the start of each test, untimed.
  virtual const std::string& Name() = 0;

  /// Takes the samples of one query, or of several where Server queries
  /// coalesce. Called on the issuing thread: the next query waits until it
  /// returns, while its latency already counts. With registered issue threads
  /// it is called on all of them at the same time.
  ///
  /// `samples` is valid until the call returns. Each sample is answered once,
  /// by QuerySamplesComplete(), from any thread, in any order and any batch.
  virtual void IssueQuery(const std::vector<QuerySample>& samples) = 0;

  /// Called once after the last query of a run: whatever was held back to fill
  /// a batch must be worked off now.
  virtual void FlushQueries() = 0;
};

}  // namespace mlperf

#endif  // DYNO_MLPERF_SYSTEM_UNDER_TEST_H_
