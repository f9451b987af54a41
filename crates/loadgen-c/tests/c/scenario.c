/* Runs one test against a system that computes nothing.
 *
 *   scenario [--option[=value]]... [key=value]...
 *
 * key=value is a setting; log.key=value is one of the logs. Options:
 *   --config=FILE,MODEL,SCENARIO  applies a configuration file
 *   --total=N --performance=N     size of the library (1024)
 *   --complete=inline             in the call that issues (the default)
 *   --complete=flush              all samples of a run at its end
 *   --complete=threads            by two threads, as they come
 *   --batch=N                     samples in a completion (1024)
 *   --payload                     the sample's position in text as its answer
 *   --fetch                       the same, brought when it is asked for
 *   --tokens                      first token, and 3 + position % 5 tokens
 *   --own-memory                  lists samples in memory of the program's own
 *   --issued=FILE                 writes what is loaded, issued and flushed
 */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdbool.h>

#include "check.h"

enum { WORKERS = 2 };

struct harness {
    size_t total, performance, batch;
    enum { INLINE, FLUSH, THREADS } complete;
    bool payload, fetch, tokens, own_memory;
    FILE *issued;
    unsigned long fetched, acquired, released;

    /* Issued and not complete; positions travel in `size` until they are. */
    dyno_response *held;
    size_t held_count, held_room;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over;
};

/* Where a response's answer is kept until it is complete. */
static _Thread_local char (*answers)[24];

static void fetch(void *context, dyno_response *response) {
    struct harness *harness = context;
    __atomic_fetch_add(&harness->fetched, 1, __ATOMIC_RELAXED);
    char *answer = answers[0];
    response->size = (size_t)snprintf(answer, sizeof answers[0], "%zu", response->size);
    response->data = answer;
}

/* Completes samples whose position is in `size`. */
static void complete(struct harness *harness, dyno_response *responses, size_t count) {
    if (answers == NULL) {
        answers = calloc(harness->batch, sizeof answers[0]);
        CHECK(answers != NULL);
    }
    for (size_t begin = 0; begin < count; begin += harness->batch) {
        size_t n = count - begin < harness->batch ? count - begin : harness->batch;
        dyno_response *batch = responses + begin;
        for (size_t i = 0; i < n; i++) {
            size_t index = batch[i].size;
            batch[i].n_tokens = harness->tokens ? 3 + (int64_t)(index % 5) : 0;
            if (harness->payload) {
                batch[i].size = (size_t)snprintf(answers[i], sizeof answers[i], "%zu", index);
                batch[i].data = answers[i];
            } else if (!harness->fetch) {
                batch[i].size = 0;
            }
        }
        if (harness->tokens) {
            CHECK_OK(dyno_first_token(batch, n));
        }
        if (harness->fetch) {
            CHECK_OK(dyno_complete_fetching(batch, n, fetch, harness));
        } else {
            CHECK_OK(dyno_complete(batch, n));
        }
    }
}

static void hold(struct harness *harness, const dyno_query_sample *samples, size_t count) {
    if (harness->held_count + count > harness->held_room) {
        harness->held_room = 2 * (harness->held_count + count);
        harness->held = realloc(harness->held, harness->held_room * sizeof *harness->held);
        CHECK(harness->held != NULL);
    }
    for (size_t i = 0; i < count; i++) {
        dyno_response response = {.id = samples[i].id, .size = (size_t)samples[i].index};
        harness->held[harness->held_count++] = response;
    }
}

static const char *name(void *context) {
    (void)context;
    return "C harness";
}

static int issue(void *context, const dyno_query_sample *samples, size_t count) {
    struct harness *harness = context;
    if (harness->issued != NULL) {
        fputs("issue", harness->issued);
        for (size_t i = 0; i < count; i++) {
            fprintf(harness->issued, " %llu", (unsigned long long)samples[i].index);
        }
        fputc('\n', harness->issued);
    }
    if (harness->complete == INLINE && count == 1) {
        dyno_response response = {.id = samples[0].id, .size = (size_t)samples[0].index};
        complete(harness, &response, 1);
        return 0;
    }
    pthread_mutex_lock(&harness->lock);
    hold(harness, samples, count);
    if (harness->complete == INLINE) {
        complete(harness, harness->held, harness->held_count);
        harness->held_count = 0;
    }
    pthread_cond_broadcast(&harness->changed);
    pthread_mutex_unlock(&harness->lock);
    return 0;
}

static int flush(void *context) {
    struct harness *harness = context;
    if (harness->issued != NULL) {
        fputs("flush\n", harness->issued);
    }
    if (harness->complete == FLUSH) {
        complete(harness, harness->held, harness->held_count);
        harness->held_count = 0;
    }
    return 0;
}

static void *work(void *context) {
    struct harness *harness = context;
    dyno_response *taken = calloc(harness->batch, sizeof *taken);
    CHECK(taken != NULL);
    pthread_mutex_lock(&harness->lock);
    while (!harness->over) {
        size_t n = harness->held_count < harness->batch ? harness->held_count : harness->batch;
        if (n == 0) {
            pthread_cond_wait(&harness->changed, &harness->lock);
            continue;
        }
        harness->held_count -= n;
        memcpy(taken, harness->held + harness->held_count, n * sizeof *taken);
        pthread_mutex_unlock(&harness->lock);
        complete(harness, taken, n);
        pthread_mutex_lock(&harness->lock);
    }
    pthread_mutex_unlock(&harness->lock);
    free(taken);
    free(answers);
    return NULL;
}

static dyno_query_sample *acquire_samples(void *context, size_t count) {
    struct harness *harness = context;
    harness->acquired++;
    return malloc(count * sizeof(dyno_query_sample));
}

static void release_samples(void *context, dyno_query_sample *samples) {
    struct harness *harness = context;
    harness->released++;
    free(samples);
}

static size_t total_sample_count(void *context) {
    return ((struct harness *)context)->total;
}

static size_t performance_sample_count(void *context) {
    return ((struct harness *)context)->performance;
}

static int load(void *context, const uint64_t *samples, size_t count) {
    struct harness *harness = context;
    if (harness->issued != NULL) {
        fputs("load", harness->issued);
        for (size_t i = 0; i < count; i++) {
            fprintf(harness->issued, " %llu", (unsigned long long)samples[i]);
        }
        fputc('\n', harness->issued);
    }
    return 0;
}

static int unload(void *context, const uint64_t *samples, size_t count) {
    (void)context;
    (void)samples;
    CHECK(count > 0);
    return 0;
}

/* The value of `argument` if it is the option `name`, "" if it has none. */
static const char *option(const char *argument, const char *name) {
    size_t length = strlen(name);
    if (strncmp(argument, name, length) != 0) {
        return NULL;
    }
    return argument[length] == '=' ? argument + length + 1 : argument[length] == 0 ? "" : NULL;
}

static void set_option(struct harness *harness, dyno_settings *settings, char *argument) {
    const char *value;
    if ((value = option(argument, "--total"))) {
        harness->total = strtoull(value, NULL, 10);
    } else if ((value = option(argument, "--performance"))) {
        harness->performance = strtoull(value, NULL, 10);
    } else if ((value = option(argument, "--batch"))) {
        harness->batch = strtoull(value, NULL, 10);
    } else if ((value = option(argument, "--complete"))) {
        harness->complete = value[0] == 'i' ? INLINE : value[0] == 'f' ? FLUSH : THREADS;
    } else if (option(argument, "--payload")) {
        harness->payload = true;
    } else if (option(argument, "--fetch")) {
        harness->fetch = true;
        harness->batch = 1;
    } else if (option(argument, "--tokens")) {
        harness->tokens = true;
    } else if (option(argument, "--own-memory")) {
        harness->own_memory = true;
    } else if ((value = option(argument, "--issued"))) {
        harness->issued = fopen(value, "w");
        CHECK(harness->issued != NULL);
    } else if ((value = option(argument, "--config"))) {
        char *rest = argument + strlen("--config=");
        const char *file = strtok_r(rest, ",", &rest);
        const char *model = strtok_r(rest, ",", &rest);
        CHECK(file != NULL && model != NULL);
        CHECK_OK(dyno_settings_from_config(settings, file, model, rest, 1));
    } else {
        fprintf(stderr, "unknown option %s\n", argument);
        exit(2);
    }
}

int main(int argc, char **argv) {
    struct harness harness = {.total = 1024, .performance = 1024, .batch = 1024};
    pthread_mutex_init(&harness.lock, NULL);
    pthread_cond_init(&harness.changed, NULL);
    dyno_settings *settings = dyno_settings_new();
    dyno_log_settings *logs = dyno_log_settings_new();
    CHECK(settings != NULL && logs != NULL);
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (strncmp(argv[i], "--", 2) == 0) {
            set_option(&harness, settings, argv[i]);
            continue;
        }
        CHECK(value != NULL);
        *value++ = 0;
        if (strncmp(argv[i], "log.", 4) == 0) {
            CHECK_OK(dyno_log_settings_set(logs, argv[i] + 4, value));
        } else {
            CHECK_OK(dyno_settings_set(settings, argv[i], value));
        }
    }

    dyno_system_callbacks system_callbacks = {&harness, name, issue, flush, NULL, NULL};
    if (harness.own_memory) {
        system_callbacks.acquire_samples = acquire_samples;
        system_callbacks.release_samples = release_samples;
    }
    dyno_library_callbacks library_callbacks = {
        &harness, name, total_sample_count, performance_sample_count, load, unload};
    dyno_system *system = dyno_system_new(&system_callbacks);
    dyno_library *library = dyno_library_new(&library_callbacks);
    CHECK(system != NULL && library != NULL);

    pthread_t workers[WORKERS];
    for (int i = 0; harness.complete == THREADS && i < WORKERS; i++) {
        CHECK(pthread_create(&workers[i], NULL, work, &harness) == 0);
    }
    CHECK_OK(dyno_start_test(system, library, settings, logs, NULL));
    pthread_mutex_lock(&harness.lock);
    harness.over = true;
    pthread_cond_broadcast(&harness.changed);
    pthread_mutex_unlock(&harness.lock);
    for (int i = 0; harness.complete == THREADS && i < WORKERS; i++) {
        CHECK(pthread_join(workers[i], NULL) == 0);
    }

    CHECK(harness.acquired == harness.released);
    CHECK((harness.acquired > 0) == harness.own_memory);
    printf("fetched %lu\n", harness.fetched);
    if (harness.issued != NULL) {
        CHECK(fclose(harness.issued) == 0);
    }
    dyno_library_free(library);
    dyno_system_free(system);
    dyno_log_settings_free(logs);
    dyno_settings_free(settings);
    free(harness.held);
    free(answers);
    return 0;
}
