#include "engine/text_stream.h"

namespace deepinfer::engine {

Result<TextStream> TextStream::Create(const text::Tokenizer* tokenizer, std::vector<std::string> stops) {
  DI_ASSIGN_OR_RETURN(text::StopMatcher matcher, text::StopMatcher::Create(std::move(stops)));
  return TextStream(tokenizer, std::move(matcher));
}

std::string TextStream::Take(text::StopMatcher::Output output) {
  stopped_ = stopped_ || output.stopped;
  if (output.stopped) stop_index_ = output.stop_index;
  text_ += output.text;
  return std::move(output.text);
}

std::string TextStream::Push(int32_t id) {
  if (stopped_ || tokenizer_->IsSpecial(id)) return "";
  const std::string text = detokenizer_.Push(tokenizer_->TokenBytes(id));
  decoded_ += text.size();
  return Take(matcher_.Push(text));
}

std::string TextStream::Finish() {
  if (stopped_) return "";
  const std::string unfinished = detokenizer_.Flush();
  decoded_ += unfinished.size();
  std::string tail = Take(matcher_.Push(unfinished));
  if (!stopped_) tail += Take(matcher_.Flush());
  return tail;
}

}  // namespace deepinfer::engine
