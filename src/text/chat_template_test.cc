#include "text/chat_template.h"

#include <gtest/gtest.h>

namespace deepinfer::text {
namespace {

// Renders with messages user, assistant and the given variables; an error comes back as "E: line: message".
std::string Render(const std::string& source, const char* kwargs = "{}") {
  const auto compiled = ChatTemplate::Compile(source, "t");
  if (!compiled) return std::string("E: ").append(compiled.error().message);
  ChatInput input;
  input.messages = Json::parse(R"([{"role":"user","content":"hi"},{"role":"assistant","content":"yo"}])");
  input.kwargs = Json::parse(kwargs);
  const auto text = compiled->Render(input, Json::parse(R"({"bos_token":"<s>"})"));
  return text ? *text : std::string("E: ").append(text.error().message);
}

TEST(ChatTemplate, Slices) {
  EXPECT_EQ(Render("{% for m in messages[::-1] %}{{ m.role }},{% endfor %}"), "assistant,user,");
  EXPECT_EQ(Render("{{ [1,2,3][:-n]|string }}", R"({"n":1})"), "[1, 2]");
  EXPECT_EQ(Render("{{ [1,2,3,4][1:3] }}{{ 'abc'[-1] }}{{ 'abcd'[1:] }}"), "[2, 3]cbcd");
}

TEST(ChatTemplate, JsonAsPythonWritesIt) {
  EXPECT_EQ(Render("{{ {'k':'é'}|tojson(ensure_ascii=False) }}"), R"({"k": "é"})");
  EXPECT_EQ(Render("{{ {'k':'é😊'}|tojson(ensure_ascii=True) }}"), R"({"k": "\u00e9\ud83d\ude0a"})");
  EXPECT_EQ(Render("{{ x|tojson }}", R"({"x":{"b":[1,2.0,true,null,"<a>'&"],"a":{}}})"),
            R"({"b": [1, 2.0, true, null, "<a>'&"], "a": {}})");
  EXPECT_EQ(Render("{{ x|tojson(indent=4) }}", R"({"x":{"a":[1,{"b":2}],"c":[]}})"),
            "{\n    \"a\": [\n        1,\n        {\n            \"b\": 2\n        }\n    ],\n    \"c\": []\n}");
  EXPECT_EQ(Render("{{ x|tojson(sort_keys=true) }}", R"({"x":{"b":1,"a":2}})"), R"({"a": 2, "b": 1})");
  EXPECT_EQ(Render("{{ x|tojson(separators=(',', ':')) }}", R"({"x":{"b":1,"a":[2,3]}})"), R"({"b":1,"a":[2,3]})");
  EXPECT_EQ(Render("{{ x|tojson }}", R"({"x":[0.1,1e16,1e-05,123456789.5,-0.0]})"),
            "[0.1, 1e+16, 1e-05, 123456789.5, -0.0]");
  EXPECT_EQ(Render("{{ ('[1, 2]'|fromjson)[1] }}"), "2");
}

TEST(ChatTemplate, GenerationPrintsItsBody) {
  EXPECT_EQ(Render("a{% generation %}b{{ messages[0].content }}{% endgeneration %}c"), "abhic");
  EXPECT_EQ(
      Render("{%- for m in messages %}\n{%- generation -%}\n {{ m.content }}\n{%- endgeneration -%}\n{% endfor %}"),
      "hiyo");
  EXPECT_EQ(Render("{% raw %}{% generation %}{% endraw %}{# {% generation %} #}{{ '{% generation %}' }}"),
            "{% generation %}{% generation %}");
}

TEST(ChatTemplate, UnknownTagIsALoadError) {
  const auto compiled =
      ChatTemplate::Compile("line one\n{% if true %}\n{% frob x %}{% endif %}", "file: chat template");
  ASSERT_FALSE(compiled.has_value());
  EXPECT_EQ(compiled.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(compiled.error().where, "file: chat template");
  EXPECT_NE(compiled.error().message.find("line 3"), std::string::npos) << compiled.error().message;
  EXPECT_NE(compiled.error().message.find("frob"), std::string::npos) << compiled.error().message;
}

TEST(ChatTemplate, RaiseExceptionGivesItsTextAlone) {
  EXPECT_EQ(Render("{% for m in messages %}{{ raise_exception('roles must alternate') }}{% endfor %}"),
            "E: roles must alternate");
  EXPECT_EQ(Render("{% macro f() %}{{ raise_exception('deep') }}{% endmacro %}{{ f() }}"), "E: deep");
  const auto compiled = ChatTemplate::Compile("{{ raise_exception('no') }}", "t");
  ASSERT_TRUE(compiled.has_value());
  const auto text = compiled->Render({}, Json::object());
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
}

TEST(ChatTemplate, WhatShippedTemplatesUse) {
  EXPECT_EQ(
      Render("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}"),
      "2");
  EXPECT_EQ(Render("{% for m in messages %}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}"
                   "{{ loop.previtem.role if loop.previtem is defined else '-' }};{% endfor %}"),
            "0TrueFalse-;1FalseTrueuser;");
  EXPECT_EQ(Render("{% macro f(a, b='z') %}{{ a ~ b }}{% endmacro %}{{ f('x') }}{{ f('x', b='y') }}"), "xzxy");
  EXPECT_EQ(Render("{{ q is defined }}{{ none is none }}{{ 'a' is string }}{{ {} is mapping }}{{ [] is iterable }}"),
            "FalseTrueTrueTrueTrue");
  EXPECT_EQ(Render("{{ messages|selectattr('role','equalto','user')|list|length }}"
                   "{{ messages|rejectattr('role','equalto','user')|map(attribute='content')|join(',') }}"),
            "1yo");
  EXPECT_EQ(Render("{% for k, v in {'b':1,'a':2}.items() %}{{ k }}{{ v }}{% endfor %}"
                   "{% for k, v in {'b':1,'a':2}|dictsort %}{{ k }}{{ v }}{% endfor %}"
                   "{% for k, v in {'b':1}|items %}{{ k }}{{ v }}{% endfor %}"),
            "b1a2a2b1b1");
  EXPECT_EQ(Render("{{ 'a</think>b'.split('</think>')[-1] }}{{ ' x '.strip() }}{{ '\\n\\ny'.lstrip('\\n') }}"
                   "{{ 'z..'.rstrip('.') }}{{ 'abc'.startswith('ab') }}{{ {'k':1}.get('q', 2) }}{{ 'Ab'.upper() }}"),
            "bxyzTrue2AB");
  EXPECT_EQ(Render("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif "
                   "%}{{ i }}{% endfor %}"),
            "02");
  EXPECT_EQ(Render("{{ bos_token }}{{ 'y' if add_generation_prompt else 'n' }}{{ tools is none }}{{ none }}"),
            "<s>yTrueNone");
  EXPECT_EQ(Render("{{ strftime_now('%Y')|length }}"), "4");
  EXPECT_EQ(Render("{{ (messages|first)['role'] }}{{ messages|last|attr('role') }}{{ 'a,b'|replace(',', ';') }}"),
            "userassistanta;b");
}

TEST(ChatTemplate, WhitespaceAsTransformersSetsIt) {
  EXPECT_EQ(Render("{% if true %}\na\n{% endif %}\nb\n"), "a\nb");
  EXPECT_EQ(Render("x\n   {% if true %}\n  y\n   {% endif %}\nz"), "x\n  y\nz");
  EXPECT_EQ(Render("x  {%- if true -%}  \n y {%- endif %}"), "xy");
}

// A namespace that holds itself would have no end when printed.
TEST(ChatTemplate, NamespacesCannotHoldThemselves) {
  for (const char* use :
       {"{% set ns.a = ns %}{{ ns }}", "{% set ns.a = [ns] %}", "{% set b = ns %}{% set ns.a = b %}", "{{ ns ~ '' }}",
        "{% set b = {'x': {'y': 1}}, ns %}", "{% for b in [ns] %}{% endfor %}", "{% set b = [namespace()] %}",
        "{# {{ ' #}{{ ns }}", "{% raw %}{{ ' {% endraw %}{{ ns }}", "{{ {'a':{'b':1}}['{{'] ~ ns }}"}) {
    const std::string text = Render("{% set ns = namespace(a=1) %}\n" + std::string(use));
    EXPECT_TRUE(text.starts_with("E: line 2: ")) << text;
  }
  EXPECT_EQ(
      Render(
          "{% set ns = namespace(a='ns') %}{% set ns.a = ns.a ~ 'ns' %}{{ ns.a }}{{ ns['a'] }}{{ ns is defined }} ns"),
      "nsnsnsnsTrue ns");
}

TEST(ChatTemplate, DevelopersAreTheSystemWhereTheyAreUnknown) {
  ChatInput input;
  input.messages = Json::parse(R"([{"role": "developer", "content": "a"}, {"role": "user", "content": "developer"}])");
  const std::string loop = "{% for m in messages %}[{{ m.role }} {{ m.content }}]{% endfor %}";
  const auto render = [&](const std::string& source) {
    return *ChatTemplate::Compile(source, "t")->Render(input, Json());
  };
  EXPECT_EQ(render(loop), "[system a][user developer]");
  EXPECT_EQ(render("{% if messages[0].role == 'developer' %}!{% endif %}" + loop), "![developer a][user developer]");
}

TEST(ChatTemplate, LimitsAndBadInput) {
  EXPECT_TRUE(Render("{% for a in range(100000) %}{% for b in range(100000) %}{% set c = a %}{% endfor %}{% endfor %}")
                  .starts_with("E: "));
  EXPECT_TRUE(Render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").starts_with("E: "));
  EXPECT_TRUE(Render("{{ 'x' * 999999999999 }}").starts_with("E: "));
  EXPECT_TRUE(Render("{{ nothing.at.all }}").starts_with("E: "));
  EXPECT_TRUE(Render(std::string(5000, '(').append("{{").append(5000, '(')).starts_with("E: "));
  ChatInput input;
  input.messages = Json::object();
  const auto compiled = ChatTemplate::Compile("x", "t");
  ASSERT_TRUE(compiled.has_value());
  EXPECT_FALSE(compiled->Render(input, Json()).has_value());
  Json deep = Json::array();
  for (int i = 0; i < 200; ++i) deep = Json::array({deep});
  input.messages = deep;
  EXPECT_EQ(compiled->Render(input, Json()).error().where, "messages");
}

}  // namespace
}  // namespace deepinfer::text
