// A multi-threaded harness for the load generator's C++ interface:
//
//   classifier --scenario Server --mode PerformanceOnly --user-conf user.conf --log-dir logs

#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "classifier.h"
#include "images.h"
#include "loadgen.h"
#include "test_settings.h"

namespace {

const char kUsage[] =
    "usage: classifier [--OPTION VALUE]...\n"
    "\n"
    "  --scenario NAME           SingleStream, MultiStream, Server or Offline (SingleStream)\n"
    "  --mode NAME               PerformanceOnly, AccuracyOnly, SubmissionRun, FindPeakPerformance\n"
    "  --user-conf FILE          configuration of the load generator (none)\n"
    "  --model NAME              whose rules the configuration applies (classifier)\n"
    "  --log-dir FOLDER          where the logs go (.)\n"
    "  --devices N               threads that compute (2)\n"
    "  --completion-threads N    threads that report answers (2)\n"
    "  --issue-threads N         threads that issue Server queries; 0 is the main one (0)\n"
    "  --max-batch N             samples that a device takes at once (32)\n"
    "  --max-delay-us N          how long a sample may wait for its batch to fill (500)\n"
    "  --samples N               in the data set (2048)\n"
    "  --performance-samples N   loaded in a performance run (1024)\n";

struct Options {
  mlperf::TestScenario scenario;
  mlperf::TestMode mode;
  std::string scenario_name;
  std::string user_conf;
  std::string model;
  std::string log_dir;
  std::size_t issue_threads;
  std::size_t samples;
  std::size_t performance_samples;
  example::ClassifierOptions classifier;
};

// Pairs of an option and its value, with defaults for those that are absent.
class Arguments {
 public:
  Arguments(int argc, char** argv) {
    for (int i = 1; i < argc; i += 2) {
      const std::string name = argv[i];
      if (name.compare(0, 2, "--") != 0) throw std::invalid_argument(name + " is no option");
      if (i + 1 == argc) throw std::invalid_argument(name + " lacks its value");
      values_[name.substr(2)] = argv[i + 1];
    }
  }

  std::string Take(const std::string& name, const std::string& otherwise) {
    const auto found = values_.find(name);
    if (found == values_.end()) return otherwise;
    const std::string value = found->second;
    values_.erase(found);
    return value;
  }

  std::size_t TakeCount(const std::string& name, std::size_t otherwise) {
    return std::stoul(Take(name, std::to_string(otherwise)));
  }

  void ExpectNoMore() const {
    if (values_.empty()) return;
    throw std::invalid_argument("unknown option --" + values_.begin()->first);
  }

 private:
  std::map<std::string, std::string> values_;
};

template <class T>
T OneOf(const std::map<std::string, T>& choices, const std::string& name) {
  const auto found = choices.find(name);
  if (found == choices.end()) throw std::invalid_argument("there is no " + name);
  return found->second;
}

Options Parse(int argc, char** argv) {
  using mlperf::TestMode;
  using mlperf::TestScenario;
  Arguments arguments(argc, argv);
  Options options;
  options.scenario_name = arguments.Take("scenario", "SingleStream");
  options.scenario = OneOf<TestScenario>({{"SingleStream", TestScenario::SingleStream},
                                          {"MultiStream", TestScenario::MultiStream},
                                          {"Server", TestScenario::Server},
                                          {"Offline", TestScenario::Offline}},
                                         options.scenario_name);
  options.mode = OneOf<TestMode>({{"PerformanceOnly", TestMode::PerformanceOnly},
                                  {"AccuracyOnly", TestMode::AccuracyOnly},
                                  {"SubmissionRun", TestMode::SubmissionRun},
                                  {"FindPeakPerformance", TestMode::FindPeakPerformance}},
                                 arguments.Take("mode", "PerformanceOnly"));
  options.user_conf = arguments.Take("user-conf", "");
  options.model = arguments.Take("model", "classifier");
  options.log_dir = arguments.Take("log-dir", ".");
  options.issue_threads = arguments.TakeCount("issue-threads", 0);
  options.samples = arguments.TakeCount("samples", 2048);
  options.performance_samples = arguments.TakeCount("performance-samples", 1024);
  auto& classifier = options.classifier;
  classifier.devices = arguments.TakeCount("devices", classifier.devices);
  classifier.completion_threads =
      arguments.TakeCount("completion-threads", classifier.completion_threads);
  classifier.max_batch = arguments.TakeCount("max-batch", classifier.max_batch);
  classifier.max_delay = std::chrono::microseconds(
      arguments.TakeCount("max-delay-us", static_cast<std::size_t>(classifier.max_delay.count())));
  arguments.ExpectNoMore();
  return options;
}

mlperf::TestSettings Settings(const Options& options) {
  mlperf::TestSettings settings;
  settings.scenario = options.scenario;
  settings.mode = options.mode;
  if (!options.user_conf.empty() &&
      settings.FromConfig(options.user_conf, options.model, options.scenario_name) != 0) {
    throw std::runtime_error("cannot use the configuration " + options.user_conf);
  }
  settings.server_num_issue_query_threads = options.issue_threads;
  return settings;
}

void Run(const Options& options) {
  const mlperf::TestSettings settings = Settings(options);
  mlperf::LogSettings logs;
  logs.log_output.outdir = options.log_dir;
  logs.enable_trace = false;

  example::Images images(options.samples, options.performance_samples);
  example::Classifier classifier(images, options.classifier);
  std::vector<std::thread> issuers;
  for (std::size_t i = 0; i < options.issue_threads; ++i) {
    issuers.emplace_back(mlperf::RegisterIssueQueryThread);
  }
  mlperf::StartTest(&classifier, &images, settings, logs);
  for (std::thread& issuer : issuers) issuer.join();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--help") {
    std::cout << kUsage;
    return EXIT_SUCCESS;
  }
  try {
    Run(Parse(argc, argv));
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << "classifier: " << error.what() << "\n\n" << kUsage;
    return EXIT_FAILURE;
  }
}
