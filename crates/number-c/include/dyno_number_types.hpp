/*
 * Number formats for C++14 without a library: what a code is worth, how a value becomes one, and a type
 * for each format, whose values are integers of 8, 16 or 32 bits.
 *
 * `dyno tune emit` writes this file into the header that it makes of a Number configuration file, and
 * dyno_number.hpp computes by it. Values are rounded to the nearest, ties to the even code; what is beyond
 * the largest becomes it, or infinity in formats of IEEE 754 with 16 bits and more.
 */
#ifndef DYNO_NUMBER_TYPES_HPP
#define DYNO_NUMBER_TYPES_HPP

#include <cfloat>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>

#if defined(__FAST_MATH__) || FLT_EVAL_METHOD != 0
#error "rounding to the nearest needs the arithmetic of IEEE 754: compile without -ffast-math, and for SSE2"
#endif

namespace dyno {

/* Codes that are not worth what the tuple says. */
enum class Special : std::uint8_t {
    /* None, and minus zero is never made. */
    Finite = 0,
    /* None, and zero has a sign. */
    SignedZero = 1,
    /* The largest exponent is infinity and NaN. */
    Ieee = 2,
    /* All ones after the sign are NaN. */
    Nan = 3,
    /* The code of minus zero is NaN. */
    NanForMinusZero = 4,
    /* Powers of two without zero; all ones are NaN. */
    Powers = 5,
    /* Two's complement. */
    Complement = 6,
};

/* <n_s, n_e, n_f, B>: bits of the sign, of the exponent and of the fraction, and the exponent's bias. */
struct Format {
    int sign_bits, exponent_bits, fraction_bits, bias;
    Special special;

    constexpr int bits() const { return sign_bits + exponent_bits + fraction_bits; }
    constexpr bool isBinary() const { return exponent_bits + fraction_bits == 0; }
    /* Equal steps: FIXED, and whole numbers. */
    constexpr bool isFixed() const { return exponent_bits == 0 && fraction_bits > 0; }
    constexpr bool isExp() const { return exponent_bits > 0 && fraction_bits == 0; }
    constexpr bool isFloat() const { return exponent_bits > 0 && fraction_bits > 0; }
    constexpr bool isF32() const {
        return exponent_bits == 8 && fraction_bits == 23 && bias == 127 && special == Special::Ieee &&
               sign_bits == 1;
    }
    constexpr bool operator==(const Format &other) const {
        return sign_bits == other.sign_bits && exponent_bits == other.exponent_bits &&
               fraction_bits == other.fraction_bits && bias == other.bias && special == other.special;
    }
};

/* The exponent of two of a step, negated. */
constexpr int stepOf(const Format &format) { return format.fraction_bits + format.bias; }

/* The largest finite code, without its sign. */
constexpr std::uint32_t largestOf(const Format &format, bool is_negative) {
    const std::uint32_t all = static_cast<std::uint32_t>(
        (std::uint64_t{1} << (format.exponent_bits + format.fraction_bits)) - 1);
    switch (format.special) {
    case Special::Ieee:
        return (((std::uint32_t{1} << format.exponent_bits) - 1) << format.fraction_bits) - 1;
    case Special::Nan:
    case Special::Powers:
        return all - 1;
    case Special::Complement:
        return all + (is_negative ? 1 : 0);
    default:
        return all;
    }
}

/* The format of a sum or product: FLOAT rather than EXP; otherwise the one whose largest value is more
 * times its least; of two alike, the one with the longer fraction, and else the left one. */
class Range {
public:
    /* The largest value over the least, as a whole number of 32 bits times a power of two. */
    constexpr explicit Range(const Format &format) : whole_(1), exponent_(0) {
        const std::uint32_t code = largestOf(format, false);
        if (format.special == Special::Powers) {
            exponent_ = static_cast<int>(code);
        } else if (format.isFixed()) {
            whole_ = code;
        } else if (!format.isBinary()) {
            const int n = format.fraction_bits;
            const std::uint32_t exponent = code >> n, fraction = code & ((std::uint32_t{1} << n) - 1);
            whole_ = exponent == 0 ? fraction : fraction | std::uint32_t{1} << n;
            exponent_ = exponent == 0 ? 0 : static_cast<int>(exponent) - 1;
        }
        while (whole_ >> 31 == 0) {
            whole_ <<= 1;
            exponent_ -= 1;
        }
    }
    constexpr bool operator<(const Range &other) const {
        return exponent_ < other.exponent_ || (exponent_ == other.exponent_ && whole_ < other.whole_);
    }

private:
    std::uint32_t whole_;
    int exponent_;
};

constexpr bool isRightWider(const Format &left, const Format &right) {
    if (left.isFloat() && right.isExp()) {
        return false;
    }
    if (left.isExp() && right.isFloat()) {
        return true;
    }
    const Range of_left(left), of_right(right);
    if (of_left < of_right || of_right < of_left) {
        return of_left < of_right;
    }
    return left.fraction_bits < right.fraction_bits;
}

namespace codes {

inline std::uint64_t bitsOf(double x) {
    std::uint64_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* 2 to a power from -1022 to 1023. */
inline double powerOfTwo(int exponent) {
    const std::uint64_t bits = static_cast<std::uint64_t>(exponent + 1023) << 52;
    double x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

/* More steps than any format has. */
constexpr std::int64_t BEYOND = std::int64_t{1} << 40;

/* The nearest whole number of one that is not negative, ties to the even one; at most BEYOND. */
inline std::int64_t nearest(double x) {
    const double most = static_cast<double>(BEYOND);
    /* From here on doubles are whole numbers. */
    const double whole = 4503599627370496.0;
    const double kept = x < most ? x : most;
    return static_cast<std::int64_t>((kept + whole) - whole);
}

/* The code without its sign of a value that is not negative, as if there were no largest. */
inline std::int64_t magnitudeOf(const Format &format, double x) {
    if (format.exponent_bits == 0) {
        return nearest(x * powerOfTwo(stepOf(format)));
    }
    const bool has_no_zero = format.special == Special::Powers;
    const int n = format.fraction_bits, first = (has_no_zero ? 0 : 1) - format.bias;
    const int exponent = static_cast<int>(bitsOf(x) >> 52) - 1023;
    /* Below 2^first, steps are as just above it. */
    const int binade = exponent > first ? exponent : first;
    if (x == 0.0 || binade - first > 256) {
        return x == 0.0 ? 0 : BEYOND;
    }
    const std::int64_t base = (static_cast<std::int64_t>(binade - first) << n) - (has_no_zero ? 1 : 0);
    const double steps = x * powerOfTwo(n - binade);
    if (n > 0) {
        return base + nearest(steps);
    }
    /* Codes are next to each other, but which of them is even is not said by the value. */
    const std::int64_t below = steps < 1.0 ? 0 : 1;
    const double rest = steps - static_cast<double>(below);
    const bool is_up = rest > 0.5 || (rest == 0.5 && ((base + below) & 1) == 1);
    const std::int64_t code = base + below + (is_up ? 1 : 0);
    return code < 0 ? 0 : code;
}

/* The code of a magnitude and a sign. Zeros have one only where the format has two. */
inline std::uint32_t signedCode(const Format &format, std::uint32_t magnitude, bool is_negative) {
    if (format.sign_bits == 0 || !is_negative) {
        return magnitude;
    }
    if (format.special == Special::Complement) {
        return (0 - magnitude) & (UINT32_MAX >> (32 - format.bits()));
    }
    const bool has_one_zero =
        format.special == Special::Finite || format.special == Special::NanForMinusZero;
    if (magnitude == 0 && has_one_zero) {
        return 0;
    }
    return magnitude | std::uint32_t{1} << (format.bits() - 1);
}

inline std::uint32_t nanOf(const Format &format, bool is_negative) {
    const std::uint32_t beyond = largestOf(format, false) + 1;
    switch (format.special) {
    case Special::Ieee:
        return signedCode(format, beyond | std::uint32_t{1} << (format.fraction_bits - 1), is_negative);
    case Special::Nan:
    case Special::Powers:
        return signedCode(format, beyond, is_negative);
    case Special::NanForMinusZero:
        return std::uint32_t{1} << (format.bits() - 1);
    default:
        throw std::runtime_error("expected numbers, which the format has alone, found NaN");
    }
}

/* The code of a value; throws std::runtime_error for NaN of a format that has none. */
inline std::uint32_t encode(const Format &format, double x) {
    const bool is_negative = bitsOf(x) >> 63 == 1;
    if (x != x) {
        return nanOf(format, is_negative);
    }
    if (is_negative && format.sign_bits == 0) {
        return 0;
    }
    if (format.isBinary()) {
        return x < 0.0 ? 1 : 0;
    }
    const std::int64_t magnitude = magnitudeOf(format, is_negative ? -x : x);
    const std::uint32_t largest = largestOf(format, is_negative);
    if (magnitude <= static_cast<std::int64_t>(largest)) {
        return signedCode(format, static_cast<std::uint32_t>(magnitude), is_negative);
    }
    const bool is_infinite = format.special == Special::Ieee && format.bits() >= 16;
    return signedCode(format, largest + (is_infinite ? 1 : 0), is_negative);
}

/* What a code is worth, exactly. */
inline double decode(const Format &format, std::uint32_t code) {
    if (format.special == Special::Complement) {
        const std::uint32_t sign = std::uint32_t{1} << (format.bits() - 1);
        const std::int64_t whole =
            static_cast<std::int64_t>(code) - ((code & sign) != 0 ? 2 * static_cast<std::int64_t>(sign) : 0);
        return static_cast<double>(whole) * powerOfTwo(-stepOf(format));
    }
    const int n = format.fraction_bits;
    const bool is_negative = format.sign_bits == 1 && code >> (format.bits() - 1) == 1;
    const std::uint32_t ones =
        static_cast<std::uint32_t>((std::uint64_t{1} << (format.exponent_bits + n)) - 1);
    const std::uint32_t magnitude = code & ones, largest = largestOf(format, false);
    double x = 0.0;
    if (magnitude > largest ||
        (format.special == Special::NanForMinusZero && is_negative && magnitude == 0)) {
        const bool is_infinite = format.special == Special::Ieee && magnitude == largest + 1;
        x = is_infinite ? std::numeric_limits<double>::infinity()
                        : std::numeric_limits<double>::quiet_NaN();
    } else if (format.isBinary()) {
        x = powerOfTwo(-format.bias);
    } else if (format.special == Special::Powers) {
        x = powerOfTwo(static_cast<int>(magnitude) - format.bias);
    } else if (format.exponent_bits == 0) {
        x = static_cast<double>(magnitude) * powerOfTwo(-stepOf(format));
    } else {
        const std::uint32_t exponent = magnitude >> n, one = std::uint32_t{1} << n;
        const std::uint32_t fraction = magnitude & (one - 1);
        const std::uint32_t whole = exponent == 0 ? fraction : fraction | one;
        const int power = exponent == 0 ? 1 : static_cast<int>(exponent);
        x = static_cast<double>(whole) * powerOfTwo(power - stepOf(format));
    }
    return is_negative ? -x : x;
}

/* The value of the format in place of another. */
inline double rounded(const Format &format, double x) {
    if (format.isF32()) {
        return static_cast<double>(static_cast<float>(x));
    }
    return decode(format, encode(format, x));
}

/* Toward zero, saturating; 0 for NaN. */
inline int truncated(double x) {
    if (x != x) {
        return 0;
    }
    if (x >= 2147483647.0) {
        return INT32_MAX;
    }
    return x <= -2147483648.0 ? INT32_MIN : static_cast<int>(x);
}

/* What holds a code, by its bits. */
template <int Bits, bool IsSigned>
using Integer = typename std::conditional<
    Bits <= 8, typename std::conditional<IsSigned, std::int8_t, std::uint8_t>::type,
    typename std::conditional<
        Bits <= 16, typename std::conditional<IsSigned, std::int16_t, std::uint16_t>::type,
        typename std::conditional<IsSigned, std::int32_t, std::uint32_t>::type>::type>::type;

/* How values of a format are held: codes, as integers. */
template <class Of, class Enable = void> struct Held {
    using type = Integer<Of::format().bits(), false>;
    static type of(double x) { return static_cast<type>(encode(Of::format(), x)); }
    static double value(type code) { return decode(Of::format(), code); }
    static float single(type code) { return static_cast<float>(value(code)); }
};

/* Formats of equal steps: how many steps. */
template <class Of> struct Held<Of, typename std::enable_if<Of::format().isFixed()>::type> {
    using type = Integer<Of::format().bits(), Of::format().sign_bits == 1>;
    static type of(double x) {
        if (x != x) {
            nanOf(Of::format(), false);
        }
        const bool is_negative = x < 0.0;
        if (is_negative && Of::format().sign_bits == 0) {
            return 0;
        }
        const std::int64_t steps = magnitudeOf(Of::format(), is_negative ? -x : x);
        const std::int64_t largest = largestOf(Of::format(), is_negative);
        const std::int64_t kept = steps < largest ? steps : largest;
        return static_cast<type>(is_negative ? -kept : kept);
    }
    static double value(type steps) {
        return static_cast<double>(steps) * powerOfTwo(-stepOf(Of::format()));
    }
    static float single(type steps) {
        /* A float holds them all, and each power of two between. */
        constexpr bool is_exact = Of::format().fraction_bits <= 24 && stepOf(Of::format()) <= 126 &&
                                  Of::format().bias >= -100;
        return is_exact ? static_cast<float>(steps) *
                              static_cast<float>(powerOfTwo(-stepOf(Of::format())))
                        : static_cast<float>(value(steps));
    }
};

/* F32: itself. */
template <class Of> struct Held<Of, typename std::enable_if<Of::format().isF32()>::type> {
    using type = float;
    static type of(double x) { return static_cast<float>(x); }
    static double value(type x) { return static_cast<double>(x); }
    static float single(type x) { return x; }
};

template <int S, int E, int N, int B, Special Codes> struct Tuple {
    static constexpr Format format() { return Format{S, E, N, B, Codes}; }
};

} // namespace codes

/* A value in the format <SignBits, ExponentBits, FractionBits, Bias>. It computes as a Number of that
 * format does: what is assigned is rounded, and a sum or product has the wider format. One that is NaN,
 * and whose format has none, throws; that of Numbers would be F32. */
template <int SignBits, int ExponentBits, int FractionBits, int Bias, Special Codes = Special::Finite>
class Typed {
    using Held = codes::Held<codes::Tuple<SignBits, ExponentBits, FractionBits, Bias, Codes>>;

public:
    Typed() : held_(Held::of(0.0)) {}
    Typed(float value) : held_(Held::of(static_cast<double>(value))) {}
    /* As the language converts it to float. */
    Typed(int value) : Typed(static_cast<float>(value)) {}
    Typed(double value) : Typed(static_cast<float>(value)) {}
    template <int S, int E, int N, int B, Special C>
    Typed(const Typed<S, E, N, B, C> &other) : held_(Held::of(other.value())) {}

    static constexpr Format format() {
        return Format{SignBits, ExponentBits, FractionBits, Bias, Codes};
    }

    float asFloat() const { return Held::single(held_); }
    int asInt() const { return codes::truncated(value()); }
    /* Exactly. */
    double value() const { return Held::value(held_); }
    static Typed rounded(double value) {
        Typed made;
        made.held_ = Held::of(value);
        return made;
    }

private:
    typename Held::type held_;
};

using Float32 = Typed<1, 8, 23, 127, Special::Ieee>;

namespace codes {

template <class T> struct IsTyped : std::false_type {};
template <int S, int E, int N, int B, Special C>
struct IsTyped<Typed<S, E, N, B, C>> : std::true_type {};

/* A number of the language is F32, as a Number made of it is. */
template <class T>
using Operand = typename std::conditional<std::is_arithmetic<T>::value, Float32, T>::type;

/* The type of a sum or product; none, unless one operand is typed and the other as well or a number. */
template <class Left, class Right>
using Wider = typename std::enable_if<
    (IsTyped<Left>::value || IsTyped<Right>::value) &&
        (IsTyped<Left>::value || std::is_arithmetic<Left>::value) &&
        (IsTyped<Right>::value || std::is_arithmetic<Right>::value),
    std::conditional<isRightWider(Operand<Left>::format(), Operand<Right>::format()), Operand<Right>,
                     Operand<Left>>>::type::type;

} // namespace codes

template <class Left, class Right>
codes::Wider<Left, Right> operator+(const Left &left, const Right &right) {
    const double sum = codes::Operand<Left>(left).value() + codes::Operand<Right>(right).value();
    return codes::Wider<Left, Right>::rounded(sum);
}

template <class Left, class Right>
codes::Wider<Left, Right> operator*(const Left &left, const Right &right) {
    const double product = codes::Operand<Left>(left).value() * codes::Operand<Right>(right).value();
    return codes::Wider<Left, Right>::rounded(product);
}

/* Types have their formats: what is named keeps them. */
template <int S, int E, int N, int B, Special C>
void setArrayName(const char *, Typed<S, E, N, B, C> *, std::size_t) {}

} // namespace dyno

#endif /* DYNO_NUMBER_TYPES_HPP */
