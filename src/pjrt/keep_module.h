// For tests: leaves StableHLO texts in the folder that DEEPINFER_STABLEHLO_DIR names, for another program to verify.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "base/env.h"

namespace deepinfer::pjrt {

inline void KeepModule(const std::string& name, const std::string& text) {
  const std::string dir = GetEnv("DEEPINFER_STABLEHLO_DIR");
  if (dir.empty()) return;
  std::filesystem::create_directories(dir);
  std::ofstream(dir + "/" + name + ".mlir") << text;
}

}  // namespace deepinfer::pjrt
