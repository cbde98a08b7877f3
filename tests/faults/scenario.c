#include "tests/faults/scenario.h"

#include <okv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "tests/faults/inject.h"
#include "tests/faults/serving.h"
#include "tests/support/pace.h"

#define LONG_VALUE 60000u
#define MIDDLE_VALUE 1500u
#define SMALL_VALUE 40u
#define BATCH 12u
/* Items that make the index grow, and shrink when they go; the model knows nothing of them. */
#define FILLING 320u
#define FILLING_VALUE 140u
#define DEPTH 32u
/* Runs in which the server gives up take this long; in the guest all is slower. */
#define TIMEOUT_LOCAL_MS pace_ms(800)
#define TIMEOUT_RDMA_MS pace_ms(2000)
#define KEEPALIVE_MS pace_ms(600)
/* Results that one injected failure may spoil: as many as are under way together, and that of the
 * next call, which is told that the handle failed. */
#define FAILED_STEPS_MAX 5u
#define FAILED_OPENS_MAX 2u
/* Pings, 1 ms apart, until a cut is noticed. */
#define CUT_PINGS 2000

/* Keys of the model, by what is done with them. */
enum { SMALL, LONG, COUNTER, TEXT, CONDITION, EXPIRING, GONE, REGISTERED, SECOND, FIRST_OF_BATCH };

struct run {
    const char *uri;
    struct model *model;
    okv *handle;
    unsigned failed_steps;
    unsigned looked_at; /* of these, those after which the handle was looked at */
    unsigned failed_opens;
    uint64_t session;
    char buffer[LONG_VALUE + 4096];
    char value[LONG_VALUE + 4096];
};

static bool is_rdma(const struct run *run)
{
    return strncmp(run->uri, "rdma", 4) == 0;
}

static uint32_t timeout_ms(const struct run *run)
{
    return is_rdma(run) ? TIMEOUT_RDMA_MS : TIMEOUT_LOCAL_MS;
}

/* ---- results ---- */

static bool is_of_handle(int status)
{
    return status == OKV_EDISCONNECTED || status == OKV_ESHUTDOWN || status == OKV_ETIMEDOUT ||
           status == OKV_EIO || status == OKV_ENOMEM || status == OKV_EPERM;
}

/* `status` is not what is expected without failures: it must be one that a failure explains. */
static void excuse(struct run *run, const char *step, int status, bool is_write)
{
    bool listed =
        is_of_handle(status) ||
        (is_write && (status == OKV_EUNKNOWN || status == OKV_EFULL || status == OKV_ERENDEZVOUS));

    if (!atomic_load(&inject->failure.happened) && !serving_has_ended())
        complain("%s: %s without a failure", step, okv_errname(status));
    if (!listed)
        complain("%s: %s is no result of it", step, okv_errname(status));
    if (++run->failed_steps > FAILED_STEPS_MAX && !serving_has_ended())
        complain("%s: %s; one failure, and %u steps failed", step, okv_errname(status),
                 run->failed_steps);
}

static void expect(struct run *run, const char *step, int status, bool is_write)
{
    if (status)
        excuse(run, step, status, is_write);
}

static void read_result(struct run *run, const char *step, const struct model_item *item,
                        int status, const void *value, size_t length)
{
    if (status == OKV_OK) {
        if (value ? !model_may_be(item, value, length) : !model_may_have_length(item, length))
            complain("%s: %s has %zu bytes that nobody put there", step, item->key, length);
    } else if (status == OKV_ENOTFOUND) {
        if (!model_may_be_absent(item))
            complain("%s: %s was stored and is not found", step, item->key);
    } else {
        excuse(run, step, status, false);
    }
}

/* ---- opening ---- */

/* A server that cannot go on needs a moment to end its connections and itself. */
static bool server_ends(void)
{
    for (uint64_t end = pace_guard_end(); !serving_has_ended() && okv_clock_ns() < end;)
        usleep(1000);
    return serving_has_ended();
}

/* A listener that failed opens again by itself. */
static void await_listener(void)
{
    uint64_t end = pace_guard_end();

    while (serving_openings() == SERVING_CLOSED && !serving_has_ended() && okv_clock_ns() < end)
        usleep(1000);
    if (serving_openings() == SERVING_CLOSED && !serving_has_ended())
        complain("open: the server's listener stays closed");
}

/* An attempt that met a closed listener says nothing, however many there are: each is refused at
 * once. `openings` is from before this one. */
static void open_failed(struct run *run, int rc, const char *why, unsigned openings)
{
    if (!atomic_load(&inject->failure.happened))
        complain("open: %s without a failure: %s", okv_errname(rc), why);
    if (!is_of_handle(rc) && rc != OKV_EREFUSED && rc != OKV_EPROTO && rc != OKV_ENODEVICE &&
        rc != OKV_EADDRESS)
        complain("open: %s is no result of it: %s", okv_errname(rc), why);
    if (openings == SERVING_CLOSED || serving_openings() != openings)
        await_listener();
    else if (++run->failed_opens > FAILED_OPENS_MAX && !server_ends())
        complain("open: %s: %s; one failure, and %u opens failed", okv_errname(rc), why,
                 run->failed_opens);
}

static void open_handle(struct run *run)
{
    const struct okv_options options = {.keepalive_ms = KEEPALIVE_MS,
                                        .connect_timeout_ms = timeout_ms(run),
                                        .timeout_ms = timeout_ms(run),
                                        .hints = 16,
                                        .depth = DEPTH};
    char why[512] = "";

    while (!run->handle && !serving_has_ended()) {
        unsigned openings = serving_openings();
        int rc = okv_open(run->uri, &options, &run->handle, why, sizeof why);
        if (rc == OKV_OK)
            return;
        if (run->handle || why[0] == 0)
            complain("open: %s, %s", okv_errname(rc), run->handle ? "with a handle" : "no reason");
        if (!serving_has_ended())
            open_failed(run, rc, why, openings);
    }
}

/* Another handle, when this one is of no use any more: after a step that failed. */
static void reopen_failed(struct run *run)
{
    if (run->handle && run->failed_steps > run->looked_at) {
        run->looked_at = run->failed_steps;
        int rc = okv_ping(run->handle);
        if (rc && rc != OKV_ETIMEDOUT && !is_of_handle(rc) && rc != OKV_EPROTO)
            complain("ping: %s is no failure of a handle", okv_errname(rc));
        if (rc && !okv_why(run->handle)[0])
            complain("ping: %s, and the handle gives no reason", okv_errname(rc));
        if (rc)
            okv_close(&run->handle);
    }
    open_handle(run);
}

/* ---- steps ---- */

static int put(struct run *run, unsigned key, char fill, uint32_t length,
               const struct okv_put_options *options, uint64_t *version)
{
    struct model_item *item = &run->model->items[key];

    memset(run->value, fill, length);
    int rc = options
                 ? okv_put_with(run->handle, item->key, strlen(item->key), run->value, length,
                                options, version)
                 : okv_put(run->handle, item->key, strlen(item->key), run->value, length, version);
    model_wrote(item, rc, (struct model_state){.present = true, .fill = fill, .length = length});
    return rc;
}

static void get(struct run *run, const char *step, unsigned key)
{
    const struct model_item *item = &run->model->items[key];
    size_t length = 0;
    int rc = okv_get(run->handle, item->key, strlen(item->key), run->buffer, sizeof run->buffer,
                     &length, NULL);

    read_result(run, step, item, rc, run->buffer, length);
}

static void put_small(struct run *run)
{
    expect(run, "put", put(run, SMALL, 'a', SMALL_VALUE, NULL, NULL), true);
}

static void put_long(struct run *run)
{
    expect(run, "put long", put(run, LONG, 'b', LONG_VALUE, NULL, NULL), true);
}

static void put_long_again(struct run *run)
{
    expect(run, "put long again", put(run, LONG, 'c', LONG_VALUE + 1000, NULL, NULL), true);
}

static void put_middle(struct run *run)
{
    expect(run, "put extent", put(run, SECOND, 'd', MIDDLE_VALUE, NULL, NULL), true);
}

static void get_small(struct run *run)
{
    get(run, "get", SMALL);
}

static void get_long(struct run *run)
{
    get(run, "get long", LONG);
    get(run, "get long with a hint", LONG);
}

static void head(struct run *run)
{
    const struct model_item *item = &run->model->items[SMALL];
    struct okv_item_info info = {0};

    int rc = okv_head(run->handle, item->key, strlen(item->key), &info);
    read_result(run, "head", item, rc, NULL, info.length);
}

static void get_many(struct run *run)
{
    static const unsigned keys[] = {SMALL, LONG, GONE, SECOND, COUNTER};
    struct okv_command commands[5];
    struct okv_result results[5] = {{0}};
    unsigned count = 5;

    for (unsigned i = 0; i < count; i++) {
        const struct model_item *item = &run->model->items[keys[i]];
        commands[i] = (struct okv_command){
            .kind = OKV_HEAD, .key = item->key, .key_length = strlen(item->key)};
    }
    int rc = okv_call_many(run->handle, commands, results, count);
    if (rc) {
        excuse(run, "get_many", rc, false);
        return;
    }
    for (unsigned i = 0; i < count; i++)
        read_result(run, "get_many", &run->model->items[keys[i]], results[i].status, NULL,
                    results[i].length);
}

static void incr(struct run *run)
{
    struct model_item *item = &run->model->items[COUNTER];
    int64_t sum = 0;

    int rc = okv_incr(run->handle, item->key, strlen(item->key), 7, &sum, NULL);
    if (!model_counted(item, rc, 7, sum))
        complain("incr: the sum is %lld, counted twice or not at all", (long long)sum);
    expect(run, "incr", rc, true);
}

static void append(struct run *run)
{
    struct model_item *item = &run->model->items[TEXT];
    size_t whole = 0;

    memset(run->value, 't', 100);
    int rc = okv_append(run->handle, item->key, strlen(item->key), run->value, 100, &whole, NULL);
    if (!model_appended(item, rc, 't', 100, whole))
        complain("append: %zu bytes, appended twice or not at all", whole);
    expect(run, "append", rc, true);
}

static void put_if_version(struct run *run)
{
    struct model_item *item = &run->model->items[CONDITION];
    struct okv_put_options options = {.flags = OKV_IF_ABSENT};
    uint64_t version = 0;

    int rc = put(run, CONDITION, 'e', SMALL_VALUE, &options, &version);
    expect(run, "put if absent", rc, true);
    if (rc)
        return;
    options = (struct okv_put_options){.flags = OKV_IF_VERSION, .version = version};
    rc = put(run, CONDITION, 'f', SMALL_VALUE, &options, &version);
    expect(run, "put if version", rc, true);
    if (rc)
        return;
    rc = okv_delete_if(run->handle, item->key, strlen(item->key), version);
    model_wrote(item, rc, (struct model_state){.present = false});
    expect(run, "delete if version", rc, true);
}

static void put_expiring(struct run *run)
{
    const struct okv_put_options options = {.flags = OKV_WITH_TTL, .ttl_ms = 3600000};
    struct model_item *item = &run->model->items[EXPIRING];

    int rc = put(run, EXPIRING, 'g', SMALL_VALUE, &options, NULL);
    expect(run, "put with ttl", rc, true);
    if (rc)
        return;
    rc = okv_touch(run->handle, item->key, strlen(item->key), OKV_TTL_NONE, NULL);
    expect(run, "touch", rc, true);
}

static void delete (struct run *run)
{
    struct model_item *item = &run->model->items[GONE];
    int rc = put(run, GONE, 'h', SMALL_VALUE, NULL, NULL);

    expect(run, "put", rc, true);
    if (rc)
        return;
    rc = okv_delete(run->handle, item->key, strlen(item->key));
    model_wrote(item, rc, (struct model_state){.present = false});
    expect(run, "delete", rc, true);
}

static int visit(void *user, const struct okv_item *shown)
{
    struct run *run = user;

    for (unsigned i = 0; i < MODEL_KEYS; i++) {
        const struct model_item *item = &run->model->items[i];
        if (shown->key_length != strlen(item->key) ||
            memcmp(shown->key, item->key, shown->key_length))
            continue;
        if (!model_may_be(item, shown->value, shown->value_length))
            complain("scan: %s has %zu bytes that nobody put there", item->key,
                     shown->value_length);
        return 0;
    }
    if (shown->key_length > 5 && memcmp(shown->key, "fill-", 5) == 0)
        return 0;
    complain("scan: a key that nobody put there");
}

static void scan(struct run *run)
{
    expect(run, "scan", okv_scan(run->handle, visit, run), false);
}

static void stat_server(struct run *run)
{
    size_t length;

    expect(run, "stat", okv_stat(run->handle, run->buffer, sizeof run->buffer, &length), false);
}

static void ping(struct run *run)
{
    expect(run, "ping", okv_ping(run->handle), false);
}

static void bench_read(struct run *run)
{
    uint64_t latencies[4];

    expect(run, "bench_read", okv_bench_read(run->handle, 64, 4, 2, latencies, NULL), false);
}

static void get_registered(struct run *run)
{
    okv_registration *memory = NULL;
    int rc = okv_register(run->handle, run->buffer, sizeof run->buffer, &memory);

    expect(run, "register", rc, false);
    if (rc)
        return;
    get(run, "get registered", LONG);
    okv_unregister(run->handle, &memory);
}

static void batch_result(struct run *run, const struct okv_result *result, char *values)
{
    unsigned index = (unsigned)result->tag / 2;
    struct model_item *item = &run->model->items[FIRST_OF_BATCH + index];

    if (index >= BATCH)
        complain("poll: a tag that was not given");
    if (result->tag % 2 == 0) {
        model_wrote(item, result->status,
                    (struct model_state){.present = true, .fill = 'k', .length = 400});
        expect(run, "submitted put", result->status, true);
    } else {
        read_result(run, "submitted get", item, result->status, values + 400 * index,
                    result->length);
    }
}

/* Waits for all that was submitted; every one must have a result. */
static unsigned collect(struct run *run, unsigned count, char *values)
{
    struct okv_result results[4];
    unsigned done = 0;

    while (done < count) {
        expect(run, "arm", okv_arm(run->handle), false);
        int got = okv_poll(run->handle, results, 4);
        if (got < 0)
            complain("poll: %s, and %u results are missing", okv_errname(got), count - done);
        for (int i = 0; i < got; i++)
            batch_result(run, &results[i], values);
        done += (unsigned)got;
        if (got == 0 && okv_wait(run->handle, 2 * (int)timeout_ms(run)) == OKV_ETIMEDOUT)
            complain("wait: %u results do not come", count - done);
    }
    return done;
}

/* Puts, then gets, of BATCH items. */
static void submit(struct run *run, unsigned what)
{
    char *values = run->buffer;

    memset(run->value, 'k', 400);
    for (unsigned next = 0; next < BATCH;) {
        struct okv_command commands[4];
        size_t accepted = 0;
        for (unsigned i = 0; i < 4; i++) {
            const struct model_item *item = &run->model->items[FIRST_OF_BATCH + next + i];
            commands[i] = (struct okv_command){.kind = what ? OKV_GET : OKV_PUT,
                                               .tag = 2 * (next + i) + what,
                                               .key = item->key,
                                               .key_length = strlen(item->key)};
            commands[i].value = what ? NULL : run->value;
            commands[i].value_length = what ? 0 : 400;
            commands[i].buffer = what ? values + 400 * (next + i) : NULL;
            commands[i].buffer_size = what ? 400 : 0;
        }
        expect(run, "submit", okv_submit(run->handle, commands, 4, &accepted), true);
        collect(run, (unsigned)accepted, values);
        next += 4;
    }
}

static void submit_puts(struct run *run)
{
    submit(run, 0);
}

static void submit_gets(struct run *run)
{
    submit(run, 1);
}

/* Collects until at most `left` are under way. */
static void collect_filling(struct run *run, unsigned *failed, uint32_t left)
{
    struct okv_result results[DEPTH];

    while (okv_pending(run->handle) > left) {
        int got = okv_poll(run->handle, results, (int)DEPTH);
        if (got < 0)
            complain("poll: %s, and results are missing", okv_errname(got));
        for (int i = 0; i < got; i++)
            *failed += results[i].status != OKV_OK;
        if (got == 0 && okv_wait(run->handle, 2 * (int)timeout_ms(run)) == OKV_ETIMEDOUT)
            complain("wait: results do not come");
    }
}

static void fill(struct run *run)
{
    char keys[FILLING][12];
    unsigned failed = 0;
    int rc = OKV_OK;

    memset(run->value, 0x66, FILLING_VALUE);

    for (unsigned i = 0; i < FILLING && rc == OKV_OK && failed == 0; i++) {
        snprintf(keys[i], sizeof keys[i], "fill-%u", i);
        collect_filling(run, &failed, DEPTH - 1);
        rc = okv_submit_put(run->handle, keys[i], strlen(keys[i]), run->value, FILLING_VALUE, i);
    }
    collect_filling(run, &failed, 0);
    if (rc || failed) {
        if (!atomic_load(&inject->failure.happened) && !serving_has_ended())
            complain("fill: %u puts failed without a failure", failed);
        run->failed_steps++;
    }
}

static void flush(struct run *run)
{
    int rc = okv_flush(run->handle);

    model_flushed(run->model, rc);
    expect(run, "flush", rc, true);
}

/* Whether the handle has another connection than the run knew. */
static bool is_another(struct run *run)
{
    struct okv_info info;

    okv_info(run->handle, &info);
    bool is = run->session && info.session_id != run->session;
    run->session = info.session_id;
    return is;
}

/* Ends the connection under the handle, which makes another. */
static void cut(struct run *run)
{
    is_another(run);
    if (is_rdma(run))
        inject_cut_verbs();
    else
        inject_cut_local();
    for (int i = 0; i < CUT_PINGS && !is_another(run); i++) {
        int rc = okv_ping(run->handle);
        expect(run, "ping after a cut", rc, false);
        if (rc)
            return;
        usleep(1000);
    }
}

static void (*const steps[])(struct run *run) = {
    put_small, put_long,       get_small,      get_long,    head,       get_many,   incr,
    append,    put_if_version, put_expiring,   delete,      scan,       put_middle, stat_server,
    ping,      get_registered, submit_puts,    submit_gets, bench_read, cut,        get_long,
    incr,      append,         put_long_again, get_long,    fill,       flush,      put_small,
    put_long,  incr,           submit_puts,    scan,
};

void scenario_run(const char *uri, struct model *model)
{
    struct run *run = calloc(1, sizeof *run);

    if (!run)
        complain("no memory for a run");
    run->uri = uri;
    run->model = model;
    inject_watch(true);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        reopen_failed(run);
        if (!run->handle || serving_has_ended())
            break;
        steps[i](run);
    }
    okv_close(&run->handle);
    inject_watch(false);
    free(run);
}

void scenario_verify(const char *uri, const struct model *model)
{
    struct run *run = calloc(1, sizeof *run);

    if (!run)
        complain("no memory for a run");
    run->uri = uri;
    run->model = (struct model *)model;
    for (unsigned i = 0; i < MODEL_KEYS; i++) {
        reopen_failed(run);
        if (!run->handle)
            break;
        get(run, "get of another client", i);
    }
    okv_close(&run->handle);
    free(run);
}
