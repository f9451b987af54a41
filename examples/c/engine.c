/* An engine for `dyno run --system plugin:./engine.so`: one thread adds up the elements of samples.
 *
 *     cc -O2 -shared -fPIC -I PREFIX/include engine.c -o engine.so -lpthread
 *
 * where `cargo xtask install-c PREFIX` installed dyno_engine.h. */
#include "dyno_engine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH 64

/* A sample that waits, with the callback of its query. */
typedef struct job {
  dyno_sample sample;
  dyno_complete complete;
  void *context;
  struct job *next;
} job;

struct dyno_engine {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  job *first, **last;
  int is_closed;
};

static const uint64_t SHAPE[] = {LENGTH};
static const dyno_input INPUTS[] = {{"x", DYNO_FLOAT32, 1, SHAPE}};

static void answer(const job *job) {
  const float *x = job->sample.inputs[0].data;
  float sum = 0;
  for (int i = 0; i < LENGTH; i++) sum += x[i];
  dyno_answer answer = {.id = job->sample.id, .kind = DYNO_DONE, .data = &sum, .size = sizeof sum};
  job->complete(job->context, &answer, 1);
}

static void *work(void *argument) {
  dyno_engine *engine = argument;
  pthread_mutex_lock(&engine->lock);
  for (;;) {
    job *job = engine->first;
    if (job == NULL) {
      if (engine->is_closed) break;
      pthread_cond_wait(&engine->changed, &engine->lock);
      continue;
    }
    engine->first = job->next;
    if (engine->first == NULL) engine->last = &engine->first;
    pthread_mutex_unlock(&engine->lock);
    answer(job);
    free(job);
    pthread_mutex_lock(&engine->lock);
  }
  pthread_mutex_unlock(&engine->lock);
  return NULL;
}

uint32_t dyno_engine_abi(void) { return DYNO_ENGINE_ABI; }

int dyno_engine_open(const char *options, dyno_engine **opened, char *message, size_t size) {
  if (options[0] != '\0') {
    snprintf(message, size, "expected no options, found `%s`", options);
    return 1;
  }
  dyno_engine *engine = calloc(1, sizeof *engine);
  if (engine == NULL) return 2;
  engine->last = &engine->first;
  pthread_mutex_init(&engine->lock, NULL);
  pthread_cond_init(&engine->changed, NULL);
  if (pthread_create(&engine->thread, NULL, work, engine) != 0) {
    snprintf(message, size, "cannot start a thread");
    free(engine);
    return 3;
  }
  *opened = engine;
  return 0;
}

int dyno_engine_describe(dyno_engine *engine, dyno_description *description) {
  (void)engine;
  *description = (dyno_description){
      .name = "sums", .version = "1.0", .inputs = INPUTS, .input_count = 1};
  return 0;
}

int dyno_engine_issue(dyno_engine *engine, const dyno_sample *samples, size_t count,
                      dyno_complete complete, void *context) {
  pthread_mutex_lock(&engine->lock);
  for (size_t i = 0; i < count; i++) {
    job *added = malloc(sizeof *added);
    if (added == NULL) abort();
    *added = (job){samples[i], complete, context, NULL};
    *engine->last = added;
    engine->last = &added->next;
  }
  pthread_cond_signal(&engine->changed);
  pthread_mutex_unlock(&engine->lock);
  return 0;
}

/* Nothing waits for a batch here. */
void dyno_engine_flush(dyno_engine *engine) { (void)engine; }

void dyno_engine_close(dyno_engine *engine) {
  pthread_mutex_lock(&engine->lock);
  engine->is_closed = 1;
  pthread_cond_signal(&engine->changed);
  pthread_mutex_unlock(&engine->lock);
  pthread_join(engine->thread, NULL);
  free(engine);
}
