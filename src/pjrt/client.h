// A PJRT client with RAII handles: devices, buffers, executables. Nothing here knows models or steps.
//
// Handles keep the client alive. A Buffer is moved, not copied; one that was donated is deleted by the plugin and only
// its handle remains. Calls block until the plugin is done unless said otherwise; launch.h runs an executable. Errors
// carry the plugin's name, version and message. Executables and clients are thread-safe as the plugin's are; one Buffer
// is used by one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/type.h"
#include "pjrt/compile_options.h"
#include "pjrt/plugin.h"

namespace deepinfer::pjrt {

class ClientHandle;  // owns the PJRT_Client

class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<const ClientHandle> client, PJRT_Buffer* buffer)
      : client_(std::move(client)), buffer_(buffer) {}
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { Reset(); }

  bool valid() const { return buffer_ != nullptr; }
  PJRT_Buffer* get() const { return buffer_; }
  void Reset();
  Result<bool> IsDeleted() const;
  // Dense row-major bytes; `bytes` is the exact size.
  Status Download(void* to, size_t bytes) const;
  // The same, done when the event is: give it to Plugin::Await. Null: done.
  Result<PJRT_Event*> StartDownload(void* to, size_t bytes) const;

 private:
  std::shared_ptr<const ClientHandle> client_;
  PJRT_Buffer* buffer_ = nullptr;
};

class LoadedExecutable {
 public:
  LoadedExecutable(std::shared_ptr<const ClientHandle> client, PJRT_LoadedExecutable* executable);
  LoadedExecutable(LoadedExecutable&& other) noexcept;
  LoadedExecutable& operator=(LoadedExecutable&&) = delete;
  ~LoadedExecutable();

  PJRT_LoadedExecutable* get() const { return executable_; }
  Result<std::string> Serialize() const;
  size_t num_outputs() const { return num_outputs_; }
  int64_t temp_bytes() const { return temp_bytes_; }  // scratch on the device; 0 if the plugin cannot say

 private:
  friend class Client;
  Status Describe();
  template <class F>
  Status WithExecutable(F&& use) const;

  std::shared_ptr<const ClientHandle> client_;
  PJRT_LoadedExecutable* executable_ = nullptr;
  size_t num_outputs_ = 0;
  int64_t temp_bytes_ = 0;
};

// How long the host bytes given to Upload stay as they are.
enum class HostBytes {
  kDuringCall,  // copied before Upload returns
  kForever,     // the plugin may read them where they lie, for as long as the buffer lives
};

class Client {
 public:
  static Result<Client> Create(std::shared_ptr<const Plugin> plugin);

  const Plugin& plugin() const;
  const std::string& platform() const { return platform_; }                  // "cpu"
  const std::string& platform_version() const { return platform_version_; }  // of the compiler behind it
  size_t num_devices() const { return devices_.size(); }

  // Dense row-major bytes, to the given device.
  Result<Buffer> Upload(const void* data, const ir::Type& type, HostBytes life, size_t device = 0) const {
    return Upload(data, type.dtype, type.Shape(), life, device);
  }
  Result<Buffer> Upload(const void* data, DType dtype, std::span<const int64_t> dims, HostBytes life,
                        size_t device) const;
  // A handle that the plugin gave; may be null.
  Buffer Own(PJRT_Buffer* buffer) const { return {handle_, buffer}; }
  // `stablehlo`: MLIR text. What a refused op gives is the plugin's message.
  Result<LoadedExecutable> Compile(const std::string& stablehlo, const CompileOptionsSpec& options) const;
  Result<LoadedExecutable> Deserialize(const std::string& bytes) const;

 private:
  Client() = default;
  Status Describe();

  std::shared_ptr<const ClientHandle> handle_;
  std::string platform_;
  std::string platform_version_;
  std::vector<PJRT_Device*> devices_;
};

}  // namespace deepinfer::pjrt
