// Every primitive, on every dtype, gives what the reference backend gives.
#include "pjrt/single_ops.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/half.h"
#include "pjrt/pjrt_backend.h"
#include "pjrt/test_plugins.h"
#include "pjrt/test_session.h"
#include "reference/reference.h"

namespace deepinfer::pjrt {
namespace {

double ValueAt(const HostBuffer& bytes, DType dtype, int64_t i) {
  const std::byte* at = bytes.data() + static_cast<size_t>(i) * SizeOf(dtype);
  const auto read = [&](auto value) {
    std::memcpy(&value, at, sizeof(value));
    return value;
  };
  switch (dtype) {
    case DType::kI1:
      return read(uint8_t()) != 0 ? 1 : 0;
    case DType::kI8:
      return read(int8_t());
    case DType::kU8:
      return read(uint8_t());
    case DType::kI32:
      return read(int32_t());
    case DType::kU32:
      return read(uint32_t());
    case DType::kI64:
      return static_cast<double>(read(int64_t()));
    case DType::kF8E4M3:
      return F8E4M3ToF32(read(uint8_t()));
    case DType::kF16:
      return F16ToF32(read(uint16_t()));
    case DType::kBF16:
      return BF16ToF32(read(uint16_t()));
    case DType::kF32:
      return read(float());
  }
  return 0;
}

// Elementary functions and sums differ in f32 by a few units in the last place; that may move a narrow result to its
// neighbour. Everything else is exact.
bool IsExact(ir::Op op) {
  switch (op) {
    case ir::Op::kExp:
    case ir::Op::kLog:
    case ir::Op::kTanh:
    case ir::Op::kSqrt:
    case ir::Op::kRsqrt:
    case ir::Op::kSin:
    case ir::Op::kCos:
    case ir::Op::kLogistic:
    case ir::Op::kPow:
    case ir::Op::kDotGeneral:
    case ir::Op::kReduce:
    case ir::Op::kCumsum:
    case ir::Op::kCall:
    case ir::Op::kBreak:
    case ir::Op::kCase:
      return false;
    default:
      return true;
  }
}

double Tolerance(ir::Op op, DType dtype, double value) {
  if (IsExact(op) || !IsFloat(dtype)) return 0;
  const double size = std::fabs(value);
  switch (dtype) {
    case DType::kF8E4M3:
      return std::max(size / 8, 1.0 / 512);
    case DType::kF16:
      return std::max(size / 1024, 6e-8);
    case DType::kBF16:
      return size / 128 + 1e-6;
    default:
      return size * 1e-5 + 1e-5;
  }
}

// What lies past the live count of the first dimension is undefined.
int64_t LiveElements(const ir::Type& type) {
  if (type.LeadingTag() == ir::DimTag::kNone || type.dims[0].size == 0) return type.NumElements();
  return type.NumElements() / type.dims[0].size * 3;  // live_counts of InputData: 3 tokens
}

void ExpectSame(const SingleOp& item, const std::string& name, const ir::Type& type, const HostBuffer& want,
                const HostBuffer& got) {
  for (int64_t i = 0; i < LiveElements(type); ++i) {
    const double a = ValueAt(want, type.dtype, i);
    const double b = ValueAt(got, type.dtype, i);
    if (std::isnan(a) && std::isnan(b)) continue;
    if (a == b) continue;
    EXPECT_LE(std::fabs(a - b), Tolerance(item.op, type.dtype, a))
        << item.name << ": " << name << "[" << i << "]: " << a << " became " << b;
    if (!(std::fabs(a - b) <= Tolerance(item.op, type.dtype, a))) return;
  }
}

void SetInputs(const SingleOp& item, bool corners, TestSession* session) {
  const ir::Function& f = item.module.entry();
  uint32_t seed = 1;
  for (const ir::Input& input : f.inputs) {
    if (input.kind != ir::InputKind::kMetadata) continue;
    const HostBuffer data = InputData(input, f.TypeOf(input.value), seed++, corners);
    std::copy(data.begin(), data.end(), session->inputs(item.name).at(input.name).begin());
  }
}

class ConformanceTest : public PluginTest {};

TEST_P(ConformanceTest, EveryPrimitiveAgreesWithTheReference) {
  auto backend = CreatePjrtBackend({.plugin = file.path});
  ASSERT_TRUE(backend.has_value()) << backend.error().ToString();
  TestSession tested(*std::move(backend));
  TestSession reference(reference::CreateReferenceBackend({}));
  const std::vector<SingleOp> items = SingleOps();
  for (TestSession* session : {&reference, &tested}) {
    for (const SingleOp& item : items) session->Add(item.name, item.module);
    const Status started = session->Start();
    ASSERT_TRUE(started.has_value()) << started.error().ToString();
  }
  for (const SingleOp& item : items) {
    for (const bool corners : {false, true}) {
      for (TestSession* session : {&reference, &tested}) {
        SetInputs(item, corners, session);
        const Status run = session->Run(item.name);
        ASSERT_TRUE(run.has_value()) << item.name << ": " << run.error().ToString();
      }
      for (const ir::Output& output : item.module.entry().outputs) {
        const auto got = tested.outputs(item.name).find(output.name);
        if (got == tested.outputs(item.name).end()) continue;
        ExpectSame(item, output.name + (corners ? " (corners)" : ""), item.module.entry().TypeOf(output.value),
                   reference.outputs(item.name).at(output.name), got->second);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Plugins, ConformanceTest, testing::Range(0, kMaxTestPlugins));

}  // namespace
}  // namespace deepinfer::pjrt
