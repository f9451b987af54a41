/* Runs a recurrent network on a batch of two sequences, at once and piece by piece.
 *
 *   rnn MODEL
 *
 * MODEL is a file .onnx or .safetensors, or a layer by its shape such as lstm:256x256. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dyno_rnn.h"

enum { ROWS = 2, STEPS = 10, FIRST = 4 };

static void check(dyno_rnn_result result) {
    if (result != DYNO_RNN_OK) {
        fprintf(stderr, "%s: %s\n", dyno_rnn_result_message(result), dyno_rnn_last_error());
        exit(1);
    }
}

/* Runs steps from `begin` to `end` on from `states`, which are then those after them. */
static void run(dyno_rnn_model *model, const dyno_rnn_shape *shape, const float *input, float *output,
                float *states, size_t begin, size_t end) {
    dyno_rnn_batch batch = {
        .rows = ROWS,
        .input = input + begin * ROWS * shape->inputs,
        .input_count = (end - begin) * ROWS * shape->inputs,
        .output = output + begin * ROWS * shape->outputs,
        .output_count = (end - begin) * ROWS * shape->outputs,
        .states = states,
        .states_count = ROWS * shape->states,
    };
    check(dyno_rnn_run(model, &batch));
}

int main(int count, char **arguments) {
    const char *name = count > 1 ? arguments[1] : "lstm:64x128";
    dyno_rnn_options options = {.threads = 2, .precision = DYNO_RNN_F32};
    dyno_rnn_model *model = dyno_rnn_open(name, &options);
    dyno_rnn_shape shape;
    if (model == NULL) {
        fprintf(stderr, "%s\n", dyno_rnn_last_error());
        return 1;
    }
    check(dyno_rnn_get_shape(model, &shape));
    printf("%s: %zu inputs, %zu outputs, %zu layer%s\n", name, shape.inputs, shape.outputs,
           shape.layers, shape.layers == 1 ? "" : "s");

    float *input = calloc(STEPS * ROWS * shape.inputs, sizeof *input);
    float *output = calloc(STEPS * ROWS * shape.outputs, sizeof *output);
    float *states = calloc(ROWS * shape.states, sizeof *states);
    float *pieces = calloc(ROWS * shape.states, sizeof *pieces);
    if (input == NULL || output == NULL || states == NULL || pieces == NULL) {
        return 1;
    }
    for (size_t i = 0; i < STEPS * ROWS * shape.inputs; i++) {
        input[i] = (float)(i % 11) / 11.0f;
    }
    run(model, &shape, input, output, states, 0, STEPS);
    run(model, &shape, input, output, pieces, 0, FIRST);
    run(model, &shape, input, output, pieces, FIRST, STEPS);
    /* Of a layer that also reads backwards a piece is not a part of the whole. */
    int same = 1;
    for (size_t i = 0; i < ROWS * shape.states; i++) {
        same = same && fabsf(states[i] - pieces[i]) < 1e-5f;
    }
    printf("piece by piece: %s states\n", same ? "the same" : "other");

    free(pieces);
    free(states);
    free(output);
    free(input);
    dyno_rnn_free(model);
    return 0;
}
