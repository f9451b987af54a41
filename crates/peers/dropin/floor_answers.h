// The accuracy log of the floor: answers are copied into blocks of the completing thread and
// written in hex when the test is over.
#ifndef DYNO_DROPIN_FLOOR_ANSWERS_H_
#define DYNO_DROPIN_FLOOR_ANSWERS_H_

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "query_sample.h"

namespace dropin {

constexpr size_t kBlockBytes = size_t{2} << 20;

// Writes in large pieces.
class HexWriter {
 public:
  explicit HexWriter(const std::string& path)
      : file_(open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644)) {
    if (file_ < 0) std::abort();
    for (int byte = 0; byte < 256; ++byte) {
      hex_[byte][0] = "0123456789ABCDEF"[byte >> 4];
      hex_[byte][1] = "0123456789ABCDEF"[byte & 15];
    }
  }
  ~HexWriter() {
    Flush();
    close(file_);
  }

  void Text(const char* text, size_t size) {
    std::memcpy(Room(size), text, size);
    used_ += size;
  }

  void Hex(const char* bytes, size_t size) {
    char* out = Room(2 * size);
    for (size_t i = 0; i < size; ++i) {
      std::memcpy(out + 2 * i, hex_[static_cast<uint8_t>(bytes[i])], 2);
    }
    used_ += 2 * size;
  }

 private:
  char* Room(size_t size) {
    if (buffer_.size() - used_ < size) Flush();
    if (buffer_.size() < size) buffer_.resize(size);
    return &buffer_[used_];
  }

  void Flush() {
    if (write(file_, buffer_.data(), used_) != static_cast<ssize_t>(used_)) std::abort();
    used_ = 0;
  }

  int file_;
  char hex_[256][2];
  std::vector<char> buffer_ = std::vector<char>(2 * kBlockBytes);
  size_t used_ = 0;
};

// Answers of an accuracy run, by completing thread.
class Answers {
 public:
  void Keep(const mlperf::QuerySampleResponse& response) {
    static thread_local int mine = -1;
    if (mine < 0) mine = threads_++;
    if (mine >= kMostThreads) std::abort();
    const uint64_t head[2] = {response.id, response.size};
    const size_t bytes = sizeof head + response.size;
    auto& all = blocks_[mine];
    if (all.empty() || all.back().capacity - all.back().used < bytes) {
      const size_t capacity = std::max(bytes, kBlockBytes);
      all.push_back({std::unique_ptr<char[]>(new char[capacity]), 0, capacity});
    }
    Block& block = all.back();
    std::memcpy(&block.bytes[block.used], head, sizeof head);
    std::memcpy(&block.bytes[block.used + sizeof head],
                reinterpret_cast<const void*>(response.data), response.size);
    block.used += bytes;
  }

  // `indices[i]` is the sample of the query set that answer i belongs to.
  void Write(const std::string& path, const uint32_t* indices) const {
    HexWriter out(path);
    out.Text("[", 1);
    const char* separator = "\n";
    for (const auto& blocks : blocks_) {
      for (const auto& block : blocks) {
        for (size_t at = 0; at < block.used;) {
          uint64_t head[2];
          std::memcpy(head, &block.bytes[at], sizeof head);
          const uint64_t sequence = head[0] - 1;
          char text[128];
          const int size = std::snprintf(
              text, sizeof text, "%s{ \"seq_id\" : %llu, \"qsl_idx\" : %u, \"data\" : \"", separator,
              static_cast<unsigned long long>(sequence), indices[sequence]);
          out.Text(text, static_cast<size_t>(size));
          out.Hex(&block.bytes[at + sizeof head], head[1]);
          out.Text("\" }", 3);
          separator = ",\n";
          at += sizeof head + head[1];
        }
      }
    }
    out.Text("\n]\n", 3);
  }

 private:
  static constexpr int kMostThreads = 64;

  struct Block {
    std::unique_ptr<char[]> bytes;
    size_t used;
    size_t capacity;
  };

  std::vector<Block> blocks_[kMostThreads];
  std::atomic<int> threads_{0};
};

}  // namespace dropin

#endif  // DYNO_DROPIN_FLOOR_ANSWERS_H_
