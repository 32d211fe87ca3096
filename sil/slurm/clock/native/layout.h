/* The memory that a clock's driver and the daemons under it share: one small file for each clock. */
#ifndef LAYOUT_H
#define LAYOUT_H
#include <stdint.h>

#define MAGIC 0x316b636f6c63u
#define MAX_WAITS 1024
#define MAX_PROCESSES 8
#define MAX_RULES 64
#define MAX_UNKNOWN 64
#define NAME_SIZE 16
#define SECOND_US 1000000

/* Of a wait: not in use (as in a new file), being filled in, about to sleep, asleep, and the two ends of that. */
enum state { FREE, CLAIMED, ENTERED, WAITING, DUE, SIGNALLED };

/* When a wait is over: at its time; or it is the beat of a loop that looks each second whether there is something to do,
 * and may be stretched; or it is a poll, whose end has no effect unless the daemon is to end. */
enum pace { ON_TIME, BEAT, POLL };

/* How waits of a kind are taken: those of threads with a name, by a function, for so long. In a name, "*" stands for any
 * further letters; "main" is the first thread, and "none" others that have the name of the program. */
struct rule {
    char thread[NAME_SIZE], function[NAME_SIZE];
    int64_t least_us, most_us;
    enum pace pace;
};

/* A wait for which there is no rule, or one that takes real time, such as a timer (its length is 0). */
struct unknown {
    char thread[NAME_SIZE], function[NAME_SIZE];
    int64_t length_us;
    uint32_t times;
};

/* A thread that waits until a time, perhaps at a condition variable. `state` is the futex that it sleeps on. */
struct wait {
    uint32_t state;
    int32_t process, thread;
    int64_t since_us, due_us;
    uint64_t order;      /* among the waits of a clock: who began first is woken first */
    uint64_t condition;  /* its address in that process, or 0 */
    enum pace pace;
};

/* Times are microseconds since the epoch. */
struct clock {
    uint64_t magic;
    int64_t now_us;
    int64_t step_us;       /* length of a stretched beat */
    int64_t fine_until_us; /* beats are not stretched before */
    double charge;         /* simulated seconds for a second of CPU time of a process; 0 = time stands still */
    int64_t charged_ns;    /* its CPU time that is part of now_us already */
    int64_t charged;       /* that process */
    uint64_t order;
    uint32_t n_waits;      /* waits that have been used: one more than the highest index */
    uint32_t n_processes;
    int32_t processes[MAX_PROCESSES];
    uint32_t n_rules, n_unknown;
    uint32_t waits_really; /* a timer was set, or a daemon waits in another way that is not simulated */
    uint32_t locked;       /* while what is unknown is noted */
    struct rule rules[MAX_RULES];
    struct unknown unknown[MAX_UNKNOWN];
    struct wait waits[MAX_WAITS];
};
#endif
