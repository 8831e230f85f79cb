#include "pjrt/plugin.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstring>
#include <string_view>

namespace deepinfer::pjrt {
namespace {

struct Needed {
  const char* name;
  size_t offset;
};

#define DI_NEEDED(function) {#function, offsetof(PJRT_Api, function)}
constexpr Needed kNeeded[] = {
    DI_NEEDED(PJRT_Error_Destroy),
    DI_NEEDED(PJRT_Error_Message),
    DI_NEEDED(PJRT_Error_GetCode),
    DI_NEEDED(PJRT_Plugin_Initialize),
    DI_NEEDED(PJRT_Event_Destroy),
    DI_NEEDED(PJRT_Event_Await),
    DI_NEEDED(PJRT_Client_Create),
    DI_NEEDED(PJRT_Client_Destroy),
    DI_NEEDED(PJRT_Client_PlatformName),
    DI_NEEDED(PJRT_Client_PlatformVersion),
    DI_NEEDED(PJRT_Client_AddressableDevices),
    DI_NEEDED(PJRT_Client_Compile),
    DI_NEEDED(PJRT_Client_BufferFromHostBuffer),
    DI_NEEDED(PJRT_Executable_Destroy),
    DI_NEEDED(PJRT_Executable_NumOutputs),
    DI_NEEDED(PJRT_Executable_Serialize),
    DI_NEEDED(PJRT_Executable_DeserializeAndLoad),
    DI_NEEDED(PJRT_LoadedExecutable_Destroy),
    DI_NEEDED(PJRT_LoadedExecutable_GetExecutable),
    DI_NEEDED(PJRT_LoadedExecutable_Execute),
    DI_NEEDED(PJRT_Buffer_Destroy),
    DI_NEEDED(PJRT_Buffer_IsDeleted),
    DI_NEEDED(PJRT_Buffer_ToHostBuffer),
};
#undef DI_NEEDED

ErrorCode CodeOf(PJRT_Error_Code code) {
  switch (code) {
    case PJRT_Error_Code_CANCELLED:
      return ErrorCode::kCancelled;
    case PJRT_Error_Code_INVALID_ARGUMENT:
    case PJRT_Error_Code_OUT_OF_RANGE:
      return ErrorCode::kInvalidArgument;
    case PJRT_Error_Code_NOT_FOUND:
      return ErrorCode::kNotFound;
    case PJRT_Error_Code_RESOURCE_EXHAUSTED:
      return ErrorCode::kResourceExhausted;
    case PJRT_Error_Code_FAILED_PRECONDITION:
      return ErrorCode::kFailedPrecondition;
    case PJRT_Error_Code_UNIMPLEMENTED:
      return ErrorCode::kUnsupported;
    case PJRT_Error_Code_DATA_LOSS:
      return ErrorCode::kDataLoss;
    default:
      return ErrorCode::kInternal;
  }
}

// A compiler's message has a line per note; an error is one line for people.
std::string OnOneLine(std::string_view message) {
  std::string out;
  for (const char c : message) {
    if (c != '\n') {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += "; ";
    }
  }
  while (!out.empty() && (out.back() == ' ' || out.back() == ';')) out.pop_back();
  return out;
}

}  // namespace

Result<std::shared_ptr<const Plugin>> Plugin::Load(const PluginFile& file) {
  const std::string where = "pjrt plugin " + file.path;
  void* library = dlopen(file.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return MakeError(ErrorCode::kNotFound, where, "cannot be loaded: {}", dlerror());
  using GetApi = const PJRT_Api* (*)();
  const auto get = reinterpret_cast<GetApi>(dlsym(library, "GetPjrtApi"));
  if (get == nullptr) return MakeError(ErrorCode::kInvalidArgument, where, "has no GetPjrtApi: not a PJRT plugin");
  const PJRT_Api* api = get();
  if (api == nullptr) return MakeError(ErrorCode::kInternal, where, "GetPjrtApi gave nothing");
  DI_ASSIGN_OR_RETURN(auto plugin, FromTable(file.name, api));
  DI_PJRT_ARGS(args, PJRT_Plugin_Initialize_Args);
  DI_RETURN_IF_ERROR(plugin->Check(api->PJRT_Plugin_Initialize(&args), "PJRT_Plugin_Initialize"));
  return plugin;
}

Result<std::shared_ptr<const Plugin>> Plugin::FromTable(const std::string& name, const PJRT_Api* api) {
  std::shared_ptr<const Plugin> plugin(new Plugin(name, api));
  DI_RETURN_IF_ERROR(plugin->CheckTable());
  return plugin;
}

std::string Plugin::version() const {
  return fmt::format("{}.{}", api_->pjrt_api_version.major_version, api_->pjrt_api_version.minor_version);
}

std::string Plugin::Label() const {
  return fmt::format("pjrt plugin '{}' (API {})", name_, version());
}

Status Plugin::CheckTable() const {
  if (api_->struct_size < offsetof(PJRT_Api, PJRT_Error_Destroy)) {
    return MakeError(ErrorCode::kUnsupported, fmt::format("pjrt plugin '{}'", name_), "its table has {} bytes",
                     api_->struct_size);
  }
  if (api_->pjrt_api_version.major_version != PJRT_API_MAJOR) {
    return MakeError(ErrorCode::kUnsupported, Label(), "this program speaks API {}.{}: the major versions differ",
                     PJRT_API_MAJOR, PJRT_API_MINOR);
  }
  for (const Needed& needed : kNeeded) {
    void* function = nullptr;
    if (needed.offset + sizeof(function) <= api_->struct_size) {
      std::memcpy(static_cast<void*>(&function), reinterpret_cast<const char*>(api_) + needed.offset, sizeof(function));
    }
    if (function == nullptr) return MakeError(ErrorCode::kUnsupported, Label(), "has no {}", needed.name);
  }
  return {};
}

bool Plugin::HasMemoryStats() const {
  constexpr size_t kEnd = offsetof(PJRT_Api, PJRT_Executable_GetCompiledMemoryStats) + sizeof(void*);
  return api_->struct_size >= kEnd && api_->PJRT_Executable_GetCompiledMemoryStats != nullptr;
}

Status Plugin::Check(PJRT_Error* error, const char* call) const {
  if (error == nullptr) return {};
  DI_PJRT_ARGS(code, PJRT_Error_GetCode_Args);
  code.error = error;
  code.code = PJRT_Error_Code_UNKNOWN;
  PJRT_Error* nested = api_->PJRT_Error_GetCode(&code);
  DI_PJRT_ARGS(message, PJRT_Error_Message_Args);
  message.error = error;
  api_->PJRT_Error_Message(&message);
  const std::string text =
      message.message == nullptr ? "" : OnOneLine(std::string_view(message.message, message.message_size));
  for (PJRT_Error* each : {error, nested}) {
    if (each == nullptr) continue;
    DI_PJRT_ARGS(destroy, PJRT_Error_Destroy_Args);
    destroy.error = each;
    api_->PJRT_Error_Destroy(&destroy);
  }
  return MakeError(CodeOf(code.code), Label(), "{}: {}", call, text);
}

tl::unexpected<Error> About(const std::string& what, const Error& error) {
  return MakeError(error.code, error.where, "{}: {}", what, error.message);
}

Status Plugin::Await(PJRT_Event* event, const char* call) const {
  if (event == nullptr) return {};
  DI_PJRT_ARGS(args, PJRT_Event_Await_Args);
  args.event = event;
  Status status = Check(api_->PJRT_Event_Await(&args), call);
  Free(event);
  return status;
}

void Plugin::Free(PJRT_Event* event) const {
  if (event == nullptr) return;
  DI_PJRT_ARGS(args, PJRT_Event_Destroy_Args);
  args.event = event;
  // An event that cannot be freed is lost; there is nobody to tell.
  (void)Check(api_->PJRT_Event_Destroy(&args), "PJRT_Event_Destroy").has_value();
}

}  // namespace deepinfer::pjrt
