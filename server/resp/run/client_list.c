#include "server/resp/run/client_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/core/server.h"
#include "server/database/database.h"
#include "server/resp/proto/args.h"
#include "server/resp/run/call.h"
#include "server/resp/run/shared.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/format/wire.h"

#define LINE_MAX_TEXT 1024 /* more than names, addresses and numbers can have */

/* What CLIENT LIST calls it. */
static const char *user_of(const struct okv_resp_client *client)
{
    return client->common.user[0] ? client->common.user : OKV_RESP_USER_DEFAULT;
}

static bool is_text(const struct okv_resp_arg *arg, const char *text)
{
    return !arg || (strlen(text) == arg->length && memcmp(text, arg->text, arg->length) == 0);
}

/* An admin sees all clients of the database, others those of their own user. */
static bool may_see(const struct okv_resp_client *by, const struct okv_resp_client *client)
{
    return okv_resp_may(by, client->common.database, OKV_RIGHT_ADMIN) ||
           strcmp(client->common.user, by->common.user) == 0;
}

static bool is_chosen(const struct okv_resp_client *client, const struct okv_resp_choice *choice)
{
    return !choice->is_none && (!choice->id || (uint64_t)choice->id == client->id) &&
           client->id != choice->skips && is_text(choice->peer, client->peer) &&
           is_text(choice->local, client->local) && is_text(choice->user, user_of(client));
}

struct killing {
    const struct okv_resp_client *by;
    const struct okv_resp_choice *choice;
    uint32_t count;
};

static void kill_chosen(void *user, struct okv_client *common)
{
    struct okv_resp_client *client = (struct okv_resp_client *)common;
    struct killing *killing = user;

    if (client == killing->by || !is_chosen(client, killing->choice) ||
        !may_see(killing->by, client))
        return;
    okv_resp_terminate(client);
    killing->count++;
}

bool okv_resp_table_kill(struct okv_resp_client *by, const struct okv_resp_choice *choice,
                         bool goes_on, uint32_t *count)
{
    struct killing killing = {by, choice, 0};
    bool has_more = okv_client_table_scan(by->resp->server->clients, &by->common, goes_on,
                                          kill_chosen, &killing);

    /* Last, or nobody would go on. */
    if (!has_more && is_chosen(by, choice)) {
        okv_resp_terminate(by);
        killing.count++;
    }
    *count += killing.count;
    return has_more;
}

/* Its flags; `queued` as of its struct. */
static const char *flags_of(const struct okv_resp_client *client, int queued)
{
    if (atomic_load_explicit(&client->no_touch, memory_order_relaxed))
        return queued < 0 ? "T" : "xT";
    return queued < 0 ? "N" : "x";
}

/* What okv has nothing for is 0. */
static void add_line(const struct okv_resp_client *client, uint64_t unserved, uint64_t now_ns,
                     struct okv_resp_buffer *out)
{
    const char *command = atomic_load_explicit(&client->command, memory_order_relaxed);
    uint64_t active_ns = atomic_load_explicit(&client->common.active_ns, memory_order_relaxed);
    uint64_t unsent = atomic_load_explicit(&client->unsent, memory_order_relaxed);
    uint64_t queued_bytes = atomic_load_explicit(&client->queued_bytes, memory_order_relaxed);
    int queued = atomic_load_explicit(&client->queued, memory_order_relaxed);
    uint64_t idle_ns = now_ns > active_ns ? now_ns - active_ns : 0;
    char line[LINE_MAX_TEXT], name[32];

    okv_resp_lower(command ? command : "NULL", name, sizeof name);
    int length = snprintf(
        line, sizeof line,
        "id=%" PRIu64 " addr=%s laddr=%s fd=%d name=%s age=%" PRIu64 " idle=%" PRIu64
        " flags=%s db=%u sub=0 psub=0 ssub=0 multi=%d qbuf=%" PRIu64
        " qbuf-free=0 argv-mem=0 multi-mem=%" PRIu64 " rbs=0 rbp=0 obl=0 oll=0 omem=%" PRIu64
        " tot-mem=%" PRIu64 " events=%s cmd=%s user=%s redir=-1 resp=%u"
        " lib-name=%s lib-ver=%s\n",
        client->id, client->peer, client->local, client->stream.fd, client->name,
        (now_ns - client->common.created_ns) / 1000000000u, idle_ns / 1000000000u,
        flags_of(client, queued), client->common.database, queued, unserved, queued_bytes, unsent,
        unserved + queued_bytes + unsent, unsent ? "rw" : "r", name, user_of(client),
        client->protocol, client->library, client->library_version);
    okv_resp_buffer_add(out, line, (size_t)length);
}

int okv_resp_compare_ids(const void *a, const void *b)
{
    const int64_t *one = a, *other = b;

    return (*one > *other) - (*one < *other);
}

static bool is_listed(const struct okv_resp_client *client, const struct okv_resp_selection *which)
{
    const int64_t id = (int64_t)client->id;

    return which->count == 0 ||
           bsearch(&id, which->ids, which->count, sizeof id, okv_resp_compare_ids);
}

void okv_resp_table_describe(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    add_line(client, client->in.used - client->at, okv_clock_ns(), out);
}

struct listing {
    const struct okv_resp_client *by;
    const struct okv_resp_selection *which;
    uint64_t now_ns;
    struct okv_resp_buffer *out;
};

static void list_selected(void *user, struct okv_client *common)
{
    const struct okv_resp_client *client = (const struct okv_resp_client *)common;
    const struct listing *listing = user;
    const struct okv_resp_client *by = listing->by;
    uint64_t unserved = client == by
                            ? by->in.used - by->at
                            : atomic_load_explicit(&client->unserved, memory_order_relaxed);

    if (is_listed(client, listing->which) && may_see(by, client))
        add_line(client, unserved, listing->now_ns, listing->out);
}

bool okv_resp_table_list(struct okv_resp_client *by, const struct okv_resp_selection *which,
                         bool goes_on, struct okv_resp_buffer *out)
{
    struct listing listing = {by, which, okv_clock_ns(), out};

    return okv_client_table_scan(by->resp->server->clients, &by->common, goes_on, list_selected,
                                 &listing);
}
