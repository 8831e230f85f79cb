// Everything that a compiled graph depends on. Two equal keys may share an executable; nothing else may.
//
// ForEachField is the only list of the fields: equality, hash, text, JSON and the explanation of a miss come from it.
// The number of threads is no part of it, since it changes no bits. Plain data. Equality and hash do not allocate for
// keys under 2 KiB of text.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/dtype.h"
#include "base/error.h"

namespace deepinfer::backend {

const char* ToString(GraphMode mode);  // "full" "breakable"

struct GraphKey {
  std::string model;           // fingerprint: header hash, size, time of change, inode
  std::string build;           // build_id.h
  std::string backend;         // Backend::name()
  std::string target;          // Backend::target()
  std::string target_options;  // per-phase options of the target's compiler
  std::string phase;           // "prefill", "decode"
  int64_t tokens = 0;
  int64_t rows = 0;
  int64_t requests = 0;
  int64_t block_size = 0;
  int64_t blocks = 0;
  int64_t max_blocks = 0;
  int64_t slots = 0;
  int64_t ranks = 1;
  DType activations = DType::kBF16;
  DType kv = DType::kBF16;
  std::string encodings;  // digest of the type of every weight on every rank, as the graph sees it
  std::string numerics;   // "native", "portable", "int8"
  GraphMode graph_mode = GraphMode::kFull;
  std::vector<std::string> passes;

  bool operator==(const GraphKey&) const = default;

  // Calls visit(name, pointer to member) for each field, in order.
  template <class Visitor>
  static void ForEachField(Visitor&& visit) {
    visit("model", &GraphKey::model);
    visit("build", &GraphKey::build);
    visit("backend", &GraphKey::backend);
    visit("target", &GraphKey::target);
    visit("target_options", &GraphKey::target_options);
    visit("phase", &GraphKey::phase);
    visit("tokens", &GraphKey::tokens);
    visit("rows", &GraphKey::rows);
    visit("requests", &GraphKey::requests);
    visit("block_size", &GraphKey::block_size);
    visit("blocks", &GraphKey::blocks);
    visit("max_blocks", &GraphKey::max_blocks);
    visit("slots", &GraphKey::slots);
    visit("ranks", &GraphKey::ranks);
    visit("activations", &GraphKey::activations);
    visit("kv", &GraphKey::kv);
    visit("encodings", &GraphKey::encodings);
    visit("numerics", &GraphKey::numerics);
    visit("graph_mode", &GraphKey::graph_mode);
    visit("passes", &GraphKey::passes);
  }

  uint64_t Hash() const;     // XXH3 of Text()
  std::string Text() const;  // one line name=value per field
  nlohmann::json ToJson() const;
  // Every field must be there, with its type, and no other.
  static Result<GraphKey> FromJson(const nlohmann::json& json);
};

struct GraphKeyHash {
  size_t operator()(const GraphKey& key) const { return static_cast<size_t>(key.Hash()); }
};

struct FieldDiff {
  std::string name;
  std::string left;
  std::string right;
};

std::vector<FieldDiff> Diff(const GraphKey& left, const GraphKey& right);
// "tokens is 256, there 128; rows is 2, there 1"
std::string DescribeDiff(const std::vector<FieldDiff>& diff);

}  // namespace deepinfer::backend
