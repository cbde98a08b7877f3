/* Connecting to a server, and what is known of it from then on. */
#include "client/handle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "shared/clock.h"
#include "shared/error.h"
#include "shared/superblock.h"

#define DEFAULT_CONNECT_TIMEOUT_MS 3000
#define DEFAULT_TIMEOUT_MS 5000
#define DEFAULT_DEPTH 32
#define DEFAULT_CREDITS 16
#define DEFAULT_HINTS 4096
#define HINTS_MAX (1u << 20)

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
    if (out->depth > OKV_DEPTH_MAX_OPERATIONS || out->credits > OKV_CREDITS_MAX)
        return okv_diag_set(why, OKV_EINVAL, "depth and credits are limited to %d and %d",
                            OKV_DEPTH_MAX_OPERATIONS, OKV_CREDITS_MAX);
    if (out->hints > HINTS_MAX && out->hints != OKV_HINTS_NONE)
        return okv_diag_set(why, OKV_EINVAL, "hints are limited to %u", HINTS_MAX);
    if (memcmp(out->reserved, none.reserved, sizeof none.reserved) != 0)
        return okv_diag_set(why, OKV_EINVAL, "the reserved fields of the options must be zero");
    return 0;
}

/* ---- memory of a handle ---- */

static void queues_free(okv *handle)
{
    free(handle->free.slots);
    free(handle->blocked_reads.slots);
    free(handle->blocked_requests.slots);
    free(handle->ended.results);
    free(handle->operations);
    free(handle->batch.reads);
    free(handle->hints);
}

static int queues_allocate(okv *handle)
{
    handle->operations = calloc(handle->slot_count, sizeof *handle->operations);
    handle->free.slots = calloc(handle->slot_count, sizeof *handle->free.slots);
    handle->blocked_reads.slots = calloc(handle->slot_count, sizeof(uint16_t));
    handle->blocked_requests.slots = calloc(handle->slot_count, sizeof(uint16_t));
    handle->ended.results = calloc(handle->depth, sizeof *handle->ended.results);
    if (!handle->operations || !handle->free.slots || !handle->blocked_reads.slots ||
        !handle->blocked_requests.slots || !handle->ended.results)
        return OKV_ENOMEM;
    return 0;
}

/* ---- the handshake ---- */

/* What the server said instead of a welcome. */
static int rejection_explain(const struct okv_welcome *answer, const char *uri,
                             struct okv_diag *why)
{
    struct okv_reject reject;

    if (!answer->rejected)
        return OKV_EREFUSED;
    if (okv_reject_decode(answer->bytes, answer->length, &reject))
        return okv_diag_set(why, OKV_EPROTO,
                            "what listens at %s refused in a way that is not okv's: is it "
                            "okv-server?",
                            uri);
    if (reject.reason == OKV_REJECT_VERSION)
        return okv_diag_set(why, OKV_EVERSION, "%s: %s (it speaks %u, this client %u)", uri,
                            okv_reject_text(reject.reason), reject.version, OKV_WIRE_VERSION);
    return okv_diag_set(why, okv_reject_code(reject.reason), "%s: %s", uri,
                        okv_reject_text(reject.reason));
}

static int say_hello(okv *handle, const char *uri_text, const struct okv_options *options,
                     uint64_t deadline_ns, struct okv_welcome *answer)
{
    struct okv_uri uri;
    struct okv_hello hello = {
        .slot_size = OKV_SLOT_SIZE_DEFAULT,
        .credits = options->credits,
    };
    struct okv_wire_hello bytes;

    int rc = okv_uri_parse(uri_text, &uri, &handle->why);
    if (rc)
        return rc;
    handle->transport = okv_transport_for(uri.scheme);
    if (getrandom(hello.client_id, sizeof hello.client_id, 0) != sizeof hello.client_id)
        return okv_diag_set(&handle->why, OKV_EIO, "no random bytes for a client id: %s",
                            strerror(errno));
    okv_hello_encode(&hello, &bytes);
    struct okv_connect_params params = {
        .hello = (const uint8_t *)&bytes,
        .hello_length = sizeof bytes,
        .limits = {.slot_size = hello.slot_size, .credits = options->credits},
        .deadline_ns = deadline_ns,
    };
    rc = handle->transport->connect(&uri, &params, answer, &handle->conn, &handle->why);
    return rc == OKV_EREFUSED ? rejection_explain(answer, uri_text, &handle->why) : rc;
}

static int read_welcome(okv *handle, const char *uri, const struct okv_options *options,
                        const struct okv_welcome *answer)
{
    struct okv_welcome_fields *table = &handle->table;
    int rc = okv_welcome_decode(answer->bytes, answer->length, table);

    if (rc == OKV_EVERSION)
        return okv_diag_set(&handle->why, rc, "%s speaks another protocol version than this client",
                            uri);
    if (rc || table->credits > options->credits || table->slot_size > OKV_SLOT_SIZE_DEFAULT)
        return okv_diag_set(&handle->why, OKV_EPROTO, "%s sent a welcome that makes no sense", uri);
    rc = handle->transport->set_remote(handle->conn, table->region_address, table->region_length,
                                       table->rkey);
    if (rc)
        return okv_diag_set(&handle->why, rc, "%s described a region that is not there", uri);
    handle->bucket_count = table->bucket_count;
    clock_sample(handle, table->clock_ms);
    handle->credits = table->credits;
    return 0;
}

/* A first READ shows that one-sided reads work, and that they reach this server's table. */
static int verify_table(okv *handle, const char *uri)
{
    const struct okv_welcome_fields *table = &handle->table;
    struct okv_superblock block;
    _Static_assert(sizeof(struct okv_wire_superblock) <= OKV_DIRECTORY_SIZE,
                   "the staging buffer takes the superblock");

    int rc =
        raw_read(handle, 0, handle->staging, handle->memory, sizeof(struct okv_wire_superblock));
    if (rc)
        return okv_diag_set(&handle->why, rc, "connected to %s, but a first READ failed: %s", uri,
                            okv_error_text(rc));
    rc = okv_superblock_decode(handle->staging, sizeof(struct okv_wire_superblock), &block);
    if (rc == OKV_EVERSION)
        return okv_diag_set(&handle->why, rc, "%s has a table of another format version", uri);
    if (rc || block.boot_id != table->boot_id || block.region_length != table->region_length ||
        block.hash_seed != table->hash_seed || block.bucket_size != table->bucket_size ||
        block.directory_offset != table->directory_offset ||
        block.segment_buckets != table->segment_buckets)
        return okv_diag_set(&handle->why, OKV_EPROTO,
                            "%s described another table than the one that was read", uri);
    return 0;
}

/* Limits the next raw READ. */
static void timeout_at(okv *handle, uint64_t deadline_ns)
{
    uint64_t now = okv_clock_ns();

    handle->timeout_ns = deadline_ns > now ? deadline_ns - now : 1;
}

/* What depends on what the server granted. */
static int memory_create(okv *handle, const struct okv_options *options)
{
    handle->batch.reads = calloc(handle->conn->max_reads, sizeof *handle->batch.reads);
    if (!handle->batch.reads)
        return okv_diag_set(&handle->why, OKV_ENOMEM, "no memory for a handle");
    if (options->hints != OKV_HINTS_NONE && hints_create(handle, options->hints))
        return okv_diag_set(&handle->why, OKV_ENOMEM, "no memory for %u hints", options->hints);
    int rc = arena_create(handle);
    if (rc)
        return okv_diag_set(&handle->why, rc,
                            "cannot register %zu bytes of buffers: %s; lower the depth or raise "
                            "`ulimit -l`",
                            handle->arena_size, okv_error_text(rc));
    return 0;
}

static int handle_connect(okv *handle, const char *uri, const struct okv_options *options)
{
    struct okv_welcome answer = {.length = 0};
    uint64_t deadline = okv_clock_ns() + (uint64_t)options->connect_timeout_ms * 1000000u;
    int rc = say_hello(handle, uri, options, deadline, &answer);

    if (rc)
        return rc;
    rc = read_welcome(handle, uri, options, &answer);
    if (rc)
        return rc;
    rc = memory_create(handle, options);
    if (rc)
        return rc;
    timeout_at(handle, deadline);
    rc = verify_table(handle, uri);
    if (rc)
        return rc;
    timeout_at(handle, deadline);
    rc = directory_read(handle);
    if (rc)
        return okv_diag_set(&handle->why, rc, "the directory of %s could not be READ: %s", uri,
                            okv_error_text(rc));
    return 0;
}

static void handle_free(okv *handle)
{
    buffers_destroy(handle);
    if (handle->conn)
        handle->transport->conn_destroy(handle->conn);
    queues_free(handle);
    free(handle);
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
        return explain("", OKV_EINVAL, why, why_size);
    okv *handle = calloc(1, sizeof *handle);
    if (!handle)
        return explain("", OKV_ENOMEM, why, why_size);

    int rc = options_apply(given, &options, &handle->why);
    if (rc)
        goto free_handle;
    handle->depth = options.depth;
    handle->slot_count = options.depth + options.credits;
    handle->earliest_deadline_ns = UINT64_MAX;
    handle->next_sequence = 1;
    rc = queues_allocate(handle);
    if (rc)
        goto free_handle;
    rc = handle_connect(handle, uri, &options);
    if (rc)
        goto free_handle;
    handle->timeout_ns = (uint64_t)options.timeout_ms * 1000000u;
    handle->why.text[0] = '\0'; /* an attempt that failed before this one left its sentence */
    handle->counters = (struct okv_counters){0};
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
    handle_free(*handle);
    *handle = NULL;
}

const char *okv_why(const okv *handle)
{
    return handle->why.text;
}

void okv_info(const okv *handle, struct okv_info *out)
{
    *out = (struct okv_info){
        .transport = handle->transport->name,
        .path = handle->conn->how,
        .boot_id = handle->table.boot_id,
        .session_id = handle->table.session_id,
        .region_bytes = handle->table.region_length,
        .buckets = handle->bucket_count,
        .bucket_bytes = handle->table.bucket_size,
        .max_value = handle->table.max_value,
        .credits = handle->table.credits,
        .depth = handle->depth,
        .max_message_value = okv_slot_value_max(handle->table.slot_size),
    };
}

void okv_counters(const okv *handle, struct okv_counters *out)
{
    *out = handle->counters;
}
