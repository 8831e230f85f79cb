#include "pjrt/executable_store.h"

#include <xxhash.h>

#include <chrono>

#include "backend/blob_file.h"
#include "backend/cache_files.h"
#include "base/cpu_features.h"

namespace deepinfer::pjrt {
namespace {

constexpr char kBlob[] = "executable";

std::string Hash128(const std::string& text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string MachineOf(const Client& client) {
  if (client.platform() != "cpu") return "";
  std::string out = CpuName();
  for (const Isa isa : MachineIsas()) out += std::string(" ") + ToString(isa);
  return out;
}

Result<LoadedExecutable> Load(const Client& client, const std::string& path, const std::string& identity) {
  DI_ASSIGN_OR_RETURN(const backend::BlobFile file, backend::BlobFile::Open(path, identity));
  DI_RETURN_IF_ERROR(file.Verify());
  DI_ASSIGN_OR_RETURN(const auto bytes, file.Get(kBlob));
  return client.Deserialize(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

Status Keep(const LoadedExecutable& executable, const std::string& path, const std::string& identity) {
  DI_ASSIGN_OR_RETURN(const std::string bytes, executable.Serialize());
  const std::span<const std::byte> view(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
  return backend::WriteBlobFile(path, identity, {{kBlob, view}});
}

}  // namespace

ExecutableStore::ExecutableStore(std::shared_ptr<const Client> client, std::string dir)
    : client_(std::move(client)), dir_(std::move(dir)) {
  identity_ = fmt::format("{}|{}|{}|{}|{}", client_->plugin().name(), client_->plugin().version(), client_->platform(),
                          client_->platform_version(), MachineOf(*client_));
}

Result<Compiled> ExecutableStore::Get(const std::string& stablehlo, const CompileOptionsSpec& options) const {
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  };
  const std::string identity = identity_ + "|" + Hash128(EncodeCompileOptions(options)) + "|" + Hash128(stablehlo);
  const std::string path = dir_ + "/pjrt_" + Hash128(identity) + backend::kBlobSuffix;
  std::string note;
  if (!dir_.empty()) {
    auto loaded = Load(*client_, path, identity);
    if (loaded) return Compiled{*std::move(loaded), true, elapsed(), ""};
    if (loaded.error().code != ErrorCode::kNotFound) note = loaded.error().ToString();
  }
  DI_ASSIGN_OR_RETURN(LoadedExecutable executable, client_->Compile(stablehlo, options));
  const double ms = elapsed();
  if (!dir_.empty()) {
    if (const Status kept = Keep(executable, path, identity); !kept) note = kept.error().ToString();
  }
  return Compiled{std::move(executable), false, ms, note};
}

}  // namespace deepinfer::pjrt
