#include "classifier.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>

#include "loadgen.h"

namespace example {

namespace {
constexpr std::size_t kClasses = 100;
}  // namespace

Classifier::Classifier(const Images& images, const ClassifierOptions& options)
    : images_(images), options_(options), weights_(kClasses) {
  std::minstd_rand generator(2026);
  for (Image& row : weights_) {
    for (float& weight : row) weight = static_cast<float>(generator() % 256) / 256 - 0.5F;
  }
  for (std::size_t i = 0; i < options_.devices; ++i) {
    devices_.emplace_back([this] { RunDevice(); });
  }
  for (std::size_t i = 0; i < options_.completion_threads; ++i) {
    completions_.emplace_back([this] { RunCompletion(); });
  }
}

Classifier::~Classifier() {
  waiting_.Close();
  for (std::thread& device : devices_) device.join();
  answered_.Close();
  for (std::thread& completion : completions_) completion.join();
}

void Classifier::IssueQuery(const std::vector<mlperf::QuerySample>& samples) {
  waiting_.Push(samples.begin(), samples.end());
}

void Classifier::FlushQueries() { waiting_.Flush(); }

void Classifier::RunDevice() {
  for (;;) {
    const auto batch = waiting_.PopBatch(options_.max_batch, options_.max_delay);
    if (batch.empty()) return;
    std::vector<Answer> answers;
    answers.reserve(batch.size());
    for (const auto& sample : batch) {
      answers.push_back({sample.id, Classify(images_.At(sample.index))});
    }
    answered_.Push(answers.begin(), answers.end());
  }
}

void Classifier::RunCompletion() {
  for (;;) {
    const auto batch = answered_.PopBatch(options_.max_batch, std::chrono::microseconds(0));
    if (batch.empty()) return;
    std::vector<mlperf::QuerySampleResponse> responses;
    responses.reserve(batch.size());
    for (const Answer& answer : batch) {
      // The label is read before the call returns, so it may stay where it is.
      const auto label = reinterpret_cast<std::uintptr_t>(&answer.label);
      responses.emplace_back(answer.id, label, sizeof answer.label);
    }
    mlperf::QuerySamplesComplete(responses.data(), responses.size());
  }
}

int32_t Classifier::Classify(const Image& image) const {
  std::vector<float> scores;
  scores.reserve(weights_.size());
  for (const Image& row : weights_) {
    scores.push_back(std::inner_product(row.begin(), row.end(), image.begin(), 0.0F));
  }
  const auto best = std::max_element(scores.begin(), scores.end());
  return static_cast<int32_t>(std::distance(scores.begin(), best));
}

}  // namespace example
