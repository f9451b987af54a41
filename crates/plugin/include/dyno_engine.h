/* dyno_engine.h: an engine for `dyno run --system plugin:FILE.so`.
 *
 * A plug-in is a shared library that defines the six functions at the end of this file:
 *
 *     cc -shared -fPIC my_engine.c -o my_engine.so
 *     dyno run --system plugin:./my_engine.so,OPTIONS
 *
 * Dyno calls them from one thread at a time. Answers may come from any thread, during or after
 * dyno_engine_issue, in any order. Each sample is completed exactly once. */
#ifndef DYNO_ENGINE_H
#define DYNO_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. */
#define DYNO_ENGINE_ABI 1

/* Types of elements. */
enum {
  DYNO_FLOAT32 = 1,
  DYNO_FLOAT64 = 2,
  DYNO_FLOAT16 = 3,
  DYNO_BFLOAT16 = 4,
  DYNO_INT64 = 5,
  DYNO_INT32 = 6,
  DYNO_INT8 = 7,
  DYNO_UINT8 = 8, /* also the bytes of text */
  DYNO_BOOL = 9
};

/* Kinds of answers. */
enum {
  DYNO_DONE = 0,       /* the sample is complete; `data` is its answer */
  DYNO_FAILED = 1,     /* the sample failed; `data` is a message, not ended by NUL */
  DYNO_FIRST_TOKEN = 2 /* the first token is there; the sample is completed later. Only with the
                          flag DYNO_STREAMING */
};

/* Flags of an engine. All other bits are 0. */
enum {
  DYNO_STREAMING = 1 /* it reports first tokens and counts tokens */
};

/* An input of the engine. */
typedef struct dyno_input {
  const char *name;
  uint32_t element;
  /* Number of dimensions of a sample, without a batch. */
  uint32_t rank;
  /* Dimensions; 0 is any length. */
  const uint64_t *shape;
} dyno_input;

/* What an engine is. All pointers are valid until dyno_engine_close. */
typedef struct dyno_description {
  const char *name;
  /* NULL if there is none. */
  const char *version;
  /* Without inputs, samples are only numbers. */
  const dyno_input *inputs;
  size_t input_count;
  uint32_t flags;
} dyno_description;

/* One input of one sample. */
typedef struct dyno_tensor {
  const void *data;
  /* Bytes. */
  size_t size;
  uint32_t element;
  uint32_t rank;
  const uint64_t *shape;
} dyno_tensor;

/* A sample. The data of its inputs are valid until it is completed; the array of samples only
 * during dyno_engine_issue. */
typedef struct dyno_sample {
  /* Identifies it in its answer. */
  uint64_t id;
  /* Its number in the data set. */
  uint64_t index;
  /* As many as the engine describes, in that order. */
  const dyno_tensor *inputs;
} dyno_sample;

/* An answer. Dyno copies `data` before the callback returns. With --labels, the data of an answer
 * is its class, an int64_t. */
typedef struct dyno_answer {
  uint64_t id;
  uint32_t kind;
  uint32_t reserved;
  /* Output tokens; 0 without tokens. */
  int64_t tokens;
  const void *data;
  size_t size;
} dyno_answer;

/* Takes answers. */
typedef void (*dyno_complete)(void *context, const dyno_answer *answers, size_t count);

/* The engine's own state. */
typedef struct dyno_engine dyno_engine;

/* Returns DYNO_ENGINE_ABI. */
uint32_t dyno_engine_abi(void);

/* Opens the engine with the text that follows the first comma of the specification, "" without one.
 * Returns 0 and sets *engine; otherwise writes why not to `message`, ended by NUL. */
int dyno_engine_open(const char *options, dyno_engine **engine, char *message,
                     size_t message_size);

/* Describes the engine. Returns 0. */
int dyno_engine_describe(dyno_engine *engine, dyno_description *description);

/* Takes the samples of a query. Returns 0, or a number that names a problem: none of the samples is
 * then completed. `complete` and `context` are valid until dyno_engine_close. */
int dyno_engine_issue(dyno_engine *engine, const dyno_sample *samples, size_t count,
                      dyno_complete complete, void *context);

/* There are no further samples for now: the engine no longer waits for more to fill a batch. */
void dyno_engine_flush(dyno_engine *engine);

/* Ends the engine. No answer may come when it has returned. */
void dyno_engine_close(dyno_engine *engine);

#ifdef __cplusplus
}
#endif

#endif
