/// The functions of mlperf::c: classes of mlperf made of function pointers.

#include "bindings/c_api.h"

#include <cstddef>
#include <string>
#include <vector>

#include "loadgen.h"
#include "query_sample_library.h"
#include "system_under_test.h"

namespace mlperf {
namespace c {
namespace {

class FunctionSystem final : public SystemUnderTest {
 public:
  FunctionSystem(ClientData client_data, std::string name, IssueQueryCallback issue,
                 FlushQueriesCallback flush)
      : client_data_(client_data), name_(std::move(name)), issue_(issue), flush_(flush) {}

  const std::string& Name() override { return name_; }
  void IssueQuery(const std::vector<QuerySample>& samples) override {
    issue_(client_data_, samples.data(), samples.size());
  }
  void FlushQueries() override { flush_(); }

 private:
  const ClientData client_data_;
  const std::string name_;
  const IssueQueryCallback issue_;
  const FlushQueriesCallback flush_;
};

class FunctionLibrary final : public QuerySampleLibrary {
 public:
  FunctionLibrary(ClientData client_data, std::string name, std::size_t total,
                  std::size_t performance, LoadSamplesToRamCallback load,
                  UnloadSamplesFromRamCallback unload)
      : client_data_(client_data),
        name_(std::move(name)),
        total_(total),
        performance_(performance),
        load_(load),
        unload_(unload) {}

  const std::string& Name() override { return name_; }
  std::size_t TotalSampleCount() override { return total_; }
  std::size_t PerformanceSampleCount() override { return performance_; }
  void LoadSamplesToRam(const std::vector<QuerySampleIndex>& samples) override {
    load_(client_data_, samples.data(), samples.size());
  }
  void UnloadSamplesFromRam(const std::vector<QuerySampleIndex>& samples) override {
    unload_(client_data_, samples.data(), samples.size());
  }

 private:
  const ClientData client_data_;
  const std::string name_;
  const std::size_t total_;
  const std::size_t performance_;
  const LoadSamplesToRamCallback load_;
  const UnloadSamplesFromRamCallback unload_;
};

}  // namespace

void* ConstructSUT(ClientData client_data, const char* name, std::size_t name_length,
                   IssueQueryCallback issue_cb, FlushQueriesCallback flush_queries_cb) {
  return new FunctionSystem(client_data, std::string(name, name_length), issue_cb,
                            flush_queries_cb);
}

void DestroySUT(void* sut) { delete static_cast<FunctionSystem*>(sut); }

void* ConstructQSL(ClientData client_data, const char* name, std::size_t name_length,
                   std::size_t total_sample_count, std::size_t performance_sample_count,
                   LoadSamplesToRamCallback load_samples_to_ram_cb,
                   UnloadSamplesFromRamCallback unload_samples_from_ram_cb) {
  return new FunctionLibrary(client_data, std::string(name, name_length), total_sample_count,
                             performance_sample_count, load_samples_to_ram_cb,
                             unload_samples_from_ram_cb);
}

void DestroyQSL(void* qsl) { delete static_cast<FunctionLibrary*>(qsl); }

void StartTest(void* sut, void* qsl, const TestSettings& settings,
               const std::string& audit_config_filename) {
  mlperf::StartTest(static_cast<FunctionSystem*>(sut), static_cast<FunctionLibrary*>(qsl),
                    settings, LogSettings(), audit_config_filename);
}

void QuerySamplesComplete(QuerySampleResponse* responses, std::size_t response_count) {
  mlperf::QuerySamplesComplete(responses, response_count);
}

void QuerySamplesCompleteResponseCb(QuerySampleResponse* responses, std::size_t response_count,
                                    ResponseCallback response_cb, ClientData client_data) {
  mlperf::QuerySamplesComplete(
      responses, response_count,
      [response_cb, client_data](QuerySampleResponse* response) {
        response_cb(client_data, response);
      });
}

void FirstTokenComplete(QuerySampleResponse* responses, std::size_t response_count) {
  mlperf::FirstTokenComplete(responses, response_count);
}

void FirstTokenCompleteResponseCb(QuerySampleResponse* responses, std::size_t response_count,
                                  ResponseCallback, ClientData) {
  mlperf::FirstTokenComplete(responses, response_count);
}

void RegisterIssueQueryThread() { mlperf::RegisterIssueQueryThread(); }

}  // namespace c
}  // namespace mlperf
