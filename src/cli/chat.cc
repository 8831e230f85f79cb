// chat: a conversation on the terminal, or one message per line of a pipe. The whole history is rendered by the model's
// template each time; nothing is ever dropped from it silently.
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "cli/answer.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/prompt_flags.h"

namespace deepinfer::cli {
namespace {

struct ChatFlags {
  ModelFlags model;
  SamplingFlags sampling;
  std::string system;
};

enum class Input { kLine, kInterrupt, kEnd };

// Lines of stdin; a Ctrl-C while waiting is told apart from the end.
class LineReader {
 public:
  explicit LineReader(const Interrupt* interrupt) : interrupt_(interrupt) {}

  Input Next(std::string* line) {
    for (;;) {
      if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
        *line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return Input::kLine;
      }
      if (ended_) {
        *line = std::move(buffer_);
        buffer_.clear();
        return line->empty() ? Input::kEnd : Input::kLine;
      }
      pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {interrupt_->fd(), POLLIN, 0}};
      const int ready = ::poll(fds, 2, -1);
      if (interrupt_->count() > 0) return Input::kInterrupt;
      if (ready > 0 && fds[0].revents != 0) Fill();
    }
  }

 private:
  void Fill() {
    char bytes[4096];
    const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof(bytes));
    if (got > 0) buffer_.append(bytes, static_cast<size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) ended_ = true;
  }

  const Interrupt* interrupt_;
  std::string buffer_;
  bool ended_ = false;
};

class Conversation {
 public:
  Conversation(const ChatFlags& flags, Session* session) : flags_(flags), session_(session) { Reset(); }

  void Reset() {
    messages_ = text::Json::array();
    if (!flags_.system.empty()) messages_.push_back({{"role", "system"}, {"content", flags_.system}});
  }

  // An error of one turn leaves the history as it was.
  Status Say(const std::string& message, const Interrupt& interrupt) {
    text::ChatInput input;
    input.messages = messages_;
    input.messages.push_back({{"role", "user"}, {"content", message}});
    DI_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, session_->tokenizer->EncodeChat(input));
    const int64_t context = session_->runner->options().max_model_len;
    const int64_t tokens = static_cast<int64_t>(prompt.size());
    if (tokens >= context) {
      return MakeError(
          ErrorCode::kInvalidArgument, "context",
          "the conversation with this message has {} tokens, the context is {}; the message was not added. "
          "/reset starts over, --max-model-len gives more room",
          tokens, context);
    }
    engine::GenerationRequest request;
    request.prompt = std::move(prompt);
    request.params = flags_.sampling.params;
    request.stop_ids = session_->stop_ids;
    DI_ASSIGN_OR_RETURN(const std::unique_ptr<Answer> answer,
                        Answer::Create(*session_, flags_.sampling.stops, /*streamed=*/true));
    DI_RETURN_IF_ERROR(answer->Submit(std::move(request), session_->engine.get()));
    DI_RETURN_IF_ERROR(RunRequests(session_->engine.get(), {answer->id()}, interrupt));
    DI_RETURN_IF_ERROR(answer->written());
    DI_RETURN_IF_ERROR(WriteOut("\n"));
    if (answer->error()) return tl::unexpected(*answer->error());
    if (answer->reason() == engine::FinishReason::kLength)
      SayWhyItEnded(tokens + static_cast<int64_t>(answer->ids().size()), context);
    if (answer->reason() == engine::FinishReason::kCancelled) SayErr("(stopped)");
    if (isatty(STDERR_FILENO) != 0) SayErr(fmt::format("[{}]", answer->Summary(*session_)));
    messages_ = std::move(input.messages);
    messages_.push_back({{"role", "assistant"}, {"content", answer->text()}});
    return {};
  }

 private:
  void SayWhyItEnded(int64_t used, int64_t context) const {
    if (used >= context) {
      SayErr(fmt::format("(cut: the context of {} tokens is full; /reset starts over)", context));
    } else {
      SayErr(fmt::format("(cut: --max-tokens {})", flags_.sampling.params.max_tokens));
    }
  }

  const ChatFlags& flags_;
  Session* session_;
  text::Json messages_;
};

// False ends the chat. A turn's error is said and the chat goes on, unless nobody can hear the answer any more.
Result<bool> Turn(const std::string& line, Conversation* conversation, Interrupt* interrupt) {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return true;
  if (line == "/exit" || line == "/quit") return false;
  if (line == "/reset") {
    conversation->Reset();
    SayErr("(new conversation)");
    return true;
  }
  if (line == "/help") {
    SayErr("/reset starts over, /exit or Ctrl-D ends, Ctrl-C stops an answer");
    return true;
  }
  if (const Status said = conversation->Say(line, *interrupt); !said) {
    if (said.error().where == "stdout") return tl::unexpected(said.error());
    SayErr(fmt::format("error: {}", said.error().ToString()));
  }
  const bool again = interrupt->count() > 1;
  interrupt->Clear();
  return !again;
}

Status Chat(ChatFlags flags, const BackendFactory& backends) {
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, OpenSession(flags.model, backends));
  DI_RETURN_IF_ERROR(ResolveSampling(*session, &flags.sampling));
  if (!session->tokenizer) {
    return MakeError(ErrorCode::kFailedPrecondition, "chat", "{} has no tokenizer; it serves ids only", session->path);
  }
  if (!session->tokenizer->has_chat_template()) {
    return MakeError(ErrorCode::kFailedPrecondition, "chat", "{} has no chat template; use generate", session->path);
  }
  KeepForNextStart(*session);
  const bool interactive = isatty(STDIN_FILENO) != 0;
  if (interactive) SayErr("/help lists the commands");
  Interrupt interrupt(/*limit=*/3);
  LineReader reader(&interrupt);
  Conversation conversation(flags, session.get());
  bool asked = false;  // the last thing was a Ctrl-C at the prompt
  for (;;) {
    if (interactive) DI_RETURN_IF_ERROR(WriteOut("> "));
    std::string line;
    const Input input = reader.Next(&line);
    if (input == Input::kEnd || (input == Input::kInterrupt && asked)) break;
    asked = input == Input::kInterrupt;
    if (asked) {
      interrupt.Clear();
      SayErr("\n(Ctrl-C again or Ctrl-D ends)");
      continue;
    }
    if (!line.empty() && line.back() == '\r') line.pop_back();
    DI_ASSIGN_OR_RETURN(const bool goes_on, Turn(line, &conversation, &interrupt));
    if (!goes_on) return {};
  }
  return interactive ? WriteOut("\n") : Status();
}

}  // namespace

void AddChat(CLI::App* app, CommandContext* context) {
  auto flags = std::make_shared<ChatFlags>();
  flags->sampling.params.temperature = 0.7;
  CLI::App* command = app->add_subcommand("chat", "talk with a chat model; a pipe gives one message per line");
  AddModelFlags(command, &flags->model);
  command->add_option("--system", flags->system, "the system message")->type_name("TEXT");
  AddSamplingFlags(command, &flags->sampling);
  command->callback([flags, context] {
    CheckSampling(&flags->sampling);
    context->status = Chat(*flags, context->backends);
  });
}

}  // namespace deepinfer::cli
