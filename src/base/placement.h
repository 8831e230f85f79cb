// Which memory node each part of an allocation lies on, and making it so: a plan as data, then system calls.
//
// Ranges are in bytes from the start of the allocation, in order, on page boundaries (the last may end inside a page).
// A range with one node prefers it and takes another when that is full; one with several has its pages on each in turn.
// No ranges: nothing is placed. PlacePages must come before the pages are first touched; where the system refuses it
// (a container without the right to), TouchNear has the same effect by first touching each page from a CPU near its
// node. Thread-safe. The three system calls are made directly: libnuma would add a library to every machine for them,
// and reads the topology by its own ways, which tests cannot feed. Source: mbind(2), move_pages(2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/team_plan.h"

namespace deepinfer {

struct PlacedRange {
  int64_t begin = 0;
  int64_t end = 0;
  std::vector<int> nodes;
};

// For memory that any member may read.
std::vector<PlacedRange> PlaceSpread(const TeamPlacement& placement, int64_t bytes);
// For memory that members share as SplitRange(bytes, grain, member, members) says: each part near its member. A page
// that holds two parts goes with the larger. Where members move it is PlaceSpread.
std::vector<PlacedRange> PlaceByMember(const TeamPlacement& placement, int64_t bytes, int64_t grain);

// start: at a page boundary. kUnsupported with the system's reason; ranges before the one refused stay placed.
Status PlacePages(std::byte* start, std::span<const PlacedRange> ranges);
// Memory that is all zero, and stays so.
void TouchNear(const TeamPlacement& placement, std::byte* start, std::span<const PlacedRange> ranges);

// The node of each page of [start, start + bytes); -1 where there is none yet. kUnsupported where nobody says.
Result<std::vector<int>> NodesOfPages(const std::byte* start, int64_t bytes);

}  // namespace deepinfer
