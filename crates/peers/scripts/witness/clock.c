/* What a bare program does where dyno is measured: the least that a load generator can cost, and a system next to one.
 *
 * usage: clock timer RATE SECONDS   waits for times that come evenly at RATE a second; prints p50 and p99 of how late it was, ns
 *        clock spin SECONDS         computes on each processor; prints how many rounds a second all of them made
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int timer(double rate, double seconds) {
    int64_t many = (int64_t)(rate * seconds), begun = now();
    int64_t *late = malloc((size_t)(many > 0 ? many : 1) * sizeof *late);
    if (!late || many < 1) return 1;
    for (int64_t at = 0; at < many; at++) {
        int64_t due = begun + (int64_t)((double)(at + 1) / rate * 1e9), left;
        /* The kernel wakes a thread some 50 us late: the rest is spent in a loop. */
        if ((left = due - now()) > 200000) {
            struct timespec t = {(left - 100000) / 1000000000, (left - 100000) % 1000000000};
            nanosleep(&t, NULL);
        }
        while (now() < due) {}
        late[at] = now() - due;
    }
    qsort(late, (size_t)many, sizeof *late, by_value);
    printf("%lld %lld\n", (long long)late[many / 2], (long long)late[(size_t)((double)many * 0.99)]);
    return 0;
}

static double span;

static void *compute(void *rounds) {
    int64_t end = now() + (int64_t)(span * 1e9);
    uint64_t done = 0;
    volatile uint64_t x = 1;
    while (now() < end) {
        for (int at = 0; at < 20000; at++) x = x * 6364136223846793005u + 1;
        done++;
    }
    *(uint64_t *)rounds = done;
    return NULL;
}

static int spin(double seconds) {
    enum { MOST = 1024 };
    static uint64_t rounds[MOST];
    pthread_t threads[MOST];
    long cores = sysconf(_SC_NPROCESSORS_ONLN), started = 0;
    uint64_t all = 0;
    span = seconds;
    while (started < cores && started < MOST && !pthread_create(&threads[started], NULL, compute, &rounds[started])) started++;
    for (long at = 0; at < started; at++) {
        pthread_join(threads[at], NULL);
        all += rounds[at];
    }
    printf("%.0f\n", (double)all / seconds);
    return started ? 0 : 1;
}

int main(int count, char **words) {
    if (count == 4 && !strcmp(words[1], "timer")) return timer(atof(words[2]), atof(words[3]));
    if (count == 3 && !strcmp(words[1], "spin")) return spin(atof(words[2]));
    fprintf(stderr, "usage: clock timer RATE SECONDS | clock spin SECONDS\n");
    return 2;
}
