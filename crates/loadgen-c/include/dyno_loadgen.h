/*
 * The load generator of Dyno, from C and whatever can call C.
 *
 * A program makes a system under test and a library of samples of its own
 * functions, makes settings, and calls dyno_start_test, which returns when the
 * logs are written. Meanwhile the system is handed queries and hands back each
 * sample's id with dyno_complete, from any thread.
 *
 * Functions return a result code; DYNO_OK is 0. What was wrong, where, and what
 * to do says dyno_last_error, for the calling thread. Texts are UTF-8 and end
 * with NUL. Functions may be called from any thread, but no thread may change a
 * handle that another one uses. A handle is freed by the function of its name; a
 * function uses its arguments during the call only, unless it says otherwise.
 *
 *     static int issue(void *context, const dyno_query_sample *samples, size_t count) {
 *         for (size_t i = 0; i < count; i++) {
 *             dyno_response response = {.id = samples[i].id};  // here: at once, no answer
 *             dyno_complete(&response, 1);
 *         }
 *         return 0;
 *     }
 *     ...
 *     dyno_settings *settings = dyno_settings_new();
 *     dyno_settings_set(settings, "scenario", "SingleStream");
 *     dyno_system *system = dyno_system_new(&system_callbacks);
 *     dyno_library *library = dyno_library_new(&library_callbacks);
 *     if (dyno_start_test(system, library, settings, NULL, NULL) != DYNO_OK) {
 *         fprintf(stderr, "%s\n", dyno_last_error());
 *     }
 *
 * Made from the sources by cbindgen: do not edit.
 */

#ifndef DYNO_LOADGEN_H
#define DYNO_LOADGEN_H

#include <stddef.h>
#include <stdint.h>

/**
 * Result code of a function. The numbers never change; later versions may add
 * some.
 */
typedef enum {
    /**
     * Success.
     */
    DYNO_OK = 0,
    /**
     * A pointer is NULL, not aligned, or its count is too large.
     */
    DYNO_ERROR_POINTER = 1,
    /**
     * A text is not UTF-8.
     */
    DYNO_ERROR_TEXT = 2,
    /**
     * No setting has this name.
     */
    DYNO_ERROR_UNKNOWN_KEY = 3,
    /**
     * The value is invalid for the setting.
     */
    DYNO_ERROR_VALUE = 4,
    /**
     * The caller's buffer is too small; it was not changed.
     */
    DYNO_ERROR_CAPACITY = 5,
    /**
     * A configuration file cannot be read (-2 or -ENOENT in the reference).
     */
    DYNO_ERROR_CONFIG_UNREADABLE = 6,
    /**
     * A configuration file has invalid lines; none of its keys is applied (-22 or
     * -EINVAL in the reference).
     */
    DYNO_ERROR_CONFIG_LINE = 7,
    /**
     * A test is already running; a process runs one at a time.
     */
    DYNO_ERROR_RUNNING = 8,
    /**
     * No test is running: a completion came too late, or nothing can be aborted.
     */
    DYNO_ERROR_NOT_RUNNING = 9,
    /**
     * The logs cannot be opened or written.
     */
    DYNO_ERROR_LOGS = 10,
    /**
     * The settings or the library do not allow a test, such as a library without
     * samples.
     */
    DYNO_ERROR_SETTINGS = 11,
    /**
     * A callback failed, and the test was aborted.
     */
    DYNO_ERROR_CALLBACK = 12,
    /**
     * A bug of this library.
     */
    DYNO_ERROR_INTERNAL = 13,
} dyno_result;

/**
 * Sample library.
 */
typedef struct dyno_library dyno_library;

/**
 * Folder and names of the logs, initially with the defaults of the reference.
 * Use log settings in one thread at a time.
 */
typedef struct dyno_log_settings dyno_log_settings;

/**
 * Settings of a test, initially with the defaults of the reference. Keys are the
 * field names of `TestSettings` in the reference's C++ interface, such as
 * `server_target_qps`, and additional ones of Dyno. `dyno info settings` lists
 * all keys with their units. Use settings in one thread at a time.
 */
typedef struct dyno_settings dyno_settings;

/**
 * System under test.
 */
typedef struct dyno_system dyno_system;

/**
 * One sample of a query. The layout is that of `mlperf::QuerySample`.
 */
typedef struct {
    /**
     * Identifies the sample in its response; never 0.
     */
    uint64_t id;
    /**
     * Index in the library.
     */
    uint64_t index;
} dyno_query_sample;

/**
 * Callbacks of a system under test. All but the last two must be set.
 *
 * Callbacks of type `int` return 0 for success. Any other value aborts the test:
 * only `release_samples` is called after it, and `dyno_start_test` returns
 * `DYNO_ERROR_CALLBACK`. Callbacks must return: they may not throw, use
 * `longjmp` or end their thread.
 */
typedef struct {
    /**
     * First argument of each callback.
     */
    void *context;
    /**
     * Returns the name for the logs, which is copied. Bytes that are not UTF-8 are
     * replaced.
     */
    const char *(*name)(void *context);
    /**
     * Issues the samples of one query, or of several queries if they are
     * coalesced. Called by the thread that called `dyno_start_test`, or by the
     * registered issue threads. `samples` is valid during the call.
     */
    int (*issue)(void *context, const dyno_query_sample *samples, size_t count);
    /**
     * Called after the last query of a run. The system must now process samples
     * that it has held back to fill a batch.
     */
    int (*flush)(void *context);
    /**
     * Optional. Provides memory for `count` samples, for systems that need them in
     * their own container. `issue` then receives that memory, except for coalesced
     * queries with more than `count` samples. Called before a run, once for each
     * thread that issues.
     */
    dyno_query_sample *(*acquire_samples)(void *context, size_t count);
    /**
     * Releases the memory from `acquire_samples`. Set if and only if that is set.
     */
    void (*release_samples)(void *context, dyno_query_sample *samples);
} dyno_system_callbacks;

/**
 * Callbacks of a sample library. All must be set. They are called outside the
 * timed part, by the thread that called `dyno_start_test`. They must return:
 * they may not throw, use `longjmp` or end their thread.
 */
typedef struct {
    /**
     * First argument of each callback.
     */
    void *context;
    /**
     * Returns the name for the logs, which is copied. Bytes that are not UTF-8 are
     * replaced.
     */
    const char *(*name)(void *context);
    /**
     * Returns the number of samples in the library (>= 1).
     */
    size_t (*total_sample_count)(void *context);
    /**
     * Returns the number of samples that fit in memory at once (>= 1).
     */
    size_t (*performance_sample_count)(void *context);
    /**
     * Loads samples into memory; an index may occur several times. Returns 0 for
     * success. Any other value aborts the test.
     */
    int (*load)(void *context, const uint64_t *samples, size_t count);
    /**
     * Releases loaded samples. Returns the same values as `load`.
     */
    int (*unload)(void *context, const uint64_t *samples, size_t count);
} dyno_library_callbacks;

/**
 * Response to one sample. The layout is that of `mlperf::QuerySampleResponse`.
 */
typedef struct {
    /**
     * Id of the sample.
     */
    uint64_t id;
    /**
     * Payload for the accuracy log. Read only during the call, and only if the
     * response is logged. May be NULL if `size` is 0.
     */
    const void *data;
    /**
     * Size of the payload in bytes.
     */
    size_t size;
    /**
     * Number of output tokens; 0 without tokens.
     */
    int64_t n_tokens;
} dyno_response;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the text of the calling thread's last error: what was wrong, where,
 * and what to do. Empty if there was none; successful calls leave it unchanged.
 * Valid until the thread's next error or end.
 */
const char *dyno_last_error(void);

/**
 * Returns one line about a result code, never NULL. For the error of a specific
 * call see `dyno_last_error`.
 */
const char *dyno_result_message(int code);

/**
 * Returns new settings with default values, never NULL.
 */
dyno_settings *dyno_settings_new(void);

/**
 * Frees settings; NULL is allowed.
 */
void dyno_settings_free(dyno_settings *settings);

/**
 * Sets a value from text: decimal numbers, `true` or `false`, or names in the
 * spelling of the reference (`Server`, `AccuracyOnly`).
 */
dyno_result dyno_settings_set(dyno_settings *settings, const char *key, const char *value);

/**
 * Sets a whole number exactly. Use 1 or 0 for a boolean setting.
 */
dyno_result dyno_settings_set_u64(dyno_settings *settings, const char *key, uint64_t value);

/**
 * Sets a number exactly. Settings with whole numbers reject fractions.
 */
dyno_result dyno_settings_set_f64(dyno_settings *settings, const char *key, double value);

/**
 * Copies a value as text with a NUL at its end to `out`, which has room for
 * `capacity` bytes. Stores the length without the NUL in `length`, unless that is
 * NULL. Returns `DYNO_ERROR_CAPACITY` if the buffer is too small; `length` is
 * stored in this case too, so a NULL `out` with a `capacity` of 0 queries it.
 */
dyno_result dyno_settings_get(const dyno_settings *settings,
                              const char *key,
                              char *out,
                              size_t capacity,
                              size_t *length);

/**
 * Gets a whole number exactly; true is 1 and false is 0. Returns
 * `DYNO_ERROR_VALUE` for other settings.
 */
dyno_result dyno_settings_get_u64(const dyno_settings *settings, const char *key, uint64_t *out);

/**
 * Gets a number exactly. Returns `DYNO_ERROR_VALUE` for other settings.
 */
dyno_result dyno_settings_get_f64(const dyno_settings *settings, const char *key, double *out);

/**
 * Applies a configuration file for a model and a scenario, like `FromConfig` of
 * the reference. `conf_type` 1 is a user's file; the first such call of a process
 * applies the built-in table of models before it. 0 is only the built-in table,
 * 2 is an audit's file. The scenario selects keys; it does not set `scenario`.
 */
dyno_result dyno_settings_from_config(dyno_settings *settings,
                                      const char *path,
                                      const char *model,
                                      const char *scenario,
                                      int conf_type);

/**
 * Returns new log settings with default values, never NULL.
 */
dyno_log_settings *dyno_log_settings_new(void);

/**
 * Frees log settings; NULL is allowed.
 */
void dyno_log_settings_free(dyno_log_settings *settings);

/**
 * Sets a value from text. Keys are `outdir` (an existing folder, default "."),
 * `prefix` ("mlperf_log_"), `suffix` (empty), and the booleans
 * `prefix_with_datetime`, `copy_detail_to_stdout`, `copy_summary_to_stdout`
 * (default false) and `enable_trace` (default true).
 */
dyno_result dyno_log_settings_set(dyno_log_settings *settings, const char *key, const char *value);

/**
 * Creates a system from callbacks, which are copied. Returns NULL after an
 * error.
 */
dyno_system *dyno_system_new(const dyno_system_callbacks *callbacks);

/**
 * Frees a system; NULL is allowed. A running test keeps it until it ends.
 */
void dyno_system_free(dyno_system *system);

/**
 * Creates a library from callbacks, which are copied. Returns NULL after an
 * error.
 */
dyno_library *dyno_library_new(const dyno_library_callbacks *callbacks);

/**
 * Frees a library; NULL is allowed. A running test keeps it until it ends.
 */
void dyno_library_free(dyno_library *library);

/**
 * Runs a test and returns when its logs are written. A NULL `logs` means the
 * default log settings, a NULL `audit_config` means "audit.config". If that
 * file exists, it overrides the settings.
 *
 * An INVALID or aborted run returns `DYNO_OK` too; its logs have the verdict.
 */
dyno_result dyno_start_test(dyno_system *system,
                            dyno_library *library,
                            const dyno_settings *settings,
                            const dyno_log_settings *logs,
                            const char *audit_config);

/**
 * Ends the running test within a tenth of a second. Its logs state that it was
 * aborted. May be called from any thread and from callbacks. Returns
 * `DYNO_ERROR_NOT_RUNNING` if no test is running.
 */
dyno_result dyno_abort_test(void);

/**
 * Registers the calling thread as one of `server_num_issue_query_threads`
 * threads that issue Server queries. Returns when the test is over.
 */
void dyno_register_issue_thread(void);

/**
 * Completes samples, in any order and from any thread. The clock is read once,
 * on entry. Payloads are copied if the responses are logged. `responses` must
 * have the alignment of the struct in C.
 *
 * An unknown id, or one that is already complete, is ignored and counted as an
 * error in the detail log. If no test is running, the call returns
 * `DYNO_ERROR_NOT_RUNNING` and is counted in the detail log of the next test.
 */
dyno_result dyno_complete(const dyno_response *responses, size_t count);

/**
 * Like `dyno_complete`, for payloads that are expensive to provide. For each
 * response that is logged, `fetch` is called after the clock is read and before
 * the payload is read; it may change `data` and `size`. The payload is read
 * before the next call, so its memory can be reused. `fetch` may be NULL.
 */
dyno_result dyno_complete_fetching(dyno_response *responses,
                                   size_t count,
                                   void (*fetch)(void *context, dyno_response *response),
                                   void *context);

/**
 * Reports the first tokens of samples, before their completion. The payload is
 * the first token; `n_tokens` is ignored.
 */
dyno_result dyno_first_token(const dyno_response *responses, size_t count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DYNO_LOADGEN_H */
