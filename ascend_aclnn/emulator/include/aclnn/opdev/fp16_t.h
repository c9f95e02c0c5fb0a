/* op::fp16_t, the float16 of CANN's C++ headers (opbase: docs/zh/api/nnopbase/opdev/fp16_t), for programs that prepare or
 * read data. Every conversion and operation rounds once, half to even; what is too large for float16 is infinite, and
 * what is too large for an integer is its largest value. */
#ifndef ASCEND_ACLNN_OPDEV_FP16_T_H
#define ASCEND_ACLNN_OPDEV_FP16_T_H
#ifdef __cplusplus

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace op {

struct bfloat16;

typedef struct tagFp16 {
    uint16_t val;

    tagFp16() : val(0) {}
    constexpr tagFp16(const uint16_t &bits) : val(bits) {} /* the bits; assigning a uint16_t converts its value */
    tagFp16(const tagFp16 &other) = default;
    tagFp16(const bfloat16 &value); /* in opdev/bfloat16.h */
    template <typename T> tagFp16(const T &value) : val(rounded(static_cast<double>(value))) {}

    tagFp16 &operator=(const tagFp16 &other) = default;
    template <typename T> typename std::enable_if<std::is_arithmetic<T>::value, tagFp16 &>::type operator=(const T &value)
    {
        val = rounded(static_cast<double>(value));
        return *this;
    }

    operator float() const
    {
        const uint32_t sign = static_cast<uint32_t>(val & 0x8000u) << 16, magnitude = val & 0x7fffu;
        uint32_t bits = magnitude << 13;
        if (magnitude >= 0x7c00u) {
            bits |= 0x7f800000u;
        } else { /* times 2^112 */
            float scaled;
            std::memcpy(&scaled, &bits, 4);
            scaled *= 5192296858534827628530496329220096.0f;
            std::memcpy(&bits, &scaled, 4);
        }
        bits |= sign;
        float value;
        std::memcpy(&value, &bits, 4);
        return value;
    }
    operator double() const { return static_cast<double>(toFloat()); }
    operator bfloat16() const;
    operator bool() const { return val != 0; }
    operator int8_t() const { return whole<int8_t>(); }
    operator uint8_t() const { return whole<uint8_t>(); }
    operator int16_t() const { return whole<int16_t>(); }
    operator uint16_t() const { return whole<uint16_t>(); }
    operator int32_t() const { return whole<int32_t>(); }
    operator uint32_t() const { return whole<uint32_t>(); }
    operator int64_t() const { return whole<int32_t>(); }
    operator uint64_t() const { return whole<uint32_t>(); }

    float toFloat() const { return operator float(); }
    double toDouble() const { return operator double(); }
    int8_t toInt8() const { return whole<int8_t>(); }
    uint8_t toUInt8() const { return whole<uint8_t>(); }
    int16_t toInt16() const { return whole<int16_t>(); }
    uint16_t toUInt16() const { return whole<uint16_t>(); }
    int32_t toInt32() const { return whole<int32_t>(); }
    uint32_t toUInt32() const { return whole<uint32_t>(); }

    /* 1 and -1 of infinities, 0 of everything else. */
    int IsInf() const { return (val & 0x7fffu) != 0x7c00u ? 0 : (val & 0x8000u) != 0 ? -1 : 1; }

    /* float32 has twice the bits and two, so its result, rounded once more, is what one rounding would give. */
    tagFp16 operator+(const tagFp16 other) const { return tagFp16(toFloat() + other.toFloat()); }
    tagFp16 operator-(const tagFp16 other) const { return tagFp16(toFloat() - other.toFloat()); }
    tagFp16 operator*(const tagFp16 other) const { return tagFp16(toFloat() * other.toFloat()); }
    tagFp16 operator/(const tagFp16 other) const { return tagFp16(toFloat() / other.toFloat()); }
    tagFp16 operator+=(const tagFp16 other) { return *this = *this + other; }
    tagFp16 operator-=(const tagFp16 other) { return *this = *this - other; }
    tagFp16 operator*=(const tagFp16 other) { return *this = *this * other; }
    tagFp16 operator/=(const tagFp16 other) { return *this = *this / other; }

    bool operator==(const tagFp16 &other) const { return toFloat() == other.toFloat(); }
    bool operator!=(const tagFp16 &other) const { return toFloat() != other.toFloat(); }
    bool operator<(const tagFp16 &other) const { return toFloat() < other.toFloat(); }
    bool operator<=(const tagFp16 &other) const { return toFloat() <= other.toFloat(); }
    bool operator>(const tagFp16 &other) const { return toFloat() > other.toFloat(); }
    bool operator>=(const tagFp16 &other) const { return toFloat() >= other.toFloat(); }

private:
    static uint16_t rounded(double value)
    {
        const uint16_t sign = std::signbit(value) ? 0x8000u : 0;
        const double size = std::fabs(value);
        if (size != size) return static_cast<uint16_t>(sign | 0x7fffu);
        if (size >= 65520.0) return static_cast<uint16_t>(sign | 0x7c00u);
        int exponent = -14; /* of the least normal number: smaller ones have its last bit */
        if (size >= std::ldexp(1.0, -14)) exponent = std::ilogb(size);
        const double units = std::nearbyint(std::ldexp(size, 10 - exponent)); /* of the last bit; 2048 carries */
        return static_cast<uint16_t>(sign | (((exponent + 14) * 1024) + static_cast<int>(units)));
    }

    template <typename T> T whole() const
    {
        const double least = static_cast<double>(std::numeric_limits<T>::min());
        const double most = static_cast<double>(std::numeric_limits<T>::max());
        const bool negative = (val & 0x8000u) != 0;
        if ((val & 0x7c00u) == 0x7c00u) return negative ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
        const double near = std::nearbyint(toDouble());
        return near <= least ? std::numeric_limits<T>::min() : near >= most ? std::numeric_limits<T>::max() : static_cast<T>(near);
    }
} fp16_t;

template <typename T> bool operator<(T a, fp16_t b) { return a < static_cast<T>(b); }
template <typename T> bool operator>(T a, fp16_t b) { return a > static_cast<T>(b); }

} /* namespace op */

namespace std {
inline bool isnan(op::fp16_t value) { return (value.val & 0x7fffu) > 0x7c00u; }
inline float abs(op::fp16_t value) { return std::fabs(value.toFloat()); }
} /* namespace std */

#endif
#endif
