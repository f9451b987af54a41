/// A system under test that is reached over a network.

#ifndef DYNO_MLPERF_QUERY_DISPATCH_LIBRARY_H_
#define DYNO_MLPERF_QUERY_DISPATCH_LIBRARY_H_

#include "system_under_test.h"

namespace mlperf {

/// Sends each query to other machines and completes it when their answer is
/// back. To the load generator it is a SystemUnderTest like any other; Name()
/// usually asks the other side, every time it is called.
class QueryDispatchLibrary : public SystemUnderTest {
 public:
  virtual ~QueryDispatchLibrary() {}
};

}  // namespace mlperf

#endif  // DYNO_MLPERF_QUERY_DISPATCH_LIBRARY_H_
