#include "pjrt/launch.h"

#include <algorithm>
#include <utility>

namespace deepinfer::pjrt {

Launch::Launch(std::shared_ptr<const Client> client, const LoadedExecutable& executable, size_t num_devices,
               size_t num_arguments)
    : client_(std::move(client)),
      executable_(executable),
      num_arguments_(num_arguments),
      num_results_(executable.num_outputs()),
      arguments_(num_devices * num_arguments, nullptr),
      results_(num_devices * num_results_, nullptr),
      done_(num_devices, nullptr) {
  for (size_t device = 0; device < num_devices; ++device) {
    argument_lists_.push_back(arguments_.data() + device * num_arguments_);
    result_lists_.push_back(results_.data() + device * num_results_);
  }
}

Launch::~Launch() {
  (void)Wait().has_value();  // there is nobody to tell
  DropResults();
}

void Launch::DropResults() {
  for (PJRT_Buffer*& result : results_) client_->Own(std::exchange(result, nullptr)).Reset();
}

Status Launch::Start() {
  DropResults();
  DI_PJRT_ARGS(options, PJRT_ExecuteOptions);
  DI_PJRT_ARGS(args, PJRT_LoadedExecutable_Execute_Args);
  args.executable = executable_.get();
  args.options = &options;
  args.argument_lists = argument_lists_.data();
  args.num_devices = argument_lists_.size();
  args.num_args = num_arguments_;
  args.output_lists = result_lists_.data();
  args.device_complete_events = done_.data();
  const Plugin& plugin = client_->plugin();
  Status started = plugin.Check(plugin.api().PJRT_LoadedExecutable_Execute(&args), "PJRT_LoadedExecutable_Execute");
  if (!started) {  // nothing was given
    std::fill(results_.begin(), results_.end(), nullptr);
    std::fill(done_.begin(), done_.end(), nullptr);
  }
  return started;
}

Buffer Launch::TakeResult(size_t device, size_t index) {
  return client_->Own(std::exchange(results_[device * num_results_ + index], nullptr));
}

Status Launch::Wait() {
  Status status;
  for (PJRT_Event*& event : done_) {
    Status done = client_->plugin().Await(std::exchange(event, nullptr), "PJRT_LoadedExecutable_Execute");
    if (status && !done) status = std::move(done);
  }
  return status;
}

}  // namespace deepinfer::pjrt
