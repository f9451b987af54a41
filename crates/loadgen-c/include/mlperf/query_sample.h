/// What passes between the load generator and the system under test: samples
/// go out, responses come back.
///
/// The types keep the names and, on x86-64 and AArch64 Linux, the layout of
/// MLPerf LoadGen 6.0, so that object files compiled against its headers link.

#ifndef DYNO_MLPERF_QUERY_SAMPLE_H_
#define DYNO_MLPERF_QUERY_SAMPLE_H_

// Some harnesses rely on what LoadGen's headers include.
#include <stddef.h>
#include <stdint.h>

#include <cstddef>
#include <cstdint>
#include <iostream>

namespace mlperf {

/// Names one sample of one query of one run. Opaque; handed out with the query
/// and handed back with the response.
typedef std::uintptr_t ResponseId;

/// Never handed out: a harness may use it for "no response".
constexpr ResponseId kResponseIdReserved = 0;

/// Position of a sample in the data set, from 0.
typedef std::size_t QuerySampleIndex;

/// Nanoseconds, counted from the time the query was scheduled.
typedef std::int64_t QuerySampleLatency;

/// One sample of a query, as the system under test receives it. 16 bytes.
struct QuerySample {
  /// To be handed back with the response.
  ResponseId id;
  /// Position in the data set.
  QuerySampleIndex index;
};

/// The answer to one sample. 32 bytes.
///
/// `data` is the address of `size` bytes that stay readable until
/// QuerySamplesComplete() returns. They are copied if they are to be logged
/// (accuracy runs, sampled performance runs) and not looked at otherwise, so a
/// performance run may pass 0 and 0.
struct QuerySampleResponse {
  QuerySampleResponse() : QuerySampleResponse(kResponseIdReserved, 0, 0, 0) {}
  QuerySampleResponse(ResponseId id_, std::uintptr_t data_, std::size_t size_)
      : QuerySampleResponse(id_, data_, size_, 0) {}
  QuerySampleResponse(ResponseId id_, std::uintptr_t data_, std::size_t size_,
                      std::int64_t n_tokens_)
      : id(id_), data(data_), size(size_), n_tokens(n_tokens_) {}

  /// The id of the sample.
  ResponseId id;
  /// Address of what the accuracy log gets, byte for byte.
  std::uintptr_t data;
  /// Bytes at `data`.
  std::size_t size;
  /// Output tokens, with TestSettings::use_token_latencies; 0 otherwise.
  std::int64_t n_tokens;
};

}  // namespace mlperf

#endif  // DYNO_MLPERF_QUERY_SAMPLE_H_
