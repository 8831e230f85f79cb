// Writes the seeds of the fuzz corpus: fuzz_make_corpus tests/fuzz/corpus. Small whole files, one of each shape the
// readers know; what a fuzzer found later is added to the folders by hand.
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "formats/gguf_writer.h"

namespace {

using deepinfer::Encoding;
using deepinfer::formats::GgufWriter;

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string Safetensors(const std::string& header, size_t data_bytes, char data = 'd') {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + std::string(data_bytes, data);
}

void WriteGguf(const std::string& folder) {
  const std::vector<float> values(2 * 32, 1.5f);
  WriteFile(folder + "empty", GgufWriter().Build());
  WriteFile(folder + "metadata", GgufWriter(8)
                                     .AddMetadata("a", true)
                                     .AddMetadata("b", int32_t{-1})
                                     .AddMetadata("c", uint64_t{7})
                                     .AddMetadata("d", 0.5f)
                                     .AddMetadata("e", 0.5)
                                     .AddMetadata("f", "text")
                                     .AddMetadata("g", std::vector<std::string>{"x", "yz"})
                                     .AddMetadata("h", std::vector<int32_t>{1, 2})
                                     .AddMetadata("i", std::vector<float>{1, 2})
                                     .AddMetadata("j", std::vector<bool>{true, false})
                                     .Build());
  WriteFile(folder + "tensors", GgufWriter()
                                    .AddTensor("f32", Encoding::kF32, {2, 3}, std::span(values).first(6))
                                    .AddTensor("bf16", Encoding::kBF16, {4}, std::span(values).first(4))
                                    .AddTensor("q8_0", Encoding::kQ8_0, {2, 32}, values)
                                    .AddTensor("q5_1", Encoding::kQ5_1, {1, 1, 1, 32}, std::span(values).first(32))
                                    .AddRawTensor("q4_k", 12, {256}, std::string(144, 'k'))
                                    .AddRawTensor("iq4_nl", 20, {32}, std::string(18, 'n'))
                                    .Build());
  WriteFile(folder + "model", GgufWriter()
                                  .AddMetadata("general.architecture", "llama")
                                  .AddMetadata("llama.embedding_length", int32_t{32})
                                  .AddMetadata("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"})
                                  .AddMetadata("tokenizer.ggml.scores", std::vector<float>{0, 1})
                                  .AddMetadata("tokenizer.ggml.token_type", std::vector<int32_t>{1, 3})
                                  .AddTensor("token_embd.weight", Encoding::kQ4_0, {2, 32}, values)
                                  .Build());
}

void WriteSafetensors(const std::string& folder) {
  WriteFile(folder + "empty", Safetensors("{}", 0));
  WriteFile(folder + "one", Safetensors(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24));
  WriteFile(folder + "several",
            Safetensors(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},)"
                        R"("b":{"dtype":"I64","shape":[],"data_offsets":[8,16]},)"
                        R"("c":{"dtype":"F16","shape":[0,5],"data_offsets":[16,16]},)"
                        R"("d":{"dtype":"F8_E4M3","shape":[1,2],"data_offsets":[16,18]}}   )",
                        18));
  WriteFile(folder + "gptq", Safetensors(R"({"p.g_idx":{"dtype":"I32","shape":[32],"data_offsets":[0,128]},)"
                                         R"("p.qweight":{"dtype":"I32","shape":[4,8],"data_offsets":[128,256]},)"
                                         R"("p.qzeros":{"dtype":"I32","shape":[1,1],"data_offsets":[256,260]},)"
                                         R"("p.scales":{"dtype":"F16","shape":[1,8],"data_offsets":[260,276]}})",
                                         276, '\0'));
  WriteFile(folder + "awq", Safetensors(R"({"p.qweight":{"dtype":"I32","shape":[32,1],"data_offsets":[0,128]},)"
                                        R"("p.qzeros":{"dtype":"I32","shape":[1,1],"data_offsets":[128,132]},)"
                                        R"("p.scales":{"dtype":"F16","shape":[1,8],"data_offsets":[132,148]}})",
                                        148));
  WriteFile(folder + "scaled", Safetensors(R"({"p.weight":{"dtype":"F8_E4M3","shape":[2,32],"data_offsets":[0,64]},)"
                                           R"("p.weight_scale":{"dtype":"F32","shape":[2,1],"data_offsets":[64,72]},)"
                                           R"("q.weight":{"dtype":"I8","shape":[1,32],"data_offsets":[72,104]},)"
                                           R"("q.weight_scale":{"dtype":"BF16","shape":[1],"data_offsets":[104,106]}})",
                                           106));
  WriteFile(folder + "packed", Safetensors(R"({"p.weight_packed":{"dtype":"I32","shape":[2,4],"data_offsets":[0,32]},)"
                                           R"("p.weight_scale":{"dtype":"F16","shape":[2,1],"data_offsets":[32,36]}})",
                                           36));
}

void WriteConfigs(const std::string& folder) {
  WriteFile(folder + "plain",
            R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"rms_norm_eps":1e-05,)"
            R"("rope_scaling":{"rope_type":"llama3","factor":8.0},"eos_token_id":2,"tie_word_embeddings":true})");
  WriteFile(folder + "nested", R"({"model_type":"gemma3","eos_token_id":[1,106],"text_config":{"layer_types":)"
                               R"(["full_attention"],"sliding_window":null,"tie_word_embeddings":false}})");
  WriteFile(
      folder + "quantised",
      R"({"quantization_config":{"quant_method":"compressed-tensors","format":"int-quantized","config_groups":)"
      R"({"group_0":{"weights":{"num_bits":8,"type":"int","strategy":"channel","block_structure":[128,128]}}}}})");
  WriteFile(folder + "gptq",
            R"({"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128,"dynamic":{}}})");
  WriteFile(folder + "with_generation", std::string(R"({"eos_token_id":2})") + '\0' + R"({"eos_token_id":[3,4]})");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
    return 2;
  }
  const std::string corpus = argv[1];
  WriteGguf(corpus + "/gguf/");
  WriteSafetensors(corpus + "/safetensors/");
  WriteConfigs(corpus + "/hf_config/");
  return 0;
}
