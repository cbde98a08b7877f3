#include "tests/support/handle_calls.h"

#include <okv_admin.h>
#include <stdbool.h>
#include <string.h>

static char memory[64];
static const struct okv_command a_get = {
    .kind = OKV_GET, .key = "key", .key_length = 3, .buffer = memory, .buffer_size = sizeof memory};
static const struct okv_put_options no_options;

static int visit(void *user, const struct okv_item *item)
{
    (void)user, (void)item;
    return 0;
}

/* The results of a call that was refused are of no interest. */
static size_t length;
static uint64_t cursor, latency;
static struct okv_result result;
static okv_registration *registered;

#define CALL(name, expression)     \
    static int make_##name(okv *h) \
    {                              \
        return expression;         \
    }

CALL(get, okv_get(h, "key", 3, memory, sizeof memory, &length, NULL))
CALL(get_range, okv_get_range(h, "key", 3, 0, memory, sizeof memory, &length, NULL))
CALL(head, okv_head(h, "key", 3, NULL))
CALL(put, okv_put(h, "key", 3, "v", 1, NULL))
CALL(put_with, okv_put_with(h, "key", 3, "v", 1, &no_options, NULL))
CALL(delete, okv_delete(h, "key", 3))
CALL(delete_if, okv_delete_if(h, "key", 3, 1))
CALL(incr, okv_incr(h, "n", 1, 1, NULL, NULL))
CALL(incr_ttl, okv_incr_ttl(h, "n", 1, 1, 1000, NULL, NULL))
CALL(append, okv_append(h, "key", 3, "v", 1, NULL, NULL))
CALL(touch, okv_touch(h, "key", 3, OKV_TTL_NONE, NULL))
CALL(get_touch, okv_get_touch(h, "key", 3, OKV_TTL_NONE, memory, sizeof memory, &length, NULL))
CALL(flush, okv_flush(h))
CALL(ping, okv_ping(h))
CALL(stat, okv_stat(h, memory, sizeof memory, &length))
CALL(admin, okv_admin(h, "databases", memory, sizeof memory, &length))
CALL(scan, okv_scan(h, visit, NULL))
CALL(scan_from, okv_scan_from(h, &cursor, visit, NULL))
CALL(submit, okv_submit(h, &a_get, 1, NULL))
CALL(submit_get, okv_submit_get(h, "key", 3, memory, sizeof memory, 0))
CALL(submit_put, okv_submit_put(h, "key", 3, "v", 1, 0))
CALL(submit_delete, okv_submit_delete(h, "key", 3, 0))
CALL(submit_ping, okv_submit_ping(h, 0))
CALL(call, okv_call(h, &a_get, &result))
CALL(call_many, okv_call_many(h, &a_get, &result, 1))
CALL(poll, okv_poll(h, &result, 1))
CALL(wait, okv_wait(h, 0))
CALL(arm, okv_arm(h))
CALL(fd, okv_fd(h))
CALL(pending, okv_pending(h) == 0 ? OKV_EINVAL : OKV_OK)
CALL(bench_read, okv_bench_read(h, 1, 1, 1, &latency, NULL))
CALL(register, okv_register(h, memory, sizeof memory, &registered))
CALL(why, okv_why(h)[0] ? OKV_EINVAL : OKV_OK)

static int make_info_sized(okv *h)
{
    struct okv_info info;

    okv_info(h, &info);
    return info.boot_id == 0 && strcmp(info.transport, "") == 0 && strcmp(info.path, "") == 0
               ? OKV_EINVAL
               : OKV_OK;
}

static int make_counters_sized(okv *h)
{
    static const struct okv_counters none;
    struct okv_counters counters;

    okv_counters(h, &counters);
    return memcmp(&counters, &none, sizeof none) == 0 ? OKV_EINVAL : OKV_OK;
}

/* What it does not look at stays. */
static int make_unregister(okv *h)
{
    okv_registration *kept = (okv_registration *)memory;

    okv_unregister(h, &kept);
    return kept ? OKV_EINVAL : OKV_OK;
}

/* In a child it frees the handle. */
static int make_close(okv *h)
{
    okv *kept = h;

    okv_close(&kept);
    return kept ? OKV_EINVAL : OKV_OK;
}

#define LISTED(name)              \
    {                             \
        "okv_" #name, make_##name \
    }

/* okv_why() comes first: it names the last call that was refused, itself if there is none. */
const struct handle_call handle_calls[] = {
    LISTED(why),        LISTED(get),        LISTED(get_range),     LISTED(head),
    LISTED(put),        LISTED(put_with),   LISTED(delete),        LISTED(delete_if),
    LISTED(incr),       LISTED(incr_ttl),   LISTED(append),        LISTED(touch),
    LISTED(get_touch),  LISTED(flush),      LISTED(ping),          LISTED(stat),
    LISTED(admin),      LISTED(scan),       LISTED(scan_from),     LISTED(submit),
    LISTED(submit_get), LISTED(submit_put), LISTED(submit_delete), LISTED(submit_ping),
    LISTED(call),       LISTED(call_many),  LISTED(poll),          LISTED(wait),
    LISTED(arm),        LISTED(fd),         LISTED(pending),       LISTED(bench_read),
    LISTED(register),   LISTED(unregister), LISTED(info_sized),    LISTED(counters_sized),
    LISTED(close),      {NULL, NULL},
};

/* okv_info() and okv_counters() are inline, and give their own names. */
static bool is_of(const char *sentence, const char *name)
{
    size_t word = strcspn(sentence, ":");

    return word > strlen("okv_") && strncmp(sentence, name, word) == 0;
}

const char *handle_calls_accepted(okv *handle, const char *why)
{
    for (const struct handle_call *call = handle_calls; strcmp(call->name, "okv_close"); call++) {
        int rc = call->make(handle);
        const char *sentence = okv_why(handle);
        if (rc != OKV_EINVAL || !is_of(sentence, call->name) || !strstr(sentence, why))
            return call->name;
    }
    return NULL;
}
