/// Settings in the form that the C interface takes.

#ifndef DYNO_CPP_SETTINGS_H_
#define DYNO_CPP_SETTINGS_H_

#include <memory>
#include <string>

#include "dyno_loadgen.h"
#include "test_settings.h"

namespace dyno {

/// Throws std::runtime_error, saying what went wrong, unless the call that was
/// made last on this thread succeeded.
void Check(dyno_result result);

struct FreeSettings {
  void operator()(dyno_settings* settings) const { dyno_settings_free(settings); }
};
using Settings = std::unique_ptr<dyno_settings, FreeSettings>;

struct FreeLogSettings {
  void operator()(dyno_log_settings* settings) const { dyno_log_settings_free(settings); }
};
using LogSettings = std::unique_ptr<dyno_log_settings, FreeLogSettings>;

/// Copies of settings. They throw std::runtime_error where an enumeration has a
/// value that it does not have.
Settings Convert(const mlperf::TestSettings& from);
LogSettings Convert(const mlperf::LogSettings& from);

}  // namespace dyno

#endif  // DYNO_CPP_SETTINGS_H_
