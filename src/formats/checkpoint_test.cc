#include "formats/checkpoint.h"

#include <gtest/gtest.h>

#include <chrono>

#include "formats/gguf_writer.h"
#include "formats/test_files.h"

namespace deepinfer::formats {
namespace {

class CheckpointTest : public testing::Test {
 protected:
  void WriteFolder(const char* config = R"({"model_type": "llama", "eos_token_id": 2})") {
    static constexpr float kValues[4] = {1, 2, 3, 4};
    static constexpr double kDouble[1] = {1};
    const SafetensorsOutput outputs[] = {{"w", DType::kF32, {2, 2}, std::as_bytes(std::span(kValues))},
                                         {"ids", DType::kI64, {1}, std::as_bytes(std::span(kDouble))},
                                         {"empty", DType::kF32, {0}, {}}};
    folder_.Write("config.json", config);
    ASSERT_TRUE(WriteSafetensors(folder_.File("model.safetensors"), outputs));
  }
  std::string Fingerprint(const std::string& path) {
    const auto checkpoint = Checkpoint::Open(path);
    EXPECT_TRUE(checkpoint) << checkpoint.error().ToString();
    return checkpoint->fingerprint();
  }
  TempFolder folder_;
};

TEST_F(CheckpointTest, AFolderGivesTensorsConfigAndUse) {
  WriteFolder();
  auto opened = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(opened) << opened.error().ToString();
  const Checkpoint checkpoint = std::move(*opened);
  EXPECT_EQ(checkpoint.kind(), CheckpointKind::kHf);
  EXPECT_EQ(checkpoint.gguf(), nullptr);
  EXPECT_EQ(checkpoint.config()->model_type(), "llama");
  EXPECT_EQ(checkpoint.files(), (std::vector<std::string>{folder_.File("model.safetensors")}));
  EXPECT_EQ(checkpoint.UnusedTensors().size(), 3u);

  const auto tensor = checkpoint.Get("w");
  ASSERT_TRUE(tensor) << tensor.error().ToString();
  EXPECT_EQ((*tensor)->encoding, Encoding::kF32);
  EXPECT_EQ((*tensor)->shape, (std::vector<int64_t>{2, 2}));
  float values[4];
  DecodeRow(Encoding::kF32, (*tensor)->data.data(), values, 4);
  EXPECT_EQ(values[3], 4.0f);

  EXPECT_NE(checkpoint.Get("x").error().ToString().find("tensor x: the checkpoint does not have it"),
            std::string::npos);
  EXPECT_NE(checkpoint.Get("ids").error().ToString().find("its type I64 is not supported; supported are: f32 f16"),
            std::string::npos);
  EXPECT_NE(checkpoint.Get("empty").error().ToString().find("it has no elements"), std::string::npos);
  EXPECT_EQ(checkpoint.UnusedTensors().size(), 2u);
  EXPECT_NE(checkpoint.Find("ids"), nullptr);
  EXPECT_TRUE(checkpoint.MarkUsed("ids"));
  EXPECT_FALSE(checkpoint.MarkUsed("x"));
  EXPECT_EQ(checkpoint.UnusedTensors(), (std::vector<std::string>{"empty"}));
}

TEST_F(CheckpointTest, AGgufFileGivesTheSameView) {
  const std::vector<float> values(32, 1.0f);
  GgufWriter writer;
  writer.AddMetadata("general.architecture", "llama")
      .AddTensor("w", Encoding::kQ4_1, {1, 32}, values)
      .AddRawTensor("odd", /*IQ2_S=*/22, {256}, std::string(82, 'x'));
  ASSERT_TRUE(writer.Write(folder_.File("m.gguf")));
  const auto checkpoint = Checkpoint::Open(folder_.File("m.gguf"));
  ASSERT_TRUE(checkpoint) << checkpoint.error().ToString();
  EXPECT_EQ(checkpoint->kind(), CheckpointKind::kGguf);
  EXPECT_EQ(checkpoint->config(), nullptr);
  EXPECT_EQ(*checkpoint->gguf()->RequiredString("general.architecture"), "llama");
  EXPECT_EQ((*checkpoint->Get("w"))->encoding, Encoding::kQ4_1);
  EXPECT_EQ((*checkpoint->Get("w"))->type_name, "q4_1");
  EXPECT_EQ(checkpoint->Get("odd").error().code, ErrorCode::kUnsupported);
  EXPECT_NE(checkpoint->Get("odd").error().ToString().find("IQ2_S"), std::string::npos);
  EXPECT_EQ(checkpoint->UnusedTensors(), (std::vector<std::string>{"odd"}));
}

TEST_F(CheckpointTest, PartsOfASplitFileAreOneCheckpoint) {
  const std::vector<float> values(4, 1.0f);
  const auto write = [&](int number, const char* tensor) {
    GgufWriter writer;
    writer.AddMetadata("split.no", int32_t{number})
        .AddMetadata("split.count", int32_t{2})
        .AddTensor(tensor, Encoding::kF32, {4}, values);
    ASSERT_TRUE(writer.Write(folder_.File(fmt::format("m-{:05}-of-00002.gguf", number + 1))));
  };
  write(0, "a");
  write(1, "b");
  const auto checkpoint = Checkpoint::Open(folder_.File("m-00001-of-00002.gguf"));
  ASSERT_TRUE(checkpoint) << checkpoint.error().ToString();
  EXPECT_TRUE(checkpoint->Get("a"));
  EXPECT_TRUE(checkpoint->Get("b"));
  EXPECT_EQ(checkpoint->files().size(), 2u);
  write(1, "a");
  EXPECT_NE(
      Checkpoint::Open(folder_.File("m-00001-of-00002.gguf")).error().ToString().find("another file has a tensor"),
      std::string::npos);
}

TEST_F(CheckpointTest, TheFingerprintSeesEveryChange) {
  WriteFolder();
  const std::string first = Fingerprint(folder_.path());
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(Fingerprint(folder_.path()), first);
  folder_.Write("config.json", R"({"model_type": "llama", "eos_token_id": 3})");
  const std::string second = Fingerprint(folder_.path());
  EXPECT_NE(second, first);
  folder_.Write("generation_config.json", R"({"eos_token_id": 4})");
  const std::string third = Fingerprint(folder_.path());
  EXPECT_NE(third, second);
  const auto weights = std::filesystem::path(folder_.File("model.safetensors"));
  std::filesystem::last_write_time(weights, std::filesystem::last_write_time(weights) + std::chrono::nanoseconds(1000));
  const std::string fourth = Fingerprint(folder_.path());
  EXPECT_NE(fourth, third);
  // The same bytes and time, but another file.
  const auto time = std::filesystem::last_write_time(weights);
  std::filesystem::copy_file(weights, folder_.File("copy"));
  std::filesystem::rename(folder_.File("copy"), weights);
  std::filesystem::last_write_time(weights, time);
  EXPECT_NE(Fingerprint(folder_.path()), fourth);
}

TEST_F(CheckpointTest, WrongPathsAreErrors) {
  EXPECT_EQ(Checkpoint::Open(folder_.File("none.gguf")).error().code, ErrorCode::kNotFound);
  EXPECT_NE(Checkpoint::Open(folder_.path()).error().ToString().find("config.json"), std::string::npos);
  WriteFolder();
  EXPECT_NE(Checkpoint::Open(folder_.File("model.safetensors")).error().ToString().find("give the folder"),
            std::string::npos);
  EXPECT_NE(Checkpoint::Open(folder_.File("config.json")).error().ToString().find("not a GGUF file"),
            std::string::npos);
  std::filesystem::remove(folder_.File("model.safetensors"));
  EXPECT_NE(Checkpoint::Open(folder_.path()).error().ToString().find("has neither"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::formats
