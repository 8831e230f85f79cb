// The breakable graph: a list G E G ... G of recorded segments (G) and eager breaks (E), whatever the backend.
//
// While a capture is active on a thread, AddSegment records launches without running them, and EagerBreak closes the
// open graph segment, really runs its function once and records it. Replay runs everything in order and takes no
// arguments: all data flows through fixed addresses. n breaks give n+1 graph segments; empty ones (two breaks in a row)
// are kept and counted, so the alternation always holds. A function's exception becomes an Error (kInternal); a failed
// capture is over and yields nothing. A capture belongs to the thread that began it and other threads see none; a
// SegmentList is replayed by one thread at a time. Replay and a successful address check do not allocate.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/address_guard.h"
#include "backend/backend.h"
#include "base/error.h"

namespace deepinfer::backend {

using SegmentFunction = std::function<Status()>;

struct Segment {
  bool is_break = false;
  std::string name;                        // of the break
  std::vector<SegmentFunction> functions;  // one for a break, any number for a graph segment
};

class SegmentList {
 public:
  // The first error ends it; what ran before has run.
  Status Replay() const;

  int64_t graphs() const;
  int64_t breaks() const;
  const std::vector<Segment>& segments() const { return segments_; }
  void Clear() { segments_.clear(); }

 private:
  friend class GraphCapture;
  std::vector<Segment> segments_;
};

class GraphCapture {
 public:
  GraphCapture() = default;
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;
  ~GraphCapture();  // abandons what is still open, so an exception that passes by leaves nothing behind

  // kFailedPrecondition if a capture is active on this thread; that one stays usable.
  Status Begin();
  // Always frees the thread's slot. The error of the first break that failed, if one did; then nothing was captured.
  Result<SegmentList> End();

  // Adds to the open graph segment. Inside a break it runs at once, since the break will run it again at each replay.
  Status AddSegment(SegmentFunction function);

  static GraphCapture* Current();  // of this thread; may be null

 private:
  friend Status EagerBreak(const std::string& name, SegmentFunction function, GraphMode mode);
  Status RecordBreak(const std::string& name, SegmentFunction function);
  void OpenGraph() { list_.segments_.emplace_back(); }

  SegmentList list_;
  std::optional<Error> failure_;
  bool in_break_ = false;
};

// A break, decided in this order: no capture on this thread: run. Inside another break: run inline, never split. kFull:
// joins the open graph segment, recorded and not run. Else: closes the segment, runs, is recorded, opens the next.
// Outputs must go to addresses that the caller fixed beforehand. The function is kept and must own, or outlive, what it
// uses; keep views in it rather than owning references where many captures share memory.
Status EagerBreak(const std::string& name, SegmentFunction function, GraphMode mode);

// Captures the first use of a key and replays later ones. The first use runs breaks but no graph segment: do it on
// padding. A failed capture stores nothing, so the next call captures again. Not thread-safe.
template <class Key, class Hash = std::hash<Key>>
class CapturedOnce {
 public:
  // `record` calls AddSegment and EagerBreak. `addresses` are the inputs' (see AddressGuard): kept at capture, compared
  // at replay.
  Status Run(const Key& key, std::span<const NamedAddress> addresses, const SegmentFunction& record) {
    if (const auto found = entries_.find(key); found != entries_.end()) {
      DI_RETURN_IF_ERROR(found->second.guard.CheckAddresses(addresses));
      return found->second.list.Replay();
    }
    GraphCapture capture;
    DI_RETURN_IF_ERROR(capture.Begin());
    const Status recorded = CallGuarded(record);
    auto list = capture.End();
    DI_RETURN_IF_ERROR(recorded);
    DI_RETURN_IF_ERROR(list);
    Entry entry;
    entry.guard.Record(addresses);
    entry.list = *std::move(list);
    entries_.emplace(key, std::move(entry));
    return {};
  }

  const SegmentList* Find(const Key& key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : &found->second.list;
  }
  size_t size() const { return entries_.size(); }
  void Clear() { entries_.clear(); }

 private:
  struct Entry {
    AddressGuard guard;
    SegmentList list;
  };

  static Status CallGuarded(const SegmentFunction& record) {
    try {
      return record();
    } catch (const std::exception& error) {
      return MakeError(ErrorCode::kInternal, "graph capture", "recording threw: {}", error.what());
    } catch (...) {
      return MakeError(ErrorCode::kInternal, "graph capture", "recording threw");
    }
  }

  std::unordered_map<Key, Entry, Hash> entries_;
};

}  // namespace deepinfer::backend
