#include "images.h"

#include <random>
#include <stdexcept>

namespace example {

Images::Images(std::size_t total, std::size_t performance)
    : performance_(performance), slots_(total) {}

void Images::LoadSamplesToRam(const std::vector<mlperf::QuerySampleIndex>& indices) {
  for (const auto index : indices) {
    Slot& slot = slots_.at(index);
    if (slot.loads++ > 0) continue;
    slot.image.resize(1);
    std::minstd_rand generator(static_cast<unsigned>(index) + 1);
    for (float& pixel : slot.image.front()) {
      pixel = static_cast<float>(generator() % 1024) / 1024 - 0.5F;
    }
  }
}

void Images::UnloadSamplesFromRam(const std::vector<mlperf::QuerySampleIndex>& indices) {
  for (const auto index : indices) {
    Slot& slot = slots_.at(index);
    if (--slot.loads == 0) slot.image.clear();
  }
}

const Image& Images::At(mlperf::QuerySampleIndex index) const {
  const Slot& slot = slots_.at(index);
  if (slot.loads == 0) throw std::out_of_range("sample " + std::to_string(index) + " is not loaded");
  return slot.image.front();
}

}  // namespace example
