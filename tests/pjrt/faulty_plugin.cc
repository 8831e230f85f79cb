// For tests: a plugin with one thing wrong. DEEPINFER_FAULTY_PLUGIN_OF is the path of the plugin that does the work,
// DEEPINFER_PLUGIN_FAULT says what is wrong with it:
//
//   major          the API's major version is another one
//   size           the table is shorter than its own head
//   missing        a needed call is not there: PJRT_LoadedExecutable_Execute
//   upload:N       the Nth upload (from 1) finds no memory
//   execute:N      the Nth execution does
//   serialize:N    the Nth executable cannot be serialised
//   op             the compiler is given an op that it does not know
//
// Anything else: nothing is. Only what the tests need of thread-safety: counting is atomic.
#include <dlfcn.h>
#include <pjrt_c_api.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/env.h"

namespace {

const PJRT_Api* real = nullptr;
PJRT_Api table;
std::string fault;
std::atomic<int> left{0};  // calls until the one that fails

// The one error of this plugin's own; all others belong to the real one.
char own_error;
constexpr std::string_view kMessage = "RESOURCE_EXHAUSTED: Out of memory allocating 123456789 bytes.";

PJRT_Error* OwnError() {
  return reinterpret_cast<PJRT_Error*>(&own_error);
}

bool Fails(const char* call) {
  return fault == call && --left == 0;
}

void DestroyError(PJRT_Error_Destroy_Args* args) {
  if (args->error != OwnError()) real->PJRT_Error_Destroy(args);
}

void Message(PJRT_Error_Message_Args* args) {
  if (args->error != OwnError()) return real->PJRT_Error_Message(args);
  args->message = kMessage.data();
  args->message_size = kMessage.size();
}

PJRT_Error* GetCode(PJRT_Error_GetCode_Args* args) {
  if (args->error != OwnError()) return real->PJRT_Error_GetCode(args);
  args->code = PJRT_Error_Code_RESOURCE_EXHAUSTED;
  return nullptr;
}

PJRT_Error* Upload(PJRT_Client_BufferFromHostBuffer_Args* args) {
  return Fails("upload") ? OwnError() : real->PJRT_Client_BufferFromHostBuffer(args);
}

PJRT_Error* Execute(PJRT_LoadedExecutable_Execute_Args* args) {
  return Fails("execute") ? OwnError() : real->PJRT_LoadedExecutable_Execute(args);
}

PJRT_Error* Serialize(PJRT_Executable_Serialize_Args* args) {
  return Fails("serialize") ? OwnError() : real->PJRT_Executable_Serialize(args);
}

PJRT_Error* Compile(PJRT_Client_Compile_Args* args) {
  std::string text(args->program->code, args->program->code_size);
  constexpr std::string_view kKnown = "stablehlo.dot_general";
  if (const size_t at = text.find(kKnown); at != std::string::npos)
    text.replace(at, kKnown.size(), "stablehlo.novel_op");
  PJRT_Program program = *args->program;
  program.code = text.data();
  program.code_size = text.size();
  PJRT_Client_Compile_Args changed = *args;
  changed.program = &program;
  PJRT_Error* error = real->PJRT_Client_Compile(&changed);
  args->executable = changed.executable;
  return error;
}

void ReadFault() {
  fault = deepinfer::GetEnv("DEEPINFER_PLUGIN_FAULT");
  if (const size_t colon = fault.find(':'); colon != std::string::npos) {
    left = std::atoi(fault.c_str() + colon + 1);
    fault.resize(colon);
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  void* library = dlopen(deepinfer::GetEnv("DEEPINFER_FAULTY_PLUGIN_OF").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  real = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"))();
  const size_t size = std::min(sizeof(table), real->struct_size);
  std::memcpy(static_cast<void*>(&table), real, size);
  table.struct_size = size;
  table.PJRT_Error_Destroy = DestroyError;
  table.PJRT_Error_Message = Message;
  table.PJRT_Error_GetCode = GetCode;
  table.PJRT_Client_BufferFromHostBuffer = Upload;
  table.PJRT_LoadedExecutable_Execute = Execute;
  table.PJRT_Executable_Serialize = Serialize;
  ReadFault();
  if (fault == "major") table.pjrt_api_version.major_version += 1;
  if (fault == "size") table.struct_size = sizeof(size_t);
  if (fault == "missing") table.PJRT_LoadedExecutable_Execute = nullptr;
  if (fault == "op") table.PJRT_Client_Compile = Compile;
  return &table;
}
