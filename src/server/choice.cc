#include "server/choice.h"

#include <algorithm>

namespace deepinfer::server {
namespace {

bool Contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

void ChoiceDelta::Append(ChoiceDelta more) {
  text += more.text;
  ids.insert(ids.end(), more.ids.begin(), more.ids.end());
  std::move(more.logprobs.begin(), more.logprobs.end(), std::back_inserter(logprobs));
  if (more.finish) finish = std::move(more.finish);
  if (!more.stop_reason.is_null()) stop_reason = std::move(more.stop_reason);
  if (more.prompt) prompt = std::move(more.prompt);
}

ApiResult<Choice> Choice::Create(ChoiceOptions options) {
  Choice choice(std::move(options));
  if (choice.options_.tokenizer != nullptr) {
    DI_ASSIGN_OR_RETURN(choice.stream_, engine::TextStream::Create(choice.options_.tokenizer, choice.options_.stops));
  }
  return choice;
}

bool Choice::Push(const engine::TokenEvent& event, ChoiceDelta* out) {
  out->ids.push_back(event.id);
  if (Contains(options_.stop_ids, event.id)) {
    if (Contains(options_.named_stop_ids, event.id)) out->stop_reason = event.id;
    return true;  // the engine ends it
  }
  const size_t begin = stream_ ? stream_->pushed() : 0;
  if (stream_) out->text += stream_->Push(event.id);
  if (options_.logprobs) {
    const size_t end = stream_ ? stream_->pushed() : 0;
    const bool silent = stream_ && options_.tokenizer->IsSpecial(event.id);
    held_.push_back({{event.id, event.logprob, event.rank, event.top,
                      stream_ && !silent ? options_.tokenizer->TokenBytes(event.id) : std::string()},
                     begin,
                     end});
  }
  Release(/*at_end=*/false, out);
  if (!stream_ || !stream_->stopped()) return true;
  out->stop_reason = options_.stops[static_cast<size_t>(stream_->stop_index())];
  return false;
}

void Choice::Finish(const engine::FinishEvent& event, ChoiceDelta* out) {
  if (stream_) out->text += stream_->Finish();
  if (stream_ && stream_->stopped() && out->stop_reason.is_null()) {
    out->stop_reason = options_.stops[static_cast<size_t>(stream_->stop_index())];
  }
  Release(/*at_end=*/true, out);
  out->finish = event;
  if (stream_ && stream_->stopped() && event.reason == engine::FinishReason::kLength) {
    out->finish->reason = engine::FinishReason::kStop;  // held back until the end, and then a match
  }
}

// Entries whose text is out. At the end one whose text a stop string cut keeps what was sent of it; those after it are
// dropped.
void Choice::Release(bool at_end, ChoiceDelta* out) {
  const size_t sent = stream_ ? stream_->text().size() : 0;
  while (!held_.empty()) {
    Held& first = held_.front();
    if (first.end > sent) {
      if (!at_end) return;
      if (first.begin < sent) {
        first.entry.bytes.resize(std::min(first.entry.bytes.size(), sent - first.begin));
        out->logprobs.push_back(std::move(first.entry));
      }
      held_.clear();
      return;
    }
    out->logprobs.push_back(std::move(first.entry));
    held_.pop_front();
  }
}

}  // namespace deepinfer::server
