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
 * What a function returns. The numbers never change; later versions may add
 * some.
 */
typedef enum {
    /**
     * It worked.
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
     * There is no such format, rounding or overflow.
     */
    DYNO_NUMBER_ERROR_FORMAT = 3,
    /**
     * A file is not there or cannot be read, or a line of it is wrong.
     */
    DYNO_NUMBER_ERROR_FILE = 4,
    /**
     * A number is NaN, which the format has not.
     */
    DYNO_NUMBER_ERROR_NAN = 5,
    /**
     * An array is too short.
     */
    DYNO_NUMBER_ERROR_SIZE = 6,
    /**
     * A defect of this library.
     */
    DYNO_NUMBER_ERROR_INTERNAL = 7,
} dyno_number_result;

/**
 * Codes that are not worth what the tuple says; a value of `special`.
 */
typedef enum {
    /**
     * None, and minus zero is never made: FLOAT, FIXED, EXP and BIN.
     */
    DYNO_NUMBER_FINITE = 0,
    /**
     * None, and zero has a sign: FP6 and FP4 of the Open Compute Project.
     */
    DYNO_NUMBER_SIGNED_ZERO = 1,
    /**
     * The largest exponent is infinity and NaN.
     */
    DYNO_NUMBER_IEEE = 2,
    /**
     * All ones after the sign are NaN, and there is no infinity.
     */
    DYNO_NUMBER_NAN = 3,
    /**
     * The code of minus zero is NaN, and there is no infinity.
     */
    DYNO_NUMBER_NAN_FOR_MINUS_ZERO = 4,
    /**
     * Powers of two without zero; all ones are NaN.
     */
    DYNO_NUMBER_POWERS = 5,
    /**
     * Two's complement.
     */
    DYNO_NUMBER_COMPLEMENT = 6,
} dyno_number_special;

/**
 * Which of a number's two neighbours is taken; a value of `rounding`.
 */
typedef enum {
    /**
     * The nearer; of two as near, the one whose code is even.
     */
    DYNO_NUMBER_NEAREST_EVEN = 0,
    /**
     * The one nearer to zero.
     */
    DYNO_NUMBER_TOWARD_ZERO = 1,
    /**
     * The nearer by its logarithm.
     */
    DYNO_NUMBER_NEAREST_LOG = 2,
    /**
     * By a draw, the nearer more probably. The same `seed` draws the same.
     */
    DYNO_NUMBER_STOCHASTIC = 3,
} dyno_number_rounding;

/**
 * What becomes of numbers beyond the largest; a value of `overflow`.
 */
typedef enum {
    /**
     * Infinity in formats of IEEE 754 with 16 bits and more, the largest number in all others.
     */
    DYNO_NUMBER_USUAL = 0,
    /**
     * The largest number.
     */
    DYNO_NUMBER_SATURATE = 1,
    /**
     * Infinity, or NaN where there is none, or the largest number where there is neither.
     */
    DYNO_NUMBER_INFINITE = 2,
} dyno_number_overflow;

/**
 * Formats by the names of objects.
 */
typedef struct dyno_number_dictionary dyno_number_dictionary;

/**
 * A format: bits of the sign (0 or 1), of the exponent (0 to 8) and of the fraction (0 to 31), 32 at most
 * together, and the exponent's bias (-512 to 512).
 */
typedef struct {
    /**
     * n_s.
     */
    uint8_t sign_bits;
    /**
     * n_e.
     */
    uint8_t exponent_bits;
    /**
     * n_f.
     */
    uint8_t fraction_bits;
    /**
     * One of `dyno_number_special`.
     */
    uint8_t special;
    /**
     * B.
     */
    int32_t bias;
} dyno_number_format;

/**
 * How numbers are rounded. All zeros are the default, as is NULL.
 */
typedef struct {
    /**
     * One of `dyno_number_rounding`.
     */
    int rounding;
    /**
     * One of `dyno_number_overflow`.
     */
    int overflow;
    /**
     * Of `DYNO_NUMBER_STOCHASTIC`.
     */
    uint64_t seed;
} dyno_number_conversion;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The text of the calling thread's last error: what was wrong, where, and what
 * to do. "" if there was none; calls that succeed leave it as it is. Valid
 * until the thread's next error or end.
 */
const char *dyno_number_last_error(void);

/**
 * One line about a result code, never NULL. What was wrong in one call says
 * `dyno_number_last_error`.
 */
const char *dyno_number_result_message(int code);

/**
 * Reads a format as it prints: `I3(-2)`, `E4`, `F32`, `fp8-e4m3fn`, `<1,4,3,7>`.
 *
 * # Safety
 * `text` is NULL or ends with NUL; `format` is NULL or leads to a place for one.
 */
dyno_number_result dyno_number_format_read(const char *text, dyno_number_format *format);

/**
 * Writes a format as it prints, with NUL at the end, into `room` bytes; 64 are enough for all.
 *
 * # Safety
 * `format` is NULL or leads to one, `to` to `room` bytes.
 */
dyno_number_result dyno_number_format_print(const dyno_number_format *format,
                                            char *to,
                                            size_t room);

/**
 * All bits of a code; 0 of what is no format.
 *
 * # Safety
 * `format` is NULL or leads to one.
 */
int dyno_number_format_bits(const dyno_number_format *format);

/**
 * The format of a sum or product of numbers in two formats.
 *
 * # Safety
 * `left` and `right` are NULL or lead to a format, `to` to a place for one.
 */
dyno_number_result dyno_number_wider(const dyno_number_format *left,
                                     const dyno_number_format *right,
                                     dyno_number_format *to);

/**
 * The value of a format in place of `x`, by the default conversion.
 *
 * # Safety
 * `format` is NULL or leads to one, `to` to a place for a number.
 */
dyno_number_result dyno_number_round(const dyno_number_format *format, double x, double *to);

/**
 * Puts the values of a format in place of `count` numbers. After `DYNO_NUMBER_ERROR_NAN`, all but NaN are
 * quantised.
 *
 * # Safety
 * `format` is NULL or leads to one, `conversion` as well (NULL is the default), `numbers` to `count`.
 */
dyno_number_result dyno_number_quantise(const dyno_number_format *format,
                                        const dyno_number_conversion *conversion,
                                        float *numbers,
                                        size_t count);

/**
 * The codes of `count` numbers.
 *
 * # Safety
 * As `dyno_number_quantise`, and `codes` leads to `count` places for codes.
 */
dyno_number_result dyno_number_encode(const dyno_number_format *format,
                                      const dyno_number_conversion *conversion,
                                      const float *numbers,
                                      size_t count,
                                      uint32_t *codes);

/**
 * What `count` codes are worth.
 *
 * # Safety
 * `format` is NULL or leads to one, `codes` to `count`, `numbers` to as many places.
 */
dyno_number_result dyno_number_decode(const dyno_number_format *format,
                                      const uint32_t *codes,
                                      size_t count,
                                      float *numbers);

/**
 * Reads a Number configuration file; NULL if it is not there or a line of it is wrong.
 * `dyno_number_dictionary_free` frees it.
 *
 * # Safety
 * `path` is NULL or ends with NUL.
 */
dyno_number_dictionary *dyno_number_dictionary_open(const char *path);

/**
 * The format of an object; F32 if the file has not its name.
 *
 * # Safety
 * `dictionary` is NULL or of `dyno_number_dictionary_open`, `name` is NULL or ends with NUL, `format` is NULL
 * or leads to a place for one.
 */
dyno_number_result dyno_number_dictionary_format(const dyno_number_dictionary *dictionary,
                                                 const char *name,
                                                 dyno_number_format *format);

/**
 * Frees a dictionary. NULL is allowed.
 *
 * # Safety
 * `dictionary` is NULL or of `dyno_number_dictionary_open`, and not used any more.
 */
void dyno_number_dictionary_free(dyno_number_dictionary *dictionary);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DYNO_NUMBER_H */
