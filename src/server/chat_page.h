// The chat page, chat_page.html, as the build put it into the program.
#pragma once

#include <string_view>

namespace deepinfer::server {

std::string_view ChatPageHtml();

}  // namespace deepinfer::server
