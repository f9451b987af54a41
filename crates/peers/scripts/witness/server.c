/* A server whose delays are known by its own clock: the witness of what a load generator reports.
 *
 * usage: server SEED FILE
 *
 * Prints its port. Answers each POST over HTTP/1.1 with a stream of two parts of text, after delays that are drawn from
 * SEED. A thread for each connection: there is no queue. At SIGTERM it writes a line for each request to FILE, in ns since
 * 1970: when the kernel had received the whole request, and just before the first and the last part were written.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST 4000000
#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
#define FIRST "data: {\"object\":\"text_completion\",\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":null}]}\n\n"
#define LAST "data: {\"object\":\"text_completion\",\"choices\":[{\"index\":0,\"text\":\"b\",\"finish_reason\":\"stop\"}]}\n\n"
#define DONE "data: [DONE]\n\n"

struct request { int64_t arrived, first, last; };
static struct request *requests;
static atomic_uint_fast64_t count, seed;

static int64_t ns(struct timespec t) { return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec; }

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return ns(t);
}

/* SplitMix64, a number in (0, 1). */
static double uniform(void) {
    uint64_t z = atomic_fetch_add(&seed, 0x9e3779b97f4a7c15u) + 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return ((double)((z ^ z >> 31) >> 11) + 0.5) / 9007199254740992.0;
}

/* 1 ms, and an exponential part of 2 ms that ends at 10 ms. */
static int64_t delay(void) {
    double more = -2e6 * log(uniform());
    return 1000000 + (int64_t)(more > 1e7 ? 1e7 : more);
}

static void sleep_until(int64_t at) {
    struct timespec t = {at / 1000000000, at % 1000000000};
    while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL) == EINTR) {}
}

/* Reads what there is. Returns its length, and when its last byte had come. */
static ssize_t receive(int fd, char *buffer, size_t room, int64_t *arrived) {
    char beside[256];
    struct iovec part = {buffer, room};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = beside, .msg_controllen = sizeof beside};
    ssize_t n = recvmsg(fd, &message, 0);
    *arrived = now();
    if (n <= 0) return n;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec t;
            memcpy(&t, CMSG_DATA(c), sizeof t);
            *arrived = ns(t);
        }
    }
    return n;
}

/* Reads a request to its end. Returns when it had come, or 0 at the end of the connection. */
static int64_t request(int fd) {
    static _Thread_local char buffer[1 << 16];
    size_t len = 0;
    int64_t arrived;
    for (;;) {
        ssize_t n = receive(fd, buffer + len, sizeof buffer - 1 - len, &arrived);
        if (n <= 0) return 0;
        len += (size_t)n;
        buffer[len] = 0;
        char *body = strstr(buffer, "\r\n\r\n");
        if (!body) continue;
        char *length = strcasestr(buffer, "\r\ncontent-length:");
        size_t wanted = length && length < body ? strtoul(length + 17, NULL, 10) : 0;
        if (len >= (size_t)(body + 4 - buffer) + wanted) return arrived;
    }
}

static int chunk(char *to, const char *data) { return sprintf(to, "%zx\r\n%s\r\n", strlen(data), data); }

static void *serve(void *given) {
    int fd = (int)(intptr_t)given, one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
    char first[512], last[512];
    int first_len = sprintf(first, "%s", HEAD);
    first_len += chunk(first + first_len, FIRST);
    int last_len = chunk(last, LAST);
    last_len += chunk(last + last_len, DONE);
    last_len += sprintf(last + last_len, "0\r\n\r\n");
    struct request r;
    while ((r.arrived = request(fd))) {
        sleep_until(r.arrived + delay());
        r.first = now();
        if (write(fd, first, (size_t)first_len) != first_len) break;
        sleep_until(r.first + delay());
        r.last = now();
        if (write(fd, last, (size_t)last_len) != last_len) break;
        uint64_t place = atomic_fetch_add(&count, 1);
        if (place < MOST) requests[place] = r;
    }
    close(fd);
    return NULL;
}

static void *listens(void *given) {
    int listener = (int)(intptr_t)given;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 18);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    for (;;) {
        pthread_t thread;
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0 && pthread_create(&thread, &small, serve, (void *)(intptr_t)fd)) close(fd);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    atomic_store(&seed, strtoull(argv[1], NULL, 10));
    requests = calloc(MOST, sizeof *requests);
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    if (!requests || bind(listener, (struct sockaddr *)&address, len) || listen(listener, 4096)) return 1;
    getsockname(listener, (struct sockaddr *)&address, &len);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    pthread_t thread;
    if (pthread_create(&thread, NULL, listens, (void *)(intptr_t)listener)) return 1;
    int signal_number;
    sigwait(&ends, &signal_number);
    FILE *file = fopen(argv[2], "w");
    if (!file) return 1;
    uint64_t all = atomic_load(&count);
    for (uint64_t i = 0; i < all && i < MOST; i++)
        fprintf(file, "%lld %lld %lld\n", (long long)requests[i].arrived, (long long)requests[i].first, (long long)requests[i].last);
    return fclose(file) ? 1 : 0;
}
