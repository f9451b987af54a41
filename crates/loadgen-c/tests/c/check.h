/* A program that ends at the first thing that is not as it should be. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dyno_loadgen.h"

#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "%s:%d: not so: %s (last error: \"%s\")\n", __FILE__, __LINE__, \
                    #condition, dyno_last_error());                                         \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

/* That `call` returns `code` and, unless it is DYNO_OK, leaves a text with `words`. */
#define CHECK_RESULT(call, code, words)                                                     \
    do {                                                                                    \
        int returned = (int)(call);                                                         \
        if (returned != (int)(code)) {                                                      \
            fprintf(stderr, "%s:%d: %s: %s (\"%s\")\n", __FILE__, __LINE__, #call,          \
                    dyno_result_message(returned), dyno_last_error());                      \
            exit(1);                                                                        \
        }                                                                                   \
        if (returned != DYNO_OK && strstr(dyno_last_error(), words) == NULL) {              \
            fprintf(stderr, "%s:%d: \"%s\" does not say \"%s\"\n", __FILE__, __LINE__,      \
                    dyno_last_error(), words);                                              \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

#define CHECK_OK(call) CHECK_RESULT(call, DYNO_OK, "")

#endif
