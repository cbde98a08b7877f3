#include "tests/chaos/stalls.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/clock.h"

#define NAP_NS UINT64_C(10000000)
#define STALL_NS UINT64_C(20000000) /* of which shorter ones are no stalls */
#define STALLS_MAX 65536u           /* the latest are kept: those of minutes at the least */

static struct stall {
    uint64_t from_ns, to_ns;
} stalls[STALLS_MAX];
static uint64_t stall_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *watch(void *user)
{
    uint64_t before = okv_clock_ns(), now;

    (void)user;
    for (;; before = now) {
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
        now = okv_clock_ns();
        if (now - before < NAP_NS + STALL_NS)
            continue;
        pthread_mutex_lock(&lock);
        stalls[stall_count++ % STALLS_MAX] = (struct stall){before + NAP_NS, now};
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

void stalls_watch(void)
{
    cpu_set_t all, one;
    pthread_t thread;

    sched_getaffinity(0, sizeof all, &all);
    for (int processor = 0; processor < CPU_SETSIZE; processor++) {
        if (!CPU_ISSET(processor, &all) || pthread_create(&thread, NULL, watch, NULL))
            continue;
        CPU_ZERO(&one);
        CPU_SET(processor, &one);
        pthread_setaffinity_np(thread, sizeof one, &one);
        pthread_detach(thread);
    }
}

uint64_t stalls_between(uint64_t from_ns, uint64_t to_ns)
{
    uint64_t sum = 0;

    pthread_mutex_lock(&lock);
    for (uint64_t i = 0; i < stall_count && i < STALLS_MAX; i++) {
        uint64_t from = stalls[i].from_ns > from_ns ? stalls[i].from_ns : from_ns;
        uint64_t to = stalls[i].to_ns < to_ns ? stalls[i].to_ns : to_ns;
        sum += to > from ? to - from : 0;
    }
    pthread_mutex_unlock(&lock);
    return sum;
}
