// exp, log, pow, sine and cosine in double whose bits are the same on every machine: additions, multiplications and
// divisions in one order and no FMA, where a C library picks an implementation by instruction set.
//
// Within 2 ulp (Pow: 1e-14 relative), so that a result rounded to f32 is correctly rounded in all but rare ties. Pure,
// thread-safe. Sources: Taylor and atanh series; Payne and Hanek 1983 (reduction of the angle).
#pragma once

namespace deepinfer {

double FixedExp(double x);                      // 0 below -708, infinity above 709; NaN goes through
double FixedLog(double x);                      // x > 0 and normal; as std::log for 0, infinity, NaN and less than 0
double FixedPow(double base, double exponent);  // base > 0

struct SineCosine {
  double sine;
  double cosine;
};
SineCosine FixedSineCosine(float angle);  // radians, of any size; NaN for infinity and NaN

}  // namespace deepinfer
