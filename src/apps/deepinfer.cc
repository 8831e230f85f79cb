// The program: the command line, and the lists of backends and export formats.
#include <fcntl.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <new>

#include "base/cpu_features.h"
#include "base/env.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cpu/cpu_backend.h"
#include "ir/text.h"
#ifdef DI_HAVE_PJRT
#include "pjrt/pjrt_backend.h"
#endif
#include "pjrt/stablehlo.h"
#include "pjrt/target.h"
#include "reference/reference.h"

namespace {

using deepinfer::Result;

Result<std::unique_ptr<deepinfer::backend::Backend>> CreateBackend(const deepinfer::cli::BackendRequest& request) {
  if (request.numerics != deepinfer::Numerics::kNative && request.name != "cpu") {
    return deepinfer::MakeError(deepinfer::ErrorCode::kUnsupported, "--numerics",
                                "the {} backend knows native only, not {}", request.name, ToString(request.numerics));
  }
  if (request.name == "reference")
    return deepinfer::reference::CreateReferenceBackend({.threads = request.threads, .ranks = request.ranks});
  if (request.name == "pjrt") {
#ifdef DI_HAVE_PJRT
    return deepinfer::pjrt::CreatePjrtBackend({request.plugin, request.cache_dir, request.ranks});
#else
    return deepinfer::MakeError(
        deepinfer::ErrorCode::kUnsupported, "--backend",
        "this program was built without the PJRT header (scripts/fetch_assets.sh pjrt brings it)");
#endif
  }
  if (request.name == "cpu") {
    DI_ASSIGN_OR_RETURN(const deepinfer::Isa isa, deepinfer::SelectIsa(deepinfer::GetEnv("DEEPINFER_CPU_ISA")));
    return std::make_unique<deepinfer::cpu::CpuBackend>(
        deepinfer::cpu::CpuOptions{request.threads, isa, request.cache_dir, request.verify_packed, request.numerics,
                                   request.strict_kernels, request.placement});
  }
  return deepinfer::MakeError(deepinfer::ErrorCode::kInvalidArgument, "--backend", "'{}' is not cpu, reference or pjrt",
                              request.name);
}

std::vector<deepinfer::cli::ExportFormat> ExportFormats() {
  const deepinfer::cli::ExportFormat stablehlo = {
      "stablehlo",
      ".mlir",
      "StableHLO text",
      deepinfer::pjrt::StableHloCaps(),
      {deepinfer::pjrt::StableHloPasses(), nullptr},
      [](const deepinfer::ir::Module& module) { return deepinfer::pjrt::PrintStableHlo(module); },
      deepinfer::pjrt::PrintIoDescription};
  deepinfer::cli::ExportFormat ir = stablehlo;
  ir.name = "ir";
  ir.extension = ".txt";
  ir.what = "the same graph in the program's own text form";
  ir.print = [](const deepinfer::ir::Module& module) { return deepinfer::ir::Print(module); };
  return {stablehlo, ir};
}

constexpr int kExitError = 1;
constexpr int kExitUsage = 2;

int Fail(const std::string& what) {
  deepinfer::cli::SayErr("error: " + what);
  return kExitError;
}

// A program started with a standard stream closed would get that number for the next file it opens, and results or log
// lines would go into a model or a cache entry. What stands in refuses reads (0) and writes (1, 2) as a closed one
// does.
void ReserveStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    const int null = ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (null >= 0 && null != fd) {
      ::dup2(null, fd);
      ::close(null);
    }
  }
}

int Run(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("deepinfer"));
  spdlog::set_pattern("%v");
  // A log line that cannot be written is no reason to write another one, let alone to stop.
  spdlog::set_error_handler([](const std::string& /*what*/) {});
  deepinfer::cli::CommandContext context;
  context.backends = CreateBackend;
  context.formats = ExportFormats();
  CLI::App app("DeepInfer: an LLM inference engine that runs a model's whole step as one compiled graph", "deepinfer");
  deepinfer::cli::AddCommands(&app, &context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error, std::cout, std::cerr);
    return code == 0 ? 0 : kExitUsage;
  }
  return context.status ? 0 : Fail(context.status.error().ToString());
}

}  // namespace

int main(int argc, char** argv) {
  ReserveStandardStreams();
  // A reader that went away is a failed write with an error of its own.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return Run(argc, argv);
  } catch (const std::bad_alloc&) {
    return Fail("out of memory");
  } catch (const std::exception& error) {
    return Fail(std::string("internal: ") + error.what());
  }
}
