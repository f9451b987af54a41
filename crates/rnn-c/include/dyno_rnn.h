/*
 * Dyno's engine of recurrent networks (LSTM, GRU, RNN) on CPUs, from C and whatever can call C.
 *
 * Functions return a result code; DYNO_RNN_OK is 0. What was wrong, where, and what to do says
 * dyno_rnn_last_error, for the calling thread. Texts are UTF-8 and end with NUL. Functions may be called
 * from any thread. Arrays are the caller's, and used during the call only.
 *
 *     dyno_rnn_model *model = dyno_rnn_open("model.onnx", NULL);
 *     dyno_rnn_shape shape;
 *     dyno_rnn_get_shape(model, &shape);
 *     size_t lengths[2] = {100, 73};
 *     dyno_rnn_batch batch = {
 *         .rows = 2, .lengths = lengths,
 *         .input = input, .input_count = 100 * 2 * shape.inputs,
 *         .output = output, .output_count = 100 * 2 * shape.outputs,
 *     };
 *     if (dyno_rnn_run(model, &batch) != DYNO_RNN_OK) {
 *         fprintf(stderr, "%s\n", dyno_rnn_last_error());
 *     }
 *     dyno_rnn_free(model);
 *
 * Made from the sources by cbindgen: do not edit.
 */

#ifndef DYNO_RNN_H
#define DYNO_RNN_H

#include <stddef.h>

/**
 * What a function returns. The numbers never change; later versions may add
 * some.
 */
typedef enum {
    /**
     * It worked.
     */
    DYNO_RNN_OK = 0,
    /**
     * A pointer is NULL, not aligned, or its count is too large.
     */
    DYNO_RNN_ERROR_POINTER = 1,
    /**
     * A text is not UTF-8.
     */
    DYNO_RNN_ERROR_TEXT = 2,
    /**
     * An option has a value that it cannot have.
     */
    DYNO_RNN_ERROR_OPTION = 3,
    /**
     * A file is not there or cannot be read, or the text is no shape.
     */
    DYNO_RNN_ERROR_FILE = 4,
    /**
     * A file has no recurrent layers, or layers that cannot be run together.
     */
    DYNO_RNN_ERROR_MODEL = 5,
    /**
     * An array has not the numbers that it should, or a length is greater than the steps.
     */
    DYNO_RNN_ERROR_SIZE = 6,
    /**
     * A batch cannot be planned or run.
     */
    DYNO_RNN_ERROR_RUN = 7,
    /**
     * A defect of this library.
     */
    DYNO_RNN_ERROR_INTERNAL = 8,
} dyno_rnn_result;

/**
 * How numbers of products are held.
 */
typedef enum {
    /**
     * 32 bits.
     */
    DYNO_RNN_F32 = 0,
    /**
     * 16 bits, with the exponents of 32.
     */
    DYNO_RNN_BF16 = 1,
    /**
     * 8 bits.
     */
    DYNO_RNN_INT8 = 2,
} dyno_rnn_precision;

/**
 * A model with its threads.
 */
typedef struct dyno_rnn_model dyno_rnn_model;

/**
 * How a model is run. All zeros are the defaults.
 */
typedef struct {
    /**
     * Threads that work on a call, the caller's among them; 0 is 1.
     */
    size_t threads;
    /**
     * One of `dyno_rnn_precision`.
     */
    int precision;
    /**
     * Steps of the sequences that matter, which plans are made for; 0 is 100.
     */
    size_t steps;
} dyno_rnn_options;

/**
 * Sizes of a model.
 */
typedef struct {
    /**
     * Numbers of a step's input.
     */
    size_t inputs;
    /**
     * Numbers of a step's output.
     */
    size_t outputs;
    /**
     * Numbers of the states of a row of a batch, all layers together.
     */
    size_t states;
    /**
     * Layers.
     */
    size_t layers;
} dyno_rnn_shape;

/**
 * A batch: arrays of the caller's, each with its count.
 */
typedef struct {
    /**
     * Rows (>= 1).
     */
    size_t rows;
    /**
     * Steps of each row, `rows` numbers; NULL if all have as many as `input` has.
     */
    const size_t *lengths;
    /**
     * Steps x rows x inputs. What lies behind a row's last step is not looked at.
     */
    const float *input;
    /**
     * Numbers of `input`.
     */
    size_t input_count;
    /**
     * Steps x rows x outputs, to be written; zeros behind a row's last step.
     */
    float *output;
    /**
     * Numbers of `output`.
     */
    size_t output_count;
    /**
     * States to begin with, and then those after each row's last step: layer after layer its hidden states,
     * directions x rows x units, and of an LSTM its cells likewise. NULL begins at zeros and
     * returns none.
     */
    float *states;
    /**
     * Numbers of `states`: `rows` times those of the shape; 0 if it is NULL.
     */
    size_t states_count;
} dyno_rnn_batch;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The text of the calling thread's last error: what was wrong, where, and what
 * to do. "" if there was none; calls that succeed leave it as it is. Valid
 * until the thread's next error or end.
 */
const char *dyno_rnn_last_error(void);

/**
 * One line about a result code, never NULL. What was wrong in one call says
 * `dyno_rnn_last_error`.
 */
const char *dyno_rnn_result_message(int code);

/**
 * Loads a model: `model` names a file `.onnx` or `.safetensors`, one of its layers as `FILE#LAYER`,
 * or a layer of made-up weights by its shape, such as `lstm:256x256`. `options` may be NULL. NULL
 * after an error.
 */
dyno_rnn_model *dyno_rnn_open(const char *model, const dyno_rnn_options *options);

/**
 * Frees a model; NULL is allowed. No call that uses it may be under way.
 */
void dyno_rnn_free(dyno_rnn_model *model);

/**
 * The sizes of a model.
 */
dyno_rnn_result dyno_rnn_get_shape(const dyno_rnn_model *model, dyno_rnn_shape *shape);

/**
 * Runs a batch. Calls for one model from several threads wait for each other. Nothing is written after
 * an error of a pointer or a size.
 */
dyno_rnn_result dyno_rnn_run(dyno_rnn_model *model,
                             const dyno_rnn_batch *batch);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DYNO_RNN_H */
