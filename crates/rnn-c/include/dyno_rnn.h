/*
 * Dyno's engine of recurrent networks (LSTM, GRU, RNN) on CPUs, for C and every language that can call C.
 *
 * Functions return a result code; DYNO_RNN_OK is 0. After an error, dyno_rnn_last_error returns what was
 * wrong, where, and what to do, for the calling thread. Texts are UTF-8 and end with NUL. Functions may be
 * called from any thread. Arrays belong to the caller and are used only during the call.
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
 * Generated from the sources by cbindgen; do not edit.
 */

#ifndef DYNO_RNN_H
#define DYNO_RNN_H

#include <stddef.h>

/**
 * Result code of a function. The numbers never change; later versions may add some.
 */
typedef enum {
    /**
     * Success.
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
     * An option has an invalid value.
     */
    DYNO_RNN_ERROR_OPTION = 3,
    /**
     * A file is missing or unreadable, or the text names neither a file nor a layer.
     */
    DYNO_RNN_ERROR_FILE = 4,
    /**
     * A file has no recurrent layers, or layers that do not form a chain.
     */
    DYNO_RNN_ERROR_MODEL = 5,
    /**
     * An array has the wrong size, or a length exceeds the steps.
     */
    DYNO_RNN_ERROR_SIZE = 6,
    /**
     * A batch cannot be planned or run.
     */
    DYNO_RNN_ERROR_RUN = 7,
    /**
     * A bug of this library.
     */
    DYNO_RNN_ERROR_INTERNAL = 8,
} dyno_rnn_result;

/**
 * Precision of the matrix products.
 */
typedef enum {
    /**
     * 32-bit floating point.
     */
    DYNO_RNN_F32 = 0,
    /**
     * bfloat16: 16 bits with the exponent range of 32.
     */
    DYNO_RNN_BF16 = 1,
    /**
     * 8-bit integers.
     */
    DYNO_RNN_INT8 = 2,
} dyno_rnn_precision;

/**
 * A model with its threads.
 */
typedef struct dyno_rnn_model dyno_rnn_model;

/**
 * Options of a model. All zeros are the defaults.
 */
typedef struct {
    /**
     * Number of threads that work on a call, including the caller; 0 means 1. Reduced to the
     * cores that the process may use.
     */
    size_t threads;
    /**
     * A `dyno_rnn_precision`.
     */
    int precision;
    /**
     * Typical number of steps of a sequence, for which plans are made; 0 means 100.
     */
    size_t steps;
} dyno_rnn_options;

/**
 * Sizes of a model.
 */
typedef struct {
    /**
     * Numbers in the input of one step.
     */
    size_t inputs;
    /**
     * Numbers in the output of one step.
     */
    size_t outputs;
    /**
     * Numbers in the states of one row, all layers together.
     */
    size_t states;
    /**
     * Number of layers.
     */
    size_t layers;
} dyno_rnn_shape;

/**
 * A batch: arrays of the caller, each with its count.
 */
typedef struct {
    /**
     * Number of rows, >= 1.
     */
    size_t rows;
    /**
     * Steps of each row, `rows` numbers; NULL if all rows have all steps of `input`.
     */
    const size_t *lengths;
    /**
     * Input, steps x rows x inputs. Numbers after a row's last step are ignored.
     */
    const float *input;
    /**
     * Count of `input`.
     */
    size_t input_count;
    /**
     * Output to write, steps x rows x outputs; zeros after a row's last step.
     */
    float *output;
    /**
     * Count of `output`.
     */
    size_t output_count;
    /**
     * Initial states, replaced by those after each row's last step. Per layer: hidden states,
     * directions x rows x units, then for an LSTM cell states, directions x rows x units. NULL
     * starts from zeros, or the constant states of the file, and returns no states.
     */
    float *states;
    /**
     * Count of `states`: `rows` times that of the shape; 0 if `states` is NULL.
     */
    size_t states_count;
} dyno_rnn_batch;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the text of the calling thread's last error: what was wrong, where, and what to do.
 * Empty if there was none; successful calls leave it unchanged. Valid until the thread's next
 * error or end.
 */
const char *dyno_rnn_last_error(void);

/**
 * Returns one line about a result code, never NULL. For the error of a specific call see
 * `dyno_rnn_last_error`.
 */
const char *dyno_rnn_result_message(int code);

/**
 * Loads a model. `model` names a file `.onnx` or `.safetensors`, one of its layers as `FILE#LAYER`,
 * or a layer with random weights by its shape, such as `lstm:256x256`. `options` may be NULL.
 * Returns NULL on error.
 */
dyno_rnn_model *dyno_rnn_open(const char *model, const dyno_rnn_options *options);

/**
 * Frees a model; NULL is allowed. No other call may be using the model.
 */
void dyno_rnn_free(dyno_rnn_model *model);

/**
 * Writes the sizes of a model.
 */
dyno_rnn_result dyno_rnn_get_shape(const dyno_rnn_model *model, dyno_rnn_shape *shape);

/**
 * Runs a batch. Concurrent calls for one model wait for each other. Nothing is written after an
 * error about a pointer or a size.
 */
dyno_rnn_result dyno_rnn_run(dyno_rnn_model *model, const dyno_rnn_batch *batch);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DYNO_RNN_H */
