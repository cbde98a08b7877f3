/* Threads and phases of a runner. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench/interrupt.h"
#include "bench/load/runner_state.h"
#include "shared/base/clock.h"
#include "shared/base/printable.h"
#include "shared/base/thread.h"

#define PROGRESS_MS 500
/* Between two looks at how many items there are. */
#define WATCH_MS 20

/* Sums over the connections of a worker; zero for peers. */
static void worker_counters(const struct worker *worker, struct okv_counters *sum)
{
    static const struct okv_counters zero;

    memset(sum, 0, sizeof *sum);
    for (uint32_t i = 0; i < worker->target_count; i++) {
        struct target *target = worker->targets[i];
        struct okv_counters counters;
        if (!target->ops->counters)
            continue;
        target->ops->counters(target, &counters);
        runner_counters_add(sum, &counters, &zero);
    }
}

/* The server's figures; NAN where unknown. */
static void read_stat(struct target *target, struct target_stat *stat)
{
    *stat = (struct target_stat){NAN, NAN, NAN, NAN};
    if (!target->ops->stat || target->ops->stat(target, stat) != OKV_OK)
        *stat = (struct target_stat){NAN, NAN, NAN, NAN};
}

/* ---- a thread ----------------------------------------------------------- */

/* CPU time of the calling thread. */
static double thread_cpu_ms(void)
{
    struct timespec used;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e3 + (double)used.tv_nsec / 1e6;
}

/* How many records there are at most. */
static uint64_t records_put(struct runner *runner)
{
    return atomic_load(&runner->inserts.next);
}

/* The next record of the thread's share; the numbers follow the records. */
static bool next_of_share(void *user, struct loop_order *order)
{
    struct worker *worker = user;
    uint64_t records = records_put(worker->runner), index = worker->next_record;

    if (index == worker->end_record)
        return false;
    worker->next_record++;
    *order = (struct loop_order){.operation = worker->runner->each,
                                 .record = index % records,
                                 .is_number = index >= records};
    return true;
}

/* Any thread takes the next request, so that they stay nearly in the order of the trace. */
static bool next_of_trace(void *user, struct loop_order *order)
{
    struct runner *runner = user;
    const struct trace *trace = runner->options->trace;
    size_t index = atomic_fetch_add_explicit(&runner->cursor, 1, memory_order_relaxed);

    if (index >= trace->count)
        return false;
    *order = (struct loop_order){.operation = OPERATION_GET, .record = trace->requests[index]};
    return true;
}

/* Sets the times of a run that begins now. */
static void begin_run(struct worker *worker)
{
    const struct runner *runner = worker->runner;
    uint64_t length_ns = (uint64_t)(worker->seconds * 1e9);
    double phase = (double)(worker - runner->workers) / runner->target->threads;

    worker->run.deadline_ns = length_ns > 0 ? worker->start_ns + length_ns : 0;
    schedule_begin(&worker->schedule, worker->operations, worker->start_ns, worker->run.deadline_ns,
                   phase);
    /* The orders of an open loop end by themselves; this limits a server that cannot keep up. */
    if (runner->plan.distance_ns > 0 && length_ns > 0)
        worker->run.deadline_ns += length_ns;
}

static void *worker_main(void *user)
{
    struct worker *worker = user;
    struct runner *runner = worker->runner;
    double cpu_ms = thread_cpu_ms();

    worker->start_ns = okv_clock_ns();
    worker->series.start_ns = worker->start_ns;
    if (!worker->has_records)
        begin_run(worker);
    loop_run(worker->loop, &worker->run);
    worker->end_ns = okv_clock_ns();
    worker->cpu_ms = thread_cpu_ms() - cpu_ms;

    pthread_mutex_lock(&runner->lock);
    runner->running--;
    pthread_cond_signal(&runner->ended);
    pthread_mutex_unlock(&runner->lock);
    return NULL;
}

/* ---- a phase ------------------------------------------------------------ */

/* What the line of progress said last, and when. */
struct shown {
    uint64_t start_ns, at_ns;
    unsigned long done;
};

static void show_progress(const struct runner *runner, const char *label, struct shown *shown)
{
    unsigned long done = 0;
    uint64_t now_ns = okv_clock_ns();

    if (now_ns - shown->at_ns < PROGRESS_MS * UINT64_C(1000000))
        return;
    for (uint32_t i = 0; i < runner->opened; i++)
        done += atomic_load_explicit(&runner->workers[i].done, memory_order_relaxed);
    okv_printable_clear_line();
    fprintf(stderr, "%s: %.0f s, %lu operations, %.0f operations/s", label,
            (double)(now_ns - shown->start_ns) / 1e9, done,
            (double)(done - shown->done) * 1e9 / (double)(now_ns - shown->at_ns));
    shown->at_ns = now_ns;
    shown->done = done;
}

/* Adds a sample of the items that a replay meets. */
static void watch_items(struct runner *runner)
{
    struct target_stat stat;

    read_stat(runner->watch, &stat);
    held_add(&runner->held, stat.items);
}

/* Until a worker has ended, or so long. Call it with the lock. */
static void wait_briefly(struct runner *runner, uint32_t ms)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ms * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&runner->ended, &runner->lock, &until);
}

/* Waits until no worker runs, and shows progress if wanted. */
static void wait_workers(struct runner *runner, const char *label)
{
    uint64_t now_ns = okv_clock_ns();
    struct shown shown = {.start_ns = now_ns, .at_ns = now_ns};

    pthread_mutex_lock(&runner->lock);
    while (runner->running > 0) {
        wait_briefly(runner, runner->watch ? WATCH_MS : PROGRESS_MS);
        if (interrupted() && runner->each != OPERATION_DELETE) /* not the removal */
            atomic_store_explicit(&runner->stop, true, memory_order_relaxed);
        if (runner->options->progress)
            show_progress(runner, label, &shown);
        if (runner->watch) {
            pthread_mutex_unlock(&runner->lock); /* its answer may take long */
            watch_items(runner);
            pthread_mutex_lock(&runner->lock);
        }
    }
    pthread_mutex_unlock(&runner->lock);
    if (runner->options->progress)
        okv_printable_clear_line();
}

/* Adds up the results of the workers. */
static void collect_phase(struct runner *runner, struct phase *phase)
{
    uint64_t start_ns = UINT64_MAX;
    uint64_t end_ns = 0;

    for (uint32_t i = 0; i < runner->opened; i++) {
        struct worker *worker = &runner->workers[i];
        struct okv_counters after;

        worker_counters(worker, &after);
        runner_counters_add(&phase->counters, &after, &worker->before);
        loop_tally_merge(&phase->tally, &worker->tally);
        series_merge(&phase->series, &worker->series);
        phase->client_cpu_ms += worker->cpu_ms;
        if (!worker->has_records)
            phase->not_begun += schedule_left(&worker->schedule);
        if (worker->start_ns < start_ns)
            start_ns = worker->start_ns;
        if (worker->end_ns > end_ns)
            end_ns = worker->end_ns;
    }
    phase->seconds = end_ns > start_ns ? (double)(end_ns - start_ns) / 1e9 : 0.0;
}

/* Starts all workers. On failure some may have started. */
static int start_workers(struct runner *runner, uint32_t seconds, uint32_t *started,
                         struct okv_diag *why)
{
    runner->running = runner->opened;
    for (*started = 0; *started < runner->opened; ++*started) {
        struct worker *worker = &runner->workers[*started];
        loop_tally_init(&worker->tally);
        series_init(&worker->series, 0, seconds);
        worker_counters(worker, &worker->before);
        worker->run.tally = &worker->tally;
        worker->run.series = &worker->series;
        atomic_store_explicit(&worker->done, 0, memory_order_relaxed);
        int rc = okv_thread_start(&worker->thread, worker_main, worker, why);
        if (rc)
            return rc;
    }
    return 0;
}

/* Runs one phase on all workers. `seconds`: how long it takes, for progress; 0: unknown. */
static int run_phase(struct runner *runner, const char *label, uint32_t seconds,
                     struct phase *phase)
{
    struct target_stat before;
    struct okv_diag why;
    uint32_t started = 0;

    memset(phase, 0, sizeof *phase);
    loop_tally_init(&phase->tally);
    series_init(&phase->series, 0, seconds);
    read_stat(runner_first_target(runner), &before);
    int rc = start_workers(runner, seconds, &started, &why);
    if (rc) {
        atomic_store_explicit(&runner->stop, true, memory_order_relaxed);
        pthread_mutex_lock(&runner->lock);
        runner->running -= runner->opened - started;
        pthread_mutex_unlock(&runner->lock);
    }
    wait_workers(runner, label);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(runner->workers[i].thread, NULL);
    if (rc) {
        snprintf(phase->tally.why, sizeof phase->tally.why, "cannot start thread %u: %.200s",
                 started + 1, why.text);
        phase->tally.code = rc;
    } else {
        collect_phase(runner, phase);
    }
    for (uint32_t i = 0; i < started; i++)
        series_fini(&runner->workers[i].series);
    read_stat(runner_first_target(runner), &phase->after);
    phase->held = runner->held;
    phase->server_cpu_ms = phase->after.cpu_ms - before.cpu_ms;
    return atomic_load_explicit(&runner->stop, memory_order_relaxed) ? phase->tally.code : OKV_OK;
}

void phase_fini(struct phase *phase)
{
    series_fini(&phase->series);
}

/* ---- load and run ------------------------------------------------------- */

/* The start of worker `index`'s share of `total`. */
static uint64_t share_start(uint64_t total, uint32_t index, uint32_t workers)
{
    return total / workers * index + (total % workers < index ? total % workers : index);
}

/* Gives each thread its share of `count` records. */
static void share_records(struct runner *runner, uint64_t count)
{
    for (uint32_t i = 0; i < runner->opened; i++) {
        runner->workers[i].next_record = share_start(count, i, runner->opened);
        runner->workers[i].end_record = share_start(count, i + 1, runner->opened);
    }
}

/* Orders one operation for each record of the threads' shares. */
static int run_records(struct runner *runner, const char *label, enum operation each,
                       struct phase *phase)
{
    runner->each = each;
    for (uint32_t i = 0; i < runner->opened; i++) {
        struct worker *worker = &runner->workers[i];
        worker->has_records = true;
        worker->run = (struct loop_run_config){.next = next_of_share,
                                               .user = worker,
                                               .depth = runner_load_depth(runner),
                                               .fails_once = each != OPERATION_PUT};
    }
    return run_phase(runner, label, 0, phase);
}

int runner_look(struct runner *runner, bool *is_there, struct phase *phase)
{
    share_records(runner, 1);
    int rc = run_records(runner, "look", OPERATION_GET, phase);
    *is_there = rc == OKV_OK && phase->tally.key_bytes > 0; /* a get that found it */
    return rc;
}

int runner_load(struct runner *runner, struct phase *phase)
{
    share_records(runner, runner->options->choice.records);
    int rc = run_records(runner, "load", OPERATION_PUT, phase);
    runner->is_loaded = rc == OKV_OK && !interrupted();
    return rc;
}

/* Of a load that failed: the records of each thread before the one that would be next. */
static void share_what_was_loaded(struct runner *runner)
{
    for (uint32_t i = 0; i < runner->opened; i++) {
        struct worker *worker = &runner->workers[i];
        worker->end_record = worker->next_record;
        worker->next_record = share_start(runner->options->choice.records, i, runner->opened);
    }
}

int runner_remove(struct runner *runner, struct phase *phase)
{
    uint64_t count = records_put(runner);

    if (!runner->is_loaded)
        share_what_was_loaded(runner);
    else
        share_records(runner, runner->options->mix[OPERATION_INCR] > 0 ? 2 * count : count);
    atomic_store(&runner->stop, false); /* a phase before it may have failed */
    return run_records(runner, "remove", OPERATION_DELETE, phase);
}

int runner_replay(struct runner *runner, const char *label, struct phase *phase)
{
    atomic_store(&runner->cursor, 0);
    runner->each = OPERATION_GET;
    runner->is_loaded = true; /* the removal: any of the keys may be there */
    runner->held = (struct held){0};
    for (uint32_t i = 0; i < runner->opened; i++) {
        struct worker *worker = &runner->workers[i];
        worker->has_records = true;
        worker->run = (struct loop_run_config){.next = next_of_trace,
                                               .user = runner,
                                               .depth = runner->options->depth,
                                               .stores_misses = true};
    }
    return run_phase(runner, label, 0, phase);
}

int runner_run(struct runner *runner, const char *label, double seconds, uint64_t operations,
               struct phase *phase)
{
    uint32_t get_many = runner->options->get_many;

    for (uint32_t i = 0; i < runner->opened; i++) {
        struct worker *worker = &runner->workers[i];
        worker->has_records = false;
        worker->seconds = seconds;
        worker->operations = operations > 0 ? share_start(operations, i + 1, runner->opened) -
                                                  share_start(operations, i, runner->opened)
                                            : UINT64_MAX;
        worker->run =
            (struct loop_run_config){.next = schedule_next,
                                     .user = &worker->schedule,
                                     .depth = get_many > 0 ? get_many : runner->options->depth,
                                     .batches = get_many > 0};
    }
    /* Late operations of an open loop take more seconds than these. */
    return run_phase(runner, label, runner->plan.distance_ns > 0 ? 0 : (uint32_t)ceil(seconds),
                     phase);
}
