// The contract between the engine and whatever executes graphs.
//
// A backend may run several ranks in one process: it holds weights and states per rank, gives every rank the same
// metadata and its own "rank" (which is not in a StepIo), and takes the outputs of the first.
// A Backend is created once per loaded model. Life: SetWeights, AllocateStates, then Compile once per graph (from
// several threads at once), Finalize, Capture each executable, Run for ever. After Finalize nothing allocates.
// Run is called by one thread at a time (the step loop). Addresses in a StepIo never change between Capture and Run.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/encoding.h"
#include "base/error.h"
#include "base/row_reader.h"
#include "ir/graph.h"

namespace deepinfer::backend {

// A weight as the checkpoint holds it: rows of `encoding`, innermost dimension contiguous.
struct WeightData {
  std::string name;
  Encoding encoding = Encoding::kF32;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;
  // With several ranks: the data of each, all of the shape above. Empty: `data` on every rank.
  std::vector<const std::byte*> shards;
  RowReader rows;    // in place of data, for backends that take it (Caps::reads_rows)
  InputOrder order;  // of those rows' columns

  const std::byte* DataOf(size_t rank) const { return shards.empty() ? data : shards[rank]; }
};
using WeightMap = std::map<std::string, WeightData>;

// Host memory of fixed address.
struct HostSlot {
  std::string name;
  void* data = nullptr;
  int64_t bytes = 0;
};

// States of a model: one allocation per buffer, zeroed. On the CPU an address never changes.
class StateSet {
 public:
  virtual ~StateSet() = default;
  // Host address of a buffer, or null where states live on a device.
  virtual void* Address(const std::string& buffer) const = 0;
  // Copies a part of a buffer out of or into the states, wherever they live; with several ranks, those of the first.
  // offset and size in bytes. Not during a Run. On a device a part must be a whole state. kNotFound, kInvalidArgument.
  virtual Status Read(const std::string& buffer, int64_t offset, void* to, int64_t bytes) const = 0;
  virtual Status Write(const std::string& buffer, int64_t offset, const void* from, int64_t bytes) = 0;
  // Memory that is got when it is first used is got now, so that no step waits for it. Steps may run meanwhile.
  virtual void Populate() const {}
};

// Metadata that is still being written when its step starts.
class LateInputs {
 public:
  virtual ~LateInputs() = default;
  // Returns once the late inputs hold this step's values. Called by one thread, once in a Run at most.
  virtual void Await() = 0;
};

// Everything a step reads and writes beside its weights. Buffers are at least as long as the graph needs: graphs of all
// buckets share them.
struct StepIo {
  std::vector<HostSlot> metadata;
  std::vector<HostSlot> outputs;  // of the graph's outputs, those that are not aliased states
  StateSet* states = nullptr;
  std::vector<std::string> late_inputs;  // metadata that may come late; the same from Capture on
  // Awaited by Run before it reads one of those, if the backend takes them (Caps::late_inputs); null: this step has
  // everything from the start. Unlike an address, it may change from Run to Run.
  LateInputs* late = nullptr;
};

// What a break's host function sees. Buffers are those of the break's operands and results; all have fixed addresses.
struct BreakContext {
  struct Buffer {
    const ir::Type* type = nullptr;
    void* data = nullptr;
  };
  std::vector<Buffer> operands;
  std::vector<Buffer> results;
  ir::LiveCounts live;
};
using BreakFunction = std::function<Status(BreakContext&)>;
using BreakRegistry = std::map<std::string, BreakFunction>;

enum class GraphMode {
  kFull,       // bodies of breaks are compiled inline
  kBreakable,  // G E G E ... G
};

struct CompileOptions {
  GraphMode mode = GraphMode::kFull;
  const BreakRegistry* breaks = nullptr;  // host functions that stand in for bodies; may be null
};

// What the launches of one op and kernel took in one step. bytes: read and written; flops: of matrix products and
// attention (a multiply-add is two), 0 for other ops.
struct LaunchProfile {
  std::string op;
  std::string kernel;
  int64_t launches = 0;
  double seconds = 0;
  double bytes = 0;
  double flops = 0;
};

class Executable {
 public:
  virtual ~Executable() = default;
  // The first run, on padding: fixes the addresses and really runs each break once.
  virtual Status Capture(const StepIo& io) = 0;
  // Fails with kFailedPrecondition, naming the input, if an address differs from the captured one.
  virtual Status Run(const StepIo& io) = 0;
  // Runs the step as Run does, but every launch on its own, and says what each took, in order of first use. Slower than
  // Run by the waits. kUnsupported where the backend cannot look inside.
  virtual Result<std::vector<LaunchProfile>> Profile(const StepIo& /*io*/) {
    return MakeError(ErrorCode::kUnsupported, "profile", "this backend does not time its ops");
  }
  // For `inspect`: one line per launch (kernel, reason), and the bytes it needs for everything between its inputs and
  // outputs: values, and the scratch of its kernels on all threads. Executables may share them.
  virtual std::vector<std::string> Describe() const = 0;
  virtual int64_t scratch_bytes() const = 0;
};

struct Caps {
  std::vector<Encoding> encodings;   // weights it reads as they are; others are converted (runner/load.h)
  int64_t max_prefill_requests = 0;  // 0: as many as max_num_seqs
  int64_t max_batched_tokens = 0;    // 0: no limit of its own
  bool reads_rows = false;           // takes weights whose rows are made on demand; for others they are made at load
  bool late_inputs = false;          // runs what comes before their first use meanwhile (StepIo::late)
  int64_t ranks = 1;                 // that run each step together; a module's world must be this (ir/collective.h)
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  virtual Caps caps() const = 0;
  // Identifies the target in cache keys: instruction set, kernel set.
  virtual std::string target() const = 0;
  // Passes to run before Compile, in order (passes/pass.h), and the composites it has kernels for.
  virtual std::vector<std::string> passes() const = 0;
  virtual bool Claims(const ir::Function& function, const ir::Node& node) const = 0;

  // The data must stay readable for as long as the backend lives. identity: of the model; what a backend keeps between
  // starts (packed weights) is filed under it.
  virtual Status SetWeights(WeightMap weights, const std::string& identity) = 0;
  virtual Result<std::unique_ptr<StateSet>> AllocateStates(const std::map<std::string, int64_t>& bytes_by_buffer) = 0;
  virtual Result<std::unique_ptr<Executable>> Compile(const ir::Module& module, const CompileOptions& options) = 0;
  virtual Status Finalize() = 0;
  // Writes what a later start can reuse (packed weights); called when nobody waits.
  virtual Status Persist() { return {}; }
  virtual int64_t weight_bytes() const = 0;
  // The most floating-point operations a second that its matrix products could reach here, measured; 0 where unknown.
  virtual double MeasurePeakFlops() { return 0; }
  // Bytes that all executables together use between their inputs and outputs, whether shared or each one's own. Final
  // after Finalize.
  virtual int64_t arena_bytes() const { return 0; }
  // What people should know about this start, one sentence each: why something kept by an earlier one is not used.
  virtual std::vector<std::string> notes() const { return {}; }
  // What makes this model slower here than it should be, one sentence each: an op that no kernel takes.
  virtual std::vector<std::string> warnings() const { return {}; }
};

}  // namespace deepinfer::backend
