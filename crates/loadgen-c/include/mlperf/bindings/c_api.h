/// The load generator for callers that have functions and no classes.
///
/// Despite the name it is C++: namespace, references and std::string. For C,
/// include dyno_loadgen.h, which this library implements too.

#ifndef DYNO_MLPERF_BINDINGS_C_API_H_
#define DYNO_MLPERF_BINDINGS_C_API_H_

#include <stddef.h>
#include <stdint.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "../query_sample.h"
#include "../test_settings.h"

namespace mlperf {
namespace c {

/// Whatever the caller wants to find again in its callbacks.
typedef std::uintptr_t ClientData;

/// SystemUnderTest::IssueQuery, with `count` samples.
typedef void (*IssueQueryCallback)(ClientData, const QuerySample* samples, std::size_t count);
/// SystemUnderTest::FlushQueries; gets no client data.
typedef void (*FlushQueriesCallback)();
/// Called with a response that is about to be logged; see mlperf::ResponseCallback.
typedef void (*ResponseCallback)(ClientData, QuerySampleResponse*);
/// QuerySampleLibrary::LoadSamplesToRam, with `count` positions.
typedef void (*LoadSamplesToRamCallback)(ClientData, const QuerySampleIndex* samples,
                                         std::size_t count);
/// QuerySampleLibrary::UnloadSamplesFromRam, with `count` positions.
typedef void (*UnloadSamplesFromRamCallback)(ClientData, const QuerySampleIndex* samples,
                                             std::size_t count);

/// A system under test made of functions; `name` is copied. DestroySUT() frees it.
void* ConstructSUT(ClientData client_data, const char* name, std::size_t name_length,
                   IssueQueryCallback issue_cb, FlushQueriesCallback flush_queries_cb);
/// Frees what ConstructSUT() returned.
void DestroySUT(void* sut);

/// A data set made of functions; `name` is copied. DestroyQSL() frees it.
void* ConstructQSL(ClientData client_data, const char* name, std::size_t name_length,
                   std::size_t total_sample_count, std::size_t performance_sample_count,
                   LoadSamplesToRamCallback load_samples_to_ram_cb,
                   UnloadSamplesFromRamCallback unload_samples_from_ram_cb);
/// Frees what ConstructQSL() returned.
void DestroyQSL(void* qsl);

/// mlperf::StartTest() with the default LogSettings: logs go to the current folder.
void StartTest(void* sut, void* qsl, const TestSettings& settings,
               const std::string& audit_config_filename = "audit.config");

/// mlperf::QuerySamplesComplete().
void QuerySamplesComplete(QuerySampleResponse* responses, std::size_t response_count);
/// mlperf::QuerySamplesComplete() with a callback for the responses that are logged.
void QuerySamplesCompleteResponseCb(QuerySampleResponse* responses, std::size_t response_count,
                                    ResponseCallback response_cb, ClientData client_data);

/// mlperf::FirstTokenComplete().
void FirstTokenComplete(QuerySampleResponse* responses, std::size_t response_count);
/// mlperf::FirstTokenComplete(); the callback is accepted and not called.
void FirstTokenCompleteResponseCb(QuerySampleResponse* responses, std::size_t response_count,
                                  ResponseCallback response_cb, ClientData client_data);

/// mlperf::RegisterIssueQueryThread().
void RegisterIssueQueryThread();

}  // namespace c
}  // namespace mlperf

#endif  // DYNO_MLPERF_BINDINGS_C_API_H_
