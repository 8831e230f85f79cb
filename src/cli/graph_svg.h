// A module as an SVG drawing: one panel per function, the step first. Within a panel nodes go from top to bottom along
// their data; calls and breaks are coloured boxes, weights, states and metadata are named inside the boxes that read
// them, and values that many nodes read are named instead of drawn, so that lines stay few. Pure.
#pragma once

#include <string>

#include "ir/graph.h"

namespace deepinfer::cli {

std::string DrawSvg(const ir::Module& module, const std::string& title);

}  // namespace deepinfer::cli
