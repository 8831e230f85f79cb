#include "cli/graph_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

namespace deepinfer::cli {
namespace {

constexpr int kBoxWidth = 250;
constexpr int kLineHeight = 14;
constexpr int kGapX = 26;
constexpr int kGapY = 26;
constexpr int kMargin = 24;
constexpr int kTitleHeight = 46;
constexpr size_t kLineChars = 40;  // of 10 px monospace text in a box
constexpr size_t kMaxDetailLines = 6;
constexpr int kMaxDrawnReaders = 4;  // a value with more readers is named in them instead

struct Box {
  std::string head;
  std::vector<std::string> lines;
  std::string fill;
  int rank = 0;
  int x = 0;
  int y = 0;
  int height() const { return kLineHeight * (1 + static_cast<int>(lines.size())) + 12; }
};

struct Edge {
  size_t from;
  size_t to;
};

std::string Escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // Names come from files: control characters have no place in XML.
        out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return out;
}

std::string Shorten(std::string text) {
  if (text.size() > kLineChars) text = text.substr(0, kLineChars - 2) + "..";
  return text;
}

const char* FillFor(const ir::Node& node) {
  switch (node.op) {
    case ir::Op::kCall:
      return "#cfe3ff";
    case ir::Op::kBreak:
      return "#ffd9b8";
    case ir::Op::kCase:
      return "#f3d9ff";
    case ir::Op::kConstant:
      return "#f2f2f2";
    default:
      return "#ffffff";
  }
}

std::string HeadFor(const ir::Node& node) {
  if (node.op == ir::Op::kCall) return "call @" + node.Str("callee");
  if (node.op == ir::Op::kBreak) return "break " + node.Str("name");
  return ir::ToString(node.op);
}

// One function, laid out.
class Panel {
 public:
  explicit Panel(const ir::Function& f) : f_(f), producer_(f.types.size(), kNone), names_(f.types.size()) {
    for (const ir::Input& input : f.inputs) names_[input.value] = input.name;
    CountReaders();
    for (size_t i = 0; i < f.nodes.size(); ++i) AddNode(i);
    AddOutputs();
    Place();
  }

  int width() const { return width_; }
  int height() const { return height_; }

  std::string Draw(int left, int top) const {
    std::string svg = fmt::format("<g transform=\"translate({},{})\">\n", left, top);
    svg += fmt::format("<rect width=\"{}\" height=\"{}\" rx=\"8\" fill=\"#fafafa\" stroke=\"#bbbbbb\"/>\n", width_,
                       height_);
    svg += fmt::format("<text x=\"{}\" y=\"26\" class=\"t\">@{}</text>\n", kMargin, Escape(f_.name));
    for (const Edge& edge : edges_) svg += DrawEdge(boxes_[edge.from], boxes_[edge.to]);
    for (const Box& box : boxes_) svg += DrawBox(box);
    return svg + "</g>\n";
  }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  void CountReaders() {
    readers_.assign(f_.types.size(), 0);
    for (const ir::Node& node : f_.nodes) {
      for (const ir::ValueId operand : node.operands) ++readers_[operand];
    }
  }

  void AddNode(size_t index) {
    const ir::Node& node = f_.nodes[index];
    Box box;
    box.head = Shorten(HeadFor(node));
    box.fill = FillFor(node);
    const size_t me = boxes_.size();
    for (const ir::ValueId result : node.results) {
      names_[result] = fmt::format("%{}", result);
      box.lines.push_back(Shorten(fmt::format("%{} {}", result, ToString(f_.TypeOf(result)))));
    }
    std::vector<std::string> named;
    for (const ir::ValueId operand : node.operands) {
      const size_t from = producer_[operand];
      if (from == kNone || readers_[operand] > kMaxDrawnReaders) {
        named.push_back(names_[operand]);
        continue;
      }
      edges_.push_back({from, me});
      box.rank = std::max(box.rank, boxes_[from].rank + 1);
    }
    AppendNames(named, &box);
    for (const ir::ValueId result : node.results) producer_[result] = me;
    boxes_.push_back(std::move(box));
  }

  static void AppendNames(const std::vector<std::string>& named, Box* box) {
    const size_t limit = box->lines.size() + kMaxDetailLines;
    for (size_t i = 0; i < named.size(); ++i) {
      if (box->lines.size() + 1 == limit && i + 1 < named.size()) {
        box->lines.push_back(fmt::format("< {} more", named.size() - i));
        return;
      }
      box->lines.push_back(Shorten("< " + named[i]));
    }
  }

  void AddOutputs() {
    for (const ir::Output& output : f_.outputs) {
      // A state that comes back is told in the io_map, not drawn.
      const size_t from = producer_[output.value];
      if (from == kNone) continue;
      Box box;
      box.head = Shorten("output " + output.name);
      box.fill = "#d9f2d9";
      box.rank = boxes_[from].rank + 1;
      edges_.push_back({from, boxes_.size()});
      boxes_.push_back(std::move(box));
    }
  }

  // Ranks become rows; within a row boxes stand near what feeds them, in order, without overlap.
  void Place() {
    std::map<int, std::vector<size_t>> rows;
    for (size_t i = 0; i < boxes_.size(); ++i) rows[boxes_[i].rank].push_back(i);
    std::vector<std::vector<size_t>> sources(boxes_.size());
    for (const Edge& edge : edges_) sources[edge.to].push_back(edge.from);
    int y = kTitleHeight;
    int right = 0;
    for (auto& [rank, row] : rows) {
      std::vector<std::pair<int, size_t>> wanted;
      for (const size_t i : row) {
        int64_t sum = 0;
        for (const size_t from : sources[i]) sum += boxes_[from].x;
        wanted.emplace_back(
            sources[i].empty() ? kMargin : static_cast<int>(sum / static_cast<int64_t>(sources[i].size())), i);
      }
      std::stable_sort(wanted.begin(), wanted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      int x = kMargin;
      int height = 0;
      for (const auto& [want, i] : wanted) {
        boxes_[i].x = std::max(x, want);
        boxes_[i].y = y;
        x = boxes_[i].x + kBoxWidth + kGapX;
        right = std::max(right, boxes_[i].x + kBoxWidth);
        height = std::max(height, boxes_[i].height());
      }
      y += height + kGapY;
    }
    width_ = std::max(right, kMargin + kBoxWidth) + kMargin;
    height_ = y;
  }

  static std::string DrawEdge(const Box& from, const Box& to) {
    const int x1 = from.x + kBoxWidth / 2;
    const int y1 = from.y + from.height();
    const int x2 = to.x + kBoxWidth / 2;
    const int y2 = to.y;
    const int bend = std::max(12, (y2 - y1) / 2);
    return fmt::format("<path d=\"M{} {} C{} {} {} {} {} {}\" class=\"e\"/>\n", x1, y1, x1, y1 + bend, x2, y2 - bend,
                       x2, y2);
  }

  static std::string DrawBox(const Box& box) {
    std::string svg =
        fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"{}\" stroke=\"#444444\"/>\n",
                    box.x, box.y, kBoxWidth, box.height(), box.fill);
    int y = box.y + kLineHeight + 2;
    svg += fmt::format("<text x=\"{}\" y=\"{}\" class=\"h\">{}</text>\n", box.x + 8, y, Escape(box.head));
    for (const std::string& line : box.lines) {
      y += kLineHeight;
      svg += fmt::format("<text x=\"{}\" y=\"{}\" class=\"{}\">{}</text>\n", box.x + 8, y, line[0] == '<' ? "i" : "d",
                         Escape(line[0] == '<' ? "\u2190" + line.substr(1) : line));
    }
    return svg;
  }

  const ir::Function& f_;
  std::vector<size_t> producer_;    // by value: the box that makes it
  std::vector<std::string> names_;  // by value
  std::vector<int> readers_;        // by value
  std::vector<Box> boxes_;
  std::vector<Edge> edges_;
  int width_ = 0;
  int height_ = 0;
};

}  // namespace

std::string DrawSvg(const ir::Module& module, const std::string& title) {
  std::string body;
  int x = kMargin;
  int height = 0;
  for (const ir::Function& f : module.functions) {
    const Panel panel(f);
    body += panel.Draw(x, kMargin + 30);
    x += panel.width() + kMargin;
    height = std::max(height, panel.height());
  }
  height += 2 * kMargin + 30;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\">\n"
             "<style>text{{font:10px monospace;fill:#222}}.t{{font:bold 16px sans-serif}}.h{{font:bold 12px "
             "sans-serif}}"
             ".i{{fill:#777}}.e{{fill:none;stroke:#5577aa;stroke-width:1.3}}</style>\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<text x=\"{}\" y=\"32\" class=\"t\">{}</text>\n",
             x, height, x, height, kMargin, Escape(title)) +
         body + "</svg>\n";
}

}  // namespace deepinfer::cli
