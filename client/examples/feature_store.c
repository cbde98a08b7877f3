/*
 * Feature vectors for a service with an event loop. A request wants the vectors of many keys, and
 * many requests are under way. Beside them the loop serves a timer and signals.
 *
 * What keeps it fair: a turn takes at most TURN results. Then the loop looks at its other
 * descriptors, without sleep while there is more to do. A loop that calls okv_poll() until it
 * returns 0 may never get to them: where requests begin as others end, there is always a result.
 * okv_call_many() is not for event loops, as it blocks until all of them have ended.
 */
#include <okv.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define DIMENSIONS 32
#define USERS 1000 /* those with odd numbers have no vector */
#define KEYS 50    /* of a request */
#define REQUESTS 16
#define TURN 64 /* results */
#define TICK_MS 10
#define TICKS 50       /* this example ends after as many */
#define STARVED 100000 /* requests without a tick between them: more than any machine serves */

struct request {
    struct okv_command gets[KEYS];
    char keys[KEYS][16];
    float vectors[KEYS][DIMENSIONS];
    unsigned first_user;
    size_t submitted, ended;
};

struct service {
    okv *db;
    struct request requests[REQUESTS];
    unsigned next_user;
    int epoll, timer, signals;
    bool stop;
    unsigned ticks, since_tick; /* the latter in requests */
    unsigned long found, absent, failed;
};

static void check(const struct service *service, const char *what, int rc)
{
    if (rc == OKV_OK)
        return;
    const char *why = okv_why(service->db);
    fprintf(stderr, "%s: %s\n", what, why[0] ? why : okv_strerror(rc));
    exit(1);
}

static void request_begin(struct service *service, struct request *request)
{
    uint64_t tag = (uint64_t)(request - service->requests) * KEYS;

    request->submitted = request->ended = 0;
    request->first_user = service->next_user;
    for (unsigned i = 0; i < KEYS; i++) {
        int length =
            snprintf(request->keys[i], sizeof request->keys[i], "user:%u", service->next_user);
        request->gets[i] = (struct okv_command){.kind = OKV_GET,
                                                .tag = tag + i,
                                                .key = request->keys[i],
                                                .key_length = (size_t)length,
                                                .buffer = request->vectors[i],
                                                .buffer_size = sizeof request->vectors[i]};
        service->next_user = (service->next_user + 1) % USERS;
    }
}

/* The handle may take a part only: slots of gets that timed out come back later. */
static void request_submit(struct service *service, struct request *request)
{
    size_t accepted;
    int rc = okv_submit(service->db, request->gets + request->submitted, KEYS - request->submitted,
                        &accepted);

    request->submitted += accepted;
    check(service, "submit", rc == OKV_EAGAIN ? OKV_OK : rc);
}

/* A vector that is not there, or did not come in time, is zeros: the answer does without it. */
static void result_take(struct service *service, const struct okv_result *result)
{
    struct request *request = &service->requests[result->tag / KEYS];
    unsigned i = result->tag % KEYS;
    float *vector = request->vectors[i];

    if (result->status == OKV_OK && result->length == sizeof request->vectors[i] &&
        vector[0] == (float)(request->first_user + i)) {
        service->found++;
    } else {
        for (int j = 0; j < DIMENSIONS; j++)
            vector[j] = 0;
        service->absent += result->status == OKV_ENOTFOUND;
        service->failed += result->status != OKV_ENOTFOUND;
    }
    if (++request->ended < KEYS)
        return;
    /* All vectors are there: a product computes its answer here. */
    if (++service->since_tick > STARVED) {
        fprintf(stderr, "the timer starves\n");
        exit(1);
    }
    if (!service->stop)
        request_begin(service, request);
}

/* One turn with okv. Returns how long epoll_wait() may sleep. */
static int turn(struct service *service)
{
    struct okv_result results[TURN];
    int sleep_ms = 0;

    for (int i = 0; i < REQUESTS; i++)
        if (service->requests[i].submitted < KEYS)
            request_submit(service, &service->requests[i]);
    int count = okv_poll(service->db, results, TURN);
    if (count == 0) {
        /* What ended before the arm wakes nobody, so poll again. A handle that cannot be armed does
         * not wake the loop either. */
        sleep_ms = okv_arm(service->db) == OKV_OK ? -1 : 1;
        count = okv_poll(service->db, results, TURN);
    }
    check(service, "poll", count < 0 ? count : OKV_OK);
    for (int i = 0; i < count; i++)
        result_take(service, &results[i]);
    return count > 0 ? 0 : sleep_ms;
}

static void timer_serve(struct service *service)
{
    uint64_t expirations;

    if (read(service->timer, &expirations, sizeof expirations) != sizeof expirations)
        return;
    service->since_tick = 0;
    if (++service->ticks == TICKS)
        raise(SIGTERM); /* as the service manager does */
}

static void loop(struct service *service)
{
    struct epoll_event events[8];

    while (!service->stop || okv_pending(service->db) > 0) {
        /* The handle's descriptor only ends the sleep: each turn polls. */
        int count = epoll_wait(service->epoll, events, 8, turn(service));
        for (int i = 0; i < count; i++) {
            struct signalfd_siginfo info;
            if (events[i].data.fd == service->timer)
                timer_serve(service);
            else if (events[i].data.fd == service->signals)
                service->stop |= read(service->signals, &info, sizeof info) == sizeof info;
        }
    }
}

/* False: errno says why. */
static bool watch_all(struct service *service)
{
    struct itimerspec tick = {{0, TICK_MS * 1000000}, {0, TICK_MS * 1000000}};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    service->epoll = epoll_create1(EPOLL_CLOEXEC);
    service->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    service->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    int fds[] = {service->timer, service->signals, okv_fd(service->db)};
    for (int i = 0; i < 3; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[i]};
        if (epoll_ctl(service->epoll, EPOLL_CTL_ADD, fds[i], &event))
            return false;
    }
    return timerfd_settime(service->timer, 0, &tick, NULL) == 0;
}

int main(int argc, char **argv)
{
    struct okv_options options = {.depth = REQUESTS * KEYS};
    static struct service service;
    char why[256];

    if (argc != 2 || okv_open(argv[1], &options, &service.db, why, sizeof why)) {
        fprintf(stderr, "%s\n", argc != 2 ? "usage: example_feature_store URI" : why);
        return 2;
    }
    for (unsigned user = 0; user < USERS; user += 2) {
        float vector[DIMENSIONS] = {(float)user};
        char key[16];
        int length = snprintf(key, sizeof key, "user:%u", user);
        check(&service, "put",
              okv_put(service.db, key, (size_t)length, vector, sizeof vector, NULL));
    }
    if (!watch_all(&service)) {
        perror("descriptors of the event loop");
        return 1;
    }
    for (int i = 0; i < REQUESTS; i++)
        request_begin(&service, &service.requests[i]);
    loop(&service);
    printf("ticks: %s, then a signal\n", service.ticks >= TICKS ? "all" : "too few");
    printf("vectors: %s there, %s absent, %lu failed\n", service.found ? "half" : "none",
           service.found == service.absent ? "half" : "not half", service.failed);
    okv_close(&service.db);
    if (ferror(stdout) || fclose(stdout)) {
        fputs("cannot write the output\n", stderr);
        return 3;
    }
    return 0;
}
