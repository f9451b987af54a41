/// The data set: the interface that a harness implements.

#ifndef DYNO_MLPERF_QUERY_SAMPLE_LIBRARY_H_
#define DYNO_MLPERF_QUERY_SAMPLE_LIBRARY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "query_sample.h"

namespace mlperf {

/// The data set as the load generator sees it. All calls are untimed and come
/// from the thread that called StartTest().
///
/// An exception that leaves one of the functions aborts the test and comes out
/// of StartTest().
class QuerySampleLibrary {
 public:
  virtual ~QuerySampleLibrary() {}

  /// Name for the logs.
  virtual const std::string& Name() = 0;

  /// Samples in the data set, at least 1.
  virtual std::size_t TotalSampleCount() = 0;

  /// Samples that fit in memory at once, at least 1: the size of the set that a
  /// performance run draws from.
  virtual std::size_t PerformanceSampleCount() = 0;

  /// Brings these samples into memory before a run. A MultiStream set may name
  /// a sample twice.
  virtual void LoadSamplesToRam(const std::vector<QuerySampleIndex>& samples) = 0;

  /// Releases, after the run, the samples that were loaded for it.
  virtual void UnloadSamplesFromRam(const std::vector<QuerySampleIndex>& samples) = 0;
};

}  // namespace mlperf

#endif  // DYNO_MLPERF_QUERY_SAMPLE_LIBRARY_H_
