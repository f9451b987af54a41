/* Calls that are wrong are results with a text, and the next call works. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dyno_rnn.h"

#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "%s:%d: not so: %s (last error: \"%s\")\n", __FILE__, __LINE__,  \
                    #condition, dyno_rnn_last_error());                                      \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

/* That `call` returns `code` and leaves a text with `words`. */
#define REFUSED(call, code, words)                                                           \
    do {                                                                                     \
        CHECK((call) == (code));                                                             \
        CHECK(strstr(dyno_rnn_last_error(), words) != NULL);                                 \
        CHECK(strlen(dyno_rnn_result_message(code)) > 0);                                    \
    } while (0)

enum { INPUTS = 4, UNITS = 8, ROWS = 3, STEPS = 5 };

static float input[STEPS * ROWS * INPUTS], output[STEPS * ROWS * UNITS];
static float again[STEPS * ROWS * UNITS], states[ROWS * 2 * UNITS];

/* Whether numbers are the same up to rounding. */
static int near(const float *one, const float *other, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!(fabsf(one[i] - other[i]) < 1e-5f)) {
            return 0;
        }
    }
    return 1;
}

static void wrong_models(void) {
    dyno_rnn_options options = {0};
    CHECK(dyno_rnn_open(NULL, NULL) == NULL);
    CHECK(strstr(dyno_rnn_last_error(), "`model` is NULL") != NULL);
    CHECK(dyno_rnn_open("nowhere.onnx", NULL) == NULL);
    CHECK(strstr(dyno_rnn_last_error(), "`nowhere.onnx` is not a file") != NULL);
    CHECK(dyno_rnn_open("\xff", NULL) == NULL);
    CHECK(strstr(dyno_rnn_last_error(), "not UTF-8 from byte 0") != NULL);
    options.precision = 7;
    CHECK(dyno_rnn_open("lstm:4x8", &options) == NULL);
    CHECK(strstr(dyno_rnn_last_error(), "`precision` is 7, expected 0, 1 or 2") != NULL);
    options.precision = DYNO_RNN_F32;
    options.threads = SIZE_MAX;
    CHECK(dyno_rnn_open("lstm:4x8", &options) == NULL);
    CHECK(strstr(dyno_rnn_last_error(), "expected 1024 at most") != NULL);
    dyno_rnn_free(NULL);
    CHECK(strcmp(dyno_rnn_result_message(99), "unknown result code") == 0);
}

static void wrong_batches(dyno_rnn_model *model, const dyno_rnn_batch *right) {
    size_t lengths[ROWS] = {STEPS + 1, 1, 1};
    dyno_rnn_batch batch = *right;
    REFUSED(dyno_rnn_run(NULL, right), DYNO_RNN_ERROR_POINTER, "`model` is NULL");
    REFUSED(dyno_rnn_run(model, NULL), DYNO_RNN_ERROR_POINTER, "`batch` is NULL");
    batch.input = NULL;
    REFUSED(dyno_rnn_run(model, &batch), DYNO_RNN_ERROR_POINTER, "`input` is NULL, but");
    batch = *right;
    batch.output = (float *)((char *)output + 1);
    REFUSED(dyno_rnn_run(model, &batch), DYNO_RNN_ERROR_POINTER, "`output` is not aligned");
    batch = *right;
    batch.input_count = SIZE_MAX;
    REFUSED(dyno_rnn_run(model, &batch), DYNO_RNN_ERROR_POINTER, "more than memory can hold");
    batch = *right;
    batch.input_count--;
    REFUSED(dyno_rnn_run(model, &batch), DYNO_RNN_ERROR_SIZE, "numbers of input");
    batch = *right;
    batch.output_count++;
    REFUSED(dyno_rnn_run(model, &batch), DYNO_RNN_ERROR_SIZE, "numbers of output");
    batch = *right;
    batch.rows = 0;
    REFUSED(dyno_rnn_run(model, &batch), DYNO_RNN_ERROR_SIZE, "a batch of 0 rows");
    batch.rows = SIZE_MAX;
    REFUSED(dyno_rnn_run(model, &batch), DYNO_RNN_ERROR_SIZE, "numbers for each row");
    batch = *right;
    batch.lengths = lengths;
    REFUSED(dyno_rnn_run(model, &batch), DYNO_RNN_ERROR_SIZE, "none above the input's steps");
    batch = *right;
    batch.states_count = 7;
    REFUSED(dyno_rnn_run(model, &batch), DYNO_RNN_ERROR_POINTER, "`states` is NULL, but");
    batch.states = states;
    REFUSED(dyno_rnn_run(model, &batch), DYNO_RNN_ERROR_SIZE, "numbers of states, found 7");
    REFUSED(dyno_rnn_get_shape(NULL, NULL), DYNO_RNN_ERROR_POINTER, "`model` is NULL");
    REFUSED(dyno_rnn_get_shape(model, NULL), DYNO_RNN_ERROR_POINTER, "`shape` is NULL");
}

int main(void) {
    size_t lengths[ROWS] = {STEPS, 0, 2};
    dyno_rnn_options options = {.threads = 2, .precision = DYNO_RNN_F32, .steps = STEPS};
    dyno_rnn_shape shape;
    dyno_rnn_batch batch = {
        .rows = ROWS,
        .input = input,
        .input_count = STEPS * ROWS * INPUTS,
        .output = output,
        .output_count = STEPS * ROWS * UNITS,
    };
    dyno_rnn_model *model;

    wrong_models();
    for (size_t i = 0; i < batch.input_count; i++) {
        input[i] = (float)(i % 7) / 7.0f - 0.5f;
    }
    model = dyno_rnn_open("lstm:4x8", &options);
    CHECK(model != NULL);
    CHECK(dyno_rnn_get_shape(model, &shape) == DYNO_RNN_OK);
    CHECK(shape.inputs == INPUTS && shape.outputs == UNITS && shape.layers == 1);
    CHECK(shape.states == 2 * UNITS);
    CHECK(dyno_rnn_run(model, &batch) == DYNO_RNN_OK);
    wrong_batches(model, &batch);

    /* From states of zeros the same comes out, and after the last step its states. */
    batch.output = again;
    batch.states = states;
    batch.states_count = ROWS * shape.states;
    CHECK(dyno_rnn_run(model, &batch) == DYNO_RNN_OK);
    CHECK(near(output, again, STEPS * ROWS * UNITS));
    CHECK(near(states, &output[(STEPS - 1) * ROWS * UNITS], ROWS * UNITS));

    /* Behind a row's last step are zeros; before it nothing changes. Its padding is not looked at. */
    batch.states = NULL;
    batch.states_count = 0;
    batch.lengths = lengths;
    input[(2 * ROWS + 2) * INPUTS] = NAN;
    CHECK(dyno_rnn_run(model, &batch) == DYNO_RNN_OK);
    for (size_t unit = 0; unit < UNITS; unit++) {
        CHECK(near(&again[(ROWS + 2) * UNITS + unit], &output[(ROWS + 2) * UNITS + unit], 1));
        CHECK(again[(2 * ROWS + 2) * UNITS + unit] == 0.0f);
        CHECK(again[1 * UNITS + unit] == 0.0f);
    }
    dyno_rnn_free(model);
    puts("all as it should be");
    return 0;
}
