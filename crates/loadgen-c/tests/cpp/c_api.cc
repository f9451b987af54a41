// A harness of functions, through mlperf::c.

#include <cstring>
#include <thread>

#include "bindings/c_api.h"
#include "harness.h"

namespace {

using mlperf::QuerySample;
using mlperf::QuerySampleIndex;
using mlperf::QuerySampleResponse;
using mlperf::c::ClientData;

struct Counts {
  size_t issued = 0;
  size_t loaded = 0;
  size_t unloaded = 0;
  size_t fetched = 0;
  bool first_tokens = false;
};

size_t flushes = 0;

Counts& Of(ClientData client) { return *reinterpret_cast<Counts*>(client); }

void Fetch(ClientData client, QuerySampleResponse* response) {
  static const char answer[] = "four";
  response->data = reinterpret_cast<uintptr_t>(answer);
  response->size = 4;
  Of(client).fetched += 1;
}

void Issue(ClientData client, const QuerySample* samples, size_t count) {
  Of(client).issued += count;
  for (size_t i = 0; i < count; ++i) {
    QuerySampleResponse response(samples[i].id, 0, 0, 2);
    if (Of(client).first_tokens) {
      if (i % 2 == 0) {
        mlperf::c::FirstTokenComplete(&response, 1);
      } else {
        mlperf::c::FirstTokenCompleteResponseCb(&response, 1, Fetch, client);
      }
    }
    if (i % 2 == 0) {
      mlperf::c::QuerySamplesCompleteResponseCb(&response, 1, Fetch, client);
    } else {
      mlperf::c::QuerySamplesComplete(&response, 1);
    }
  }
}

void Flush() { flushes += 1; }

void Load(ClientData client, const QuerySampleIndex*, size_t count) { Of(client).loaded += count; }

void Unload(ClientData client, const QuerySampleIndex*, size_t count) {
  Of(client).unloaded += count;
}

Counts Run(const mlperf::TestSettings& settings, const char* audit, bool first_tokens) {
  Counts counts;
  counts.first_tokens = first_tokens;
  flushes = 0;
  const auto client = reinterpret_cast<ClientData>(&counts);
  const char name[] = "functions, and more";
  void* sut = mlperf::c::ConstructSUT(client, name, std::strlen("functions"), Issue, Flush);
  void* qsl = mlperf::c::ConstructQSL(client, "set", 3, 64, 32, Load, Unload);
  if (audit == nullptr) {
    mlperf::c::StartTest(sut, qsl, settings);
  } else {
    mlperf::c::StartTest(sut, qsl, settings, audit);
  }
  mlperf::c::DestroyQSL(qsl);
  mlperf::c::DestroySUT(sut);
  CHECK(counts.loaded == counts.unloaded && counts.loaded > 0);
  CHECK(flushes > 0);
  return counts;
}

}  // namespace

CASE(c_api_performance) {
  for (const mlperf::TestScenario scenario : kScenarios) {
    const Counts counts = Run(ShortTest(scenario), "no.config", false);
    CHECK(counts.issued == (scenario == mlperf::TestScenario::MultiStream ? 5600 : 700));
    CHECK(counts.fetched == 0);
  }
}

CASE(c_api_accuracy) {
  mlperf::TestSettings settings = ShortTest(mlperf::TestScenario::Offline);
  settings.mode = mlperf::TestMode::AccuracyOnly;
  settings.use_token_latencies = true;
  const Counts counts = Run(settings, nullptr, true);
  CHECK(counts.issued == 64);
  CHECK(counts.fetched == 32);
}

CASE(c_api_issue_threads) {
  mlperf::TestSettings settings = ShortTest(mlperf::TestScenario::Server);
  settings.server_num_issue_query_threads = 1;
  std::thread thread(mlperf::c::RegisterIssueQueryThread);
  const Counts counts = Run(settings, nullptr, false);
  thread.join();
  CHECK(counts.issued == 700);
}
