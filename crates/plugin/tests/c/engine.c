/* A plug-in that does what its options name: right or wrong. */
#include "dyno_engine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef ABI
#define ABI DYNO_ENGINE_ABI
#endif

struct dyno_engine {
  char mode[64];
  dyno_sample held[16];
  size_t count;
  dyno_complete complete;
  void *context;
};

static int is(const dyno_engine *engine, const char *mode) {
  return strcmp(engine->mode, mode) == 0;
}

uint32_t dyno_engine_abi(void) { return ABI; }

int dyno_engine_open(const char *options, dyno_engine **opened, char *message, size_t size) {
  if (strcmp(options, "refuse") == 0) {
    snprintf(message, size, "there is no model");
    return 1;
  }
  if (strcmp(options, "silent") == 0) return 5;
  if (strcmp(options, "null") == 0) return 0;
  if (strncmp(options, "chdir", 5) == 0 && chdir("/") != 0) return 6;
  if (strcmp(options, "chdir refuse") == 0) return 5;
  dyno_engine *engine = calloc(1, sizeof *engine);
  snprintf(engine->mode, sizeof engine->mode, "%s", options);
  *opened = engine;
  return 0;
}

static void hang(const dyno_engine *engine, const char *mode) {
  while (is(engine, mode)) sleep(1);
}

static const uint64_t SHAPE[] = {2};
static const dyno_input PAIR[] = {{"x", DYNO_FLOAT32, 1, SHAPE}};
static const dyno_input WRONG[] = {{"x", 77, 1, SHAPE}};

int dyno_engine_describe(dyno_engine *engine, dyno_description *description) {
  memset(description, 0, sizeof *description);
  if (is(engine, "no name")) return 0;
  if (is(engine, "no description")) return 9;
  description->name = "test";
  description->version = "2";
  description->flags = is(engine, "tokens") || is(engine, "no token") ? DYNO_STREAMING : 0;
  description->input_count = is(engine, "pair") || is(engine, "wrong type");
  description->inputs = is(engine, "pair") ? PAIR : WRONG;
  if (is(engine, "many inputs")) description->input_count = 1000;
  if (is(engine, "unknown flags")) description->flags = 6;
  return 0;
}

static void finish(dyno_engine *engine, const dyno_sample *sample, uint32_t kind,
                   const char *text) {
  dyno_answer answer = {.id = sample->id, .kind = kind, .tokens = 3, .data = text,
                        .size = strlen(text)};
  engine->complete(engine->context, &answer, 1);
}

static void *finish_held(void *argument) {
  dyno_engine *engine = argument;
  for (size_t i = engine->count; i-- > 0;) finish(engine, &engine->held[i], DYNO_DONE, "late");
  engine->count = 0;
  return NULL;
}

int dyno_engine_issue(dyno_engine *engine, const dyno_sample *samples, size_t count,
                      dyno_complete complete, void *context) {
  engine->complete = complete;
  engine->context = context;
  if (is(engine, "error")) return 42;
  if (is(engine, "exit")) exit(0);
#ifdef __linux__
  if (is(engine, "quick_exit")) quick_exit(0);
#endif
#ifdef __GLIBC__
  if (is(engine, "_exit")) _exit(0);
#endif
  hang(engine, "hang-issue");
  if (is(engine, "crash")) *(volatile uint64_t *)engine->held[15].inputs = 1;
  for (size_t i = 0; i < count; i++) {
    const dyno_sample *sample = &samples[i];
    if (is(engine, "never")) continue;
    if (is(engine, "hold")) {
      engine->held[engine->count++] = *sample;
      continue;
    }
    if (is(engine, "fail") && sample->index % 2 == 1) {
      finish(engine, sample, DYNO_FAILED, "odd number");
      continue;
    }
    if (is(engine, "fail silently")) {
      finish(engine, sample, DYNO_FAILED, "");
      continue;
    }
    int has_token = is(engine, "tokens") || is(engine, "no flag");
    if (has_token) finish(engine, sample, DYNO_FIRST_TOKEN, "a");
    if (is(engine, "pair")) {
      const float *x = sample->inputs[0].data;
      char text[32];
      snprintf(text, sizeof text, "%g", x[0] + 10 * x[1] + 100 * sample->inputs[0].shape[0]);
      finish(engine, sample, DYNO_DONE, text);
      continue;
    }
    if (is(engine, "tokens below 0") || is(engine, "too many tokens")) {
      int64_t tokens = is(engine, "too many tokens") ? INT64_MAX : -5;
      dyno_answer answer = {.id = sample->id, .tokens = tokens};
      complete(context, &answer, 1);
      continue;
    }
    finish(engine, sample, is(engine, "kind") ? 9 : DYNO_DONE, "here");
    if (is(engine, "twice")) finish(engine, sample, DYNO_DONE, "again");
    if (is(engine, "unknown")) {
      dyno_sample other = {.id = 12345};
      finish(engine, &other, DYNO_DONE, "");
    }
    if (is(engine, "late token")) finish(engine, sample, DYNO_FIRST_TOKEN, "");
    if (is(engine, "null answers")) complete(context, NULL, 3);
    if (is(engine, "countless answers")) {
      dyno_answer answer = {.id = sample->id};
      complete(context, &answer, SIZE_MAX);
    }
    if (is(engine, "endless data")) {
      dyno_answer answer = {.id = sample->id, .data = "", .size = SIZE_MAX};
      complete(context, &answer, 1);
    }
    if (is(engine, "null data")) {
      dyno_answer answer = {.id = sample->id, .size = 8};
      complete(context, &answer, 1);
    }
  }
  return is(engine, "late error") ? 42 : 0;
}

#ifdef NO_FLUSH
#define dyno_engine_flush another_name
#endif

void dyno_engine_flush(dyno_engine *engine) {
  hang(engine, "hang-flush");
  if (engine->count == 0) return;
  pthread_t thread;
  pthread_create(&thread, NULL, finish_held, engine);
  pthread_join(thread, NULL);
}

void dyno_engine_close(dyno_engine *engine) {
  hang(engine, "hang-close");
  if (is(engine, "slow-close")) sleep(3);
  free(engine);
}
