#include "pjrt/client.h"

#include <gtest/gtest.h>

#include <cstring>

#include "pjrt/launch.h"
#include "pjrt/test_plugins.h"

namespace deepinfer::pjrt {
namespace {

const char kModule[] =
    "module @step {\n"
    "  func.func public @main(%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<4xf32>) -> "
    "(tensor<4xf32>, tensor<f32>) {\n"
    "    %0 = stablehlo.add %arg0, %arg1 : tensor<4xf32>\n"
    "    %1 = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "    %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, "
    "tensor<f32>) -> tensor<f32>\n"
    "    return %0, %2 : tensor<4xf32>, tensor<f32>\n  }\n}\n";

class ClientTest : public PluginTest {
 protected:
  Result<Client> Open() {
    DI_ASSIGN_OR_RETURN(auto plugin, Plugin::Load(file));
    return Client::Create(std::move(plugin));
  }
  static Result<Buffer> Floats(const Client& client, const std::vector<float>& values) {
    return client.Upload(values.data(), ir::Type(DType::kF32, {static_cast<int64_t>(values.size())}),
                         HostBytes::kDuringCall);
  }
  // Runs kModule on x = {1, 2, 3, 4} and y = {10, 10, 10, 10}.
  static void RunAndCheck(const Client& client, const LoadedExecutable& executable) {
    auto x = Floats(client, {1, 2, 3, 4});
    auto y = Floats(client, {10, 10, 10, 10});
    ASSERT_TRUE(x.has_value() && y.has_value());
    ASSERT_EQ(executable.num_outputs(), 2u);
    Launch launch(std::make_shared<const Client>(client), executable, /*num_devices=*/1, /*num_arguments=*/2);
    launch.SetArgument(0, 0, x->get());
    launch.SetArgument(0, 1, y->get());
    const Status started = launch.Start();
    ASSERT_TRUE(started.has_value()) << started.error().ToString();
    const Buffer results[] = {launch.TakeResult(0, 0), launch.TakeResult(0, 1)};
    ASSERT_TRUE(launch.Wait());
    EXPECT_TRUE(*x->IsDeleted());  // donated
    EXPECT_FALSE(*y->IsDeleted());
    std::vector<float> sum(4);
    float total = 0;
    ASSERT_TRUE(results[0].Download(sum.data(), 16));
    ASSERT_TRUE(results[1].Download(&total, 4));
    EXPECT_EQ(sum, (std::vector<float>{11, 12, 13, 14}));
    EXPECT_EQ(total, 50);
  }
};

TEST_P(ClientTest, CompilesRunsAndDonates) {
  auto client = Open();
  ASSERT_TRUE(client.has_value()) << client.error().ToString();
  EXPECT_FALSE(client->platform().empty());
  EXPECT_GE(client->num_devices(), 1u);
  auto executable = client->Compile(kModule, {});
  ASSERT_TRUE(executable.has_value()) << executable.error().ToString();
  for (int i = 0; i < 3; ++i) RunAndCheck(*client, *executable);
}

TEST_P(ClientTest, AnExecutableSurvivesSerialisation) {
  auto client = Open();
  ASSERT_TRUE(client.has_value()) << client.error().ToString();
  auto executable = client->Compile(kModule, {});
  ASSERT_TRUE(executable.has_value()) << executable.error().ToString();
  const auto bytes = executable->Serialize();
  ASSERT_TRUE(bytes.has_value()) << bytes.error().ToString();
  EXPECT_GT(bytes->size(), 100u);
  auto loaded = client->Deserialize(*bytes);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().ToString();
  RunAndCheck(*client, *loaded);
}

TEST_P(ClientTest, ErrorsCarryThePluginsNameVersionAndMessage) {
  auto client = Open();
  ASSERT_TRUE(client.has_value()) << client.error().ToString();
  const auto refused =
      client->Compile("module { func.func public @main() { \"no.such_op\"() : () -> () return } }", {});
  ASSERT_FALSE(refused.has_value());
  const std::string text = refused.error().ToString();
  for (const char* part : {"pjrt plugin '", "(API 0.", "PJRT_Client_Compile: "}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_NE(text.find(file.name), std::string::npos) << text;
  EXPECT_GT(text.size(), text.find("PJRT_Client_Compile: ") + 30) << text;
  EXPECT_FALSE(client->Deserialize("not an executable").has_value());
}

TEST_P(ClientTest, CompileOptionsReachTheCompiler) {
  auto client = Open();
  ASSERT_TRUE(client.has_value()) << client.error().ToString();
  EXPECT_TRUE(client->Compile(kModule, {.overrides = {{"xla_allow_excess_precision", false}}}).has_value());
  const auto refused = client->Compile(kModule, {.overrides = {{"xla_no_such_flag", true}}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().ToString().find("xla_no_such_flag"), std::string::npos) << refused.error().ToString();
}

INSTANTIATE_TEST_SUITE_P(Plugins, ClientTest, testing::Range(0, kMaxTestPlugins));

TEST(CompileOptionsTest, WireFormat) {
  const std::string plain = EncodeCompileOptions({});
  EXPECT_EQ(plain, std::string("\x1A\x0F\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01\x20\x01\x28\x01", 17));
  const std::string with =
      EncodeCompileOptions({.overrides = {{"a", true}, {"b", int64_t{300}}, {"c", std::string("d")}}});
  EXPECT_EQ(with.substr(17), std::string("\x3A\x07\x0A\x01"
                                         "a\x12\x02\x10\x01"
                                         "\x3A\x08\x0A\x01"
                                         "b\x12\x03\x18\xAC\x02"
                                         "\x3A\x08\x0A\x01"
                                         "c\x12\x03\x0A\x01"
                                         "d",
                                         29));
}

}  // namespace
}  // namespace deepinfer::pjrt
