/*
 * Dyno's number formats from C and whatever can call C: what a format is, numbers rounded to it, codes,
 * and the Number configuration file. C++ programs have the class Number in dyno_number.hpp.
 *
 * Functions return a result code; DYNO_NUMBER_OK is 0. What was wrong, where, and what to do says
 * dyno_number_last_error, for the calling thread. Texts are UTF-8 and end with NUL. Functions may be
 * called from any thread. Arrays are the caller's, and used during the call only.
 *
 *     dyno_number_format format;
 *     float weights[4] = {0.3f, -0.9f, 1.7f, 0.1f};
 *     if (dyno_number_format_read("I3(0)", &format) != DYNO_NUMBER_OK ||
 *         dyno_number_quantise(&format, NULL, weights, 4) != DYNO_NUMBER_OK) {
 *         fprintf(stderr, "%s\n", dyno_number_last_error());
 *     }
 *
 * Made from the sources by cbindgen: do not edit.
 */

#ifndef DYNO_NUMBER_H
#define DYNO_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/**
 * Result code of a function. The numbers never change; later versions may add some.
 */
typedef enum {
    /**
     * Success.
     */
    DYNO_NUMBER_OK = 0,
    /**
     * A pointer is NULL, not aligned, or its count is too large.
     */
    DYNO_NUMBER_ERROR_POINTER = 1,
    /**
     * A text is not UTF-8.
     */
    DYNO_NUMBER_ERROR_TEXT = 2,
    /**
     * The format, rounding or overflow does not exist.
     */
    DYNO_NUMBER_ERROR_FORMAT = 3,
    /**
     * A file is missing or unreadable, or a line of it is wrong.
     */
    DYNO_NUMBER_ERROR_FILE = 4,
    /**
     * A number is NaN, which the format cannot represent.
     */
    DYNO_NUMBER_ERROR_NAN = 5,
    /**
     * An array is too short.
     */
    DYNO_NUMBER_ERROR_SIZE = 6,
    /**
     * A bug of this library.
     */
    DYNO_NUMBER_ERROR_INTERNAL = 7,
} dyno_number_result;

/**
 * Meaning of the codes that do not follow from the tuple, for `special`.
 */
typedef enum {
    /**
     * No special codes, and minus zero is never produced: FLOAT, FIXED, EXP and BIN.
     */
    DYNO_NUMBER_FINITE = 0,
    /**
     * No special codes, and zero has a sign: FP6 and FP4 of the Open Compute Project.
     */
    DYNO_NUMBER_SIGNED_ZERO = 1,
    /**
     * The largest exponent encodes infinity and NaN.
     */
    DYNO_NUMBER_IEEE = 2,
    /**
     * All ones after the sign encode NaN; there is no infinity.
     */
    DYNO_NUMBER_NAN = 3,
    /**
     * The code of minus zero encodes NaN; there is no infinity.
     */
    DYNO_NUMBER_NAN_FOR_MINUS_ZERO = 4,
    /**
     * Powers of two without zero; all ones encode NaN.
     */
    DYNO_NUMBER_POWERS = 5,
    /**
     * Two's complement.
     */
    DYNO_NUMBER_COMPLEMENT = 6,
} dyno_number_special;

/**
 * How a number between two values of a format is rounded, for `rounding`.
 */
typedef enum {
    /**
     * To the nearest value; in a tie, to the one with an even code.
     */
    DYNO_NUMBER_NEAREST_EVEN = 0,
    /**
     * Toward zero.
     */
    DYNO_NUMBER_TOWARD_ZERO = 1,
    /**
     * To the nearest value by logarithm.
     */
    DYNO_NUMBER_NEAREST_LOG = 2,
    /**
     * Stochastic: to either value, the nearer one with a higher probability. The same `seed` gives the
     * same results.
     */
    DYNO_NUMBER_STOCHASTIC = 3,
} dyno_number_rounding;

/**
 * Result for numbers beyond the largest value, for `overflow`.
 */
typedef enum {
    /**
     * Infinity in formats of IEEE 754 with at least 16 bits, the largest value in all others.
     */
    DYNO_NUMBER_USUAL = 0,
    /**
     * The largest value.
     */
    DYNO_NUMBER_SATURATE = 1,
    /**
     * Infinity; NaN if the format has no infinity; the largest value if it has neither.
     */
    DYNO_NUMBER_INFINITE = 2,
} dyno_number_overflow;

/**
 * Formats of a Number configuration file, by object name.
 */
typedef struct dyno_number_dictionary dyno_number_dictionary;

/**
 * Number format: the bits of the sign (0 or 1), the exponent (0 to 8) and the fraction (0 to 31), at
 * most 32 in total, and the bias of the exponent (-512 to 512).
 */
typedef struct {
    /**
     * Bits of the sign, n_s in the thesis.
     */
    uint8_t sign_bits;
    /**
     * Bits of the exponent, n_e in the thesis.
     */
    uint8_t exponent_bits;
    /**
     * Bits of the fraction, n_f in the thesis.
     */
    uint8_t fraction_bits;
    /**
     * A `dyno_number_special`.
     */
    uint8_t special;
    /**
     * Bias of the exponent, B in the thesis.
     */
    int32_t bias;
} dyno_number_format;

/**
 * Options of a conversion. All zeros are the defaults, like NULL.
 */
typedef struct {
    /**
     * A `dyno_number_rounding`.
     */
    int rounding;
    /**
     * A `dyno_number_overflow`.
     */
    int overflow;
    /**
     * Seed of `DYNO_NUMBER_STOCHASTIC`.
     */
    uint64_t seed;
} dyno_number_conversion;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the text of the calling thread's last error: what was wrong, where, and what to do.
 * Empty if there was none; successful calls leave it unchanged. Valid until the thread's next
 * error or end.
 */
const char *dyno_number_last_error(void);

/**
 * Returns one line about a result code, never NULL. For the error of a specific call see
 * `dyno_number_last_error`.
 */
const char *dyno_number_result_message(int code);

/**
 * Reads the name of a format, such as `I3(-2)`, `E4`, `F32`, `fp8-e4m3fn`, `<1,4,3,7>`.
 *
 * # Safety
 * `text` is NULL or ends with NUL; `format` is NULL or points to writable memory for a format.
 */
dyno_number_result dyno_number_format_read(const char *text, dyno_number_format *format);

/**
 * Writes the name of a format with a NUL at its end into `room` bytes; 64 suffice for every format.
 *
 * # Safety
 * `format` is NULL or points to a format, `to` to `room` writable bytes.
 */
dyno_number_result dyno_number_format_print(const dyno_number_format *format,
                                            char *to,
                                            size_t room);

/**
 * Returns the number of bits of a code; 0 if `format` is not a format.
 *
 * # Safety
 * `format` is NULL or points to a format.
 */
int dyno_number_format_bits(const dyno_number_format *format);

/**
 * Writes the format of the sum or product of numbers in two formats.
 *
 * # Safety
 * `left` and `right` are NULL or point to a format, `to` to writable memory for one.
 */
dyno_number_result dyno_number_wider(const dyno_number_format *left,
                                     const dyno_number_format *right,
                                     dyno_number_format *to);

/**
 * Writes `x` rounded to a value of the format with the default conversion.
 *
 * # Safety
 * `format` is NULL or points to a format, `to` to writable memory for a number.
 */
dyno_number_result dyno_number_round(const dyno_number_format *format, double x, double *to);

/**
 * Rounds `count` numbers in place to values of the format. After `DYNO_NUMBER_ERROR_NAN`, all numbers
 * but NaN are rounded.
 *
 * # Safety
 * `format` and `conversion` are NULL or point to one of their type (a NULL `conversion` means the
 * defaults), `numbers` to `count` writable numbers.
 */
dyno_number_result dyno_number_quantise(const dyno_number_format *format,
                                        const dyno_number_conversion *conversion,
                                        float *numbers,
                                        size_t count);

/**
 * Writes the codes of `count` numbers.
 *
 * # Safety
 * The conditions of `dyno_number_quantise`; `codes` points to writable memory for `count` codes.
 */
dyno_number_result dyno_number_encode(const dyno_number_format *format,
                                      const dyno_number_conversion *conversion,
                                      const float *numbers,
                                      size_t count,
                                      uint32_t *codes);

/**
 * Writes the values of `count` codes.
 *
 * # Safety
 * `format` is NULL or points to a format, `codes` to `count` codes, `numbers` to writable memory for as
 * many numbers.
 */
dyno_number_result dyno_number_decode(const dyno_number_format *format,
                                      const uint32_t *codes,
                                      size_t count,
                                      float *numbers);

/**
 * Reads a Number configuration file. Returns NULL if the file is missing or a line of it is wrong.
 * Free the dictionary with `dyno_number_dictionary_free`.
 *
 * # Safety
 * `path` is NULL or ends with NUL.
 */
dyno_number_dictionary *dyno_number_dictionary_open(const char *path);

/**
 * Writes the format of an object; F32 if the file does not contain its name.
 *
 * # Safety
 * `dictionary` is NULL or came from `dyno_number_dictionary_open`, `name` is NULL or ends with NUL,
 * `format` is NULL or points to writable memory for a format.
 */
dyno_number_result dyno_number_dictionary_format(const dyno_number_dictionary *dictionary,
                                                 const char *name,
                                                 dyno_number_format *format);

/**
 * Frees a dictionary. NULL is allowed.
 *
 * # Safety
 * `dictionary` is NULL or came from `dyno_number_dictionary_open`, and is not used afterwards.
 */
void dyno_number_dictionary_free(dyno_number_dictionary *dictionary);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DYNO_NUMBER_H */
