// A step compiled by a plugin. For src/pjrt only.
//
// Capture binds host slots and states and runs once; Run copies the metadata in, executes, puts the new content of each
// state into its slot and copies the outputs out. A state that was not donated is an error: its cache would be copied
// every step. Errors name the input or output, or carry the plugin's message.
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
    int output = -1;                // the output that replaces it, for mutated states
    PJRT_Buffer* weight = nullptr;  // owned by the backend
  };
  struct Result {
    std::string name;
    ir::Type type;
    bool is_state = false;
  };
  std::vector<Argument> arguments;
  std::vector<Result> results;
};

// Where the time of the steps so far went: in the plugin's execution, and around it.
struct StepTimes {
  int64_t steps = 0;
  double execute_us = 0;
  double host_us = 0;
};

class TimedExecutable : public backend::Executable {
 public:
  virtual StepTimes times() const = 0;
};

Result<std::unique_ptr<backend::Executable>> MakePjrtExecutable(std::shared_ptr<const Client> client, Binding binding,
                                                                LoadedExecutable executable, std::string description);

}  // namespace deepinfer::pjrt
