#include "bench/load/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/load/runner_state.h"

/* Loading may use a greater depth than the run, as long as its values fit this much memory. */
#define LOAD_DEPTH 16
#define LOAD_BYTES (UINT64_C(256) << 20)
/* The default of libokv. */
#define DEFAULT_CREDITS 16

/* ---- connecting --------------------------------------------------------- */

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The depth of a connection while loading. */
uint32_t runner_load_depth(const struct runner *runner)
{
    const struct options *options = runner->options;
    uint64_t fit =
        LOAD_BYTES / runner->target->threads / options->connections / options->values.high;

    return larger(options->depth, fit < LOAD_DEPTH ? (uint32_t)fit : LOAD_DEPTH);
}

/* The greatest depth that a connection needs. The floor of a batch has as many READs at once. */
static uint32_t target_depth(const struct runner *runner)
{
    const struct options *options = runner->options;
    uint32_t batch = options->floor ? smaller(options->get_many, OKV_DEPTH_MAX_OPERATIONS) : 0;

    return larger(runner_load_depth(runner), batch);
}

static struct target_config config_of(const struct runner *runner)
{
    const struct options *options = runner->options;
    bool deep = options->get_many == 0 && options->depth > DEFAULT_CREDITS;

    return (struct target_config){
        .uri = runner->target->uri,
        .okv = &options->okv,
        .timeout_ms = options->timeout_ms,
        .depth = target_depth(runner),
        .credits = deep ? options->depth : 0,
        .value_bytes = options->values.high,
    };
}

static int open_targets(struct worker *worker, char *why, size_t why_size)
{
    const struct options *options = worker->runner->options;
    const struct target_ops *ops = target_ops_of(worker->runner->target->uri);
    struct target_config config = config_of(worker->runner);

    if (!ops) {
        target_refuse(worker->runner->target->uri, why, why_size);
        return OKV_EURI;
    }
    if (options->get_many > 0 && !ops->get_many) {
        snprintf(why, why_size, "%s has no batches of gets: leave out --get-many", config.uri);
        return OKV_EUNSUPPORTED;
    }
    worker->targets = calloc(options->connections, sizeof(struct target *));
    if (!worker->targets) {
        snprintf(why, why_size, "%s", okv_strerror(OKV_ENOMEM));
        return OKV_ENOMEM;
    }
    for (; worker->target_count < options->connections; worker->target_count++) {
        int rc = ops->open(&config, &worker->targets[worker->target_count], why, why_size);
        if (rc != OKV_OK)
            return rc;
    }
    return OKV_OK;
}

static void worker_fini(struct worker *worker)
{
    for (uint32_t i = 0; i < worker->target_count; i++)
        worker->targets[i]->ops->close(worker->targets[i]);
    loop_destroy(worker->loop);
    free(worker->targets);
}

static int worker_init(struct runner *runner, uint32_t index, char *why, size_t why_size)
{
    const struct options *options = runner->options;
    struct worker *worker = &runner->workers[index];

    worker->runner = runner;
    worker->schedule.plan = &runner->plan;
    worker->schedule.random.state = (options->seed << 16) + index;
    atomic_init(&worker->done, 0);
    int rc = open_targets(worker, why, why_size);
    if (rc != OKV_OK)
        goto fini;

    struct loop_config config = {
        .targets = worker->targets,
        .target_count = worker->target_count,
        .stop = &runner->stop,
        .done = &worker->done,
        .slot_count = larger(runner_load_depth(runner), options->get_many),
        .key_size = options->key_size,
        .values = &options->values,
        .trace = options->trace,
        .inserts = runner->plan.inserts,
        .registered = options->registered,
        .id = (uint16_t)index,
    };
    rc = loop_create(&config, &worker->loop);
    if (rc == OKV_OK)
        return OKV_OK;
    snprintf(why, why_size, "%s", okv_strerror(rc));
fini:
    worker_fini(worker);
    return rc;
}

static void plan_init(struct runner *runner)
{
    const struct options *options = runner->options;

    workload_chooser_init(&runner->chooser, &options->choice);
    inserts_init(&runner->inserts, options->choice.records);
    runner->plan.chooser = &runner->chooser;
    runner->plan.inserts = options->mix[OPERATION_INSERT] > 0 ? &runner->inserts : NULL;
    runner->plan.even = options->even;
    if (options->rate > 0)
        runner->plan.distance_ns = 1e9 / options->rate * runner->target->threads;
    schedule_plan_mix(&runner->plan, options->mix);
}

/* The connection that watches a replay, if the server can say how many items it has. */
static int open_watch(struct runner *runner, char *why, size_t why_size)
{
    const struct target_config config = config_of(runner);
    const struct target_ops *ops = target_ops_of(config.uri);

    return runner->options->trace && ops->stat ? ops->open(&config, &runner->watch, why, why_size)
                                               : OKV_OK;
}

int runner_create(const struct options *options, const struct options_target *target,
                  struct runner **out, char *why, size_t why_size)
{
    struct runner *runner = calloc(1, sizeof *runner);
    int rc = OKV_ENOMEM;

    if (!runner) {
        snprintf(why, why_size, "%s", okv_strerror(rc));
        return rc;
    }
    runner->options = options;
    runner->target = target;
    atomic_init(&runner->stop, false);
    pthread_mutex_init(&runner->lock, NULL);
    pthread_cond_init(&runner->ended, NULL);
    plan_init(runner);
    runner->workers = calloc(target->threads, sizeof *runner->workers);
    if (!runner->workers) {
        snprintf(why, why_size, "%s", okv_strerror(rc));
        goto destroy;
    }
    for (uint32_t i = 0; i < target->threads; i++) {
        rc = worker_init(runner, i, why, why_size);
        if (rc != OKV_OK)
            goto destroy;
        runner->opened++;
    }
    rc = open_watch(runner, why, why_size);
    if (rc != OKV_OK)
        goto destroy;
    *out = runner;
    return OKV_OK;

destroy:
    runner_destroy(runner);
    return rc;
}

void runner_destroy(struct runner *runner)
{
    if (!runner)
        return;
    for (uint32_t i = 0; i < runner->opened; i++)
        worker_fini(&runner->workers[i]);
    if (runner->watch)
        runner->watch->ops->close(runner->watch);
    free(runner->workers);
    pthread_cond_destroy(&runner->ended);
    pthread_mutex_destroy(&runner->lock);
    free(runner);
}

/* ---- what others ask ---------------------------------------------------- */

void runner_info(struct runner *runner, struct target_info *info)
{
    runner_first_target(runner)->ops->info(runner_first_target(runner), info);
}

const struct options *runner_options(const struct runner *runner)
{
    return runner->options;
}

void runner_first(struct runner *runner, struct runner_first *first)
{
    *first = (struct runner_first){.loop = runner->workers[0].loop,
                                   .target = runner_first_target(runner),
                                   .random = &runner->workers[0].schedule.random,
                                   .chooser = &runner->chooser};
}

void runner_counters_add(struct okv_counters *into, const struct okv_counters *after,
                         const struct okv_counters *before)
{
#define ADD_COUNTER(name, text) into->name += after->name - before->name;
    OKV_COUNTER_LIST(ADD_COUNTER)
#undef ADD_COUNTER
}
