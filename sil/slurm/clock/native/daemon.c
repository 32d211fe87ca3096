/* The side that is preloaded into a daemon: time is read from the clock, and who waits for a time waits for the
 * clock's driver.
 *
 * Environment: SIL_CLOCK is the clock's file. SIL_CLOCK_ROLE is "daemon" (the driver watches this process), "driven" (a
 * child of a daemon or a command: not a daemon, but it waits for the driver, too), or "reader" (it reads the time and
 * waits in real time). Without SIL_CLOCK nothing changes. */
#define _GNU_SOURCE
#include "layout.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define YIELD_US 1000  /* shorter sleeps only let other threads go first */

static struct clock *shared;
static int waits_for_driver, is_daemon;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SIL_CLOCK"), *role = getenv("SIL_CLOCK_ROLE");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *memory = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED || ((struct clock *) memory)->magic != MAGIC) return;
    shared = memory;
    waits_for_driver = !role || strcmp(role, "reader");
    if (!(is_daemon = role && !strcmp(role, "daemon"))) return;
    setenv("SIL_CLOCK_ROLE", "driven", 1);
    uint32_t k = __atomic_load_n(&shared->n_processes, __ATOMIC_SEQ_CST);
    if (k == MAX_PROCESSES) abort();
    shared->processes[k] = getpid(); /* daemons are started one after another */
    __atomic_store_n(&shared->n_processes, k + 1, __ATOMIC_SEQ_CST);
}

static long futex(uint32_t *word, int what, uint32_t value) {
    return syscall(SYS_futex, word, what, value, NULL, NULL, 0);
}

/* ---- reading the time ---- */

static int64_t now_us(void) {
    int64_t now = __atomic_load_n(&shared->now_us, __ATOMIC_SEQ_CST);
    if (shared->charge > 0 && shared->charged == getpid()) {
        struct timespec used;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        int64_t ns = used.tv_sec * 1000000000LL + used.tv_nsec - shared->charged_ns;
        now += (int64_t) (ns * shared->charge / 1000);
    }
    return now;
}

/* The system's own, which bypasses the functions below. */
static int real_clock(clockid_t clock, struct timespec *found) {
    return (int) syscall(SYS_clock_gettime, clock, found);
}

/* All clocks but those of CPU time agree. A thread that takes a deadline from one that is not simulated (24.11 to 25.11
 * take those of connections from CLOCK_TAI) would find, when its wait is over, that its time has not come, and try again
 * without end; intervals are measured with the monotonic clock. */
static int is_simulated(clockid_t clock) {
    return clock != CLOCK_PROCESS_CPUTIME_ID && clock != CLOCK_THREAD_CPUTIME_ID && clock >= 0;
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    if (!shared || !is_simulated(clock)) return real_clock(clock, found);
    int64_t now = now_us();
    found->tv_sec = now / SECOND_US;
    found->tv_nsec = now % SECOND_US * 1000;
    return 0;
}

time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone) {
    struct timespec now;
    (void) zone;
    clock_gettime(CLOCK_REALTIME, &now);
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

/* ---- what is known of waits ---- */

static int matches(const char *pattern, const char *name) {
    size_t n = strcspn(pattern, "*");
    return pattern[n] ? !strncmp(pattern, name, n) : !strcmp(pattern, name);
}

/* Remember what is not known, for the driver to say. */
static void note(const char *thread, const char *function, int64_t length_us) {
    while (__atomic_exchange_n(&shared->locked, 1, __ATOMIC_SEQ_CST)) sched_yield();
    uint32_t k = 0, n = shared->n_unknown;
    for (; k < n; k++) {
        struct unknown *known = &shared->unknown[k];
        if (known->length_us == length_us && !strcmp(known->thread, thread) && !strcmp(known->function, function)) break;
    }
    if (k == n && n < MAX_UNKNOWN) {
        struct unknown *new = &shared->unknown[shared->n_unknown++];
        strncpy(new->thread, thread, NAME_SIZE - 1);
        strncpy(new->function, function, NAME_SIZE - 1);
        new->length_us = length_us;
    }
    if (k < MAX_UNKNOWN) shared->unknown[k].times++;
    __atomic_store_n(&shared->locked, 0, __ATOMIC_SEQ_CST);
}

/* The name of this thread, as rules have it. */
static void thread_name(char name[NAME_SIZE]) {
    memset(name, 0, NAME_SIZE);
    if (syscall(SYS_gettid) == getpid()) strcpy(name, "main");
    else {
        prctl(PR_GET_NAME, name, 0, 0, 0);
        if (!strncmp(name, program_invocation_short_name, NAME_SIZE - 1)) strcpy(name, "none");
    }
}

static enum pace pace_of(const char *function, int64_t length_us) {
    char name[NAME_SIZE];
    thread_name(name);
    for (struct rule *rule = shared->rules; rule < shared->rules + shared->n_rules; rule++)
        if (length_us >= rule->least_us && length_us <= rule->most_us && matches(rule->thread, name) &&
            matches(rule->function, function))
            return rule->pace;
    if (is_daemon) note(name, function, length_us);
    return ON_TIME;
}

/* ---- waiting for a time ---- */

static int changed(struct wait *wait, uint32_t from, uint32_t to) {
    return __atomic_compare_exchange_n(&wait->state, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static struct wait *begin_wait(int64_t since_us, int64_t due_us, const void *condition, enum pace pace) {
    for (uint32_t k = 0; k < MAX_WAITS; k++) {
        struct wait *wait = &shared->waits[k];
        if (!changed(wait, FREE, CLAIMED)) continue;
        wait->process = getpid();
        wait->thread = (int32_t) syscall(SYS_gettid);
        wait->since_us = since_us;
        wait->due_us = due_us;
        wait->condition = (uint64_t) (uintptr_t) condition;
        wait->pace = pace;
        wait->order = __atomic_fetch_add(&shared->order, 1, __ATOMIC_SEQ_CST);
        uint32_t used = __atomic_load_n(&shared->n_waits, __ATOMIC_SEQ_CST);
        while (used < k + 1 &&
               !__atomic_compare_exchange_n(&shared->n_waits, &used, k + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
        __atomic_store_n(&wait->state, ENTERED, __ATOMIC_SEQ_CST);
        return wait;
    }
    abort(); /* more threads wait than slurmctld may have */
}

/* Sleep until the driver says that the wait is DUE, or a thread that it is SIGNALLED. Returns which. The driver takes a
 * thread that is WAITING to be at rest, so it must have nothing else to do by then. */
static enum state end_wait(struct wait *wait) {
    uint32_t state;
    changed(wait, ENTERED, WAITING);
    while ((state = __atomic_load_n(&wait->state, __ATOMIC_SEQ_CST)) == WAITING) futex(&wait->state, FUTEX_WAIT, WAITING);
    __atomic_store_n(&wait->state, FREE, __ATOMIC_SEQ_CST);
    return state;
}

static void sleep_us(const char *function, int64_t us) {
    /* A beat that was stretched stands for those that follow it within one turn of the loop. */
    static __thread int64_t slept_before;
    if (us < YIELD_US) {
        sched_yield();
        return;
    }
    enum pace pace = pace_of(function, us);
    if (pace == BEAT && slept_before >= us) {
        slept_before -= us;
        return;
    }
    int64_t since = now_us();
    end_wait(begin_wait(since, since + us, NULL, pace));
    if (pace == BEAT) {
        int64_t longer = now_us() - since - us, most = SECOND_US - us;
        slept_before = longer < most ? longer : most;
    }
}

static void really_sleep(time_t s, long ns) {
    struct timespec left = {s, ns};
    while (syscall(SYS_nanosleep, &left, &left) && errno == EINTR) {}
}

int usleep(useconds_t us) {
    if (shared && waits_for_driver) sleep_us("usleep", us);
    else really_sleep(us / SECOND_US, us % SECOND_US * 1000L);
    return 0;
}

unsigned sleep(unsigned s) {
    if (shared && waits_for_driver) sleep_us("sleep", (int64_t) s * SECOND_US);
    else really_sleep(s, 0);
    return 0;
}

int nanosleep(const struct timespec *length, struct timespec *left) {
    if (shared && waits_for_driver) sleep_us("nanosleep", length->tv_sec * (int64_t) SECOND_US + length->tv_nsec / 1000);
    else return (int) syscall(SYS_nanosleep, length, left);
    return 0;
}

/* ---- condition variables: those who wait for a time as well are woken by their own futex ---- */

typedef int of_condition(pthread_cond_t *);
typedef int timed_wait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

static void *real(const char *name) {
    void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2"); /* x86-64 has an older one, too */
    return found ? found : dlsym(RTLD_NEXT, name);
}

/* Deadlines in whole seconds are taken as if they were set at the beginning of this one. */
static int64_t length_us(int64_t now_us, const struct timespec *until, int64_t due_us) {
    return until->tv_nsec ? due_us - now_us : due_us - now_us / SECOND_US * SECOND_US;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    static timed_wait *really;
    if (!shared || !waits_for_driver) {
        struct timespec now, due = *until;
        if (shared) { /* as far ahead in real time */
            int64_t ns = (until->tv_sec * (int64_t) SECOND_US - now_us()) * 1000 + until->tv_nsec;
            real_clock(CLOCK_REALTIME, &now);
            ns = (ns > 0 ? ns : 0) + now.tv_nsec;
            due.tv_sec = now.tv_sec + ns / 1000000000;
            due.tv_nsec = ns % 1000000000;
        }
        if (!really) really = (timed_wait *) real("pthread_cond_timedwait");
        return really(condition, mutex, &due);
    }
    int64_t now = now_us(), due = until->tv_sec * (int64_t) SECOND_US + until->tv_nsec / 1000;
    if (due <= now) {
        pthread_mutex_unlock(mutex);
        sched_yield();
        pthread_mutex_lock(mutex);
        return ETIMEDOUT;
    }
    enum pace pace = pace_of("cond_timedwait", length_us(now, until, due));
    struct wait *wait = begin_wait(now, due, condition, pace); /* before another can signal */
    pthread_mutex_unlock(mutex);
    enum state state = end_wait(wait);
    pthread_mutex_lock(mutex);
    return state == DUE ? ETIMEDOUT : 0;
}

/* Wake one or all of those at a condition who wait for a time as well. With one more, which waits without a time
 * and is woken by the system's function, that may be too many, as POSIX allows. */
static void signal_waits(pthread_cond_t *condition, int all) {
    if (!shared || !waits_for_driver) return;
    uint32_t used = __atomic_load_n(&shared->n_waits, __ATOMIC_SEQ_CST);
    int32_t process = getpid();
    for (uint32_t k = 0; k < used; k++) {
        struct wait *wait = &shared->waits[k];
        if (wait->condition == (uint64_t) (uintptr_t) condition && wait->process == process &&
            (changed(wait, ENTERED, SIGNALLED) || changed(wait, WAITING, SIGNALLED))) {
            futex(&wait->state, FUTEX_WAKE, INT_MAX);
            if (!all) return;
        }
    }
}

int pthread_cond_signal(pthread_cond_t *condition) {
    static of_condition *really;
    if (!really) really = (of_condition *) real("pthread_cond_signal");
    signal_waits(condition, 0);
    return really(condition);
}

int pthread_cond_broadcast(pthread_cond_t *condition) {
    static of_condition *really;
    if (!really) really = (of_condition *) real("pthread_cond_broadcast");
    signal_waits(condition, 1);
    return really(condition);
}

/* ---- what takes real time, and must not ---- */

#define NOT_SIMULATED(name, declared, given, waits)                         \
    int name declared {                                                     \
        static int (*really) declared;                                      \
        if (!really) really = (int (*) declared) dlsym(RTLD_NEXT, #name);   \
        if (shared && is_daemon && (waits)) refuse(#name);                  \
        return really given;                                                \
    }

static void refuse(const char *function) {
    char thread[NAME_SIZE];
    thread_name(thread);
    note(thread, function, 0);
    shared->waits_really = 1;
}

static int is_set(const struct itimerspec *at) { return at->it_value.tv_sec || at->it_value.tv_nsec; }

typedef const struct timespec *deadline;
typedef const struct itimerspec *setting;
typedef struct itimerspec *former;

NOT_SIMULATED(timer_settime, (timer_t timer, int how, setting at, former old), (timer, how, at, old), is_set(at))
NOT_SIMULATED(timerfd_settime, (int file, int how, setting at, former old), (file, how, at, old), is_set(at))
NOT_SIMULATED(clock_nanosleep, (clockid_t clock, int how, deadline at, struct timespec *left), (clock, how, at, left), 1)
NOT_SIMULATED(sem_timedwait, (sem_t *restrict semaphore, deadline restrict at), (semaphore, at), 1)
NOT_SIMULATED(pthread_cond_clockwait,
              (pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
               deadline restrict at), (condition, mutex, clock, at), 1)
