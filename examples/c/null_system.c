/* A system that answers every sample at once, through the C interface:
 *
 *   null_system SCENARIO LOG_FOLDER
 */
#include <dyno_loadgen.h>
#include <stdio.h>
#include <stdlib.h>

/* Samples that are answered together. */
enum { BATCH = 64 };

struct null_system {
    size_t answered;
};

static const char *name(void *context) {
    (void)context;
    return "null system in C";
}

static int issue(void *context, const dyno_query_sample *samples, size_t count) {
    struct null_system *system = context;
    const char answer = 1;
    for (size_t done = 0; done < count;) {
        dyno_response responses[BATCH];
        size_t batch = 0;
        for (; batch < BATCH && done < count; ++batch, ++done) {
            responses[batch] =
                (dyno_response){.id = samples[done].id, .data = &answer, .size = sizeof answer};
        }
        /* A failure ends the test, and dyno_start_test says so. */
        if (dyno_complete(responses, batch) != DYNO_OK) return 1;
        system->answered += batch;
    }
    return 0;
}

static int flush(void *context) {
    (void)context;
    return 0;
}

static size_t samples(void *context) {
    (void)context;
    return 1024;
}

static int load(void *context, const uint64_t *indices, size_t count) {
    (void)context;
    (void)indices;
    (void)count;
    return 0;
}

/* Ends the program if a call went wrong. */
static void expect(dyno_result result) {
    if (result == DYNO_OK) return;
    fprintf(stderr, "null_system: %s\n", dyno_last_error());
    exit(EXIT_FAILURE);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: null_system SCENARIO LOG_FOLDER\n");
        return EXIT_FAILURE;
    }
    dyno_settings *settings = dyno_settings_new();
    expect(dyno_settings_set(settings, "scenario", argv[1]));
    expect(dyno_settings_set_u64(settings, "min_query_count", 10000));
    expect(dyno_settings_set_u64(settings, "min_duration_ms", 0));
    expect(dyno_settings_set_f64(settings, "server_target_qps", 100000));
    dyno_log_settings *logs = dyno_log_settings_new();
    expect(dyno_log_settings_set(logs, "outdir", argv[2]));
    expect(dyno_log_settings_set(logs, "enable_trace", "false"));

    struct null_system answers = {0};
    dyno_system *system = dyno_system_new(&(dyno_system_callbacks){
        .context = &answers, .name = name, .issue = issue, .flush = flush});
    dyno_library *library = dyno_library_new(&(dyno_library_callbacks){
        .name = name,
        .total_sample_count = samples,
        .performance_sample_count = samples,
        .load = load,
        .unload = load,
    });
    expect(dyno_start_test(system, library, settings, logs, NULL));
    printf("%zu samples answered\n", answers.answered);

    dyno_library_free(library);
    dyno_system_free(system);
    dyno_log_settings_free(logs);
    dyno_settings_free(settings);
    return EXIT_SUCCESS;
}
