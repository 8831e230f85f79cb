// One step of a compiled segment: a kernel with its arguments.
//
// Made by lowering (lower/lower.h) once per graph; Bind fixes every pointer at capture; Run is called on every member
// of the team and takes the part of the work that is its own. Run allocates nothing. Launches between two barriers are
// independent of each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/thread_team.h"
#include "ir/graph.h"

namespace deepinfer::cpu {

// Where each value lives, once known.
class Addresses {
 public:
  explicit Addresses(size_t values) : pointers_(values, nullptr) {}
  void Set(ir::ValueId value, void* pointer) { pointers_[value] = pointer; }
  void* Of(ir::ValueId value) const { return pointers_[value]; }
  template <class T>
  T* As(ir::ValueId value) const {
    return static_cast<T*>(pointers_[value]);
  }

 private:
  std::vector<void*> pointers_;
};

struct TeamContext {
  int member = 0;
  int members = 1;
  ir::LiveCounts live;
  std::byte* scratch = nullptr;         // this member's own, scratch_bytes of the executable
  std::byte* shared_scratch = nullptr;  // the team's
  ThreadTeam* team = nullptr;           // for barriers within a launch: every member runs it with the same live counts
};

class Launch {
 public:
  virtual ~Launch() = default;
  virtual void Bind(const Addresses& addresses) = 0;
  virtual void Run(const TeamContext& team) const = 0;
  virtual void SetMembers(int /*members*/) {}  // of the team; once, before anything else
  // Members read what others leave in the team's scratch: no other launch runs between the same barriers.
  virtual bool IsAlone() const { return false; }
  virtual int64_t ScratchBytes() const { return 0; }                       // per member
  virtual int64_t SharedScratchBytes(int /*members*/) const { return 0; }  // of the team

  std::string kernel;  // "linear.q4_1.bf16.avx512_bf16"
  std::string reason;  // why this one
  // Set where no kernel takes a node that computes on floats and the reference kernel stands in: slow, and worth a
  // warning. "dot_general f16[T:4,8], f16[8,8]"
  std::string without_kernel;
};

// The live extent of a value's first dimension: what a kernel computes.
struct LiveExtent {
  ir::DimTag tag = ir::DimTag::kNone;
  int64_t size = 1;
  explicit LiveExtent(const ir::Type& type) {
    if (!type.dims.empty()) {
      tag = type.dims[0].tag;
      size = type.dims[0].size;
    }
  }
  LiveExtent() = default;
  int64_t Of(const TeamContext& team) const { return team.live.Of(tag, size); }
};

}  // namespace deepinfer::cpu
