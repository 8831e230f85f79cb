#include "base/fixed_math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace deepinfer {
namespace {

// ln 2 in two parts; the first has so few bits that its product with an exponent is exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kHalfPi = 0x1.921fb54442d18p0;

// The first 256 bits of 2 / pi after the point.
constexpr uint32_t kTwoOverPi[8] = {0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0,
                                    0xDB629599, 0x3C439041, 0xFE5163AB, 0xDEBBC561};

uint64_t BitsOfTwoOverPi(int first) {  // 64 of them, from bit `first`; before the point there are zeros
  uint64_t bits = 0;
  for (int i = first; i < first + 64; ++i) {
    const uint32_t bit = i < 0 ? 0 : kTwoOverPi[i / 32] >> (31 - i % 32) & 1;
    bits = bits << 1 | bit;
  }
  return bits;
}

// angle = quadrant * pi / 2 + rest, |rest| <= pi / 4. Only the bits of 2 / pi whose product with the mantissa reaches
// into the quadrant and below it matter: with 128 of them, products wrap at whole turns.
struct Reduced {
  int quadrant;
  double rest;
};
Reduced Reduce(float magnitude) {
  if (magnitude < 0.78539816f) return {0, magnitude};
  const uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  const uint32_t mantissa = (bits & 0x7fffff) | 0x800000;
  const int exponent = static_cast<int>(bits >> 23) - 150;  // magnitude = mantissa * 2^exponent
  using Wide = unsigned __int128;
  const Wide window = Wide{BitsOfTwoOverPi(exponent - 2)} << 64 | BitsOfTwoOverPi(exponent + 62);
  const Wide turns = window * mantissa;                     // quadrants, in units of 2^-126, modulo 4
  const auto fraction = static_cast<__int128>(turns << 2);  // of the nearest quadrant, in units of 2^-128
  const int quadrant = static_cast<int>(turns >> 126) + (fraction < 0 ? 1 : 0);
  return {quadrant & 3, static_cast<double>(fraction) * 0x1p-128 * kHalfPi};
}

// 1/n!; the last terms of both series are below 1e-19 for |x| <= pi / 4.
double Sine(double x) {
  const double z = x * x;
  double p = 1.0 / 355687428096000;
  p = p * z - 1.0 / 1307674368000;
  p = p * z + 1.0 / 6227020800;
  p = p * z - 1.0 / 39916800;
  p = p * z + 1.0 / 362880;
  p = p * z - 1.0 / 5040;
  p = p * z + 1.0 / 120;
  p = p * z - 1.0 / 6;
  return x + x * (z * p);
}
double Cosine(double x) {
  const double z = x * x;
  double p = 1.0 / 20922789888000;
  p = p * z - 1.0 / 87178291200;
  p = p * z + 1.0 / 479001600;
  p = p * z - 1.0 / 3628800;
  p = p * z + 1.0 / 40320;
  p = p * z - 1.0 / 720;
  p = p * z + 1.0 / 24;
  p = p * z - 0.5;
  return 1.0 + z * p;
}

}  // namespace

double FixedExp(double x) {
  if (std::isnan(x)) return x;
  if (x < -708) return 0;
  if (x > 709) return std::numeric_limits<double>::infinity();
  const double n = std::floor(x * 0x1.71547652b82fep0 + 0.5);
  const double r = (x - n * kLn2High) - n * kLn2Low;  // |r| <= ln2 / 2: 14 terms are off by less than 1e-17
  double p = 1.0 / 6227020800;
  for (const double factorial :
       {479001600.0, 39916800.0, 3628800.0, 362880.0, 40320.0, 5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0}) {
    p = p * r + 1.0 / factorial;
  }
  p = p * r + 1.0;
  return p * std::bit_cast<double>(static_cast<uint64_t>(static_cast<int64_t>(n) + 1023) << 52);
}

double FixedLog(double x) {
  if (std::isnan(x) || x == std::numeric_limits<double>::infinity()) return x;
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (x < 0) return std::numeric_limits<double>::quiet_NaN();
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  double exponent = static_cast<double>(static_cast<int64_t>(bits >> 52) - 1023);
  double mantissa = std::bit_cast<double>((bits & 0xfffffffffffffu) | uint64_t{1023} << 52);
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    exponent += 1;
  }
  // ln m = 2 atanh((m - 1) / (m + 1)); the argument is at most 0.172, so terms fall by 34 each.
  const double s = (mantissa - 1) / (mantissa + 1), z = s * s;
  double p = 1.0 / 23;
  for (int n = 21; n >= 3; n -= 2) p = p * z + 1.0 / n;
  return exponent * kLn2High + (exponent * kLn2Low + (2 * s + 2 * s * (z * p)));
}

double FixedPow(double base, double exponent) {
  return FixedExp(exponent * FixedLog(base));
}

SineCosine FixedSineCosine(float angle) {
  if (!std::isfinite(angle)) {
    return {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  }
  const Reduced r = Reduce(std::fabs(angle));
  const double sine = Sine(r.rest), cosine = Cosine(r.rest);
  SineCosine result = r.quadrant == 0   ? SineCosine{sine, cosine}
                      : r.quadrant == 1 ? SineCosine{cosine, -sine}
                      : r.quadrant == 2 ? SineCosine{-sine, -cosine}
                                        : SineCosine{-cosine, sine};
  if (std::signbit(angle)) result.sine = -result.sine;
  return result;
}

}  // namespace deepinfer
