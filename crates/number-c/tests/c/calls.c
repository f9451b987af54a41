/* Calls that are wrong are results with a text, and the next call works. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dyno_number.h"

#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "%s:%d: not so: %s (last error: \"%s\")\n", __FILE__, __LINE__,  \
                    #condition, dyno_number_last_error());                                   \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

/* That `call` returns `code` and leaves a text with `words`. */
#define REFUSED(call, code, words)                                                           \
    do {                                                                                     \
        CHECK((call) == (code));                                                             \
        CHECK(strstr(dyno_number_last_error(), words) != NULL);                              \
        CHECK(strlen(dyno_number_result_message(code)) > 0);                                 \
    } while (0)

static void formats(void) {
    dyno_number_format format, wider, fixed;
    char text[64], little[4];
    CHECK(dyno_number_format_read("I3(-2)", &fixed) == DYNO_NUMBER_OK);
    CHECK(fixed.sign_bits == 1 && fixed.exponent_bits == 0 && fixed.fraction_bits == 2);
    CHECK(fixed.bias == -2 && fixed.special == DYNO_NUMBER_FINITE);
    CHECK(dyno_number_format_bits(&fixed) == 3);
    CHECK(dyno_number_format_read("fp8-e4m3fn", &format) == DYNO_NUMBER_OK);
    CHECK(format.special == DYNO_NUMBER_NAN);
    CHECK(dyno_number_format_print(&format, text, sizeof text) == DYNO_NUMBER_OK);
    CHECK(strcmp(text, "fp8-e4m3fn") == 0);
    CHECK(dyno_number_wider(&fixed, &format, &wider) == DYNO_NUMBER_OK);
    CHECK(memcmp(&wider, &format, sizeof format) == 0);
    REFUSED(dyno_number_format_print(&format, little, sizeof little), DYNO_NUMBER_ERROR_SIZE,
            "`room` is 4, expected 11");
    REFUSED(dyno_number_format_read("I99", &format), DYNO_NUMBER_ERROR_FORMAT,
            "expected 1 to 32 bits of FIXED, found 99");
    REFUSED(dyno_number_format_read("what", &format), DYNO_NUMBER_ERROR_FORMAT, "found \"what\"");
    REFUSED(dyno_number_format_read(NULL, &format), DYNO_NUMBER_ERROR_POINTER, "`text` is NULL");
    REFUSED(dyno_number_format_read("I3", NULL), DYNO_NUMBER_ERROR_POINTER, "`format` is NULL");
    REFUSED(dyno_number_format_read("\xff", &format), DYNO_NUMBER_ERROR_TEXT, "from byte 0");
    format.special = 9;
    CHECK(dyno_number_format_bits(&format) == 0);
    CHECK(strstr(dyno_number_last_error(), "`special` is 9, expected 0 to 6") != NULL);
    CHECK(strcmp(dyno_number_result_message(99), "unknown result code") == 0);
}

static void numbers(void) {
    dyno_number_format format;
    dyno_number_conversion truncated = {DYNO_NUMBER_TOWARD_ZERO, DYNO_NUMBER_USUAL, 0};
    dyno_number_conversion wrong = {7, 0, 0};
    float some[4] = {0.3f, -0.9f, 1.7f, 0.1f};
    float worth[4], nan[2] = {1.0f, NAN};
    uint32_t codes[4];
    double x = 0;
    CHECK(dyno_number_format_read("I3(0)", &format) == DYNO_NUMBER_OK);
    CHECK(dyno_number_encode(&format, &truncated, some, 4, codes) == DYNO_NUMBER_OK);
    CHECK(codes[0] == 1 && codes[1] == 7 && codes[2] == 3 && codes[3] == 0);
    CHECK(dyno_number_decode(&format, codes, 4, worth) == DYNO_NUMBER_OK);
    CHECK(worth[0] == 0.25f && worth[1] == -0.75f && worth[2] == 0.75f && worth[3] == 0.0f);
    CHECK(dyno_number_quantise(&format, NULL, some, 4) == DYNO_NUMBER_OK);
    CHECK(memcmp(some, worth, sizeof some) == 0);
    CHECK(dyno_number_round(&format, 0.6, &x) == DYNO_NUMBER_OK && x == 0.5);
    REFUSED(dyno_number_quantise(&format, NULL, nan, 2), DYNO_NUMBER_ERROR_NAN, "found NaN at 1");
    CHECK(nan[0] == 0.75f);
    REFUSED(dyno_number_quantise(&format, &wrong, some, 4), DYNO_NUMBER_ERROR_FORMAT,
            "`rounding` is 7, expected 0 to 3");
    REFUSED(dyno_number_quantise(&format, NULL, NULL, 4), DYNO_NUMBER_ERROR_POINTER,
            "`numbers` is NULL, but its count is 4");
    CHECK(dyno_number_quantise(&format, NULL, NULL, 0) == DYNO_NUMBER_OK);
}

static void files(const char *good, const char *bad) {
    dyno_number_format format;
    dyno_number_dictionary *dictionary = dyno_number_dictionary_open(good);
    CHECK(dictionary != NULL);
    CHECK(dyno_number_dictionary_format(dictionary, "fc1.weight", &format) == DYNO_NUMBER_OK);
    CHECK(format.fraction_bits == 14 && format.bias == -3);
    CHECK(dyno_number_dictionary_format(dictionary, "unknown", &format) == DYNO_NUMBER_OK);
    CHECK(format.fraction_bits == 23);
    dyno_number_dictionary_free(dictionary);
    dyno_number_dictionary_free(NULL);
    CHECK(dyno_number_dictionary_open("nowhere.conf") == NULL);
    CHECK(strstr(dyno_number_last_error(), "nowhere.conf") != NULL);
    CHECK(dyno_number_dictionary_open(bad) == NULL);
    CHECK(strstr(dyno_number_last_error(), "line 2: a.x: expected 1 to 32 bits") != NULL);
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    formats();
    numbers();
    files(arguments[1], arguments[2]);
    puts("all as it should be");
    return 0;
}
