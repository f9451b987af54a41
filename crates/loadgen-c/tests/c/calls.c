/* What functions return that run no test: good values, wrong keys, wrong pointers. */
#include <stdint.h>

#include "check.h"

static const char *name(void *context) {
    return context;
}

static int issue(void *context, const dyno_query_sample *samples, size_t count) {
    (void)context;
    (void)samples;
    return count == 0;
}

static int flush(void *context) {
    return context == NULL;
}

static size_t sample_count(void *context) {
    return context != NULL;
}

static int transfer(void *context, const uint64_t *samples, size_t count) {
    (void)context;
    return samples == NULL || count == 0;
}

static dyno_query_sample *acquire(void *context, size_t count) {
    (void)context;
    (void)count;
    return NULL;
}

static const dyno_system_callbacks SYSTEM = {"x", name, issue, flush, NULL, NULL};
static const dyno_library_callbacks LIBRARY = {"x",          name,     sample_count,
                                               sample_count, transfer, transfer};

static void check_value(dyno_settings *settings, const char *key, const char *expected) {
    char text[64];
    size_t length = 0;
    CHECK_OK(dyno_settings_get(settings, key, text, sizeof text, &length));
    if (strcmp(text, expected) != 0 || length != strlen(expected)) {
        fprintf(stderr, "%s is %s, not %s\n", key, text, expected);
        exit(1);
    }
}

static void values(void) {
    dyno_settings *settings = dyno_settings_new();
    CHECK_OK(dyno_settings_set(settings, "scenario", "Server"));
    check_value(settings, "scenario", "Server");
    CHECK_OK(dyno_settings_set_u64(settings, "schedule_rng_seed", UINT64_MAX));
    check_value(settings, "schedule_rng_seed", "18446744073709551615");
    CHECK_OK(dyno_settings_set_u64(settings, "server_coalesce_queries", 1));
    check_value(settings, "server_coalesce_queries", "true");
    CHECK_OK(dyno_settings_set_f64(settings, "server_target_qps", 0.1 + 0.2));
    check_value(settings, "server_target_qps", "0.30000000000000004");
    CHECK_OK(dyno_settings_set_f64(settings, "min_query_count", 7.0));
    check_value(settings, "min_query_count", "7");
    CHECK_OK(dyno_settings_set(settings, "server_find_peak_qps_decimals_of_precision", "-1"));
    check_value(settings, "server_find_peak_qps_decimals_of_precision", "-1");

    size_t length = 0;
    char text[4] = "abc";
    CHECK_RESULT(dyno_settings_get(settings, "scenario", NULL, 0, &length), DYNO_ERROR_CAPACITY,
                 "`scenario` takes 7 bytes");
    CHECK(length == 6);
    CHECK_RESULT(dyno_settings_get(settings, "scenario", text, sizeof text, NULL),
                 DYNO_ERROR_CAPACITY, "`capacity` is 4");
    CHECK(strcmp(text, "abc") == 0);
    dyno_settings_free(settings);
}

static void wrong_keys(void) {
    dyno_settings *settings = dyno_settings_new();
    CHECK(strcmp(dyno_last_error(), "") == 0);
    CHECK_RESULT(dyno_settings_set(settings, "server_target_qsp", "5"), DYNO_ERROR_UNKNOWN_KEY,
                 "unknown key `server_target_qsp`; the nearest key is `server_target_qps`");
    CHECK_RESULT(dyno_settings_get(settings, "Mode", NULL, 0, NULL), DYNO_ERROR_UNKNOWN_KEY,
                 "`mode`");
    CHECK_RESULT(dyno_settings_set(settings, "scenario", "server"), DYNO_ERROR_VALUE,
                 "expected one of: SingleStream MultiStream Server Offline");
    CHECK_RESULT(dyno_settings_set_u64(settings, "server_coalesce_queries", 2), DYNO_ERROR_VALUE,
                 "`server_coalesce_queries`: cannot read `2`, expected true or false");
    CHECK_RESULT(dyno_settings_set_f64(settings, "min_query_count", 0.5), DYNO_ERROR_VALUE,
                 "expected a whole number");
    CHECK_RESULT(dyno_settings_set(settings, "server_target_qps", "1e400"), DYNO_ERROR_VALUE,
                 "cannot read `1e400`, expected a number from -1.7e308");
    CHECK_RESULT(dyno_settings_set(settings, "k\xff", "5"), DYNO_ERROR_TEXT, "from byte 1 on");
    CHECK_RESULT(dyno_settings_set(settings, "mode", "\xff"), DYNO_ERROR_TEXT, "`value`");
    check_value(settings, "scenario", "SingleStream");
    CHECK_OK(dyno_settings_set(settings, "scenario", "Server"));
    CHECK(strstr(dyno_last_error(), "`value`") != NULL);
    dyno_settings_free(settings);

    dyno_log_settings *logs = dyno_log_settings_new();
    CHECK_RESULT(dyno_log_settings_set(logs, "outdri", "."), DYNO_ERROR_UNKNOWN_KEY, "`outdir`");
    CHECK_RESULT(dyno_log_settings_set(logs, "enable_trace", "1"), DYNO_ERROR_VALUE,
                 "`enable_trace`: cannot read `1`, expected true or false");
    CHECK_RESULT(dyno_log_settings_set(logs, "prefix", "\xff"), DYNO_ERROR_TEXT, "`value`");
    CHECK_OK(dyno_log_settings_set(logs, "outdir", "\xff"));
    dyno_log_settings_free(logs);
}

static void wrong_pointers(void) {
    dyno_settings *settings = dyno_settings_new();
    CHECK_RESULT(dyno_settings_set(NULL, "mode", "x"), DYNO_ERROR_POINTER, "`settings` is NULL");
    CHECK_RESULT(dyno_settings_set(settings, NULL, "x"), DYNO_ERROR_POINTER, "`key` is NULL");
    CHECK_RESULT(dyno_settings_set(settings, "mode", NULL), DYNO_ERROR_POINTER, "`value`");
    CHECK_RESULT(dyno_settings_set_u64(NULL, "mode", 1), DYNO_ERROR_POINTER, "`settings`");
    CHECK_RESULT(dyno_settings_set_f64(settings, NULL, 1), DYNO_ERROR_POINTER, "`key`");
    CHECK_RESULT(dyno_settings_get(NULL, "mode", NULL, 0, NULL), DYNO_ERROR_POINTER, "`settings`");
    CHECK_RESULT(dyno_settings_get(settings, "mode", NULL, 99, NULL), DYNO_ERROR_POINTER, "`out`");
    CHECK_RESULT(dyno_settings_from_config(settings, NULL, "m", "s", 1), DYNO_ERROR_POINTER, "`path`");
    CHECK_RESULT(dyno_settings_from_config(NULL, "p", "m", "s", 1), DYNO_ERROR_POINTER, "`settings`");
    CHECK_RESULT(dyno_log_settings_set(NULL, "prefix", ""), DYNO_ERROR_POINTER, "`settings`");

    CHECK(dyno_system_new(NULL) == NULL && strstr(dyno_last_error(), "`callbacks`"));
    dyno_system_callbacks callbacks = SYSTEM;
    callbacks.flush = NULL;
    CHECK(dyno_system_new(&callbacks) == NULL && strstr(dyno_last_error(), "`callbacks->flush`"));
    callbacks = SYSTEM;
    callbacks.acquire_samples = acquire;
    CHECK(dyno_system_new(&callbacks) == NULL && strstr(dyno_last_error(), "set both or none"));
    dyno_library_callbacks incomplete = LIBRARY;
    incomplete.unload = NULL;
    CHECK(dyno_library_new(&incomplete) == NULL && strstr(dyno_last_error(), "->unload`"));

    dyno_system *system = dyno_system_new(&SYSTEM);
    dyno_library *library = dyno_library_new(&LIBRARY);
    CHECK(system != NULL && library != NULL);
    CHECK_RESULT(dyno_start_test(NULL, library, settings, NULL, NULL), DYNO_ERROR_POINTER, "`system`");
    CHECK_RESULT(dyno_start_test(system, NULL, settings, NULL, NULL), DYNO_ERROR_POINTER, "`library`");
    CHECK_RESULT(dyno_start_test(system, library, NULL, NULL, NULL), DYNO_ERROR_POINTER, "`settings`");
    dyno_system_free(system);
    dyno_library_free(library);
    dyno_settings_free(settings);
    dyno_system_free(NULL);
    dyno_library_free(NULL);
    dyno_settings_free(NULL);
    dyno_log_settings_free(NULL);
}

static void wrong_responses(void) {
    dyno_response responses[2] = {{.id = 1}, {.id = 2}};
    const dyno_response *between = (const void *)((const char *)responses + 1);
    CHECK_RESULT(dyno_complete(NULL, 1), DYNO_ERROR_POINTER, "its count is 1");
    CHECK_RESULT(dyno_complete(between, 1), DYNO_ERROR_POINTER, "not aligned to 8 bytes");
    CHECK_RESULT(dyno_complete(responses, SIZE_MAX), DYNO_ERROR_POINTER, "more than memory");
    CHECK_RESULT(dyno_first_token(NULL, 1), DYNO_ERROR_POINTER, "`responses`");
    CHECK_RESULT(dyno_complete_fetching(NULL, 1, NULL, NULL), DYNO_ERROR_POINTER, "`responses`");
    CHECK_RESULT(dyno_complete(responses, 2), DYNO_ERROR_NOT_RUNNING, "is running: 2");
    CHECK_RESULT(dyno_complete_fetching(responses, 2, NULL, NULL), DYNO_ERROR_NOT_RUNNING, "is running: 2");
    CHECK_RESULT(dyno_first_token(responses, 1), DYNO_ERROR_NOT_RUNNING, "no test is running");
    CHECK_RESULT(dyno_abort_test(), DYNO_ERROR_NOT_RUNNING, "nothing to abort");
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void configuration(void) {
    dyno_settings *settings = dyno_settings_new();
    CHECK_RESULT(dyno_settings_from_config(settings, "none.conf", "resnet50", "Server", 1),
                 DYNO_ERROR_CONFIG_UNREADABLE, "none.conf");
    /* The first call applies the built-in table all the same, as the reference does. */
    check_value(settings, "performance_sample_count_override", "1024");
    write_file("bad.conf", "*.Server.target_qps = 7\nfoo bar\n");
    CHECK_RESULT(dyno_settings_from_config(settings, "bad.conf", "resnet50", "Server", 1),
                 DYNO_ERROR_CONFIG_LINE, "bad.conf:2: `foo bar`");
    check_value(settings, "server_target_qps", "1");
    write_file("good.conf", "*.Server.target_qps = 7\n");
    CHECK_OK(dyno_settings_from_config(settings, "good.conf", "resnet50", "Server", 1));
    check_value(settings, "server_target_qps", "7");
    CHECK_OK(dyno_settings_from_config(settings, "", "bert", "Offline", 0));
    check_value(settings, "performance_sample_count_override", "10833");
    dyno_settings_free(settings);
}

static void messages(void) {
    for (int code = DYNO_OK; code <= DYNO_ERROR_INTERNAL; code++) {
        CHECK(strlen(dyno_result_message(code)) > 5);
        for (int other = DYNO_OK; other < code; other++) {
            CHECK(strcmp(dyno_result_message(code), dyno_result_message(other)) != 0);
        }
    }
    CHECK(strcmp(dyno_result_message(-1), "unknown result code") == 0);
}

int main(void) {
    wrong_keys();
    values();
    wrong_pointers();
    wrong_responses();
    configuration();
    messages();
    return 0;
}
