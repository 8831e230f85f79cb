#include "backend/capture.h"

#include <algorithm>

namespace deepinfer::backend {
namespace {

thread_local GraphCapture* current_capture = nullptr;

Status CallFunction(const SegmentFunction& function, const std::string& name) {
  const char* where = name.empty() ? "graph segment" : name.c_str();
  try {
    return function();
  } catch (const std::exception& error) {
    return MakeError(ErrorCode::kInternal, where, "threw: {}", error.what());
  } catch (...) {
    return MakeError(ErrorCode::kInternal, where, "threw something that is no std::exception");
  }
}

}  // namespace

Status SegmentList::Replay() const {
  for (const Segment& segment : segments_) {
    for (const SegmentFunction& function : segment.functions) {
      DI_RETURN_IF_ERROR(CallFunction(function, segment.name));
    }
  }
  return {};
}

int64_t SegmentList::graphs() const {
  return static_cast<int64_t>(segments_.size()) - breaks();
}

int64_t SegmentList::breaks() const {
  return std::count_if(segments_.begin(), segments_.end(), [](const Segment& segment) { return segment.is_break; });
}

GraphCapture::~GraphCapture() {
  if (current_capture == this) current_capture = nullptr;
}

GraphCapture* GraphCapture::Current() {
  return current_capture;
}

Status GraphCapture::Begin() {
  if (current_capture != nullptr) {
    return MakeError(ErrorCode::kFailedPrecondition, "graph capture",
                     "one is already active on this thread; captures do not nest");
  }
  list_.Clear();
  failure_.reset();
  in_break_ = false;
  OpenGraph();
  current_capture = this;
  return {};
}

Result<SegmentList> GraphCapture::End() {
  if (current_capture != this) {
    return MakeError(ErrorCode::kFailedPrecondition, "graph capture", "End without a Begin on this thread");
  }
  current_capture = nullptr;
  SegmentList list = std::exchange(list_, SegmentList());
  if (failure_) return tl::unexpected(*std::exchange(failure_, std::nullopt));
  if (in_break_) return MakeError(ErrorCode::kFailedPrecondition, "graph capture", "ended inside one of its breaks");
  return list;
}

Status GraphCapture::AddSegment(SegmentFunction function) {
  if (current_capture != this) {
    return MakeError(ErrorCode::kFailedPrecondition, "graph capture", "a segment was added outside of a capture");
  }
  if (in_break_) return CallFunction(function, "");
  if (failure_) return tl::unexpected(*failure_);
  list_.segments_.back().functions.push_back(std::move(function));
  return {};
}

Status GraphCapture::RecordBreak(const std::string& name, SegmentFunction function) {
  if (failure_) return tl::unexpected(*failure_);
  in_break_ = true;
  Status status = CallFunction(function, name);
  in_break_ = false;
  if (current_capture != this) {
    return MakeError(ErrorCode::kFailedPrecondition, name, "the break ended the capture it is part of");
  }
  if (!status) {
    failure_ = status.error();
    list_.Clear();
    return status;
  }
  Segment& segment = list_.segments_.emplace_back();
  segment.is_break = true;
  segment.name = name;
  segment.functions.push_back(std::move(function));
  OpenGraph();
  return {};
}

Status EagerBreak(const std::string& name, SegmentFunction function, GraphMode mode) {
  GraphCapture* capture = GraphCapture::Current();
  if (capture == nullptr || capture->in_break_) return CallFunction(function, name);
  if (mode == GraphMode::kFull) return capture->AddSegment(std::move(function));
  return capture->RecordBreak(name, std::move(function));
}

}  // namespace deepinfer::backend
