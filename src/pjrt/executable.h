// A step compiled by a plugin. For src/pjrt only.
//
// Capture binds host slots and states and runs once; Run sends the metadata that changed, executes, puts the new
// content of each state into its slot and copies the outputs out. The last two are asked for while the plugin computes.
// A state that was not donated is an error: its cache would be copied every step. Errors name the input or output, or
// carry the plugin's message.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/address_guard.h"
#include "backend/backend.h"
#include "pjrt/client.h"
#include "pjrt/states.h"

namespace deepinfer::pjrt {

// What a step needs of its module, and the weights it reads.
struct Binding {
  struct Argument {
    ir::Input input;
    ir::Type type;
    int output = -1;                    // the output that replaces it, for mutated states
    std::vector<PJRT_Buffer*> weights;  // by device; owned by the backend
  };
  struct Result {
    std::string name;
    ir::Type type;
    bool is_state = false;
  };
  std::vector<Argument> arguments;
  std::vector<Result> results;
};

// Where the time of the steps so far went. What is done `during` the execution costs nothing where the plugin computes
// on threads of its own.
struct StepTimes {
  int64_t steps = 0;
  double before_us = 0;  // addresses checked, metadata compared and sent
  double call_us = 0;    // in PJRT_LoadedExecutable_Execute, until it returned
  double during_us = 0;  // old states freed, new ones kept, copies of the outputs started
  double wait_us = 0;    // until the execution was done
  double after_us = 0;   // until the outputs were there
};

class TimedExecutable : public backend::Executable {
 public:
  virtual StepTimes times() const = 0;
};

Result<std::unique_ptr<backend::Executable>> MakePjrtExecutable(std::shared_ptr<const Client> client,
                                                                size_t num_devices, Binding binding,
                                                                LoadedExecutable executable, std::string description);

}  // namespace deepinfer::pjrt
