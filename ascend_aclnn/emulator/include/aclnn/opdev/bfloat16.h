/* op::bfloat16 of CANN's C++ headers (opbase: docs/zh/api/nnopbase/opdev/bfloat16), for programs that prepare or read
 * data. Results are computed in float32 and rounded, half to even. */
#ifndef ASCEND_ACLNN_OPDEV_BFLOAT16_H
#define ASCEND_ACLNN_OPDEV_BFLOAT16_H
#ifdef __cplusplus

#include <complex>
#include <limits>
#include <ostream>

#include "fp16_t.h"

namespace op {

typedef std::complex<float> complex64;
typedef std::complex<double> complex128;

struct bfloat16 {
    struct from_bits_t {};
    static constexpr from_bits_t from_bits() { return from_bits_t(); }

    uint16_t value;
    static constexpr uint16_t NAN_VALUE = 0x7fc0;

    bfloat16() : value(0) {}
    constexpr bfloat16(uint16_t bits, from_bits_t) : value(bits) {}
    bfloat16(float number) : value(rounded(number)) {}
    bfloat16(const complex64 &number) : value(rounded(number.real())) {}
    bfloat16(const complex128 &number) : value(rounded(static_cast<float>(number.real()))) {}
    template <typename T> bfloat16(const T &number) : value(rounded(static_cast<float>(number))) {}
    template <typename T> bfloat16 &operator=(T number)
    {
        value = rounded(static_cast<float>(number));
        return *this;
    }
    static bfloat16 round_to_bfloat16(float number) { return bfloat16(number); }

    operator float() const
    {
        const uint32_t bits = static_cast<uint32_t>(value) << 16;
        float number;
        std::memcpy(&number, &bits, 4);
        return number;
    }
    operator double() const { return static_cast<double>(number()); }
    operator bool() const { return std::fabs(number()) >= std::numeric_limits<float>::epsilon(); } /* as CANN's does */
    operator char() const { return static_cast<char>(number()); }
    operator signed char() const { return static_cast<signed char>(number()); }
    operator unsigned char() const { return static_cast<unsigned char>(number()); }
    operator short() const { return static_cast<short>(number()); }
    operator unsigned short() const { return static_cast<unsigned short>(number()); }
    operator int() const { return static_cast<int>(number()); }
    operator unsigned int() const { return static_cast<unsigned int>(number()); }
    operator long() const { return static_cast<long>(number()); }
    operator unsigned long() const { return static_cast<unsigned long>(number()); }
    operator long long() const { return static_cast<long long>(number()); }
    operator unsigned long long() const { return static_cast<unsigned long long>(number()); }
    operator complex64() const { return complex64(number(), 0.0f); }
    operator complex128() const { return complex128(static_cast<double>(number()), 0.0); }

    static constexpr bfloat16 epsilon() { return bfloat16(0x3c00, from_bits()); }
    static constexpr bfloat16 highest() { return bfloat16(0x7f7f, from_bits()); }
    static constexpr bfloat16 lowest() { return bfloat16(0xff7f, from_bits()); }
    static constexpr bfloat16 min_positive_normal() { return bfloat16(0x0080, from_bits()); }
    bool IsZero() const { return (value & 0x7fffu) == 0; }

private:
    float number() const { return operator float(); }

    static uint16_t rounded(float number)
    {
        uint32_t bits;
        std::memcpy(&bits, &number, 4);
        if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
        return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    }
};

#define ASCEND_ACLNN_BFLOAT16(sign)                                                                                      \
    inline bfloat16 operator sign(bfloat16 a, bfloat16 b) { return bfloat16(static_cast<float>(a) sign static_cast<float>(b)); } \
    inline bfloat16 &operator sign##=(bfloat16 &a, bfloat16 b) { return a = a sign b; }
ASCEND_ACLNN_BFLOAT16(+)
ASCEND_ACLNN_BFLOAT16(-)
ASCEND_ACLNN_BFLOAT16(*)
ASCEND_ACLNN_BFLOAT16(/)
#undef ASCEND_ACLNN_BFLOAT16

inline bfloat16 operator+(bfloat16 a, int b) { return bfloat16(static_cast<float>(a) + static_cast<float>(b)); }
inline bfloat16 operator+(int a, bfloat16 b) { return bfloat16(static_cast<float>(a) + static_cast<float>(b)); }
inline bfloat16 operator-(bfloat16 a) { return bfloat16(static_cast<uint16_t>(a.value ^ 0x8000u), bfloat16::from_bits()); }

inline bool operator==(bfloat16 a, bfloat16 b) { return a.value == b.value; } /* of bits, as CANN's */
inline bool operator!=(bfloat16 a, bfloat16 b) { return a.value != b.value; }
inline bool operator<(bfloat16 a, bfloat16 b) { return static_cast<float>(a) < static_cast<float>(b); }
inline bool operator<=(bfloat16 a, bfloat16 b) { return static_cast<float>(a) <= static_cast<float>(b); }
inline bool operator>(bfloat16 a, bfloat16 b) { return static_cast<float>(a) > static_cast<float>(b); }
inline bool operator>=(bfloat16 a, bfloat16 b) { return static_cast<float>(a) >= static_cast<float>(b); }
template <typename T> bool operator<(T a, bfloat16 b) { return static_cast<float>(a) < static_cast<float>(b); }
template <typename T> bool operator>(T a, bfloat16 b) { return static_cast<float>(a) > static_cast<float>(b); }

inline std::ostream &operator<<(std::ostream &stream, const bfloat16 &number) { return stream << static_cast<float>(number); }

inline tagFp16::tagFp16(const bfloat16 &number) : val(rounded(static_cast<double>(static_cast<float>(number)))) {}
inline tagFp16::operator bfloat16() const { return bfloat16(toFloat()); }

} /* namespace op */

namespace std {
inline bool isnan(op::bfloat16 number) { return (number.value & 0x7fffu) > 0x7f80u; }
} /* namespace std */

#endif
#endif
