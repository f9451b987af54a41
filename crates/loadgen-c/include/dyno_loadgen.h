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
 * What a function returns. The numbers never change; later versions may add
 * some.
 */
typedef enum {
    /**
     * It worked.
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
     * A setting does not take this value.
     */
    DYNO_ERROR_VALUE = 4,
    /**
     * The caller's buffer is too small; nothing was written into it.
     */
    DYNO_ERROR_CAPACITY = 5,
    /**
     * A configuration file cannot be read (the reference's -2, -ENOENT).
     */
    DYNO_ERROR_CONFIG_UNREADABLE = 6,
    /**
     * A configuration file has bad lines; none of its keys applies (the
     * reference's -22, -EINVAL).
     */
    DYNO_ERROR_CONFIG_LINE = 7,
    /**
     * A test is running already; a process runs one at a time.
     */
    DYNO_ERROR_RUNNING = 8,
    /**
     * No run is on: a completion came too late, or there is nothing to abort.
     */
    DYNO_ERROR_NOT_RUNNING = 9,
    /**
     * The logs cannot be opened or written.
     */
    DYNO_ERROR_LOGS = 10,
    /**
     * The settings or the library allow no test, such as a library of no samples.
     */
    DYNO_ERROR_SETTINGS = 11,
    /**
     * A callback failed, and the test was aborted.
     */
    DYNO_ERROR_CALLBACK = 12,
    /**
     * A defect of this library.
     */
    DYNO_ERROR_INTERNAL = 13,
} dyno_result;

/**
 * A library of samples.
 */
typedef struct dyno_library dyno_library;

/**
 * Where the logs go and what they are called, beginning with the reference's
 * defaults. Used by one thread at a time.
 */
typedef struct dyno_log_settings dyno_log_settings;

/**
 * The settings of a test, which begin with the reference's defaults. Keys are
 * the field names of the reference's C++ `TestSettings`, such as
 * `server_target_qps`, and further ones of Dyno's; `dyno info settings` lists
 * them all with their units. Used by one thread at a time.
 */
typedef struct dyno_settings dyno_settings;

/**
 * A system under test.
 */
typedef struct dyno_system dyno_system;

/**
 * One sample of a query. The layout is that of `mlperf::QuerySample`.
 */
typedef struct {
    /**
     * To be handed back with the response; never 0.
     */
    uint64_t id;
    /**
     * Position in the library.
     */
    uint64_t index;
} dyno_query_sample;

/**
 * What a system under test does. All but the last two must be set.
 *
 * Functions that return `int` return 0, or anything else if they failed: then
 * the test is aborted, no further function but `release_samples` is called, and
 * `dyno_start_test` returns `DYNO_ERROR_CALLBACK`. Each function must return:
 * none may throw, jump out or end its thread.
 */
typedef struct {
    /**
     * Handed to each function as it is.
     */
    void *context;
    /**
     * A name for the logs, which is copied. Bytes that are not UTF-8 are replaced.
     */
    const char *(*name)(void *context);
    /**
     * Takes the samples of one query, or of several when queries coalesce.
     * Called by the thread that called `dyno_start_test`, or by the registered
     * issue threads. `samples` are valid during the call.
     */
    int (*issue)(void *context, const dyno_query_sample *samples, size_t count);
    /**
     * Called after the last query of a run: whatever was held back to fill a
     * batch must now be worked off.
     */
    int (*flush)(void *context);
    /**
     * Optional: provides memory for `count` samples, for systems that need them
     * in a container of their own. `issue` is then given that memory, but for
     * queries that coalesce to more than `count` samples. Called before a run,
     * once for each thread that issues.
     */
    dyno_query_sample *(*acquire_samples)(void *context, size_t count);
    /**
     * Takes back what `acquire_samples` returned. Set if and only if that is.
     */
    void (*release_samples)(void *context, dyno_query_sample *samples);
} dyno_system_callbacks;

/**
 * What a library of samples does. All must be set. Called by the thread that
 * called `dyno_start_test`, outside the timed part. Each function must
 * return: none may throw, jump out or end its thread.
 */
typedef struct {
    /**
     * Handed to each function as it is.
     */
    void *context;
    /**
     * A name for the logs, which is copied. Bytes that are not UTF-8 are replaced.
     */
    const char *(*name)(void *context);
    /**
     * Samples in the library (>= 1).
     */
    size_t (*total_sample_count)(void *context);
    /**
     * Samples that fit in memory at once (>= 1).
     */
    size_t (*performance_sample_count)(void *context);
    /**
     * Brings these samples into memory; positions may repeat. Returns 0, or
     * anything else if it failed, which aborts the test.
     */
    int (*load)(void *context, const uint64_t *samples, size_t count);
    /**
     * Releases samples that were loaded. Returns as `load`.
     */
    int (*unload)(void *context, const uint64_t *samples, size_t count);
} dyno_library_callbacks;

/**
 * The answer to one sample. The layout is that of `mlperf::QuerySampleResponse`.
 */
typedef struct {
    /**
     * The id of the sample.
     */
    uint64_t id;
    /**
     * What the accuracy log gets, byte for byte. Read during the call only, and
     * only if the response is logged. May be NULL if `size` is 0.
     */
    const void *data;
    /**
     * Bytes.
     */
    size_t size;
    /**
     * Output tokens; 0 where there are none.
     */
    int64_t n_tokens;
} dyno_response;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The text of the calling thread's last error: what was wrong, where, and what
 * to do. "" if there was none; calls that succeed leave it as it is. Valid
 * until the thread's next error or end.
 */
const char *dyno_last_error(void);

/**
 * One line about a result code, never NULL. What was wrong in one call says
 * `dyno_last_error`.
 */
const char *dyno_result_message(int code);

/**
 * Settings with default values. Never NULL.
 */
dyno_settings *dyno_settings_new(void);

/**
 * Frees settings; NULL is allowed.
 */
void dyno_settings_free(dyno_settings *settings);

/**
 * Sets a value from text: numbers in decimal, `true` or `false`, names as the
 * reference spells them (`Server`, `AccuracyOnly`).
 */
dyno_result dyno_settings_set(dyno_settings *settings, const char *key, const char *value);

/**
 * Sets a whole number, exactly. A setting that is true or false takes 1 or 0.
 */
dyno_result dyno_settings_set_u64(dyno_settings *settings, const char *key, uint64_t value);

/**
 * Sets a number, exactly. A setting that is a whole number takes no fraction.
 */
dyno_result dyno_settings_set_f64(dyno_settings *settings, const char *key, double value);

/**
 * Copies a value as text, with a NUL at its end, into `out`, which has room for
 * `capacity` bytes, and stores its length without the NUL in `length`, unless
 * that is NULL. Too small a buffer is `DYNO_ERROR_CAPACITY`; `length` is stored
 * all the same, so that `out` NULL with `capacity` 0 asks for it.
 */
dyno_result dyno_settings_get(const dyno_settings *settings,
                              const char *key,
                              char *out,
                              size_t capacity,
                              size_t *length);

/**
 * Stores a whole number, exactly; true is 1 and false is 0. A setting that is
 * none is `DYNO_ERROR_VALUE`.
 */
dyno_result dyno_settings_get_u64(const dyno_settings *settings, const char *key, uint64_t *out);

/**
 * Stores a number, exactly. A setting that is none is `DYNO_ERROR_VALUE`.
 */
dyno_result dyno_settings_get_f64(const dyno_settings *settings, const char *key, double *out);

/**
 * Applies a configuration file for a model and a scenario, as `FromConfig` of
 * the reference does: `conf_type` 1 is a user's file (the first such call of a
 * process applies the built-in table of models before it), 0 is the built-in
 * table alone, 2 is an audit's file. The scenario is a word to look up; it does
 * not set `scenario`.
 */
dyno_result dyno_settings_from_config(dyno_settings *settings,
                                      const char *path,
                                      const char *model,
                                      const char *scenario,
                                      int conf_type);

/**
 * Log settings with default values. Never NULL.
 */
dyno_log_settings *dyno_log_settings_new(void);

/**
 * Frees log settings; NULL is allowed.
 */
void dyno_log_settings_free(dyno_log_settings *settings);

/**
 * Sets a value from text. Keys are `outdir` (an existing folder; "."),
 * `prefix` ("mlperf_log_"), `suffix` (""), and, each `true` or `false`,
 * `prefix_with_datetime`, `copy_detail_to_stdout`, `copy_summary_to_stdout`
 * (false) and `enable_trace` (true).
 */
dyno_result dyno_log_settings_set(dyno_log_settings *settings, const char *key, const char *value);

/**
 * Makes a system of these functions, which are copied. NULL after an error.
 */
dyno_system *dyno_system_new(const dyno_system_callbacks *callbacks);

/**
 * Frees a system; NULL is allowed. A test that runs with it goes on.
 */
void dyno_system_free(dyno_system *system);

/**
 * Makes a library of these functions, which are copied. NULL after an error.
 */
dyno_library *dyno_library_new(const dyno_library_callbacks *callbacks);

/**
 * Frees a library; NULL is allowed. A test that runs with it goes on.
 */
void dyno_library_free(dyno_library *library);

/**
 * Runs a whole test and returns after its logs are written. `logs` NULL means
 * default log settings, `audit_config` NULL means "audit.config"; if that file
 * exists, it overrides the settings.
 *
 * A run that is INVALID, or that was aborted, is `DYNO_OK`: its logs say so.
 */
dyno_result dyno_start_test(dyno_system *system,
                            dyno_library *library,
                            const dyno_settings *settings,
                            const dyno_log_settings *logs,
                            const char *audit_config);

/**
 * Ends the running test as soon as its issuing thread notices, within a tenth
 * of a second; its logs say that it was aborted. From any thread, callbacks
 * included. `DYNO_ERROR_NOT_RUNNING` if no test is running.
 */
dyno_result dyno_abort_test(void);

/**
 * Lends the calling thread to the load generator, which issues Server queries
 * from it, if `server_num_issue_query_threads` is not 0. Returns when the test
 * is over.
 */
void dyno_register_issue_thread(void);

/**
 * Completes samples, in any order and from any thread; the time is read once,
 * on entry. Payloads are copied if the responses are logged. `responses` must
 * be aligned as C aligns the struct.
 *
 * An id that is unknown or complete already changes nothing, and is an error of
 * the test, counted in its detail log. `DYNO_ERROR_NOT_RUNNING` if no run is
 * on; that is counted in the detail log of the next test.
 */
dyno_result dyno_complete(const dyno_response *responses, size_t count);

/**
 * As `dyno_complete`, for payloads that are expensive to bring: `fetch` is
 * called for each response that is logged, after its time was noted and before
 * its payload is read, and may change `data` and `size`. The payload is read
 * before the next call, which may reuse its memory. NULL is allowed.
 */
dyno_result dyno_complete_fetching(dyno_response *responses,
                                   size_t count,
                                   void (*fetch)(void *context, dyno_response *response),
                                   void *context);

/**
 * Reports the first tokens of samples, before their completion. The payload is
 * that of the first token; `n_tokens` is ignored.
 */
dyno_result dyno_first_token(const dyno_response *responses, size_t count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DYNO_LOADGEN_H */
