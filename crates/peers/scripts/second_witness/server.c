// Witness server: HTTP/1.1 on raw sockets, one thread, SCHED_FIFO. Each request has its own service time (no queue: as
// many are served at once as come), which begins when the KERNEL received the last byte of the request
// (SO_TIMESTAMPNS) and not when this process got round to it. All recorded times are CLOCK_MONOTONIC ns.
//   server LOG SEED TOKENS FIRSTDIST FIRST_US GAPDIST GAP_US ROLE TAIL_US
// dist: fixed | exp (0.4*mean + exp(0.6*mean)) | two (90 %: 0.7*mean, 10 %: 3.7*mean)
// ROLE: 1 = chunk with the role only goes out at arrival, 0 = together with the first token
// TAIL_US: usage and [DONE] so long after the last token (0: in the same write)
// Prints "PORT n", and "FIRST ns" when the first POST is there. SIGTERM: writes LOG and ends.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

typedef int64_t ns;
static ns clk(clockid_t c) { struct timespec t; clock_gettime(c, &t); return (ns)t.tv_sec * 1000000000 + t.tv_nsec; }
#define MONO() clk(CLOCK_MONOTONIC)

#define MAXCONN 4096
#define MAXREQ 100000
#define MAXTOK 64
enum { K_STREAM, K_WHOLE, K_RAW };
typedef struct {
    ns arrival, seen, first, last, end, late, late_last, send;  // send: longest send() call
    int conn, kind, tokens, done, parts;  // parts: reads that brought the request
} Req;
typedef struct {
    int fd, busy;
    char *buf; int len, cap;
    ns stamp; int parts;          // kernel's time of the newest bytes
    Req *r; int chat; int step;   // step: -1 role, 0..n-1 tokens, n tail
    ns due[MAXTOK + 2];
    ns next;
} Conn;
static Conn conns[MAXCONN];
static int heap[MAXCONN], nheap;  // conns with a pending step, a heap on next
static Req *reqs; static int nreq; static long no_stamp, gets, broken, strange;
static uint64_t seed; static int TOK, ROLE; static ns FIRST, GAP, TAIL; static const char *FD, *GD;
static int ep, tfd, lfd;

static uint64_t mix(uint64_t z) { z += 0x9e3779b97f4a7c15; z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9; z = (z ^ z >> 27) * 0x94d049bb133111eb; return z ^ z >> 31; }
static double uni(uint64_t a, uint64_t b) { return ((mix(mix(seed + a) + b) >> 11) + 0.5) / 9007199254740992.0; }
static ns draw(const char *d, ns mean, double u) {
    if (*d == 'e') return mean * (0.4 - 0.6 * log(u));
    if (*d == 't') return mean * (u < 0.9 ? 0.7 : 3.7);
    return mean;
}
static void up(int i) { while (i && conns[heap[i]].next < conns[heap[(i - 1) / 2]].next) { int p = (i - 1) / 2, t = heap[i]; heap[i] = heap[p]; heap[p] = t; i = p; } }
static void down(int i) {
    for (;;) {
        int c = 2 * i + 1; if (c >= nheap) return;
        if (c + 1 < nheap && conns[heap[c + 1]].next < conns[heap[c]].next) c++;
        if (conns[heap[i]].next <= conns[heap[c]].next) return;
        int t = heap[i]; heap[i] = heap[c]; heap[c] = t; i = c;
    }
}
static void push(int c) { heap[nheap++] = c; up(nheap - 1); }
static void pop(void) { heap[0] = heap[--nheap]; down(0); }
static void arm(void) {
    struct itimerspec t = {0};
    if (nheap) { ns n = conns[heap[0]].next; t.it_value.tv_sec = n / 1000000000; t.it_value.tv_nsec = n % 1000000000; if (!n) t.it_value.tv_nsec = 1; }
    timerfd_settime(tfd, TFD_TIMER_ABSTIME, &t, 0);
}
static void drop(int c) {
    Conn *k = &conns[c];
    if (k->busy) { broken++; k->busy = 0; for (int i = 0; i < nheap; i++) if (heap[i] == c) { heap[i] = heap[--nheap]; if (i < nheap) { up(i); down(i); } break; } }
    close(k->fd); k->fd = -1; k->len = 0; k->parts = 0;
}
static int put(Conn *k, const char *b, int n, ns *before) {
    ns t = *before = MONO();
    while (n) { int w = send(k->fd, b, n, MSG_NOSIGNAL | MSG_DONTWAIT); if (w < 0) { if (errno == EINTR) continue; return -1; } b += w; n -= w; }
    t = MONO() - t; if (k->r && t > k->r->send) k->r->send = t;
    return 0;
}
static char *chunk(char *o, const char *body) { int n = strlen(body); return o + sprintf(o, "%x\r\n%s\r\n", n, body); }
static char *event(char *o, Conn *k, int seq, const char *text, int role, const char *finish) {
    char b[700], d[200], f[40];
    if (finish) sprintf(f, "\"%s\"", finish); else strcpy(f, "null");
    if (k->chat) {
        if (role) strcpy(d, "{\"role\":\"assistant\",\"content\":\"\"}"); else if (text) sprintf(d, "{\"content\":\"%s\"}", text); else strcpy(d, "{}");
        sprintf(b, "data: {\"id\":\"r%d\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", seq, d, f);
    } else
        sprintf(b, "data: {\"id\":\"r%d\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\"%s\",\"logprobs\":null,\"finish_reason\":%s}]}\n\n", seq, text ? text : "", f);
    return chunk(o, b);
}
static void serve(int c);
// does all steps of the connection that are due
static void steps(int c, ns now) {
    Conn *k = &conns[c]; Req *r = k->r; char out[4096], *o; ns before;
    int seq = r - reqs;
    while (k->busy && k->next <= now) {
        int s = k->step; ns due = k->next; o = out; *o = 0; int over = 0;
        if (r->kind == K_STREAM) {
            if (s == -1 || (s == 0 && !ROLE)) {
                o += sprintf(o, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
                if (k->chat) o = event(o, k, seq, 0, 1, 0);
            }
            char w[20]; sprintf(w, " word%d", s);
            if (s >= 0 && s < TOK) o = event(o, k, seq, w, 0, 0);
            if (s == TOK || (s == TOK - 1 && !TAIL)) {
                o = event(o, k, seq, 0, 0, "stop");
                char u[300]; sprintf(u, "data: {\"id\":\"r%d\",\"object\":\"%s\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\n", seq, k->chat ? "chat.completion.chunk" : "text_completion", TOK, TOK + 10);
                o = chunk(o, u); o = chunk(o, "data: [DONE]\n\n"); o += sprintf(o, "0\r\n\r\n"); over = 1;
            }
        } else {
            char b[700];
            if (r->kind == K_RAW) sprintf(b, "{\"result\":[%d]}", seq);
            else if (k->chat) sprintf(b, "{\"id\":\"r%d\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"a b c d e f g h i j\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":10,\"total_tokens\":20}}", seq);
            else sprintf(b, "{\"id\":\"r%d\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\"a b c d e f g h i j\",\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":10,\"total_tokens\":20}}", seq);
            o += sprintf(o, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", (int)strlen(b), b); over = 1;
        }
        if (put(k, out, o - out, &before)) { pop(); k->busy = 0; broken++; drop(c); return; }
        ns late = before - due; if (late > r->late) r->late = late;
        int tok = r->kind != K_STREAM || (s >= 0 && s < TOK);
        if (tok) { if (!r->first) r->first = before; r->last = before; r->late_last = late; }
        r->end = before;
        if (over) { r->done = 1; k->busy = 0; k->r = 0; pop(); serve(c); return; }
        k->step++; k->next = k->due[k->step + 1]; down(0);
        if (heap[0] != c) return;  // another one is due before
        now = MONO();
    }
}
// takes a whole request out of the buffer, if there is one
static void serve(int c) {
    Conn *k = &conns[c];
    if (k->busy || !k->len) return;
    k->buf[k->len] = 0;
    char *e = strstr(k->buf, "\r\n\r\n"); if (!e) return;
    int head = e + 4 - k->buf, body = 0;
    for (char *p = k->buf; p < e; ) {
        char *q = strstr(p, "\r\n");
        if (!strncasecmp(p, "content-length:", 15)) body = atoi(p + 15);
        if (!strncasecmp(p, "transfer-encoding:", 18) || !strncasecmp(p, "expect:", 7)) strange++;
        p = q + 2;
    }
    if (k->len < head + body) return;
    char save = k->buf[head + body]; k->buf[head + body] = 0;
    if (strncmp(k->buf, "POST ", 5)) {
        gets++;
        const char *b = "{\"object\":\"list\",\"data\":[{\"id\":\"m\",\"object\":\"model\",\"created\":1,\"owned_by\":\"w\"}]}"; char o[400]; ns t;
        if (strstr(k->buf, "/models")) sprintf(o, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", (int)strlen(b), b);
        else sprintf(o, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        if (put(k, o, strlen(o), &t)) { drop(c); return; }
    } else if (nreq < MAXREQ) {
        Req *r = &reqs[nreq]; memset(r, 0, sizeof *r);
        char *eol = strchr(k->buf, '\r'); *eol = 0;
        int ai = strstr(k->buf, "/completions") != 0; k->chat = strstr(k->buf, "/chat/") != 0; *eol = '\r';
        int stream = strstr(k->buf + head, "\"stream\":true") || strstr(k->buf + head, "\"stream\": true");
        r->kind = !ai ? K_RAW : stream ? K_STREAM : K_WHOLE;
        r->arrival = k->stamp; r->seen = MONO(); r->conn = c; r->parts = k->parts; r->tokens = r->kind == K_STREAM ? TOK : 1;
        ns t = r->arrival + draw(FD, FIRST, uni(nreq, 0));
        k->due[0] = r->arrival;
        for (int i = 0; i < TOK; i++) { k->due[i + 1] = t; if (i + 1 < TOK) t += draw(GD, GAP, uni(nreq, i + 1)); }
        k->due[TOK + 1] = t + TAIL;
        if (r->kind != K_STREAM) k->due[1] = t;
        k->step = r->kind == K_STREAM && ROLE ? -1 : 0;
        k->next = k->due[k->step + 1]; k->r = r; k->busy = 1;
        if (!nreq++) { printf("FIRST %ld\n", (long)r->arrival); fflush(stdout); }
        push(c);
    }
    k->buf[head + body] = save;
    memmove(k->buf, k->buf + head + body, k->len - head - body); k->len -= head + body; k->parts = k->len ? 1 : 0;
    if (!k->busy && k->len) serve(c);
}
static void input(int c) {
    Conn *k = &conns[c];
    for (;;) {
        if (k->cap - k->len < 65537) k->buf = realloc(k->buf, k->cap += 131072);
        char ctl[256]; struct iovec v = { k->buf + k->len, 65536 };
        struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = sizeof ctl };
        ssize_t n = recvmsg(k->fd, &m, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n <= 0) { drop(c); return; }
        ns mono = MONO(), real = clk(CLOCK_REALTIME), mono2 = MONO(), at = 0;
        for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h))
            if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_TIMESTAMPNS) {
                struct timespec t; memcpy(&t, CMSG_DATA(h), sizeof t);
                if (t.tv_sec) at = (ns)t.tv_sec * 1000000000 + t.tv_nsec - real + (mono + mono2) / 2;
            }
        if (!at || at > mono2 || at < mono - 5000000000) { no_stamp++; at = mono; }
        k->stamp = at; k->parts++; k->len += n;
    }
    serve(c);
}
int main(int argc, char **argv) {
    if (argc != 10) return fprintf(stderr, "see the source\n"), 2;
    seed = strtoull(argv[2], 0, 10); TOK = atoi(argv[3]); FD = argv[4]; FIRST = atol(argv[5]) * 1000; GD = argv[6]; GAP = atol(argv[7]) * 1000; ROLE = atoi(argv[8]); TAIL = atol(argv[9]) * 1000;
    if (TOK < 1 || TOK > MAXTOK) return 2;
    reqs = calloc(MAXREQ, sizeof *reqs);
    for (int i = 0; i < MAXCONN; i++) conns[i].fd = -1;
    mlockall(MCL_CURRENT);  // what is touched stays
    struct sched_param sp = { 50 };
    int fifo = !sched_setscheduler(0, SCHED_FIFO, &sp);
    if (!fifo && nice(-10) == -1 && errno) fprintf(stderr, "neither SCHED_FIFO nor nice\n");
    int one = 1;
    lfd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(lfd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(lfd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }; socklen_t al = sizeof a;
    if (bind(lfd, (void *)&a, al) || listen(lfd, 1024)) return perror("listen"), 3;
    getsockname(lfd, (void *)&a, &al);
    ep = epoll_create1(0); tfd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    sigset_t ss; sigemptyset(&ss); sigaddset(&ss, SIGTERM); sigaddset(&ss, SIGINT); sigprocmask(SIG_BLOCK, &ss, 0);
    int sfd = signalfd(-1, &ss, SFD_NONBLOCK);
    struct epoll_event ev = { .events = EPOLLIN };
    ev.data.u32 = MAXCONN; epoll_ctl(ep, EPOLL_CTL_ADD, lfd, &ev);
    ev.data.u32 = MAXCONN + 1; epoll_ctl(ep, EPOLL_CTL_ADD, tfd, &ev);
    ev.data.u32 = MAXCONN + 2; epoll_ctl(ep, EPOLL_CTL_ADD, sfd, &ev);
    printf("PORT %d\n", ntohs(a.sin_port)); fflush(stdout);
    for (int run = 1; run; ) {
        struct epoll_event es[64];
        int n = epoll_wait(ep, es, 64, -1);
        for (int i = 0; i < n; i++) {
            unsigned u = es[i].data.u32;
            if (u == MAXCONN) {
                int f;
                while ((f = accept4(lfd, 0, 0, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
                    int c = 0; while (c < MAXCONN && conns[c].fd >= 0) c++;
                    if (c == MAXCONN) { close(f); continue; }
                    setsockopt(f, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                    setsockopt(f, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
                    conns[c].fd = f; conns[c].busy = conns[c].len = conns[c].parts = 0; conns[c].r = 0;
                    ev.events = EPOLLIN; ev.data.u32 = c; epoll_ctl(ep, EPOLL_CTL_ADD, f, &ev);
                    input(c);
                }
            } else if (u == MAXCONN + 1) { uint64_t x; (void)!read(tfd, &x, 8); }
            else if (u == MAXCONN + 2) run = 0;
            else if (conns[u].fd >= 0) input(u);
        }
        while (nheap && conns[heap[0]].next <= MONO()) steps(heap[0], MONO());
        arm();
    }
    FILE *f = fopen(argv[1], "w"); if (!f) return perror(argv[1]), 3;
    fprintf(f, "# fifo=%d gets=%ld broken=%ld no_stamp=%ld strange=%ld\n", fifo, gets, broken, no_stamp, strange);
    fprintf(f, "seq,conn,kind,done,parts,tokens,arrival,seen,first,last,end,late,late_last,send\n");
    for (int i = 0; i < nreq; i++) { Req *r = &reqs[i];
        fprintf(f, "%d,%d,%d,%d,%d,%d,%ld,%ld,%ld,%ld,%ld,%ld,%ld,%ld\n", i, r->conn, r->kind, r->done, r->parts, r->tokens, (long)r->arrival, (long)r->seen, (long)r->first, (long)r->last, (long)r->end, (long)r->late, (long)r->late_last, (long)r->send); }
    return fclose(f) ? 3 : 0;
}
