// The only place that reads the environment. Thread-safe as long as nobody calls setenv.
#pragma once

#include <string>

namespace deepinfer {

// The variable's value, or "" if it is not set.
std::string GetEnv(const char* name);

}  // namespace deepinfer
