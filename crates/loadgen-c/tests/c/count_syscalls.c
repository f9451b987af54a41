/* Counts the system calls of a program and its threads and children, by ptrace.
 *
 *   cc -O2 count_syscalls.c -o count_syscalls
 *   count_syscalls FILE PROGRAM ARGUMENT...
 *
 * Writes "system calls N" to FILE, and how many of them read a clock: where the
 * kernel does not let programs read its clock by themselves, they must call it.
 * Exits as the program does, or with 125 if it may not be traced. What an
 * operation costs is the slope between two runs with different numbers of it. */
#define _GNU_SOURCE

#include <errno.h>
#include <linux/ptrace.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_ALLOWED = 125 };

/* Not libc's function, whose header and the kernel's exclude each other. */
static long trace(long request, pid_t pid, size_t address, const void *data) {
    return syscall(SYS_ptrace, request, (long)pid, address, data);
}

static int not_allowed(const char *what) {
    fprintf(stderr, "cannot count system calls: %s: %s\n", what, strerror(errno));
    return NOT_ALLOWED;
}

static struct {
    unsigned long calls, clock_reads;
} counted;

static void count(pid_t thread) {
    struct ptrace_syscall_info info;
    long size = trace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info);
    if (size <= 0) {
        exit(not_allowed("PTRACE_GET_SYSCALL_INFO"));
    }
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        counted.calls++;
        counted.clock_reads += info.entry.nr == SYS_clock_gettime;
    }
}

/* Lets the program run until it ends; its status. */
static int follow(pid_t program) {
    for (;;) {
        int status;
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread == -1) {
            exit(not_allowed("waitpid"));
        }
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (thread == program) {
                return status;
            }
            continue;
        }
        int signal = WSTOPSIG(status);
        if (signal == (SIGTRAP | 0x80)) {
            count(thread);
            signal = 0;
        } else if (signal == SIGTRAP || signal == SIGSTOP) {
            /* A new thread or program. */
            signal = 0;
        }
        trace(PTRACE_SYSCALL, thread, 0, (const void *)(size_t)signal);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: count_syscalls FILE PROGRAM ARGUMENT...\n");
        return 2;
    }
    pid_t program = fork();
    if (program == 0) {
        if (trace(PTRACE_TRACEME, 0, 0, NULL) != 0) {
            _exit(not_allowed("PTRACE_TRACEME"));
        }
        raise(SIGSTOP);
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    int status;
    if (program == -1 || waitpid(program, &status, 0) != program || !WIFSTOPPED(status)) {
        return NOT_ALLOWED;
    }
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                   PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (trace(PTRACE_SETOPTIONS, program, 0, (const void *)(size_t)options) != 0) {
        return not_allowed("PTRACE_SETOPTIONS");
    }
    trace(PTRACE_SYSCALL, program, 0, NULL);
    status = follow(program);

    FILE *file = fopen(argv[1], "w");
    if (file == NULL) {
        perror(argv[1]);
        return 2;
    }
    fprintf(file, "system calls %lu\nclock reads %lu\n", counted.calls, counted.clock_reads);
    fclose(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
