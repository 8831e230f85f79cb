#include "engine/text_stream.h"

namespace deepinfer::engine {

Result<TextStream> TextStream::Create(const text::Tokenizer* tokenizer, std::vector<std::string> stops) {
  DI_ASSIGN_OR_RETURN(text::StopMatcher matcher, text::StopMatcher::Create(std::move(stops)));
  return TextStream(tokenizer, std::move(matcher));
}

std::string TextStream::Take(text::StopMatcher::Output output) {
  stopped_ = stopped_ || output.stopped;
  text_ += output.text;
  return std::move(output.text);
}

std::string TextStream::Push(int32_t id) {
  if (stopped_ || tokenizer_->IsSpecial(id)) return "";
  return Take(matcher_.Push(detokenizer_.Push(tokenizer_->TokenBytes(id))));
}

std::string TextStream::Finish() {
  if (stopped_) return "";
  std::string tail = Take(matcher_.Push(detokenizer_.Flush()));
  if (!stopped_) tail += Take(matcher_.Flush());
  return tail;
}

}  // namespace deepinfer::engine
