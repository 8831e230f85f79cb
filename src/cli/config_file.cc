#include "cli/config_file.h"

#include <fmt/format.h>

#include <algorithm>

namespace deepinfer::cli {

std::string VariableOf(const std::string& flag) {
  std::string name = "DEEPINFER_" + flag.substr(flag.find_first_not_of('-'));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c == '-' ? '_' : std::toupper(c); });
  return name;
}

void AddVariables(CLI::App* command) {
  for (CLI::Option* option : command->get_options()) {
    const std::string name = option->get_lnames().empty() ? option->get_name() : option->get_lnames().front();
    if (name != "help") option->envname(VariableOf(name));
  }
}

void AddConfig(CLI::App* command, std::string* path) {
  command->add_option("--config", *path, "a TOML file with a key for each flag; flags and variables win over it")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
}

void ApplyConfig(CLI::App* command, const std::string& path) {
  if (path.empty()) return;
  for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_file(path)) {
    if (!item.parents.empty()) {
      throw CLI::ConfigError(fmt::format("{}: has a section [{}]; there are none", path, item.parents.front()));
    }
    CLI::Option* option = command->get_option_no_throw("--" + item.name);
    if (option == nullptr && item.name == "model") option = command->get_option("model");
    if (option == nullptr || item.name == "config" || item.name == "help") {
      throw CLI::ConfigError(fmt::format("{}: {} is no flag of {}", path, item.name, command->get_name()));
    }
    if (option->count() > 0) continue;
    for (const std::string& value : item.inputs) {
      option->add_result(option->get_expected_max() == 0 ? option->get_flag_value(item.name, value) : value);
    }
    try {
      option->run_callback();
    } catch (const CLI::ParseError& error) {
      throw CLI::ConfigError(fmt::format("{}: {}", path, error.what()));
    }
  }
}

}  // namespace deepinfer::cli
