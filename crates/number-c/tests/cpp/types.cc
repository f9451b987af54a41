/* The arithmetic of dyno_number_types.hpp beside that of the library: each format with each other, values
 * next to what codes are worth and to what lies between, and bits that are drawn. Prints how many. */
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "dyno_number.h"
#include "dyno_number.hpp"

using dyno::Format;

static const char *const NAMES[] = {
    "F32", "F16", "bf16", "tf32", "fp11", "fp8-e4m3fn", "fp8-e5m2", "fp8-e4m3fnuz", "fp8-e5m2fnuz",
    "fp8-e4m3b11fnuz", "fp8-e4m3", "fp8-e3m4", "fp6-e3m2", "fp6-e2m3", "fp4-e2m1", "e8m0", "int8", "uint8",
    "int4", "uint4", "int2", "uint2", "int16", "uint16", "mxint8", "BIN", "BIN(5)", "I2", "I2(-1)", "I3(1)",
    "I4(512)", "I5(-512)", "I8", "I8(7)", "I15(-3)", "I16", "I24(2)", "I31", "I32(-40)", "U1(0)", "U3(-2)",
    "U31(3)", "E2", "E2(4)", "E3", "E4(3)", "E5(-7)", "E8", "E9", "E9(-300)", "F4", "F5", "F6", "F7(9)", "F8",
    "F8(-500)", "F10", "F12", "F14", "F19", "F24", "F31(512)", "<0,3,2,1>", "<0,8,24,-20>", "<1,1,1,0>",
    "<1,2,0,0>sz", "<0,4,0,6>fnu", "<1,8,23,100>", "<0,5,5,15>ieee", "<1,0,31,-31>int"};

static std::uint64_t state = 28;

/* SplitMix64. */
static std::uint64_t drawn() {
    state += 0x9e3779b97f4a7c15u;
    std::uint64_t mixed = state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

static bool same(double a, double b) {
    return (a != a && b != b) || std::memcmp(&a, &b, sizeof a) == 0;
}

static Format tupleOf(const dyno_number_format &format) {
    return {format.sign_bits, format.exponent_bits, format.fraction_bits, format.bias,
            static_cast<dyno::Special>(format.special)};
}

static void differs(const char *name, double x, double ours, double theirs) {
    std::printf("%s of %a: %a, the library has %a\n", name, x, ours, theirs);
    std::exit(1);
}

static void rounds(const char *name, const dyno_number_format &format, double x) {
    double theirs = 0.0;
    if (dyno_number_round(&format, x, &theirs) != DYNO_NUMBER_OK) {
        std::printf("%s of %a: %s\n", name, x, dyno_number_last_error());
        std::exit(1);
    }
    const double ours = dyno::codes::rounded(tupleOf(format), x);
    if (!same(ours, theirs)) {
        differs(name, x, ours, theirs);
    }
}

static unsigned long checkRounding(const char *name, const dyno_number_format &format) {
    const Format tuple = tupleOf(format);
    std::vector<double> values = {0.0, 1.0, 1e308, 5e-324, std::numeric_limits<double>::infinity()};
    for (int i = 0; i < 1100; i++) {
        const std::uint32_t code = static_cast<std::uint32_t>(
            format.sign_bits + format.exponent_bits + format.fraction_bits <= 10 ? i : drawn());
        const int unused = 32 - tuple.bits();
        const std::uint32_t one = code << unused >> unused, next = (code + 1) << unused >> unused;
        const double x = dyno::codes::decode(tuple, one), y = dyno::codes::decode(tuple, next);
        float single = 0.0f;
        if (dyno_number_decode(&format, &one, 1, &single) != DYNO_NUMBER_OK ||
            !same(static_cast<double>(static_cast<float>(x)), static_cast<double>(single))) {
            differs(name, static_cast<double>(code), x, static_cast<double>(single));
        }
        if (std::isfinite(x) && std::isfinite(y)) {
            const double middle = x / 2 + y / 2;
            values.insert(values.end(), {x, middle, std::nextafter(middle, x), std::nextafter(middle, y)});
        }
        const std::uint64_t bits = drawn();
        double any;
        std::memcpy(&any, &bits, sizeof any);
        values.push_back(any);
        values.push_back(std::ldexp(static_cast<double>(drawn() >> 40), -static_cast<int>(drawn() % 48)));
    }
    unsigned long count = 0;
    for (double x : values) {
        if (x == x) {
            rounds(name, format, x);
            rounds(name, format, -x);
            count += 2;
        }
    }
    bool is_refused = false;
    double nan = std::numeric_limits<double>::quiet_NaN(), theirs = 0.0;
    try {
        nan = dyno::codes::rounded(tuple, nan);
    } catch (const std::runtime_error &) {
        is_refused = true;
    }
    if (is_refused != (dyno_number_round(&format, nan, &theirs) == DYNO_NUMBER_ERROR_NAN)) {
        differs(name, nan, nan, theirs);
    }
    return count;
}

/* A type holds what a Number of its format does, and so do its sums and products. */
template <class Left, class Right>
static unsigned long checkTypes(const char *left_name, const char *right_name) {
    dyno::Number left, right;
    left.setName(left_name);
    right.setName(right_name);
    unsigned long count = 0;
    for (int i = 0; i < 1000; i++) {
        const float x = static_cast<float>(static_cast<int>(drawn() >> 40) - (1 << 23)) /
                        static_cast<float>(1 << (drawn() % 30));
        const float y = static_cast<float>(static_cast<int>(drawn() % 2001) - 1000) / 250.0f;
        left = x;
        right = y;
        const Left a = x;
        const Right b = y;
        const dyno::Number sum = left + right, product = left * right;
        const double found[] = {a.value(), b.value(), (a + b).value(), (a * b).value()};
        const float singles[] = {a.asFloat(), b.asFloat(), (a + b).asFloat(), (a * b).asFloat()};
        const dyno::Number *expected[] = {&left, &right, &sum, &product};
        for (int k = 0; k < 4; k++) {
            const float single = expected[k]->asFloat();
            if (std::memcmp(&singles[k], &single, sizeof single) != 0 ||
                static_cast<float>(found[k]) != single ||
                static_cast<int>(expected[k]->asInt()) != dyno::codes::truncated(found[k])) {
                differs(left_name, static_cast<double>(x), found[k], static_cast<double>(single));
            }
        }
        if ((a + 1).asFloat() != (left + 1).asFloat() || (0.5f * b).asFloat() != (0.5f * right).asFloat()) {
            differs(right_name, static_cast<double>(y), a.value(), b.value());
        }
        count += 6;
    }
    return count;
}

int main(int count, char **arguments) {
    if (count != 2) {
        return 2;
    }
    unsigned long numbers = 0, pairs = 0;
    for (const char *name : NAMES) {
        dyno_number_format format;
        if (dyno_number_format_read(name, &format) != DYNO_NUMBER_OK) {
            std::printf("%s\n", dyno_number_last_error());
            return 1;
        }
        numbers += checkRounding(name, format);
        for (const char *other : NAMES) {
            dyno_number_format right, wider;
            dyno_number_format_read(other, &right);
            dyno_number_wider(&format, &right, &wider);
            const bool is_right = dyno::isRightWider(tupleOf(format), tupleOf(right));
            const dyno_number_format &ours = is_right ? right : format;
            if (!(tupleOf(ours) == tupleOf(wider))) {
                std::printf("%s and %s: the library takes the other\n", name, other);
                return 1;
            }
            pairs++;
        }
    }
    dyno::Number::parseConfig(arguments[1]);
    using dyno::Special;
    using Fixed3 = dyno::Typed<1, 0, 2, 1>;
    using Fixed20 = dyno::Typed<1, 0, 19, -3>;
    using Fixed32 = dyno::Typed<1, 0, 31, -9>;
    using Exp4 = dyno::Typed<1, 3, 0, 3>;
    using Half = dyno::Typed<1, 5, 10, 15, Special::Ieee>;
    using Byte = dyno::Typed<1, 0, 7, -7, Special::Complement>;
    using Unsigned = dyno::Typed<0, 0, 8, -8>;
    static_assert(sizeof(Fixed3) == 1 && sizeof(Fixed20) == 4 && sizeof(Half) == 2 && sizeof(Exp4) == 1,
                  "integers of so many bits hold them");
    unsigned long values = checkTypes<Fixed3, Fixed20>("fixed3", "fixed20");
    values += checkTypes<Fixed32, Half>("fixed32", "half");
    values += checkTypes<Exp4, Fixed3>("exp4", "fixed3");
    values += checkTypes<Exp4, Exp4>("exp4", "exp4");
    values += checkTypes<Byte, Unsigned>("byte", "unsigned");
    values += checkTypes<dyno::Float32, Fixed3>("float", "fixed3");
    std::printf("%lu roundings, %lu pairs, %lu values: all alike\n", numbers, pairs, values);
    return 0;
}
