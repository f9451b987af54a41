/* Counts the allocations of a program: a library to preload.
 *
 *   cc -O2 -shared -fPIC count_allocations.c -o count_allocations.so
 *   COUNT_ALLOCATIONS_TO=FILE LD_PRELOAD=./count_allocations.so PROGRAM ...
 *
 * At its end the program writes "allocations N" to FILE. What an operation costs
 * is the slope between two runs with different numbers of it. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned long allocations;

static void count(void) {
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
}

/* The next definition of a function, found once. Pointers to functions and to
 * objects have one representation wherever there is dlsym. */
#define NEXT(name)                                                  \
    static union {                                                  \
        void *object;                                               \
        __typeof__(&(name)) function;                               \
    } next;                                                         \
    if (__atomic_load_n(&next.object, __ATOMIC_ACQUIRE) == NULL) {  \
        void *found = dlsym(RTLD_NEXT, #name);                      \
        __atomic_store_n(&next.object, found, __ATOMIC_RELEASE);    \
    }

void *malloc(size_t size) {
    NEXT(malloc)
    count();
    return next.function(size);
}

void *realloc(void *old, size_t size) {
    NEXT(realloc)
    count();
    return next.function(old, size);
}

/* dlsym itself may call calloc, before there is one to call. */
static _Alignas(64) unsigned char early[4096];
static size_t early_used;

void *calloc(size_t number, size_t size) {
    static _Thread_local int searching;
    if (searching) {
        size_t rounded = (number * size + 63) / 64 * 64;
        if (rounded > sizeof early - early_used) {
            return NULL;
        }
        early_used += rounded;
        return early + early_used - rounded;
    }
    searching = 1;
    NEXT(calloc)
    searching = 0;
    count();
    return next.function(number, size);
}

void free(void *old) {
    if ((uintptr_t)old - (uintptr_t)early < sizeof early) {
        return;
    }
    NEXT(free)
    next.function(old);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
    NEXT(posix_memalign)
    count();
    return next.function(out, alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    NEXT(aligned_alloc)
    count();
    return next.function(alignment, size);
}

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("COUNT_ALLOCATIONS_TO");
    unsigned long counted = __atomic_load_n(&allocations, __ATOMIC_RELAXED);
    FILE *file = path == NULL ? NULL : fopen(path, "w");
    if (file != NULL) {
        fprintf(file, "allocations %lu\n", counted);
        fclose(file);
    }
}
