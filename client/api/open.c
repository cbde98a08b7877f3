/* Opening and closing a handle; information about its server. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "client/api/argument_error.h"
#include "client/api/engine_ops.h"
#include "client/connection/goodbye.h"
#include "client/connection/hits.h"
#include "client/connection/identity.h"
#include "client/connection/lease.h"
#include "client/connection/reconnect.h"
#include "client/connection/report.h"
#include "client/connection/servers.h"
#include "client/connection/wait.h"
#include "client/engine/event_fd.h"
#include "client/engine/memory.h"
#include "client/engine/operation.h"
#include "client/get/hints.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

#define DEFAULT_CONNECT_TIMEOUT_MS 3000
#define DEFAULT_TIMEOUT_MS 5000
#define DEFAULT_DEPTH 32
#define DEFAULT_CREDITS 16
#define DEFAULT_HINTS 8192
#define DEFAULT_KEEPALIVE_MS 3000
#define DEFAULT_REPORT_MS 10000
#define REPORT_MIN_MS 100
#define REPORT_MAX_MS 600000
#define HINTS_MAX (1u << 20)
#define KEEPALIVE_MIN_MS 200
#define KEEPALIVE_MAX_MS 600000

const char *okv_strerror(int code)
{
    return okv_error_text(code);
}

const char *okv_errname(int code)
{
    return okv_error_name(code);
}

const char *okv_version(void)
{
    return OKV_VERSION;
}

const char *okv_transports(void)
{
    return okv_transport_names();
}

/* Writes the sentence about an invalid option. */
static int option_wrong(struct okv_diag *why, const char *name, uint32_t value, const char *right)
{
    return okv_diag_set(why, OKV_EINVAL, "options->%s: %u is not %s", name, value, right);
}

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

static int options_check(const struct okv_options *options, struct okv_diag *why)
{
    static const struct okv_options none;

    if (options->depth > OKV_DEPTH_MAX_OPERATIONS)
        return option_wrong(why, "depth", options->depth, "1 to " TEXT(OKV_DEPTH_MAX_OPERATIONS));
    if (options->credits > OKV_CREDITS_MAX)
        return option_wrong(why, "credits", options->credits, "1 to " TEXT(OKV_CREDITS_MAX));
    if (options->hints > HINTS_MAX && options->hints != OKV_HINTS_NONE)
        return option_wrong(why, "hints", options->hints, "1 to 2^20, nor OKV_HINTS_NONE");
    if (options->reconnect > OKV_RECONNECT_IF_KEPT)
        return option_wrong(why, "reconnect", options->reconnect,
                            "0, nor OKV_RECONNECT_NEVER or OKV_RECONNECT_IF_KEPT");
    if (options->keepalive_ms != OKV_KEEPALIVE_NONE &&
        (options->keepalive_ms < KEEPALIVE_MIN_MS || options->keepalive_ms > KEEPALIVE_MAX_MS))
        return option_wrong(
            why, "keepalive_ms", options->keepalive_ms,
            TEXT(KEEPALIVE_MIN_MS) " to " TEXT(KEEPALIVE_MAX_MS) ", nor OKV_KEEPALIVE_NONE");
    if (options->report_ms != OKV_REPORT_NONE &&
        (options->report_ms < REPORT_MIN_MS || options->report_ms > REPORT_MAX_MS))
        return option_wrong(why, "report_ms", options->report_ms,
                            TEXT(REPORT_MIN_MS) " to " TEXT(REPORT_MAX_MS) ", nor OKV_REPORT_NONE");
    if (options->observe > 1)
        return option_wrong(why, "observe", options->observe, "0 or 1");
    if (memcmp(options->reserved, none.reserved, sizeof none.reserved) != 0)
        return okv_diag_set(why, OKV_EINVAL, "options->reserved: it is not zero");
    return 0;
}

static int options_apply(const struct okv_options *given, struct okv_options *out,
                         struct okv_diag *why)
{
    static const struct okv_options none;

    *out = given ? *given : none;
    if (out->connect_timeout_ms == 0)
        out->connect_timeout_ms = DEFAULT_CONNECT_TIMEOUT_MS;
    if (out->timeout_ms == 0)
        out->timeout_ms = DEFAULT_TIMEOUT_MS;
    if (out->depth == 0)
        out->depth = DEFAULT_DEPTH;
    if (out->credits == 0)
        out->credits = DEFAULT_CREDITS;
    if (out->hints == 0)
        out->hints = DEFAULT_HINTS;
    if (out->keepalive_ms == 0)
        out->keepalive_ms = DEFAULT_KEEPALIVE_MS;
    if (out->report_ms == 0)
        out->report_ms = DEFAULT_REPORT_MS;
    return options_check(out, why);
}

/* ---- memory of a handle ---- */

static void queues_free(okv *handle)
{
    free(handle->free.slots);
    free(handle->blocked_reads.slots);
    free(handle->blocked_requests.slots);
    free(handle->ended.results);
    free(handle->operations);
    free(handle->order);
    free(handle->request_slots.holders);
    free(handle->request_slots.answered);
    free(handle->request_slots.free);
    free(handle->batch.reads);
    free(handle->hints);
}

static int queues_allocate(okv *handle, const struct okv_options *options)
{
    handle->operations = calloc(handle->slot_count, sizeof *handle->operations);
    handle->free.slots = calloc(handle->slot_count, sizeof *handle->free.slots);
    handle->blocked_reads.slots = calloc(handle->slot_count, sizeof(uint16_t));
    handle->blocked_requests.slots = calloc(handle->slot_count, sizeof(uint16_t));
    handle->ended.results = calloc(handle->depth, sizeof *handle->ended.results);
    handle->order = calloc(handle->slot_count, sizeof *handle->order);
    handle->request_slots.holders = calloc(options->credits, sizeof(struct operation *));
    handle->request_slots.answered =
        calloc(options->credits, sizeof *handle->request_slots.answered);
    handle->request_slots.free = calloc(options->credits, sizeof *handle->request_slots.free);
    if (!handle->operations || !handle->free.slots || !handle->blocked_reads.slots ||
        !handle->blocked_requests.slots || !handle->ended.results || !handle->order ||
        !handle->request_slots.holders || !handle->request_slots.answered ||
        !handle->request_slots.free)
        return OKV_ENOMEM;
    for (uint32_t i = 0; i < handle->slot_count; i++) {
        handle->operations[i].index = (uint16_t)i;
        operation_release(handle, &handle->operations[i]);
    }
    return 0;
}

/* ---- connecting ---- */

static int link_init(okv *handle, const char *uri, const struct okv_options *options)
{
    struct link *link = &handle->link;

    link->state = LINK_CLOSING;
    link->never = options->reconnect == OKV_RECONNECT_NEVER;
    link->if_kept = options->reconnect == OKV_RECONNECT_IF_KEPT;
    link->credits = options->credits;
    link->connect_timeout_ns = (uint64_t)options->connect_timeout_ms * 1000000u;
    link->observes = options->observe;
    if (options->keepalive_ms != OKV_KEEPALIVE_NONE)
        handle->keepalive.period_ns = (uint64_t)options->keepalive_ms * 1000000u;
    /* Spreads pauses and clients: it must not reveal anything of the client id. */
    link->random = (okv_clock_ns() ^ (uint64_t)(uintptr_t)handle) | 1;
    int rc = servers_init(handle, uri, options);
    if (rc == 0)
        rc = identity_init(handle, options);
    if (rc)
        return rc;
    handle->transport = okv_transport_for(link->uri.scheme);
    if (getrandom(link->client_id, sizeof link->client_id, 0) != sizeof link->client_id)
        return okv_diag_set(&handle->why, OKV_EIO, "no random bytes for a client id: %s",
                            strerror(errno));
    report_init(handle, options->report_ms == OKV_REPORT_NONE
                            ? 0
                            : (uint64_t)options->report_ms * 1000000u);
    return event_fd_create(handle);
}

static int handle_connect(okv *handle, const char *uri, const struct okv_options *options)
{
    int rc = link_init(handle, uri, options);

    if (rc)
        return rc;
    if (options->hints != OKV_HINTS_NONE && hints_create(handle, options->hints))
        return okv_diag_set(&handle->why, OKV_ENOMEM, "no memory for %u hints", options->hints);
    return link_open(handle);
}

static void parts_free(okv *handle)
{
    event_fd_destroy(handle);
    queues_free(handle);
    identity_fini(handle);
    hits_fini(handle);
    servers_fini(handle);
    mark_destroy(handle);
    free(handle);
}

static void handle_free(okv *handle)
{
    if (handle->transport)
        link_drop(handle);
    memory_destroy(handle);
    parts_free(handle);
}

/* In a child: connection, registrations and what the transport has are its parent's. */
static void handle_abandon(okv *handle)
{
    memory_abandon(handle);
    parts_free(handle);
}

/* Writes the sentence, or the code's text when there is none, and returns the code. */
static int explain(const char *sentence, int code, char *why, size_t why_size)
{
    if (why && why_size > 0)
        snprintf(why, why_size, "%s",
                 sentence[0] || code == OKV_OK ? sentence : okv_error_text(code));
    return code;
}

int okv_open(const char *uri, const struct okv_options *given, okv **out, char *why,
             size_t why_size)
{
    struct okv_options options;

    if (out)
        *out = NULL;
    if (!uri || !out)
        return explain(uri ? "out: it is NULL" : "uri: it is NULL", OKV_EINVAL, why, why_size);
    okv *handle = calloc(1, sizeof *handle);
    if (!handle)
        return explain("", OKV_ENOMEM, why, why_size);
    handle->ops = &client_engine_ops;
    handle->event_fd = (struct event_fd){
        .epoll = -1, .timer = -1, .wanted = -1, .watched = -1, .timer_ns = EVENT_FD_OFF};

    int rc = options_apply(given, &options, &handle->why);
    if (rc)
        goto free_handle;
    handle->log.tell = options.log;
    handle->log.user = options.log_user;
    handle->depth = options.depth;
    handle->slot_count = options.depth + options.credits;
    handle->earliest_deadline_ns = UINT64_MAX;
    handle->next_sequence = 1;
    rc = queues_allocate(handle, &options);
    if (rc == 0)
        rc = mark_create(handle);
    if (rc)
        goto free_handle;
    rc = handle_connect(handle, uri, &options);
    if (rc)
        goto free_handle;
    handle->timeout_ns = (uint64_t)options.timeout_ms * 1000000u;
    handle->begun_ns = handle->link.up_since_ns;
    handle->why.text[0] = '\0'; /* an attempt that failed before this one left its sentence */
    handle->counters = (struct okv_counters){0};
    report_forget(handle);
    *out = handle;
    explain("", OKV_OK, why, why_size);
    return 0;

free_handle:
    explain(handle->why.text, rc, why, why_size);
    handle_free(handle);
    return rc;
}

void okv_close(okv **handle)
{
    if (!handle || !*handle)
        return;
    if (handle_is_inherited(*handle)) {
        handle_abandon(*handle);
    } else {
        if (call_enter(*handle, __func__))
            return;
        goodbye_send(*handle);
        handle_free(*handle);
    }
    *handle = NULL;
}

const char *okv_why(const okv *handle)
{
    const char *refusal = call_refusal(handle);

    if (refusal)
        return refusal;
    if (handle->argument_error.text[0] != '\0' && handle->argument_error_at == call_count(handle))
        return handle->argument_error.text;
    return handle->why.text;
}

/* ---- structures that grow: the caller's may be older or newer than ours ---- */

static void copy_known(void *out, size_t size, const void *known, size_t known_size)
{
    size_t common = size < known_size ? size : known_size;

    memcpy(out, known, common);
    memset((uint8_t *)out + common, 0, size - common);
}

void okv_info_sized(const okv *handle, struct okv_info *out, size_t size)
{
    struct okv_info info = {.transport = "", .path = "", .uri = ""};

    if (call_may_look(handle, "okv_info"))
        info = (struct okv_info){
            .transport = handle->transport->name,
            .path = handle->how,
            .boot_id = handle->table.boot_id,
            .session_id = handle->table.session_id,
            .region_bytes = handle->table.region_length,
            .buckets = handle->bucket_count,
            .bucket_bytes = handle->table.bucket_size,
            .max_value = handle->table.max_value,
            .credits = handle->table.credits,
            .depth = handle->depth,
            .max_message_value = okv_slot_value_max(handle->table.slot_size),
            .one_sided = handle->is_one_sided,
            .uri = handle->server,
            .epoch = handle->table.epoch,
            .lease_ms = lease_left_ms(handle),
        };

    copy_known(out, size, &info, sizeof info);
}

void okv_counters_sized(const okv *handle, struct okv_counters *out, size_t size)
{
    static const struct okv_counters none;
    bool may = call_may_look(handle, "okv_counters");

    copy_known(out, size, may ? &handle->counters : &none, sizeof none);
}
