/* The side that a program loads to drive a clock: it wakes waits one at a time, in order of time, and looks after
 * each whether the daemons are quiet again.
 *
 * A daemon is quiet if each of its threads waits for the clock, or sleeps, as the kernel says, and if the daemon has
 * used no CPU time while the threads were asked. Nothing is estimated: a thread that is ready to run, but does not get a
 * processor, counts as running. */
#define _GNU_SOURCE
#include "layout.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 1024
#define MAX_HANDLES 16
#define LONGEST_POLL_US (60 * SECOND_US)
#define SPIN_NS 200000      /* look as often as possible for so long, */
#define LONGEST_NAP_NS 2000000 /* then sleep for an eighth of the time that it took, at most as long */

enum outcome { REACHED, READABLE, DIED, HANGS, REAL };

struct daemon {
    int is_guest;    /* it may end */
    struct daemon *client; /* who alone talks to it, or NULL */
    int alive;       /* becomes readable when the process ends */
    int folder;      /* of its threads */
    DIR *listing;
    clockid_t cpu;
    int64_t used_ns; /* of it, before threads were asked */
    int64_t rested_ns; /* of it, when all were quiet the last time */
    int n;
    struct thread { int id, file; } threads[MAX_THREADS]; /* with the files that say what they do */
};

struct driver {
    struct clock *clock;
    int n_known; /* of the processes in the clock's file */
    int n;
    struct daemon daemons[MAX_PROCESSES + 2];
};

static int64_t read_ns(clockid_t clock) {
    struct timespec found;
    return syscall(SYS_clock_gettime, clock, &found) ? -1 : found.tv_sec * 1000000000LL + found.tv_nsec;
}

struct driver *sil_clock_open(const char *path, int64_t now_us) {
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return NULL;
    void *memory = MAP_FAILED;
    if (!ftruncate(file, sizeof(struct clock)))
        memory = mmap(NULL, sizeof(struct clock), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    struct driver *driver = memory == MAP_FAILED ? NULL : calloc(1, sizeof *driver);
    if (!driver) return NULL;
    driver->clock = memory;
    driver->clock->now_us = now_us;
    driver->clock->magic = MAGIC;
    return driver;
}

enum kind { DAEMON, GUEST, SERVANT };

/* Watch a process, also one that does not know the clock: a guest may end, and to a servant only the one talks that was
 * added before. Returns 0, or -1 if it is not there any more. */
int sil_clock_watch(struct driver *driver, pid_t process, enum kind kind) {
    struct daemon *daemon = &driver->daemons[driver->n];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", process);
    if (driver->n == MAX_PROCESSES + 2 || clock_getcpuclockid(process, &daemon->cpu)) return -1;
    if ((daemon->alive = (int) syscall(SYS_pidfd_open, process, 0)) < 0) return -1;
    if ((daemon->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) return -1;
    if (!(daemon->listing = fdopendir(daemon->folder))) return -1;
    daemon->n = 0;
    daemon->is_guest = kind == GUEST;
    daemon->client = kind == SERVANT && driver->n ? daemon - 1 : NULL;
    daemon->rested_ns = -1;
    driver->n++;
    return 0;
}

static void forget_threads(struct daemon *daemon) {
    while (daemon->n) close(daemon->threads[--daemon->n].file);
}

/* Watch the process no longer that was added last. */
void sil_clock_forget(struct driver *driver) {
    struct daemon *daemon = &driver->daemons[--driver->n];
    forget_threads(daemon);
    close(daemon->alive);
    closedir(daemon->listing);
}

/* How many daemons have begun with this clock. */
int sil_clock_daemons(struct driver *driver) { return (int) driver->clock->n_processes; }

/* The one that began last; 0 if none has. */
int sil_clock_last(struct driver *driver) {
    struct clock *clock = driver->clock;
    return clock->n_processes ? clock->processes[clock->n_processes - 1] : 0;
}

void sil_clock_close(struct driver *driver) {
    while (driver->n) sil_clock_forget(driver);
    munmap(driver->clock, sizeof *driver->clock);
    free(driver);
}

/* ---- are the daemons quiet? ---- */

static void find_threads(struct daemon *daemon) {
    forget_threads(daemon);
    rewinddir(daemon->listing);
    for (struct dirent *entry; daemon->n < MAX_THREADS && (entry = readdir(daemon->listing));) {
        char path[32];
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%.16s/stat", entry->d_name);
        int file = openat(daemon->folder, path, O_RDONLY | O_CLOEXEC);
        if (file >= 0) daemon->threads[daemon->n++] = (struct thread){atoi(entry->d_name), file};
    }
}

static int waits_for_the_clock(const struct clock *clock, int thread) {
    for (uint32_t k = 0; k < clock->n_waits; k++)
        if (clock->waits[k].thread == thread && __atomic_load_n(&clock->waits[k].state, __ATOMIC_SEQ_CST) == WAITING)
            return 1;
    return 0;
}

/* The state of a thread: 'S' if it sleeps until something happens, else it runs, is being woken, or uses a disk; 0 if it
 * has ended. (What it sleeps in, which is asked for in less time, says also of a thread being woken that it sleeps.) */
static int state_of(struct thread thread) {
    char text[512];
    ssize_t n = pread(thread.file, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    char *name_end = strrchr(text, ')');
    return name_end && name_end[1] ? name_end[2] : 0;
}

static int threads_wait(const struct clock *clock, struct daemon *daemon) {
    struct stat folder;
    if (fstat(daemon->folder, &folder)) return 0;
    if ((int) folder.st_nlink - 2 != daemon->n) find_threads(daemon); /* a link for each thread */
    for (int k = 0; k < daemon->n; k++) {
        struct thread busy = daemon->threads[k];
        if (waits_for_the_clock(clock, busy.id)) continue;
        int state = state_of(busy);
        if (state == 'S') continue;
        if (!state) { forget_threads(daemon); return 0; }
        daemon->threads[k] = daemon->threads[0];
        daemon->threads[0] = busy; /* it is asked first the next time */
        return 0;
    }
    return daemon->n > 0;
}

static int has_rested(const struct daemon *daemon) { return daemon->used_ns == daemon->rested_ns; }

static int all_quiet(struct driver *driver) {
    struct daemon *end = driver->daemons + driver->n;
    for (struct daemon *daemon = driver->daemons; daemon < end; daemon++) daemon->used_ns = read_ns(daemon->cpu);
    for (struct daemon *daemon = driver->daemons; daemon < end; daemon++) {
        int is_asked = !daemon->client || !has_rested(daemon->client) || !has_rested(daemon);
        if (is_asked && !threads_wait(driver->clock, daemon)) return 0;
    }
    for (struct daemon *daemon = driver->daemons; daemon < end; daemon++)
        if (read_ns(daemon->cpu) != daemon->used_ns) return 0;
    for (struct daemon *daemon = driver->daemons; daemon < end; daemon++) daemon->rested_ns = daemon->used_ns;
    return 1;
}

/* Look for up to `nap_ns` whether a daemon has ended or one of `handles` is readable; else REACHED. */
static enum outcome look(struct driver *driver, const int *handles, int n_handles, int64_t nap_ns) {
    struct pollfd found[MAX_PROCESSES + 2 + MAX_HANDLES];
    int n = 0;
    for (int k = 0; k < driver->n; k++)
        found[n++] = (struct pollfd){driver->daemons[k].is_guest ? -1 : driver->daemons[k].alive, POLLIN, 0};
    for (int k = 0; k < n_handles && k < MAX_HANDLES; k++) found[n++] = (struct pollfd){handles[k], POLLIN, 0};
    struct timespec nap = {0, nap_ns};
    if (ppoll(found, n, &nap, NULL) <= 0) return REACHED;
    for (int k = 0; k < driver->n; k++) if (found[k].revents) return DIED;
    return READABLE;
}

static enum outcome settle(struct driver *driver, const int *handles, int n_handles, double limit_s) {
    int64_t began = read_ns(CLOCK_MONOTONIC), took = 0;
    while (driver->n_known < (int) driver->clock->n_processes)
        if (sil_clock_watch(driver, driver->clock->processes[driver->n_known++], DAEMON)) return DIED;
    for (;; took = read_ns(CLOCK_MONOTONIC) - began) {
        if (driver->clock->waits_really) return REAL;
        enum outcome found = look(driver, handles, n_handles, 0);
        if (found != REACHED) return found;
        if (all_quiet(driver)) return look(driver, handles, n_handles, 0);
        if (took > limit_s * 1e9) return HANGS;
        if (took < SPIN_NS) sched_yield();
        else look(driver, handles, n_handles, took / 8 < LONGEST_NAP_NS ? took / 8 : LONGEST_NAP_NS);
    }
}

/* ---- advancing ---- */

/* When a wait is to be woken. */
static int64_t wake_us(const struct clock *clock, const struct wait *wait) {
    if (wait->pace == ON_TIME) return wait->due_us;
    int64_t length = clock->now_us < clock->fine_until_us || clock->step_us < SECOND_US ? SECOND_US : clock->step_us;
    if (wait->pace == POLL && length < LONGEST_POLL_US) length = LONGEST_POLL_US;
    int64_t stretched_us = wait->since_us + length;
    return stretched_us > wait->due_us ? stretched_us : wait->due_us;
}

static struct wait *first_wait(struct clock *clock) {
    struct wait *first = NULL;
    for (uint32_t k = 0; k < clock->n_waits; k++) {
        struct wait *wait = &clock->waits[k];
        if (__atomic_load_n(&wait->state, __ATOMIC_SEQ_CST) != WAITING) continue;
        int64_t earlier = first ? wake_us(clock, wait) - wake_us(clock, first) : -1;
        if (earlier < 0 || (earlier == 0 && wait->order < first->order)) first = wait;
    }
    return first;
}

/* The time of the first wait; INT64_MAX if nothing waits. */
int64_t sil_clock_next(struct driver *driver) {
    struct wait *first = first_wait(driver->clock);
    return first ? wake_us(driver->clock, first) : INT64_MAX;
}

int64_t sil_clock_now(struct driver *driver) { return driver->clock->now_us; }

/* The CPU time of the process that is charged; -1 if it has ended. */
static int64_t computed_ns(const struct clock *clock) {
    clockid_t cpu;
    return clock_getcpuclockid(clock->charged, &cpu) ? -1 : read_ns(cpu);
}

/* What it has computed since the last time is simulated time. */
static void charge(struct clock *clock) {
    if (clock->charge <= 0) return;
    int64_t used_ns = computed_ns(clock);
    if (used_ns <= clock->charged_ns) return;
    clock->now_us += (int64_t) ((used_ns - clock->charged_ns) * clock->charge / 1000);
    clock->charged_ns = used_ns;
}

/* From now on, a second of CPU time of the daemon that began last takes `factor` seconds. */
void sil_clock_charge(struct driver *driver, double factor) {
    struct clock *clock = driver->clock;
    clock->charge = 0;
    if (!clock->n_processes) return;
    clock->charged = clock->processes[clock->n_processes - 1];
    clock->charged_ns = computed_ns(clock);
    clock->charge = factor;
}

/* How the daemons' waits are taken. Returns -1 if there are too many rules. */
int sil_clock_rule(struct driver *driver, const char *thread, const char *function, int64_t least_us, int64_t most_us,
                   int pace) {
    struct clock *clock = driver->clock;
    if (clock->n_rules == MAX_RULES) return -1;
    struct rule *rule = &clock->rules[clock->n_rules];
    snprintf(rule->thread, NAME_SIZE, "%s", thread);
    snprintf(rule->function, NAME_SIZE, "%s", function);
    rule->least_us = least_us;
    rule->most_us = most_us;
    rule->pace = pace;
    clock->n_rules++;
    return 0;
}

/* The `k`th wait for which there is no rule; NULL if there are fewer. */
const struct unknown *sil_clock_unknown(struct driver *driver, uint32_t k) {
    struct clock *clock = driver->clock;
    return k < __atomic_load_n(&clock->n_unknown, __ATOMIC_SEQ_CST) ? &clock->unknown[k] : NULL;
}

/* Beats last `step_us`, but one second before `fine_until_us`. */
void sil_clock_beats(struct driver *driver, int64_t step_us, int64_t fine_until_us) {
    driver->clock->step_us = step_us;
    driver->clock->fine_until_us = fine_until_us;
}

/* Let time pass until `to_us`: each wait is woken at its time, or, if `jumps`, at `to_us`; after each, the daemons
 * come to rest. Returns early if one of `handles` is readable, a daemon has ended, or does not come to rest. */
int sil_clock_advance(struct driver *driver, int64_t to_us, int jumps, const int *handles, int n_handles,
                      double limit_s) {
    struct clock *clock = driver->clock;
    for (;;) {
        enum outcome found = settle(driver, handles, n_handles, limit_s);
        if (found != REACHED) return found;
        charge(clock);
        if (jumps && clock->now_us < to_us) clock->now_us = to_us;
        struct wait *first = first_wait(clock);
        int64_t at_us = first ? wake_us(clock, first) : INT64_MAX;
        if (at_us > to_us) {
            if (clock->now_us < to_us) __atomic_store_n(&clock->now_us, to_us, __ATOMIC_SEQ_CST);
            return REACHED;
        }
        if (at_us > clock->now_us) __atomic_store_n(&clock->now_us, at_us, __ATOMIC_SEQ_CST);
        uint32_t expected = WAITING; /* or a thread of a process that is not watched signals it just now */
        if (__atomic_compare_exchange_n(&first->state, &expected, DUE, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            syscall(SYS_futex, &first->state, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}
