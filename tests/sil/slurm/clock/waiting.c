/* What daemons do with time, for tests: `waiting MODE`. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;

static void say(const char *what) {
    struct timeval now;
    gettimeofday(&now, NULL);
    printf("%ld.%06ld %s\n", (long) now.tv_sec, (long) now.tv_usec, what);
    fflush(stdout);
}

static void *each_3_s(void *unused) {
    for (;;) { sleep(3); say("3 s"); }
    return unused;
}

static void *each_2_5_s(void *unused) {
    for (;;) { usleep(2500000); say("2.5 s"); }
    return unused;
}

static void *waits(void *unused) {
    pthread_mutex_lock(&mutex);
    for (;;) {
        struct timespec until = {time(NULL) + 7, 500000000};
        say(pthread_cond_timedwait(&news, &mutex, &until) == ETIMEDOUT ? "no news" : "news");
    }
    return unused;
}

/* As the agent of slurmctld, unless the thread has a name. */
static void *polls(void *name) {
    if (name) prctl(PR_SET_NAME, name, 0, 0, 0);
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&own);
    for (;;) {
        struct timespec until = {time(NULL) + 2, 0};
        pthread_cond_timedwait(&never, &own, &until);
        say(name ? name : "poll");
    }
    return NULL;
}

/* As the thread that backfills. */
static void *looks(void *unused) {
    prctl(PR_SET_NAME, "bckfl", 0, 0, 0);
    pthread_mutex_lock(&mutex);
    for (;;) {
        struct timeval now;
        gettimeofday(&now, NULL);
        struct timespec until = {now.tv_sec + 1, now.tv_usec * 1000};
        pthread_cond_timedwait(&news, &mutex, &until);
        say("look");
    }
    return unused;
}

static void *beats(void *unused) {
    for (;;) {
        for (int k = 0; k < 10; k++) usleep(100000);
        say("beat");
    }
    return unused;
}

static double cpu_s(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec + used.tv_nsec * 1e-9;
}

static void compute(double s) {
    double until_s = cpu_s() + s;
    while (cpu_s() < until_s) {}
}

static void *signals_after_4_s(void *unused) {
    sleep(4);
    pthread_mutex_lock(&mutex);
    pthread_cond_signal(&news);
    pthread_mutex_unlock(&mutex);
    pause();
    return unused;
}

/* Four ways of taking the time, and a sleep that is measured with another clock. */
static void measures(void) {
    const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_TAI, CLOCK_MONOTONIC, CLOCK_BOOTTIME};
    struct timespec before[4], after, nap = {2, 500000000};
    for (int k = 0; k < 4; k++) clock_gettime(clocks[k], &before[k]);
    nanosleep(&nap, NULL);
    for (int k = 0; k < 4; k++) {
        clock_gettime(clocks[k], &after);
        printf("%g ", after.tv_sec - before[k].tv_sec + (after.tv_nsec - before[k].tv_nsec) * 1e-9);
    }
    printf("\n");
    fflush(stdout);
}

/* At an absolute time, which need not be that of the kernel. */
static void sets_a_timer(void) {
    struct itimerspec at = {.it_value = {time(NULL) + 60, 0}};
    struct sigevent nothing = {.sigev_notify = SIGEV_NONE};
    timer_t timer;
    if (!timer_create(CLOCK_REALTIME, &nothing, &timer)) timer_settime(timer, TIMER_ABSTIME, &at, NULL);
}

static void start_with(void *(*what)(void *), void *argument) {
    pthread_t thread;
    pthread_create(&thread, NULL, what, argument);
}

static void start(void *(*what)(void *)) { start_with(what, NULL); }

static void users(void) {
    int uid = (int) getpwnam("alice")->pw_uid;
    struct group *group = getgrgid(70001);
    gid_t groups[4];
    int n = 4;
    int found = getgrouplist("alice", 70001, groups, &n);
    printf("%d %s ", uid, getpwuid(70001)->pw_name);
    printf("%s %s %d %d %d\n", getpwuid(0)->pw_name, group->gr_name, found, n, (int) groups[0]);
    printf("%s\n", getpwnam("nobody-of-this-name") ? "found" : "unknown");
}

static void listens(void) {
    struct sockaddr_in anywhere = {.sin_family = AF_INET}, found;
    socklen_t size = sizeof found;
    int handle = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(handle, (struct sockaddr *) &anywhere, sizeof anywhere) || listen(handle, 1)) exit(1);
    getsockname(handle, (struct sockaddr *) &found, &size);
    printf("%s\n", inet_ntoa(found.sin_addr));
}

int main(int n, char **words) {
    const char *mode = n > 1 ? words[1] : "";
    if (!strcmp(mode, "order")) { start(each_3_s); start(each_2_5_s); start(waits); }
    else if (!strcmp(mode, "news")) { start(waits); start(signals_after_4_s); }
    else if (!strcmp(mode, "beats")) start(beats);
    else if (!strcmp(mode, "looks")) start(looks);
    else if (!strcmp(mode, "polls")) { start(polls); start_with(polls, "fed_jobs"); start_with(polls, "named"); }
    else if (!strcmp(mode, "measures")) measures();
    else if (!strcmp(mode, "timer")) sets_a_timer();
    else if (!strcmp(mode, "users")) { users(); return 0; }
    else if (!strcmp(mode, "listens")) { listens(); return 0; }
    else if (!strcmp(mode, "computes")) { sleep(1); say("before"); compute(0.2); say("after"); }
    else if (!strcmp(mode, "endless")) for (;;) compute(1e9);
    else if (!strcmp(mode, "ends")) { sleep(5); return 0; }
    else if (!strcmp(mode, "reads")) { say("read"); usleep(1000); say("read"); return 0; }
    pause();
    return 0;
}
