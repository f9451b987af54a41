/// The entry points of the load generator.

#ifndef DYNO_MLPERF_LOADGEN_H_
#define DYNO_MLPERF_LOADGEN_H_

#include <cstddef>
#include <functional>
// Some harnesses rely on what LoadGen's headers include.
#include <numeric>
#include <string>

namespace mlperf {

struct QuerySampleResponse;
class QuerySampleLibrary;
class SystemUnderTest;
struct TestSettings;
struct LogSettings;

/// Called with a response that is about to be logged, so that its payload can
/// be fetched (from a device, say) only where somebody wants it.
using ResponseCallback = std::function<void(QuerySampleResponse*)>;

/// Runs one test: loads samples, issues queries to `sut` until the rules of the
/// scenario are met, and writes the logs. Returns when the test is over.
///
/// `audit_config_filename` names a file that overrides the settings if it
/// exists, relative to the current folder.
///
/// One test at a time in a process; any number after each other.
///
/// Throws std::runtime_error, saying what to change, if a test is running
/// already, if a log file cannot be opened, or if `qsl` reports no samples.
/// Whatever `sut` or `qsl` throw ends the test and is thrown from here.
void StartTest(SystemUnderTest* sut, QuerySampleLibrary* qsl,
               const TestSettings& requested_settings, const LogSettings& log_settings,
               const std::string audit_config_filename = "audit.config");

/// Ends the test that is running, if any, from any thread: no further query is
/// issued and no answer awaited. StartTest() returns as after any test, and the
/// logs say that it was aborted.
void AbortTest();

/// Answers `response_count` samples, each once.
///
/// The time is taken once for all of them, before anything else. Neither
/// allocates, nor locks, nor calls the kernel, but to wake an issuing thread
/// that sleeps and to keep payloads that are to be logged.
///
/// `response_cb`, where given, is called for each response that will be logged,
/// before its payload is read; it may set `data` and `size`. An exception out of
/// it leaves this function.
///
/// An unknown or repeated id, or a call while no test is running, changes no
/// result: it is counted and told in the detail log.
void QuerySamplesComplete(QuerySampleResponse* responses, std::size_t response_count,
                          const ResponseCallback& response_cb = {});

/// Tells that the first token of these samples is there, before they are
/// answered; needed for each sample where TestSettings::use_token_latencies is
/// set, except in Offline. The payload, if any, is what the accuracy log gets as
/// the token's.
///
/// `response_cb` is accepted and not called.
void FirstTokenComplete(QuerySampleResponse* responses, std::size_t response_count,
                        const ResponseCallback& response_cb = {});

/// Lends the calling thread to the load generator, which issues Server queries
/// on it; returns when the test is over.
///
/// As many threads register as TestSettings::server_num_issue_query_threads
/// says, before StartTest() or shortly after. A thread that should serve the
/// next test too registers again.
void RegisterIssueQueryThread();

}  // namespace mlperf

#endif  // DYNO_MLPERF_LOADGEN_H_
