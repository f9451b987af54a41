// The data set: images that are made from their index instead of read from disk.
#ifndef EXAMPLE_IMAGES_H_
#define EXAMPLE_IMAGES_H_

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "query_sample_library.h"

namespace example {

constexpr std::size_t kPixels = 256;

using Image = std::array<float, kPixels>;

// Loads and unloads images as the load generator asks, and serves the loaded ones.
class Images : public mlperf::QuerySampleLibrary {
 public:
  Images(std::size_t total, std::size_t performance);

  const std::string& Name() override { return name_; }
  std::size_t TotalSampleCount() override { return slots_.size(); }
  std::size_t PerformanceSampleCount() override { return performance_; }
  void LoadSamplesToRam(const std::vector<mlperf::QuerySampleIndex>& indices) override;
  void UnloadSamplesFromRam(const std::vector<mlperf::QuerySampleIndex>& indices) override;

  // An image that is loaded. Throws std::out_of_range for another.
  const Image& At(mlperf::QuerySampleIndex index) const;

 private:
  // MultiStream lists some samples of a set twice, so an image may be loaded twice.
  struct Slot {
    std::vector<Image> image;
    int loads = 0;
  };

  std::string name_{"images"};
  std::size_t performance_;
  std::vector<Slot> slots_;
};

}  // namespace example

#endif  // EXAMPLE_IMAGES_H_
