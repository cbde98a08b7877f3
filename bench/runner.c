#include "bench/runner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/clock.h"

/* Loading is not measured against anything, so it may be quicker than the run, as long as
 * its values take no more memory than this. */
#define LOAD_DEPTH 16
#define LOAD_BYTES (UINT64_C(256) << 20)
/* What the library asks for by itself. */
#define DEFAULT_CREDITS 16
#define PROGRESS_MS 500

/* ---- opening and closing ------------------------------------------------ */

/* Operations that a thread may have under way while loading. */
static uint32_t load_depth(const struct options *options)
{
    uint64_t fit = LOAD_BYTES / options->threads / options->value_size;

    return fit < 1 ? 1 : fit < LOAD_DEPTH ? (uint32_t)fit : LOAD_DEPTH;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static int worker_open(struct runner *runner, uint32_t index, char *why, size_t why_size)
{
    const struct options *options = runner->options;
    struct runner_worker *worker = &runner->workers[index];
    uint32_t depth = larger(options->depth, load_depth(options));
    struct okv_options handle_options = {
        .timeout_ms = options->timeout_ms,
        .depth = depth,
        .credits = options->get_many == 0 && options->depth > DEFAULT_CREDITS ? options->depth : 0,
        /* Times of waiting for a server to come back, and of its empty table, are no figures. */
        .reconnect = OKV_RECONNECT_NEVER,
    };

    worker->runner = runner;
    worker->random.state = (options->seed << 16) + index;
    atomic_init(&worker->done, 0);
    int rc = okv_open(options->uri, &handle_options, &worker->handle, why, why_size);
    if (rc != OKV_OK)
        return rc;

    struct loop_config config = {
        .handle = worker->handle,
        .stop = &runner->stop,
        .done = &worker->done,
        .slot_count = larger(depth, options->get_many),
        .key_size = options->key_size,
        .value_size = options->value_size,
        .registered = options->registered,
        .id = (uint16_t)index,
    };
    rc = loop_init(&worker->loop, &config);
    if (rc != OKV_OK) {
        snprintf(why, why_size, "%s", okv_strerror(rc));
        okv_close(&worker->handle);
    }
    return rc;
}

int runner_open(struct runner *runner, const struct options *options, char *why, size_t why_size)
{
    memset(runner, 0, sizeof *runner);
    runner->options = options;
    atomic_init(&runner->stop, false);
    pthread_mutex_init(&runner->lock, NULL);
    pthread_cond_init(&runner->ended, NULL);
    workload_chooser_init(&runner->chooser, options->distribution, options->records,
                          options->theta);

    int rc = OKV_ENOMEM;
    runner->workers = calloc(options->threads, sizeof *runner->workers);
    if (!runner->workers) {
        snprintf(why, why_size, "%s", okv_strerror(rc));
        goto close;
    }
    for (uint32_t i = 0; i < options->threads; i++) {
        rc = worker_open(runner, i, why, why_size);
        if (rc != OKV_OK)
            goto close;
        runner->opened++;
    }
    return OKV_OK;

close:
    runner_close(runner);
    return rc;
}

void runner_close(struct runner *runner)
{
    for (uint32_t i = 0; i < runner->opened; i++) {
        okv_close(&runner->workers[i].handle);
        loop_fini(&runner->workers[i].loop);
    }
    runner->opened = 0;
    free(runner->workers);
    runner->workers = NULL;
    pthread_cond_destroy(&runner->ended);
    pthread_mutex_destroy(&runner->lock);
}

/* ---- a phase ------------------------------------------------------------ */

static void *worker_main(void *user)
{
    struct runner_worker *worker = user;
    struct runner *runner = worker->runner;

    worker->start_ns = okv_clock_ns();
    if (worker->batches)
        loop_run_many(&worker->loop, worker->next, worker, runner->deadline_ns, &worker->tally);
    else
        loop_run(&worker->loop, worker->next, worker, runner->deadline_ns, &worker->tally);
    worker->end_ns = okv_clock_ns();

    pthread_mutex_lock(&runner->lock);
    runner->running--;
    pthread_cond_signal(&runner->ended);
    pthread_mutex_unlock(&runner->lock);
    return NULL;
}

static void show_progress(const struct runner *runner, const char *label, uint64_t start_ns)
{
    unsigned long done = 0;

    for (uint32_t i = 0; i < runner->opened; i++)
        done += atomic_load_explicit(&runner->workers[i].done, memory_order_relaxed);
    fprintf(stderr, "\r\033[K%s: %lu operations, %.0f s", label, done,
            (double)(okv_clock_ns() - start_ns) / 1e9);
}

/* Waits until no worker runs, with signs of life where wanted. */
static void wait_workers(struct runner *runner, const char *label)
{
    uint64_t start_ns = okv_clock_ns();
    struct timespec until;

    pthread_mutex_lock(&runner->lock);
    while (runner->running > 0) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += PROGRESS_MS * 1000000L;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_nsec -= 1000000000L;
            until.tv_sec++;
        }
        int rc = pthread_cond_timedwait(&runner->ended, &runner->lock, &until);
        if (rc == ETIMEDOUT && runner->options->progress)
            show_progress(runner, label, start_ns);
    }
    pthread_mutex_unlock(&runner->lock);
    if (runner->options->progress)
        fputs("\r\033[K", stderr);
}

void runner_counters_add(struct okv_counters *into, const struct okv_counters *after,
                         const struct okv_counters *before)
{
#define ADD_COUNTER(name, text) into->name += after->name - before->name;
    OKV_COUNTER_LIST(ADD_COUNTER)
#undef ADD_COUNTER
}

/* Adds up what the workers did. */
static void collect_phase(struct runner *runner, struct phase *phase)
{
    uint64_t start_ns = UINT64_MAX;
    uint64_t end_ns = 0;

    memset(&phase->counters, 0, sizeof phase->counters);
    loop_tally_init(&phase->tally);
    for (uint32_t i = 0; i < runner->opened; i++) {
        struct runner_worker *worker = &runner->workers[i];
        struct okv_counters after;

        okv_counters(worker->handle, &after);
        runner_counters_add(&phase->counters, &after, &worker->before);
        loop_tally_merge(&phase->tally, &worker->tally);
        if (worker->start_ns < start_ns)
            start_ns = worker->start_ns;
        if (worker->end_ns > end_ns)
            end_ns = worker->end_ns;
    }
    phase->seconds = end_ns > start_ns ? (double)(end_ns - start_ns) / 1e9 : 0.0;
}

/* Runs one phase on all workers, whose `next` and its data are set. */
static int run_phase(struct runner *runner, const char *label, double seconds, uint32_t depth,
                     struct phase *phase)
{
    uint32_t started = 0;
    int error = 0;

    runner->deadline_ns = seconds > 0 ? okv_clock_ns() + (uint64_t)(seconds * 1e9) : 0;
    runner->running = runner->opened;
    for (; started < runner->opened; started++) {
        struct runner_worker *worker = &runner->workers[started];
        loop_tally_init(&worker->tally);
        okv_counters(worker->handle, &worker->before);
        worker->loop.depth = depth;
        atomic_store_explicit(&worker->done, 0, memory_order_relaxed);
        error = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (error)
            break;
    }
    if (error) {
        atomic_store_explicit(&runner->stop, true, memory_order_relaxed);
        pthread_mutex_lock(&runner->lock);
        runner->running -= runner->opened - started;
        pthread_mutex_unlock(&runner->lock);
    }
    wait_workers(runner, label);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(runner->workers[i].thread, NULL);
    if (error) {
        loop_tally_init(&phase->tally);
        snprintf(phase->tally.why, sizeof phase->tally.why, "cannot start thread %u: %s",
                 started + 1, strerror(error));
        return phase->tally.code = OKV_EIO;
    }
    collect_phase(runner, phase);
    return atomic_load_explicit(&runner->stop, memory_order_relaxed) ? phase->tally.code : OKV_OK;
}

/* ---- load and run ------------------------------------------------------- */

static bool next_load(void *user, enum loop_op *op, uint64_t *record)
{
    struct runner_worker *worker = user;

    if (worker->next_record == worker->end_record)
        return false;
    *op = LOOP_PUT;
    *record = worker->next_record++;
    return true;
}

/* Where the share of worker `index` of `total` begins. */
static uint64_t share_start(uint64_t total, uint32_t index, uint32_t workers)
{
    return total / workers * index + (total % workers < index ? total % workers : index);
}

int runner_load(struct runner *runner, struct phase *phase)
{
    uint64_t records = runner->options->records;
    uint32_t depth = larger(runner->options->depth, load_depth(runner->options));

    for (uint32_t i = 0; i < runner->opened; i++) {
        runner->workers[i].next = next_load;
        runner->workers[i].batches = false;
        runner->workers[i].next_record = share_start(records, i, runner->opened);
        runner->workers[i].end_record = share_start(records, i + 1, runner->opened);
    }
    return run_phase(runner, "load", 0, depth, phase);
}

static bool next_mixed(void *user, enum loop_op *op, uint64_t *record)
{
    struct runner_worker *worker = user;
    const struct runner *runner = worker->runner;

    if (worker->remaining == 0)
        return false;
    worker->remaining--;
    bool get = workload_random_below(&worker->random, 100) < runner->options->get_percent;
    *op = get ? LOOP_GET : LOOP_PUT;
    *record = workload_chooser_next(&runner->chooser, &worker->random);
    return true;
}

int runner_run(struct runner *runner, const char *label, double seconds, uint64_t operations,
               struct phase *phase)
{
    for (uint32_t i = 0; i < runner->opened; i++) {
        struct runner_worker *worker = &runner->workers[i];
        worker->next = next_mixed;
        worker->batches = runner->options->get_many > 0;
        worker->remaining = operations > 0 ? share_start(operations, i + 1, runner->opened) -
                                                 share_start(operations, i, runner->opened)
                                           : UINT64_MAX;
    }
    uint32_t get_many = runner->options->get_many;
    return run_phase(runner, label, seconds, get_many > 0 ? get_many : runner->options->depth,
                     phase);
}
