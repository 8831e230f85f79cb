// Shared by the tests of this room: a folder that goes away, a small key and graph, an executable that does nothing.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/graph_key.h"
#include "ir/builder.h"

namespace deepinfer::backend {

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "deepinfer_backend_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& item : std::filesystem::directory_iterator(path_))
      names.push_back(item.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string path_;
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

inline void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline GraphKey SmallKey(int64_t tokens = 1) {
  GraphKey key;
  key.model = "0123abcd";
  key.build = "gnu-55";
  key.backend = "cpu";
  key.target = "avx2";
  key.phase = "decode";
  key.tokens = key.rows = key.requests = tokens;
  key.block_size = 32;
  key.blocks = 9;
  key.max_blocks = 4;
  key.slots = 8;
  key.encodings = "99";
  key.numerics = "native";
  key.passes = {"functionalize", "cse"};
  return key;
}

// x + constant over f32[tokens].
inline Result<ir::Module> SmallModule(int64_t tokens = 1, double constant = 2.0) {
  ir::ModuleBuilder module;
  ir::Builder builder = module.Entry();
  const ir::Value x = builder.Input("x", ir::InputKind::kMetadata, ir::Type(DType::kF32, {tokens}));
  builder.Output("y", builder.WithScalar(ir::Op::kAdd, x, constant));
  return module.Finish();
}

class FakeExecutable : public Executable {
 public:
  Status Capture(const StepIo&) override { return {}; }
  Status Run(const StepIo&) override { return {}; }
  std::vector<std::string> Describe() const override { return {"add_f32_avx2"}; }
  int64_t scratch_bytes() const override { return 0; }
};

}  // namespace deepinfer::backend
