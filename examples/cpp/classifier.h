// The system under test: a linear classifier on several devices, behind a dynamic batcher.
//
// Threads of the load generator put samples into a queue; each device takes batches from it and
// computes; threads of their own report the answers, so that no device waits for that.
#ifndef EXAMPLE_CLASSIFIER_H_
#define EXAMPLE_CLASSIFIER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "images.h"
#include "query_sample.h"
#include "queue.h"
#include "system_under_test.h"

namespace example {

struct ClassifierOptions {
  std::size_t devices = 2;
  std::size_t completion_threads = 2;
  std::size_t max_batch = 32;
  std::chrono::microseconds max_delay{500};
};

class Classifier : public mlperf::SystemUnderTest {
 public:
  Classifier(const Images& images, const ClassifierOptions& options);
  ~Classifier() override;

  const std::string& Name() override { return name_; }
  void IssueQuery(const std::vector<mlperf::QuerySample>& samples) override;
  void FlushQueries() override;

 private:
  struct Answer {
    mlperf::ResponseId id;
    // Of the class with the highest score.
    int32_t label;
  };

  void RunDevice();
  void RunCompletion();
  int32_t Classify(const Image& image) const;

  std::string name_{"linear classifier"};
  const Images& images_;
  const ClassifierOptions options_;
  // One row of weights for each class.
  std::vector<Image> weights_;
  Queue<mlperf::QuerySample> waiting_;
  Queue<Answer> answered_;
  std::vector<std::thread> devices_;
  std::vector<std::thread> completions_;
};

}  // namespace example

#endif  // EXAMPLE_CLASSIFIER_H_
