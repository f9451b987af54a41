/*
 * The thesis' class Number for C++14, over dyno_number.h: a value that knows its format.
 *
 * A program names its Numbers; a configuration file gives each name a format:
 *
 *     using dyno::Number;
 *     Number::parseConfig("number.conf");
 *     Number weight[100];
 *     dyno::setArrayName("fc1.weight", weight, 100);
 *     weight[0] = 0.3f;                        // rounded to the format of fc1.weight
 *     output += (weight[0] * input).asFloat();
 *
 * An assignment to a Number with a name rounds to its format; one without a name takes the other's
 * format, F32 of numbers of the language. A sum or product has the format with the wider range. What is
 * wrong, a file that cannot be read or NaN for a format without it, throws std::runtime_error.
 */
#ifndef DYNO_NUMBER_HPP
#define DYNO_NUMBER_HPP

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "dyno_number.h"
#include "dyno_number_types.hpp"

namespace dyno {

class Number {
public:
    Number() : Number(0.0, f32()) {}
    Number(float value) : Number(static_cast<double>(value), f32()) {}
    /* As the language converts it to float. */
    Number(int value) : Number(static_cast<float>(value)) {}
    Number(double value) : Number(static_cast<float>(value)) {}
    /* Value and format; a copy has no name. */
    Number(const Number &other) : Number(other.value_, other.format_) {}

    Number &operator=(const Number &other) {
        if (is_named_) {
            value_ = rounded(format_, other.value_);
        } else {
            value_ = other.value_;
            format_ = other.format_;
        }
        return *this;
    }
    Number &operator=(float value) { return *this = Number(value); }
    Number &operator=(int value) { return *this = Number(value); }
    Number &operator=(double value) { return *this = Number(value); }

    friend Number operator+(const Number &left, const Number &right) {
        return result(left, right, left.value_ + right.value_);
    }
    friend Number operator*(const Number &left, const Number &right) {
        return result(left, right, left.value_ * right.value_);
    }

    float asFloat() const { return static_cast<float>(value_); }

    /* Toward zero, saturating; 0 for NaN. */
    int asInt() const { return codes::truncated(value_); }

    /* Gives it the format of that name, F32 if the file has not the name, and rounds its value. */
    void setName(const std::string &name) { adopt(formatOf(name)); }

    dyno_number_format format() const {
        return {format_.sign_bits, format_.exponent_bits, format_.fraction_bits, format_.special,
                format_.bias};
    }

    /* Reads the formats of names, in place of those that were read before. Names that were set keep
     * theirs. Not for several threads at once. */
    static void parseConfig(const std::string &path) {
        dyno_number_dictionary *read = dyno_number_dictionary_open(path.c_str());
        if (read == nullptr) {
            throw std::runtime_error(dyno_number_last_error());
        }
        dyno_number_dictionary_free(dictionary());
        dictionary() = read;
    }

    /* Names all of an array. */
    static void setArrayName(const std::string &name, Number *array, std::size_t count) {
        const Tuple format = formatOf(name);
        for (std::size_t i = 0; i < count; i++) {
            array[i].adopt(format);
        }
    }

private:
    /* A format without gaps: large arrays are made of these. */
    struct Tuple {
        std::uint8_t sign_bits, exponent_bits, fraction_bits, special;
        std::int16_t bias;
    };

    double value_;
    Tuple format_;
    bool is_named_;

    Number(double value, const Tuple &format)
        : value_(value), format_(format), is_named_(false) {}

    void adopt(const Tuple &format) {
        value_ = rounded(format, value_);
        format_ = format;
        is_named_ = true;
    }

    static Tuple f32() { return {1, 8, 23, DYNO_NUMBER_IEEE, 127}; }

    static bool same(const Tuple &a, const Tuple &b) {
        return a.sign_bits == b.sign_bits && a.exponent_bits == b.exponent_bits &&
               a.fraction_bits == b.fraction_bits && a.special == b.special && a.bias == b.bias;
    }

    static void check(dyno_number_result result) {
        if (result != DYNO_NUMBER_OK) {
            throw std::runtime_error(dyno_number_last_error());
        }
    }

    static Format formatOf(const Tuple &format) {
        return {format.sign_bits, format.exponent_bits, format.fraction_bits, format.bias,
                static_cast<Special>(format.special)};
    }

    /* As dyno_number_round, which says what is wrong. */
    static double rounded(const Tuple &format, double value) {
        if (value != value) {
            const dyno_number_format asked = Number(0.0, format).format();
            check(dyno_number_round(&asked, value, &value));
            return value;
        }
        return codes::rounded(formatOf(format), value);
    }

    static Number result(const Number &left, const Number &right, double value) {
        const bool is_right = !same(left.format_, right.format_) &&
                              isRightWider(formatOf(left.format_), formatOf(right.format_));
        Tuple wider = is_right ? right.format_ : left.format_;
        /* NaN of a format that has none is F32's. */
        if (value != value) {
            wider = f32();
        }
        return Number(rounded(wider, value), wider);
    }

    static dyno_number_dictionary *&dictionary() {
        static dyno_number_dictionary *read = nullptr;
        return read;
    }

    static Tuple formatOf(const std::string &name) {
        if (dictionary() == nullptr) {
            return f32();
        }
        dyno_number_format found;
        check(dyno_number_dictionary_format(dictionary(), name.c_str(), &found));
        /* Biases go from -512 to 512. */
        return {found.sign_bits, found.exponent_bits, found.fraction_bits, found.special,
                static_cast<std::int16_t>(found.bias)};
    }
};

inline void parseConfig(const std::string &path) { Number::parseConfig(path); }

inline void setArrayName(const std::string &name, Number *array, std::size_t count) {
    Number::setArrayName(name, array, count);
}

} // namespace dyno

#endif /* DYNO_NUMBER_HPP */
