/* Tests that a harness gets wrong.
 *
 *   misuse CASE
 *
 * Each case is a function below; logs go into the current folder, where the
 * caller looks at what they say. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdbool.h>

#include "check.h"

enum { MOST_HELD = 4096 };

/* One harness, whose callbacks do what the case wants. */
static struct {
    size_t samples;
    const char *name;
    int (*issue)(const dyno_query_sample *samples, size_t count);
    int (*flush)(void);
    int load_code, unload_code;
    bool own_memory;
    /* Calls of all callbacks, and of those that may not follow a failure. */
    unsigned calls, issues, flushes, loads, unloads, releases;
    dyno_query_sample held[MOST_HELD];
    size_t held_count;
} harness;

static dyno_system *sut;
static dyno_library *library;
static dyno_settings *settings;

static const char *name(void *context) {
    (void)context;
    harness.calls++;
    return harness.name;
}

static int issue(void *context, const dyno_query_sample *samples, size_t count) {
    (void)context;
    harness.calls++;
    harness.issues++;
    return harness.issue(samples, count);
}

static int flush(void *context) {
    (void)context;
    harness.calls++;
    harness.flushes++;
    return harness.flush == NULL ? 0 : harness.flush();
}

static dyno_query_sample *acquire(void *context, size_t count) {
    (void)context;
    harness.calls++;
    return harness.own_memory ? malloc(count * sizeof(dyno_query_sample)) : NULL;
}

static void release(void *context, dyno_query_sample *samples) {
    (void)context;
    harness.releases++;
    free(samples);
}

static size_t sample_count(void *context) {
    (void)context;
    return harness.samples;
}

static int load(void *context, const uint64_t *samples, size_t count) {
    (void)context;
    CHECK(samples != NULL && count > 0);
    harness.calls++;
    harness.loads++;
    return harness.load_code;
}

static int unload(void *context, const uint64_t *samples, size_t count) {
    (void)context;
    CHECK(samples != NULL && count > 0);
    harness.calls++;
    harness.unloads++;
    return harness.unload_code;
}

static void set(const char *key, const char *value) {
    CHECK_OK(dyno_settings_set(settings, key, value));
}

static int start(void) {
    return (int)dyno_start_test(sut, library, settings, NULL, NULL);
}

static void complete(const dyno_query_sample *samples, size_t count) {
    for (size_t i = 0; i < count; i++) {
        dyno_response response = {.id = samples[i].id};
        CHECK_OK(dyno_complete(&response, 1));
    }
}

static int at_once(const dyno_query_sample *samples, size_t count) {
    complete(samples, count);
    return 0;
}

static int never(const dyno_query_sample *samples, size_t count) {
    (void)samples;
    (void)count;
    return 0;
}

/* After whatever went wrong, a test runs as if nothing had been. */
static void check_next_test(void) {
    harness.issue = at_once;
    harness.flush = NULL;
    harness.load_code = harness.unload_code = 0;
    harness.name = "next";
    harness.samples = 64;
    unsigned issues = harness.issues;
    CHECK_OK(start());
    CHECK(harness.issues > issues);
}

static void no_folder(void) {
    dyno_log_settings *logs = dyno_log_settings_new();
    CHECK_OK(dyno_log_settings_set(logs, "outdir", "missing"));
    CHECK_RESULT(dyno_start_test(sut, library, settings, logs, NULL), DYNO_ERROR_LOGS,
                 "create the folder, or choose another one");
    CHECK(strstr(dyno_last_error(), "missing") != NULL);
    CHECK(harness.issues == 0 && harness.loads == 0);
    dyno_log_settings_free(logs);
    check_next_test();
}

static int twice_at_once(const dyno_query_sample *samples, size_t count) {
    complete(samples, count);
    complete(samples, count);
    return 0;
}

static void twice(void) {
    harness.issue = twice_at_once;
    CHECK_OK(start());
}

static int with_a_foreign_id(const dyno_query_sample *samples, size_t count) {
    dyno_query_sample foreign[] = {{.id = 0}, {.id = 42}, {.id = UINT64_MAX}};
    complete(foreign, 3);
    complete(samples, count);
    return 0;
}

static void unknown_ids(void) {
    harness.issue = with_a_foreign_id;
    CHECK_OK(start());
}

static int noted(const dyno_query_sample *samples, size_t count) {
    harness.held[0] = samples[0];
    complete(samples, count);
    return 0;
}

static void late(void) {
    harness.issue = noted;
    CHECK_OK(start());
    dyno_response response = {.id = harness.held[0].id};
    CHECK_RESULT(dyno_complete(&response, 1), DYNO_ERROR_NOT_RUNNING,
                 "complete each sample once, before the test ends");
    check_next_test();
}

static int hold(const dyno_query_sample *samples, size_t count) {
    CHECK(harness.held_count + count <= MOST_HELD);
    memcpy(harness.held + harness.held_count, samples, count * sizeof *samples);
    harness.held_count += count;
    return 0;
}

static void *complete_half(void *half) {
    size_t middle = harness.held_count / 2;
    if (half == NULL) {
        complete(harness.held, middle);
    } else {
        complete(harness.held + middle, harness.held_count - middle);
    }
    return NULL;
}

/* Nobody waits for the threads: they end when they have completed. */
static int complete_by_threads(void) {
    static char second;
    void *halves[] = {NULL, &second};
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, complete_half, halves[i]) == 0);
        CHECK(pthread_detach(thread) == 0);
    }
    return 0;
}

static void exiting_threads(void) {
    set("scenario", "Server");
    set("server_target_qps", "1e7");
    harness.issue = hold;
    harness.flush = complete_by_threads;
    for (int i = 0; i < 400; i++) {
        CHECK_OK(start());
        CHECK(harness.held_count == 700);
        harness.held_count = 0;
    }
}

static void *start_second(void *unused) {
    CHECK_RESULT(start(), DYNO_ERROR_RUNNING, "wait until it has returned");
    return unused;
}

static int second_test(const dyno_query_sample *samples, size_t count) {
    start_second(NULL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, start_second, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    complete(samples, count);
    return 0;
}

static void two_tests(void) {
    harness.issue = second_test;
    CHECK_OK(start());
    check_next_test();
}

static void empty_library(void) {
    harness.samples = 0;
    CHECK_RESULT(start(), DYNO_ERROR_SETTINGS, "`library.total` is 0");
    CHECK(harness.issues == 0 && harness.loads == 0);
    check_next_test();
}

static int fail_third(const dyno_query_sample *samples, size_t count) {
    complete(samples, count);
    return harness.issues == 3 ? 77 : 0;
}

static int fail(void) {
    return -1;
}

static void failing_callbacks(void) {
    harness.issue = fail_third;
    CHECK_RESULT(start(), DYNO_ERROR_CALLBACK, "`issue` returned 77");
    CHECK(harness.issues == 3 && harness.flushes == 0 && harness.unloads == 0);
    check_next_test();

    harness.flush = fail;
    unsigned unloads = harness.unloads;
    CHECK_RESULT(start(), DYNO_ERROR_CALLBACK, "`flush` returned -1");
    CHECK(harness.unloads == unloads);
    check_next_test();

    harness.load_code = 5;
    unsigned issues = harness.issues, flushes = harness.flushes;
    CHECK_RESULT(start(), DYNO_ERROR_CALLBACK, "`load` returned 5");
    CHECK(harness.issues == issues && harness.flushes == flushes);
    check_next_test();

    harness.unload_code = 6;
    CHECK_RESULT(start(), DYNO_ERROR_CALLBACK, "`unload` returned 6");
    check_next_test();

    harness.name = NULL;
    unsigned calls = harness.calls;
    CHECK_RESULT(start(), DYNO_ERROR_CALLBACK, "`name` returned NULL");
    CHECK(harness.calls == calls + 1);
    check_next_test();

    dyno_system_free(sut);
    dyno_system_callbacks callbacks = {NULL, name, issue, flush, acquire, release};
    sut = dyno_system_new(&callbacks);
    issues = harness.issues;
    CHECK_RESULT(start(), DYNO_ERROR_CALLBACK, "`acquire_samples` returned NULL");
    CHECK(harness.issues == issues && harness.releases == 0);
    harness.own_memory = true;
    check_next_test();
    CHECK(harness.releases == 1);
}

static void *abort_test(void *unused) {
    CHECK_OK(dyno_abort_test());
    return unused;
}

static int abort_from_thread(const dyno_query_sample *samples, size_t count) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, abort_test, NULL) == 0);
    CHECK(pthread_detach(thread) == 0);
    return never(samples, count);
}

static int abort_here(const dyno_query_sample *samples, size_t count) {
    abort_test(NULL);
    return never(samples, count);
}

static void aborts(void) {
    CHECK_RESULT(dyno_abort_test(), DYNO_ERROR_NOT_RUNNING, "no test is running");
    harness.issue = abort_here;
    CHECK_OK(start());
    check_next_test();
    harness.issue = abort_from_thread;
    CHECK_OK(start());
    CHECK(harness.flushes == 3);
}

static void *lend(void *unused) {
    dyno_register_issue_thread();
    return unused;
}

static void issue_threads(void) {
    set("scenario", "Server");
    set("server_target_qps", "1e6");
    set("server_num_issue_query_threads", "2");
    for (int round = 0; round < 20; round++) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) {
            CHECK(pthread_create(&threads[i], NULL, lend, NULL) == 0);
        }
        CHECK_OK(start());
        for (int i = 0; i < 2; i++) {
            CHECK(pthread_join(threads[i], NULL) == 0);
        }
    }
}

static void odd_names(void) {
    harness.name = "caf\xe9 \"quoted\"\n";
    CHECK_OK(start());
}

static const struct {
    const char *name;
    void (*run)(void);
} CASES[] = {
    {"no_folder", no_folder},
    {"twice", twice},
    {"unknown_ids", unknown_ids},
    {"late", late},
    {"exiting_threads", exiting_threads},
    {"two_tests", two_tests},
    {"empty_library", empty_library},
    {"failing_callbacks", failing_callbacks},
    {"aborts", aborts},
    {"issue_threads", issue_threads},
    {"odd_names", odd_names},
};

int main(int argc, char **argv) {
    harness.samples = 64;
    harness.name = "misuse";
    harness.issue = at_once;
    dyno_system_callbacks system_callbacks = {NULL, name, issue, flush, NULL, NULL};
    dyno_library_callbacks library_callbacks = {NULL, name,   sample_count, sample_count,
                                                load, unload};
    sut = dyno_system_new(&system_callbacks);
    library = dyno_library_new(&library_callbacks);
    settings = dyno_settings_new();
    set("min_duration_ms", "0");
    /* Enough for every early-stopping criterion, and a bound that no busy machine misses. */
    set("min_query_count", "700");
    set("server_target_latency_ns", "100000000000");
    for (size_t i = 0; argc == 2 && i < sizeof CASES / sizeof CASES[0]; i++) {
        if (strcmp(argv[1], CASES[i].name) == 0) {
            CASES[i].run();
            dyno_system_free(sut);
            dyno_library_free(library);
            dyno_settings_free(settings);
            return 0;
        }
    }
    fprintf(stderr, "no such case\n");
    return 2;
}
