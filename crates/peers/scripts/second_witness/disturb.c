// disturb stop PIDFD LOG SEED SHAPE ON_US OFF_US   stops the process of PIDFD for about ON, lets it run for about OFF, ...
//     SHAPE: even (exactly ON and OFF), jitter (OFF is exponential), wild (both are), once (one stop of ON, OFF after the beginning)
//     LOG: "begin end" of each stop, CLOCK_MONOTONIC ns. Ends on SIGTERM or with the process, always with SIGCONT.
// disturb spin SEED ON_US OFF_US                   computes for about ON, sleeps for about OFF (0: never)
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
typedef int64_t ns;
static volatile sig_atomic_t over;
static void end(int s) { (void)s; over = 1; }
static ns now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (ns)t.tv_sec * 1000000000 + t.tv_nsec; }
static void until(ns t) { struct timespec x = { t / 1000000000, t % 1000000000 }; while (!over && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &x, 0) == EINTR); }
static uint64_t st;
static double e1(void) { uint64_t z = st += 0x9e3779b97f4a7c15; z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9; z = (z ^ z >> 27) * 0x94d049bb133111eb; z ^= z >> 31; return -log(((z >> 11) + 0.5) / 9007199254740992.0); }
int main(int n, char **a) {
    struct sigaction sa = { .sa_handler = end }; sigaction(SIGTERM, &sa, 0); sigaction(SIGINT, &sa, 0);
    if (n == 5 && !strcmp(a[1], "spin")) {
        st = strtoull(a[2], 0, 10); ns on = atol(a[3]) * 1000, off = atol(a[4]) * 1000;
        while (!over) {
            ns e = now() + (off ? on * (0.2 + 0.8 * e1()) : on);
            while (!over && now() < e) for (volatile int i = 0; i < 2000; i++);
            if (off) until(now() + off * (0.2 + 0.8 * e1()));
        }
        return 0;
    }
    if (n != 8 || strcmp(a[1], "stop")) return 2;
    int fd = atoi(a[2]); FILE *f = fopen(a[3], "w"); if (!f) return 3;
    st = strtoull(a[4], 0, 10); char s = *a[5]; ns on = atol(a[6]) * 1000, off = atol(a[7]) * 1000;
    struct sched_param sp = { 60 }; sched_setscheduler(0, SCHED_FIFO, &sp);
    ns t = now();
    for (int k = 0; !over; k++) {
        until(t + (s == 'j' || s == 'w' ? (ns)(off * e1()) : off)); if (over) break;
        ns len = s == 'w' ? (ns)(on * e1()) : on, b = now();
        if (syscall(SYS_pidfd_send_signal, fd, SIGSTOP, 0, 0)) break;
        until(b + len);
        if (syscall(SYS_pidfd_send_signal, fd, SIGCONT, 0, 0)) break;
        t = now(); fprintf(f, "%ld %ld\n", (long)b, (long)t);
        if (s == 'o') break;
    }
    syscall(SYS_pidfd_send_signal, fd, SIGCONT, 0, 0);
    return fclose(f) ? 3 : 0;
}
