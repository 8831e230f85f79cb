#include <cmath>

#include "interp/testing.h"

namespace deepinfer::interp {
namespace {

using Ints = std::vector<int64_t>;
using ir::DimTag;
using ir::Op;

// Row-major index of a position.
int64_t Flat(const Ints& index, const Ints& shape) {
  int64_t flat = 0;
  for (size_t i = 0; i < shape.size(); ++i) flat = flat * shape[i] + index[i];
  return flat;
}

template <class F>
void ForEach(const Ints& shape, F&& f) {
  Ints index(shape.size(), 0);
  int64_t total = 1;
  for (const int64_t size : shape) total *= size;
  for (int64_t n = 0; n < total; ++n) {
    f(index);
    for (size_t i = shape.size(); i-- > 0;) {
      if (++index[i] < shape[i]) break;
      index[i] = 0;
    }
  }
}

TEST(ShapeTest, BroadcastEveryDType) {
  for (const DType dtype : kAll) {
    const Tensor x = Random(dtype, {3, 1}, 1);
    const Tensor y = RunOne(Op::kBroadcastInDim, {x}, {{"dims", Ints{1, 3}}}, {ir::Type(dtype, {2, 3, 4, 5})});
    ForEach({2, 3, 4, 5}, [&](const Ints& i) { ASSERT_EQ(y.At(Flat(i, {2, 3, 4, 5})), x.At(i[1])); });
  }
  const Tensor scalar = Make(DType::kF32, {}, {7});
  const Tensor y = RunOne(Op::kBroadcastInDim, {scalar}, {{"dims", Ints{}}}, {ir::Type(DType::kF32, {2, 3})});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(y.At(i), 7);
}

TEST(ShapeTest, TransposeAllPermutations) {
  const Tensor x = Random(DType::kF32, {2, 3, 4}, 2);
  Ints perm = {0, 1, 2};
  do {
    const Tensor y = RunOne(Op::kTranspose, {x}, {{"perm", perm}});
    const Ints shape = y.type.Shape();
    ForEach(shape, [&](const Ints& i) {
      Ints from(3);
      for (int d = 0; d < 3; ++d) from[perm[d]] = i[d];
      ASSERT_EQ(y.At(Flat(i, shape)), x.At(Flat(from, {2, 3, 4})));
    });
  } while (std::next_permutation(perm.begin(), perm.end()));
}

TEST(ShapeTest, SliceWithStrides) {
  const Tensor x = Random(DType::kI32, {6, 7}, 3, -1000, 1000);
  const Tensor y = RunOne(Op::kSlice, {x}, {{"start", Ints{1, 2}}, {"limit", Ints{6, 7}}, {"stride", Ints{2, 3}}});
  ASSERT_EQ(y.type.Shape(), (Ints{3, 2}));
  ForEach({3, 2},
          [&](const Ints& i) { EXPECT_EQ(y.At(Flat(i, {3, 2})), x.At(Flat({1 + 2 * i[0], 2 + 3 * i[1]}, {6, 7}))); });
}

TEST(ShapeTest, ConcatenateAlongEachDimension) {
  const Tensor a = Random(DType::kBF16, {2, 3}, 4);
  const Tensor b = Random(DType::kBF16, {2, 3}, 5);
  const Tensor rows = RunOne(Op::kConcatenate, {a, b}, {{"dim", int64_t{0}}});
  const Tensor columns = RunOne(Op::kConcatenate, {a, b, a}, {{"dim", int64_t{1}}});
  ForEach({4, 3}, [&](const Ints& i) {
    EXPECT_EQ(rows.At(Flat(i, {4, 3})), (i[0] < 2 ? a : b).At(Flat({i[0] % 2, i[1]}, {2, 3})));
  });
  ForEach({2, 9}, [&](const Ints& i) {
    EXPECT_EQ(columns.At(Flat(i, {2, 9})), (i[1] / 3 == 1 ? b : a).At(Flat({i[0], i[1] % 3}, {2, 3})));
  });
}

TEST(ShapeTest, PadPutsTheValueAround) {
  const Tensor x = Random(DType::kF16, {2, 2}, 6);
  const Tensor y = RunOne(Op::kPad, {x, Make(DType::kF16, {}, {9})}, {{"low", Ints{1, 0}}, {"high", Ints{0, 2}}});
  ASSERT_EQ(y.type.Shape(), (Ints{3, 4}));
  ForEach({3, 4}, [&](const Ints& i) {
    const bool inside = i[0] >= 1 && i[1] < 2;
    EXPECT_EQ(y.At(Flat(i, {3, 4})), inside ? x.At(Flat({i[0] - 1, i[1]}, {2, 2})) : 9);
  });
}

TEST(ShapeTest, ReshapeAndBitcastKeepBytes) {
  const Tensor x = Random(DType::kF32, {4, 6}, 7);
  EXPECT_EQ(RunOne(Op::kReshape, {x}, {}, {ir::Type(DType::kF32, {3, 8})}).data, x.data);
  EXPECT_EQ(RunOne(Op::kBitcastConvert, {x}, {}, {ir::Type(DType::kU32, {4, 6})}).data, x.data);
}

TEST(ShapeTest, ConstantsAndIota) {
  const Tensor splat = RunOne(Op::kConstant, {}, {{"value", ir::Bytes{3, 0, 0, 0}}}, {ir::Type(DType::kI32, {5})});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(splat.At(i), 3);
  const Tensor whole = RunOne(Op::kConstant, {}, {{"value", ir::Bytes{1, 2, 3}}}, {ir::Type(DType::kU8, {3})});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(whole.At(i), i + 1);
  for (const DType dtype : {DType::kI8, DType::kI32, DType::kI64, DType::kBF16, DType::kF32}) {
    for (int64_t dim = 0; dim < 3; ++dim) {
      const Tensor y = RunOne(Op::kIota, {}, {{"dim", dim}}, {ir::Type(dtype, {3, 4, 5})});
      ForEach({3, 4, 5}, [&](const Ints& i) { ASSERT_EQ(y.At(Flat(i, {3, 4, 5})), i[dim]); });
    }
  }
}

TEST(ShapeTest, MovesStopAtTheLiveCount) {
  const ir::Dim tokens = {6, DimTag::kTokens};
  const Tensor x = Random(DType::kF32, {tokens, 4}, 8);
  const auto check = [&](const Tensor& y, int64_t row) {
    for (int64_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y.At(i)), i / row >= 2) << i;
  };
  const ir::LiveCounts live = LiveTokens(2);
  check(RunOne(Op::kReshape, {x}, {}, {ir::Type(DType::kF32, {tokens, 2, 2})}, live, nullptr, 0xff), 4);
  check(RunOne(Op::kBroadcastInDim, {x}, {{"dims", Ints{0, 2}}}, {ir::Type(DType::kF32, {tokens, 3, 4})}, live, nullptr,
               0xff),
        12);
  check(RunOne(Op::kTranspose, {Random(DType::kF32, {4, tokens}, 9)}, {{"perm", Ints{1, 0}}}, {}, live, nullptr, 0xff),
        4);
  check(RunOne(Op::kSlice, {x}, {{"start", Ints{0, 1}}, {"limit", Ints{6, 3}}, {"stride", Ints{1, 1}}}, {}, live,
               nullptr, 0xff),
        2);
  check(RunOne(Op::kConcatenate, {x, x}, {{"dim", int64_t{1}}}, {}, live, nullptr, 0xff), 8);
  check(RunOne(Op::kPad, {x, Make(DType::kF32, {}, {1})}, {{"low", Ints{0, 1}}, {"high", Ints{0, 0}}}, {}, live,
               nullptr, 0xff),
        5);
  check(RunOne(Op::kIota, {}, {{"dim", int64_t{1}}}, {ir::Type(DType::kF32, {tokens, 3})}, live, nullptr, 0xff), 3);
}

TEST(IndexingTest, TakeClampsIndices) {
  for (const DType dtype : kAll) {
    const Tensor table = Random(dtype, {4, 3}, 10);
    const Tensor ids = Make(DType::kI32, {2, 3}, {0, 3, 1, -5, 4, 1000000});
    const Tensor y = RunOne(Op::kTake, {table, ids});
    const int64_t want[] = {0, 3, 1, 0, 3, 3};
    for (int i = 0; i < 18; ++i) ASSERT_EQ(y.At(i), table.At(want[i / 3] * 3 + i % 3)) << ToString(dtype);
  }
}

TEST(IndexingTest, IndexPutWritesLiveRowsWithinRangeOnly) {
  // cache [N=3,H=2,B=4,D=2], indexed by block and offset.
  const Tensor cache = Random(DType::kF32, {3, 2, 4, 2}, 11);
  const Tensor blocks = Make(DType::kI32, {{5, DimTag::kTokens}}, {1, 2, 3, -1, 0});
  const Tensor offsets = Make(DType::kI32, {{5, DimTag::kTokens}}, {0, 3, 0, 1, 4});
  const Tensor rows = Random(DType::kF32, {{5, DimTag::kTokens}, 2, 2}, 12);
  const ir::AttrMap attrs = {{"dims", Ints{0, 2}}};
  for (const int64_t live : {1, 5}) {
    const Tensor y = RunOne(Op::kIndexPut, {cache, blocks, offsets, rows}, attrs, {}, LiveTokens(live));
    Tensor want = cache;
    for (int64_t t = 0; t < std::min<int64_t>(live, 2); ++t) {  // the rest is out of range
      for (int h = 0; h < 2; ++h) {
        for (int d = 0; d < 2; ++d) {
          want.Set(Flat({static_cast<int64_t>(blocks.At(t)), h, static_cast<int64_t>(offsets.At(t)), d}, {3, 2, 4, 2}),
                   rows.At((t * 2 + h) * 2 + d));
        }
      }
    }
    EXPECT_EQ(y.data, want.data) << live;
  }
}

TEST(IndexingTest, IndexPutInPlaceTouchesNothingElse) {
  ir::ModuleBuilder module;
  ir::Builder b = module.Entry("test");
  const ir::Value state = b.Input("s", ir::InputKind::kState, ir::Type(DType::kI32, {4}));
  const ir::Value ids = b.Input("i", ir::InputKind::kMetadata, ir::Type(DType::kI32, {2}));
  const ir::Value rows = b.Input("r", ir::InputKind::kMetadata, ir::Type(DType::kI32, {2}));
  b.Output("s", b.Emit(Op::kIndexPut, {state, ids, rows}, {{"dims", Ints{0}}}));
  const ir::Module built = *module.Finish();
  auto node = PrepareNode(built.entry(), built.entry().nodes[0]);
  ASSERT_TRUE(node.has_value());
  int32_t memory[] = {1, 2, 3, 4};
  const int32_t at[] = {2, 9};
  const int32_t with[] = {70, 80};
  const void* in[] = {memory, at, with};
  void* out[] = {memory};
  (*node)->Run(in, out, AllLive(), nullptr);
  EXPECT_EQ(memory[0], 1);
  EXPECT_EQ(memory[1], 2);
  EXPECT_EQ(memory[2], 70);
  EXPECT_EQ(memory[3], 4);
}

TEST(IndexingTest, DynamicSlicesClampTheirStarts) {
  const Tensor x = Random(DType::kF32, {5, 6}, 13);
  const auto scalar = [](double v) { return Make(DType::kI32, {}, {v}); };
  for (const auto& [start, clamped] : std::vector<std::pair<Ints, Ints>>{{{1, 2}, {1, 2}}, {{9, -3}, {3, 0}}}) {
    const Tensor at0 = scalar(static_cast<double>(start[0]));
    const Tensor at1 = scalar(static_cast<double>(start[1]));
    const Tensor y = RunOne(Op::kDynamicSlice, {x, at0, at1}, {{"sizes", Ints{2, 3}}});
    const Tensor part = Random(DType::kF32, {2, 3}, 14);
    const Tensor updated = RunOne(Op::kDynamicUpdateSlice, {x, part, at0, at1});
    Tensor want = x;
    ForEach({2, 3}, [&](const Ints& i) {
      const int64_t flat = Flat({clamped[0] + i[0], clamped[1] + i[1]}, {5, 6});
      EXPECT_EQ(y.At(Flat(i, {2, 3})), x.At(flat));
      want.Set(flat, part.At(Flat(i, {2, 3})));
    });
    EXPECT_EQ(updated.data, want.data);
  }
}

}  // namespace
}  // namespace deepinfer::interp
