// One executable's arguments and results on its devices, kept from step to step: a launch allocates nothing here.
//
// Life of a step: SetArgument for what has changed, Start, then TakeResult of every result, Wait. Between Start and
// Wait the plugin may still be computing, so what can be done there costs no time. Handles of arguments are the
// caller's. For src/pjrt only; one thread at a time. Errors are the plugin's, with its name and message.
#pragma once

#include <memory>
#include <vector>

#include "base/error.h"
#include "pjrt/client.h"

namespace deepinfer::pjrt {

class Launch {
 public:
  // The executable must outlive it.
  Launch(std::shared_ptr<const Client> client, const LoadedExecutable& executable, size_t num_devices,
         size_t num_arguments);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch();

  size_t num_devices() const { return argument_lists_.size(); }
  void SetArgument(size_t device, size_t index, PJRT_Buffer* buffer) {
    arguments_[device * num_arguments_ + index] = buffer;
  }
  // Returns once the plugin has taken the step. Arguments that the module aliases to results are deleted from then on;
  // results have their handles, if not yet their contents.
  Status Start();
  Buffer TakeResult(size_t device, size_t index);
  // Until every device is done. The first error of any.
  Status Wait();

 private:
  void DropResults();

  const std::shared_ptr<const Client> client_;
  const LoadedExecutable& executable_;
  const size_t num_arguments_;
  const size_t num_results_;
  std::vector<PJRT_Buffer*> arguments_;  // by device, then by index
  std::vector<PJRT_Buffer*> results_;
  std::vector<PJRT_Buffer* const*> argument_lists_;  // by device: into the above
  std::vector<PJRT_Buffer**> result_lists_;
  std::vector<PJRT_Event*> done_;  // by device
};

}  // namespace deepinfer::pjrt
