#include "pjrt/client.h"

#include <utility>

namespace deepinfer::pjrt {

class ClientHandle {
 public:
  ClientHandle(std::shared_ptr<const Plugin> plugin, PJRT_Client* client)
      : plugin_(std::move(plugin)), client_(client) {}
  ClientHandle(const ClientHandle&) = delete;
  ~ClientHandle() {
    DI_PJRT_ARGS(args, PJRT_Client_Destroy_Args);
    args.client = client_;
    Ignore(api().PJRT_Client_Destroy(&args), "PJRT_Client_Destroy");
  }
  const Plugin& plugin() const { return *plugin_; }
  const PJRT_Api& api() const { return plugin_->api(); }
  PJRT_Client* get() const { return client_; }
  Status Check(PJRT_Error* error, const char* call) const { return plugin_->Check(error, call); }
  // For destructors, which have nobody to tell.
  void Ignore(PJRT_Error* error, const char* call) const { (void)plugin_->Check(error, call).has_value(); }

 private:
  std::shared_ptr<const Plugin> plugin_;
  PJRT_Client* client_;
};

namespace {

PJRT_Buffer_Type TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kI1:
      return PJRT_Buffer_Type_PRED;
    case DType::kI8:
      return PJRT_Buffer_Type_S8;
    case DType::kU8:
      return PJRT_Buffer_Type_U8;
    case DType::kI32:
      return PJRT_Buffer_Type_S32;
    case DType::kU32:
      return PJRT_Buffer_Type_U32;
    case DType::kI64:
      return PJRT_Buffer_Type_S64;
    case DType::kF8E4M3:
      return PJRT_Buffer_Type_F8E4M3FN;
    case DType::kF16:
      return PJRT_Buffer_Type_F16;
    case DType::kBF16:
      return PJRT_Buffer_Type_BF16;
    case DType::kF32:
      return PJRT_Buffer_Type_F32;
  }
  return PJRT_Buffer_Type_INVALID;
}

}  // namespace

Buffer::Buffer(Buffer&& other) noexcept
    : client_(std::move(other.client_)), buffer_(std::exchange(other.buffer_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  client_ = std::move(other.client_);
  buffer_ = std::exchange(other.buffer_, nullptr);
  return *this;
}

void Buffer::Reset() {
  if (buffer_ == nullptr) return;
  DI_PJRT_ARGS(args, PJRT_Buffer_Destroy_Args);
  args.buffer = std::exchange(buffer_, nullptr);
  client_->Ignore(client_->api().PJRT_Buffer_Destroy(&args), "PJRT_Buffer_Destroy");
}

Result<bool> Buffer::IsDeleted() const {
  DI_PJRT_ARGS(args, PJRT_Buffer_IsDeleted_Args);
  args.buffer = buffer_;
  DI_RETURN_IF_ERROR(client_->Check(client_->api().PJRT_Buffer_IsDeleted(&args), "PJRT_Buffer_IsDeleted"));
  return args.is_deleted;
}

Result<PJRT_Event*> Buffer::StartDownload(void* to, size_t bytes) const {
  DI_PJRT_ARGS(args, PJRT_Buffer_ToHostBuffer_Args);
  args.src = buffer_;
  args.dst = to;
  args.dst_size = bytes;
  DI_RETURN_IF_ERROR(client_->Check(client_->api().PJRT_Buffer_ToHostBuffer(&args), "PJRT_Buffer_ToHostBuffer"));
  return args.event;
}

Status Buffer::Download(void* to, size_t bytes) const {
  DI_ASSIGN_OR_RETURN(PJRT_Event* const event, StartDownload(to, bytes));
  return client_->plugin().Await(event, "PJRT_Buffer_ToHostBuffer");
}

LoadedExecutable::LoadedExecutable(std::shared_ptr<const ClientHandle> client, PJRT_LoadedExecutable* executable)
    : client_(std::move(client)), executable_(executable) {}

LoadedExecutable::LoadedExecutable(LoadedExecutable&& other) noexcept
    : client_(std::move(other.client_)),
      executable_(std::exchange(other.executable_, nullptr)),
      num_outputs_(other.num_outputs_),
      temp_bytes_(other.temp_bytes_) {}

LoadedExecutable::~LoadedExecutable() {
  if (executable_ == nullptr) return;
  DI_PJRT_ARGS(args, PJRT_LoadedExecutable_Destroy_Args);
  args.executable = executable_;
  client_->Ignore(client_->api().PJRT_LoadedExecutable_Destroy(&args), "PJRT_LoadedExecutable_Destroy");
}

template <class F>
Status LoadedExecutable::WithExecutable(F&& use) const {
  DI_PJRT_ARGS(get, PJRT_LoadedExecutable_GetExecutable_Args);
  get.loaded_executable = executable_;
  DI_RETURN_IF_ERROR(
      client_->Check(client_->api().PJRT_LoadedExecutable_GetExecutable(&get), "PJRT_LoadedExecutable_GetExecutable"));
  Status used = use(get.executable);
  DI_PJRT_ARGS(destroy, PJRT_Executable_Destroy_Args);
  destroy.executable = get.executable;
  DI_RETURN_IF_ERROR(client_->Check(client_->api().PJRT_Executable_Destroy(&destroy), "PJRT_Executable_Destroy"));
  return used;
}

Status LoadedExecutable::Describe() {
  return WithExecutable([&](PJRT_Executable* executable) -> Status {
    DI_PJRT_ARGS(args, PJRT_Executable_NumOutputs_Args);
    args.executable = executable;
    DI_RETURN_IF_ERROR(client_->Check(client_->api().PJRT_Executable_NumOutputs(&args), "PJRT_Executable_NumOutputs"));
    num_outputs_ = args.num_outputs;
    if (client_->plugin().HasMemoryStats()) {
      DI_PJRT_ARGS(stats, PJRT_Executable_GetCompiledMemoryStats_Args);
      stats.executable = executable;
      PJRT_Error* error = client_->api().PJRT_Executable_GetCompiledMemoryStats(&stats);
      if (client_->Check(error, "PJRT_Executable_GetCompiledMemoryStats")) temp_bytes_ = stats.temp_size_in_bytes;
    }
    return {};
  });
}

Result<std::string> LoadedExecutable::Serialize() const {
  std::string bytes;
  DI_RETURN_IF_ERROR(WithExecutable([&](PJRT_Executable* executable) -> Status {
    DI_PJRT_ARGS(args, PJRT_Executable_Serialize_Args);
    args.executable = executable;
    DI_RETURN_IF_ERROR(client_->Check(client_->api().PJRT_Executable_Serialize(&args), "PJRT_Executable_Serialize"));
    bytes.assign(args.serialized_bytes, args.serialized_bytes_size);
    if (args.serialized_executable_deleter != nullptr) args.serialized_executable_deleter(args.serialized_executable);
    return {};
  }));
  return bytes;
}

Result<Client> Client::Create(std::shared_ptr<const Plugin> plugin) {
  DI_PJRT_ARGS(args, PJRT_Client_Create_Args);
  DI_RETURN_IF_ERROR(plugin->Check(plugin->api().PJRT_Client_Create(&args), "PJRT_Client_Create"));
  Client client;
  client.handle_ = std::make_shared<const ClientHandle>(std::move(plugin), args.client);
  DI_RETURN_IF_ERROR(client.Describe());
  return client;
}

const Plugin& Client::plugin() const {
  return handle_->plugin();
}

Status Client::Describe() {
  const PJRT_Api& api = handle_->api();
  DI_PJRT_ARGS(name, PJRT_Client_PlatformName_Args);
  name.client = handle_->get();
  DI_RETURN_IF_ERROR(handle_->Check(api.PJRT_Client_PlatformName(&name), "PJRT_Client_PlatformName"));
  platform_.assign(name.platform_name, name.platform_name_size);
  DI_PJRT_ARGS(version, PJRT_Client_PlatformVersion_Args);
  version.client = handle_->get();
  DI_RETURN_IF_ERROR(handle_->Check(api.PJRT_Client_PlatformVersion(&version), "PJRT_Client_PlatformVersion"));
  platform_version_.assign(version.platform_version, version.platform_version_size);
  DI_PJRT_ARGS(devices, PJRT_Client_AddressableDevices_Args);
  devices.client = handle_->get();
  DI_RETURN_IF_ERROR(handle_->Check(api.PJRT_Client_AddressableDevices(&devices), "PJRT_Client_AddressableDevices"));
  devices_.assign(devices.addressable_devices, devices.addressable_devices + devices.num_addressable_devices);
  if (devices_.empty()) return MakeError(ErrorCode::kNotFound, plugin().Label(), "has no device");
  return {};
}

Result<Buffer> Client::Upload(const void* data, DType dtype, std::span<const int64_t> dims, HostBytes life,
                              size_t device) const {
  DI_PJRT_ARGS(args, PJRT_Client_BufferFromHostBuffer_Args);
  args.client = handle_->get();
  args.data = data;
  args.type = TypeOf(dtype);
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.host_buffer_semantics = life == HostBytes::kForever ? PJRT_HostBufferSemantics_kImmutableZeroCopy
                                                           : PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  args.device = devices_[device];
  DI_RETURN_IF_ERROR(
      handle_->Check(handle_->api().PJRT_Client_BufferFromHostBuffer(&args), "PJRT_Client_BufferFromHostBuffer"));
  Buffer buffer(handle_, args.buffer);
  // With kForever the event comes when the buffer dies; with kDuringCall the bytes are already free.
  handle_->plugin().Free(args.done_with_host_buffer);
  return buffer;
}

Result<LoadedExecutable> Client::Compile(const std::string& stablehlo, const CompileOptionsSpec& options) const {
  const std::string encoded = EncodeCompileOptions(options);
  constexpr std::string_view kFormat = "mlir";
  DI_PJRT_ARGS(program, PJRT_Program);
  program.code = const_cast<char*>(stablehlo.data());  // the struct also serves for output
  program.code_size = stablehlo.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  DI_PJRT_ARGS(args, PJRT_Client_Compile_Args);
  args.client = handle_->get();
  args.program = &program;
  args.compile_options = encoded.data();
  args.compile_options_size = encoded.size();
  DI_RETURN_IF_ERROR(handle_->Check(handle_->api().PJRT_Client_Compile(&args), "PJRT_Client_Compile"));
  LoadedExecutable executable(handle_, args.executable);
  DI_RETURN_IF_ERROR(executable.Describe());
  return executable;
}

Result<LoadedExecutable> Client::Deserialize(const std::string& bytes) const {
  DI_PJRT_ARGS(args, PJRT_Executable_DeserializeAndLoad_Args);
  args.client = handle_->get();
  args.serialized_executable = bytes.data();
  args.serialized_executable_size = bytes.size();
  DI_RETURN_IF_ERROR(
      handle_->Check(handle_->api().PJRT_Executable_DeserializeAndLoad(&args), "PJRT_Executable_DeserializeAndLoad"));
  LoadedExecutable executable(handle_, args.loaded_executable);
  DI_RETURN_IF_ERROR(executable.Describe());
  return executable;
}

}  // namespace deepinfer::pjrt
