/* One attempt to connect, in steps that do not block: hello and welcome, then READs of the
 * superblock and the directory. The READs prove that one-sided access works and reaches the right
 * table. */
#include "client/connection/connect.h"

#include <stdlib.h>
#include <string.h>

#include "client/connection/identity.h"
#include "client/connection/lease_clock.h"
#include "client/connection/servers.h"
#include "client/engine/event_fd.h"
#include "client/engine/memory.h"
#include "client/engine/read_batch.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/format/superblock.h"

/* The limit of an attempt to reconnect. */
#define AGAIN_LIMIT_NS UINT64_C(2000000000)

_Static_assert(sizeof(struct okv_wire_superblock) <= OKV_DIRECTORY_SIZE,
               "the staging buffer takes the superblock");

/* A server that has moved is found by its name: while its last address fails, the name is resolved
 * this often. */
#define NAME_EVERY_NS UINT64_C(10000000000)

_Static_assert(sizeof((struct link *)0)->address >= sizeof((struct okv_conn *)0)->peer,
               "a peer's address fits");

/* The sentence for a rejection. */
static int rejection_explain(const struct okv_answer *answer, const char *uri, struct okv_diag *why)
{
    struct okv_reject reject;

    if (!answer->rejected)
        return OKV_EREFUSED;
    /* The kernel rejects in place of a server that has ended, without a payload. */
    if (okv_bytes_are_zero(answer->bytes, answer->length))
        return okv_diag_set(why, OKV_EREFUSED,
                            "refused by %s without a reason: what listens there ended meanwhile, "
                            "or is no okv-server",
                            uri);
    if (okv_reject_decode(answer->bytes, answer->length, &reject))
        return okv_diag_set(why, OKV_EPROTO,
                            "refused by %s in a way that is not okv's: see that okv-server "
                            "listens there",
                            uri);
    if (reject.reason == OKV_REJECT_VERSION)
        return okv_diag_set(why, OKV_EVERSION, "refused by %s: %s (it speaks %u, this client %u)",
                            uri, okv_reject_text(reject.reason), reject.version, OKV_WIRE_VERSION);
    if (reject.reason == OKV_REJECT_PATH_MTU)
        return okv_diag_set(why, OKV_EADDRESS, "refused by %s: %s (%u bytes here, %u there)", uri,
                            okv_reject_text(reject.reason), reject.detail >> 16,
                            reject.detail & 0xffff);
    return okv_diag_set(why, okv_reject_code(reject.reason), "refused by %s: %s", uri,
                        okv_reject_text(reject.reason));
}

void address_keep(okv *handle)
{
    struct link *link = &handle->link;
    const char *host = handle->conn->peer; /* 10.9.9.1:7471, [fd00::1]:7471 */
    const char *end = strrchr(host, host[0] == '[' ? ']' : ':');

    link->address[0] = '\0';
    host += host[0] == '[';
    /* A link-local address is useless without its scope, which `peer` does not have. */
    if (link->uri.scheme == OKV_SCHEME_LOCAL || !end || strncmp(host, "fe80:", 5) == 0)
        return;
    memcpy(link->address, host, (size_t)(end - host));
    link->address[end - host] = '\0';
}

void address_prefer(struct link *link)
{
    link->resolve_from_ns = okv_clock_ns() + NAME_EVERY_NS;
}

/* The address to connect to. Resolving a name blocks, so it is rare while an address is known. */
static struct okv_uri attempt_uri(struct link *link)
{
    struct okv_uri uri = link->uri;

    if (!link->address[0])
        return uri;
    if (okv_clock_ns() < link->resolve_from_ns)
        memcpy(uri.host, link->address, sizeof link->address);
    else
        address_prefer(link);
    return uri;
}

/* An attempt whose packets are lost would otherwise outlast the outage. */
static uint64_t attempt_end_ns(const struct link *link)
{
    bool shorter = !link->opening && link->connect_timeout_ns > AGAIN_LIMIT_NS;
    uint64_t limit_ns = shorter ? AGAIN_LIMIT_NS : link->connect_timeout_ns;
    uint64_t end_ns = okv_clock_ns() + servers_limit_ns(link, limit_ns);

    return link->opening && link->open_until_ns < end_ns ? link->open_until_ns : end_ns;
}

/* That the handle offers. */
static uint32_t features_of(const okv *handle)
{
    uint32_t reports = handle->reporting.period_ns ? OKV_FEATURE_REPORTS | OKV_FEATURE_HEAT : 0;

    return reports | OKV_FEATURE_LEASE | (handle->link.observes ? OKV_FEATURE_OBSERVE : 0);
}

int attempt_start(okv *handle, struct okv_diag *why)
{
    struct link *link = &handle->link;
    struct okv_hello hello = {
        .slot_size = OKV_SLOT_SIZE_DEFAULT,
        .credits = link->credits,
        .features = features_of(handle),
        .resume = (uint32_t)handle->table.session_id,
        .database =
            okv_database_id(link->uri.database[0] ? link->uri.database : OKV_DATABASE_DEFAULT),
    };
    struct okv_wire_hello bytes;

    memcpy(hello.client_id, link->client_id, sizeof hello.client_id);
    identity_begin(handle, &hello, &bytes);
    link->state = LINK_CONNECTING;
    link->broken = 0;
    link->said_hello = lease_time_now();
    link->deadline_ns = attempt_end_ns(link);
    struct okv_connect_params params = {
        .hello = (const uint8_t *)&bytes,
        .hello_length = sizeof bytes,
        .next_hello = identity_next_hello,
        .user = handle,
        .limits = {.slot_size = hello.slot_size, .credits = link->credits},
        .deadline_ns = link->deadline_ns,
    };
    struct okv_uri uri = attempt_uri(link);
    int rc = handle->transport->connect_start(&uri, &params, &link->connecting, why);
    if (rc)
        link->connecting = NULL;
    else
        event_fd_set(handle, link->connecting->fd);
    return rc;
}

static int read_welcome(okv *handle, const struct okv_answer *answer, struct okv_diag *why)
{
    struct link *link = &handle->link;
    struct okv_welcome *table = &link->table;

    if (!identity_is_proven(handle, answer->bytes, answer->length))
        return okv_diag_set(why, OKV_EDENIED,
                            "what listens at %s does not know the key of user %s: it serves no "
                            "users, or is not the server that it seems to be",
                            link->uri_text, link->identity.user);
    int rc = okv_welcome_decode(answer->bytes, answer->length, table);
    if (rc == OKV_EVERSION)
        return okv_diag_set(why, rc, "%s speaks another protocol version than this client",
                            link->uri_text);
    bool is_offered = (table->features & ~features_of(handle)) == 0;
    if (rc || !is_offered || table->credits > link->credits ||
        table->slot_size > OKV_SLOT_SIZE_DEFAULT)
        return okv_diag_set(why, OKV_EPROTO, "%s sent a welcome that makes no sense",
                            link->uri_text);
    /* What is READ before it serves its epoch may be older than what its predecessor published, and
     * a later status would confirm it. */
    if (table->features & OKV_FEATURE_LEASE && table->valid_until_us == 0 && !link->observes)
        return okv_diag_set(why, OKV_EREFUSED, "%s is not the primary", link->uri_text);
    rc = handle->transport->set_remote(handle->conn, table->region_address, table->region_length,
                                       table->rkey);
    if (rc)
        return okv_diag_set(why, rc, "%s described a region that is not there", link->uri_text);
    return 0;
}

/* Buffers whose sizes the device and the server determine. */
static int memory_prepare(okv *handle, struct okv_diag *why)
{
    struct okv_read *reads =
        realloc(handle->batch.reads, handle->conn->max_reads * sizeof *handle->batch.reads);

    if (!reads)
        return okv_diag_set(why, OKV_ENOMEM, "no memory for a handle");
    handle->batch.reads = reads;
    int rc = memory_attach(handle, handle->link.table.bucket_size);
    if (rc)
        return okv_diag_set(why, rc,
                            "cannot register %zu bytes of buffers: %s; lower the depth or raise "
                            "`ulimit -l`",
                            handle->arena_size, okv_error_text(rc));
    return 0;
}

static int read_post(okv *handle, enum read_kind kind, uint64_t offset, uint32_t length)
{
    struct okv_read read = {
        .offset = offset,
        .destination = handle->staging,
        .memory = handle->memory,
        .length = length,
        .cookie = READ_ATTEMPT_COOKIE,
    };
    int rc = handle->transport->post_read(handle->conn, &read, 1);

    if (rc)
        return rc == OKV_EINVAL ? OKV_EPROTO : rc; /* outside the region of the welcome */
    handle->link.reading = true;
    read_count(handle, kind, length);
    return 0;
}

void attempt_read_done(okv *handle, int status)
{
    handle->link.reading = false;
    if (status && !handle->link.broken)
        handle->link.broken = status;
}

/* The result of the READ; OKV_EAGAIN: it has not ended. */
static int read_result(const struct link *link)
{
    if (link->broken)
        return link->broken;
    if (!link->reading)
        return 0;
    return okv_clock_ns() < link->deadline_ns ? OKV_EAGAIN : OKV_ETIMEDOUT;
}

static int superblock_unread(const struct link *link, int rc, struct okv_diag *why)
{
    return okv_diag_set(why, rc, "connected to %s, but a first READ failed: %s", link->uri_text,
                        okv_error_text(rc));
}

/* The superblock, which fits a packet of any MTU, has been READ before. */
static int directory_unread(const struct link *link, int rc, struct okv_diag *why)
{
    bool is_lost = rc == OKV_ETIMEDOUT || rc == OKV_EDISCONNECTED;

    return okv_diag_set(why, rc, "the directory of %s could not be READ: %s%s", link->uri_text,
                        okv_error_text(rc),
                        is_lost ? "; if this stays so, long packets get lost: compare the MTU of "
                                  "both hosts and of the switches between them"
                                : "");
}

static int step_connect(okv *handle, struct okv_diag *why)
{
    struct link *link = &handle->link;
    struct okv_answer answer = {.length = 0};

    /* The step may close the descriptor. */
    event_fd_set(handle, -1);
    int rc = handle->transport->connect_step(link->connecting, &answer, &handle->conn, why);
    if (rc == OKV_EAGAIN) {
        event_fd_set(handle, link->connecting->fd);
        return rc;
    }
    link->connecting = NULL;
    if (rc)
        handle->conn = NULL;
    if (rc == OKV_EREFUSED) {
        rc = rejection_explain(&answer, link->uri_text, why);
        servers_heed(link, answer.bytes, answer.rejected ? answer.length : 0);
        link->is_turned_away = rc == OKV_EDENIED && answer.rejected && link->uri.tls;
        return rc;
    }
    if (rc)
        return rc;
    handle->closed = false;
    event_fd_set(handle, handle->conn->endpoint->fd);
    rc = read_welcome(handle, &answer, why);
    if (rc == 0)
        rc = memory_prepare(handle, why);
    if (rc)
        return rc == OKV_EAGAIN ? OKV_EIO : rc; /* OKV_EAGAIN would mean: wait */
    link->state = LINK_SUPERBLOCK;
    rc = read_post(handle, READ_SUPERBLOCK, 0, sizeof(struct okv_wire_superblock));
    return rc ? superblock_unread(link, rc, why) : OKV_EAGAIN;
}

/* Every database has a random hash seed. Its log has the seed as well, so that it outlives a server
 * only together with the items. */
static int items_check(const okv *handle, struct okv_diag *why)
{
    const struct link *link = &handle->link;

    if (link->opening || !link->if_kept || link->table.hash_seed == handle->table.hash_seed)
        return 0;
    return okv_diag_set(why, OKV_ELOST,
                        "%s restarted without the items that it had: open another handle, and put "
                        "them again; with --data it keeps them",
                        link->uri_text);
}

/* A handle that observes reads no items. The server may join its cluster meanwhile, and then has
 * another seed. */
static bool is_described(const struct link *link, const struct okv_superblock *block)
{
    const struct okv_welcome *table = &link->table;

    return link->observes ||
           (block->boot_id == table->boot_id && block->region_length == table->region_length &&
            block->hash_seed == table->hash_seed && block->bucket_size == table->bucket_size &&
            block->directory_offset == table->directory_offset &&
            block->segment_buckets == table->segment_buckets);
}

static int step_superblock(okv *handle, struct okv_diag *why)
{
    struct link *link = &handle->link;
    const struct okv_welcome *table = &link->table;
    struct okv_superblock block;
    int rc = read_result(link);

    if (rc)
        return rc == OKV_EAGAIN ? rc : superblock_unread(link, rc, why);
    rc = okv_superblock_decode(handle->staging, sizeof(struct okv_wire_superblock), &block);
    if (rc == OKV_EVERSION)
        return okv_diag_set(why, rc, "%s has a table of another format version", link->uri_text);
    if ((rc && !link->observes) || !is_described(link, &block))
        return okv_diag_set(why, OKV_EPROTO,
                            "%s described another table than the one that was read",
                            link->uri_text);
    rc = items_check(handle, why);
    if (rc)
        return rc;
    link->state = LINK_DIRECTORY;
    rc = read_post(handle, READ_DIRECTORY, table->directory_offset, OKV_DIRECTORY_SIZE);
    return rc ? directory_unread(link, rc, why) : OKV_EAGAIN;
}

static int step_directory(okv *handle, struct okv_diag *why)
{
    int rc = read_result(&handle->link);

    if (rc)
        return rc == OKV_EAGAIN ? rc : directory_unread(&handle->link, rc, why);
    return 0;
}

int attempt_step(okv *handle, struct okv_diag *why)
{
    switch (handle->link.state) {
    case LINK_CONNECTING:
        return step_connect(handle, why);
    case LINK_SUPERBLOCK:
        return step_superblock(handle, why);
    default:
        return step_directory(handle, why);
    }
}
