#include "server/copies/copy.h"

#include <limits.h>
#include <string.h>
#include <sys/eventfd.h>

#include "server/copies/elections.h"
#include "server/copies/links.h"
#include "server/copies/mail.h"
#include "server/copies/marking.h"
#include "server/copies/role.h"
#include "server/copies/shard.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/wal/copies/copies.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/random.h"

/* While clients of an earlier epoch leave. */
#define ROLE_RETRY_US 1000
/* Of the lease D, as docs/copies.md section 4 has them. */
#define BEATS_PER_LEASE 10
#define SHORT_LEASE_US 50000
#define SHORT_BEAT_US 15000
#define LEASES_BEFORE_AGAIN 10
/* A disk that does not answer for longer counts as failed. */
#define LEASES_STUCK 5
/* Before a copy without room loads a snapshot; doubles, up to 16 times as much. */
#define TIMES_ANEW_MAX 4u
#define RHO_PPM 500
#define SUSPECT_MARGIN_US 100000
#define LAG_MAX (UINT64_C(1) << 20)

static struct okv_wal *wal_of(const struct okv_copy *copy)
{
    return copy->database->wal;
}

/* ---- actions ---- */

static void send_message(struct okv_copy *copy, const struct okv_protocol_action *action)
{
    enum okv_peer_message_type type = action->message.type;

    if (type == OKV_PEER_JOINED || type == OKV_PEER_ACK)
        okv_mail_answer(copy, &action->message);
    else
        okv_links_send(copy, action->server, &action->message);
}

static void append(struct okv_copy *copy)
{
    size_t length;
    const uint8_t *bytes = okv_mail_frames(copy, &length);
    int rc = okv_wal_copies_append(wal_of(copy), bytes, length);

    if (rc)
        okv_log_say(&copy->copies->server->log, OKV_LOG_ERROR, "cluster",
                    "database %s: frames of the primary are no use: %s",
                    copy->database->config->name, okv_error_text(rc));
}

/* After a recovery a version that was lost does not come again: a change that is conditional on it
 * would be made to another value. */
static void lead(struct okv_copy *copy, uint64_t epoch, bool is_recovery)
{
    okv_links_close(copy);
    copy->is_leading = true;
    copy->is_draining = false;
    if (okv_wal_copies_lead(wal_of(copy), epoch, is_recovery ? OKV_WAL_RAISE_BY : 0))
        okv_log_say(&copy->copies->server->log, OKV_LOG_ERROR, "cluster",
                    "database %s: no memory to begin epoch %llu", copy->database->config->name,
                    (unsigned long long)epoch);
}

static void follow(struct okv_copy *copy)
{
    copy->is_leading = copy->is_draining = false;
    okv_wal_copies_follow(wal_of(copy));
}

/* Not while its directory says that the log counts, which the snapshot takes the place of. */
static void load(struct okv_copy *copy)
{
    okv_mail_end_pieces(copy);
    if (!copy->is_given_up)
        copy->is_given_up = okv_marking_give_up(copy, copy->incarnation);
    if (!copy->is_given_up)
        return;
    copy->loading.id = copy->joined_us;
    copy->is_loading = true;
    atomic_store(&copy->database->fresh_until_us, 0); /* before items go */
    okv_wal_copies_load(wal_of(copy));
    okv_log_say(&copy->copies->server->log, OKV_LOG_NOTICE, "cluster",
                "database %s: this copy loads a snapshot of the primary",
                copy->database->config->name);
}

static void drain(struct okv_copy *copy)
{
    copy->is_draining = true;
    okv_wal_copies_drain(wal_of(copy), true);
}

static void perform(struct okv_copy *copy, const struct okv_protocol_action *action)
{
    switch (action->type) {
    case OKV_ACTION_SEND:
        send_message(copy, action);
        break;
    case OKV_ACTION_READ_KEY:
        okv_shard_read(copy, action->request);
        break;
    case OKV_ACTION_CHANGE_KEY:
        okv_shard_change(copy, action->request, &action->key, action->revision);
        break;
    case OKV_ACTION_APPEND:
        append(copy);
        break;
    case OKV_ACTION_TRUNCATE:
        okv_wal_copies_cut(wal_of(copy), action->position);
        break;
    case OKV_ACTION_PUBLISH:
        okv_wal_copies_publish(wal_of(copy), action->position);
        break;
    case OKV_ACTION_INCARNATION:
        copy->incarnation = action->position;
        copy->is_given_up = okv_marking_give_up(copy, action->position);
        break;
    case OKV_ACTION_LOAD:
        load(copy);
        break;
    case OKV_ACTION_SNAPSHOT:
        okv_links_send_snapshot(copy, action->server);
        break;
    case OKV_ACTION_LEAD:
        lead(copy, action->epoch, action->is_recovery);
        break;
    case OKV_ACTION_FOLLOW:
        follow(copy);
        break;
    case OKV_ACTION_DRAIN:
        drain(copy);
        break;
    case OKV_ACTION_STATUS:
        copy->is_shown = false;
        break;
    }
}

/* ---- events ---- */

static void pass(struct okv_copy *copy, const struct okv_protocol_event *event)
{
    struct okv_protocol_actions *actions = &copy->copies->actions;

    okv_protocol_step(&copy->protocol, event, okv_clock_lease_us(), actions);
    okv_elections_note(copy);
    for (unsigned i = 0; i < actions->count; i++)
        perform(copy, &actions->of[i]);
}

/* Whether the disk hangs. To load a snapshot may take long for other reasons. */
static bool note_disk(struct okv_copy *copy, const struct okv_wal_copies_state *state)
{
    uint64_t now_ns = okv_clock_ns(), most_us = LEASES_STUCK * copy->protocol.options.lease_us;
    bool was_stuck = copy->is_stuck;

    copy->is_stuck = copy->database->durable && !state->is_loading && state->step_ns != 0 &&
                     now_ns > state->step_ns && now_ns - state->step_ns > most_us * 1000;
    if (copy->is_stuck && !was_stuck)
        okv_log_say(&copy->copies->server->log, OKV_LOG_ERROR, "cluster",
                    "database %s: the disk has not answered for %llu ms: this copy leaves the lead "
                    "and the set to others until it does",
                    copy->database->config->name, (unsigned long long)most_us / 1000);
    else if (was_stuck && !copy->is_stuck)
        okv_log_say(&copy->copies->server->log, OKV_LOG_NOTICE, "cluster",
                    "database %s: the disk answers again", copy->database->config->name);
    return copy->is_stuck;
}

/* False: it has not changed. */
static bool pass_log(struct okv_copy *copy)
{
    struct okv_wal_copies_state state;

    okv_wal_copies_get(wal_of(copy), &state);
    bool is_stuck = note_disk(copy, &state);
    const struct okv_protocol_event event = {
        .type = OKV_EVENT_LOG,
        .begin = state.begin,
        .sealed = state.sealed,
        .durable = state.durable,
        .applied = state.applied,
        .is_full = state.is_failed || state.has_no_room || state.is_disk_full || is_stuck,
    };
    if (event.begin == copy->told.begin && event.sealed == copy->told.sealed &&
        event.durable == copy->told.durable && event.applied == copy->told.applied &&
        event.is_full == copy->told.is_full)
        return false;
    copy->told.begin = event.begin;
    copy->told.sealed = event.sealed;
    copy->told.durable = event.durable;
    copy->told.applied = event.applied;
    copy->told.is_full = event.is_full;
    pass(copy, &event);
    return true;
}

/* The snapshot is there: the log goes on from its position. */
static void pass_loaded(struct okv_copy *copy)
{
    struct okv_wal_copies_state state;

    okv_wal_copies_get(wal_of(copy), &state);
    if (!copy->is_loading)
        return;
    okv_mail_answer_pieces(copy, state.is_loading ? state.pieces : UINT_MAX);
    if (state.is_loading)
        return;
    const struct okv_protocol_event event = {
        .type = OKV_EVENT_LOADED,
        .sealed = state.sealed,
        .whole = copy->loading.whole > state.sealed ? copy->loading.whole : 0,
    };
    /* Else a start would remove it: it is tried again. */
    if (event.whole == 0 && !okv_marking_note_whole(copy))
        return;
    copy->is_loading = false;
    copy->is_given_up = event.whole != 0;
    pass(copy, &event);
    okv_log_say(&copy->copies->server->log, OKV_LOG_NOTICE, "cluster",
                "database %s: this copy has loaded the snapshot", copy->database->config->name);
}

/* The log of a copy that loaded a snapshot counts from here on. */
static void pass_whole(struct okv_copy *copy)
{
    const struct okv_protocol *protocol = &copy->protocol;
    const struct okv_protocol_event event = {.type = OKV_EVENT_WHOLE};
    uint64_t whole = protocol->whole_at;

    if (whole == 0 || protocol->published < whole || protocol->durable < whole ||
        !okv_marking_note_whole(copy))
        return;
    copy->is_given_up = false;
    pass(copy, &event);
}

/* In other places of memory what is published may fit. */
static void begin_anew(struct okv_copy *copy)
{
    const struct okv_protocol_event spent = {.type = OKV_EVENT_SPENT};
    uint64_t now_us = okv_clock_lease_us();

    if (copy->anew_at_us == 0) {
        copy->anew_at_us = now_us + (copy->protocol.options.again_us << copy->times_anew);
        copy->times_anew += copy->times_anew < TIMES_ANEW_MAX;
        okv_log_say(&copy->copies->server->log, OKV_LOG_ERROR, "cluster",
                    "database %s: this copy has no room for what is published: it leaves the set, "
                    "and loads all of it anew in %llu s; give the servers more memory",
                    copy->database->config->name,
                    (unsigned long long)(copy->anew_at_us - now_us) / 1000000);
    } else if (now_us >= copy->anew_at_us) {
        copy->anew_at_us = 0;
        pass(copy, &spent);
    }
}

/* Of the log the database says why (database/durable.c). */
static void note_failure(struct okv_copy *copy)
{
    struct okv_wal_copies_state state;

    okv_wal_copies_get(wal_of(copy), &state);
    if (!state.has_no_room || state.is_failed)
        copy->anew_at_us = 0;
    else if (!copy->is_leading)
        begin_anew(copy);
}

static void pass_drained(struct okv_copy *copy)
{
    struct okv_wal_copies_state state;

    okv_wal_copies_get(wal_of(copy), &state);
    if (!copy->is_draining || !state.is_drained || copy->protocol.is_drained)
        return;
    const struct okv_protocol_event event = {.type = OKV_EVENT_DRAINED};
    pass(copy, &event);
}

/* A hand-over that came to nothing: writes are taken again. */
static void end_drain(struct okv_copy *copy)
{
    if (!copy->is_draining || copy->protocol.phase == OKV_HAND_OVER_DRAIN)
        return;
    copy->is_draining = false;
    okv_wal_copies_drain(wal_of(copy), false);
}

/* Before it serves, a primary may know less of what is published than the one before. */
static bool is_primary_serving(const struct okv_protocol *protocol)
{
    const struct okv_epochs *epochs = &protocol->epochs;

    return epochs->count > 0 && protocol->told > epochs->of[epochs->count - 1].begin;
}

/* A message may be old when it comes. The answer that its sender had by then says how old. */
static void note_freshness(struct okv_copy *copy)
{
    const struct okv_protocol *protocol = &copy->protocol;
    bool is_following = protocol->role == OKV_ROLE_COPY && protocol->leader != 0;

    if (!is_following || protocol->is_loading || protocol->is_full)
        atomic_store(&copy->database->fresh_until_us, 0);
    else if (protocol->applied >= protocol->told && protocol->echoed_us != 0 &&
             is_primary_serving(protocol))
        atomic_store(&copy->database->fresh_until_us,
                     protocol->echoed_us + protocol->options.lease_us);
}

static void settle(struct okv_copy *copy)
{
    while (pass_log(copy))
        continue;
    pass_loaded(copy);
    pass_whole(copy);
    pass_drained(copy);
    end_drain(copy);
    if (copy->protocol.owed == 0)
        okv_mail_end_waiting(copy);
    okv_marking_note_epoch(copy);
    note_failure(copy);
    note_freshness(copy);
    if (!copy->is_shown)
        copy->is_shown = !okv_role_show(copy);
}

void okv_copy_step(struct okv_copy *copy, const struct okv_protocol_event *event)
{
    while (pass_log(copy))
        continue;
    pass(copy, event);
    settle(copy);
}

void okv_copy_run(struct okv_copy *copy)
{
    const struct okv_protocol_event timer = {.type = OKV_EVENT_TIMER};
    const struct okv_protocol_event lost = {.type = OKV_EVENT_UNKNOWN,
                                            .request = copy->lost_request};

    copy->lost_request = 0;
    if (lost.request)
        okv_copy_step(copy, &lost);

    if (okv_protocol_timer_us(&copy->protocol) <= okv_clock_lease_us())
        okv_copy_step(copy, &timer);
    else
        settle(copy);
}

uint64_t okv_copy_due_us(const struct okv_copy *copy)
{
    uint64_t due_us = okv_protocol_timer_us(&copy->protocol);
    uint64_t again_us = copy->is_shown ? UINT64_MAX : okv_clock_lease_us() + ROLE_RETRY_US;

    return again_us < due_us ? again_us : due_us;
}

/* ---- begin and end ---- */

static struct okv_protocol_options options_of(const struct okv_copy *copy)
{
    const struct okv_cluster_document *cluster = &copy->copies->cluster;
    uint64_t lease_us = cluster->lease_ms * UINT64_C(1000);

    return (struct okv_protocol_options){
        .lease_us = lease_us,
        .beat_us = lease_us / BEATS_PER_LEASE,
        .silent_us = lease_us / 2,
        .suspect_us = lease_us + lease_us * 3 * RHO_PPM / 1000000 + SUSPECT_MARGIN_US,
        .short_us = SHORT_LEASE_US,
        .short_beat_us = SHORT_BEAT_US,
        .again_us = LEASES_BEFORE_AGAIN * lease_us,
        .rho_ppm = RHO_PPM,
        .lag_max = LAG_MAX,
        .copies_min = cluster->copies_min,
        .takes_over = true,
        .acks_disk = copy->database->durable && copy->database->config->sync_within_ns == 0,
    };
}

static const struct okv_wal_identity *identity_of(const struct okv_copy *copy)
{
    const struct okv_cluster_document *cluster = &copy->copies->cluster;

    for (unsigned i = 0; i < cluster->database_count; i++)
        if (strcmp(cluster->databases[i].name, copy->database->config->name) == 0)
            return &cluster->databases[i].identity;
    return NULL;
}

static void log_changed(void *user)
{
    struct okv_copies *copies = user;

    eventfd_write(copies->log_fd, 1);
}

static int start_log(struct okv_copy *copy, struct okv_diag *diag)
{
    const struct okv_wal_identity *identity = identity_of(copy);
    const struct okv_wal_copies_params params = {log_changed, copy->copies,
                                                 &copy->copies->server->config.spin_us};

    if (!identity)
        return okv_diag_set(diag, OKV_ENOTFOUND, "the cluster has no database %s",
                            copy->database->config->name);
    return okv_database_join(copy->database, identity, &params,
                             copy->copies->server->config.snapshot_ratio, okv_server_wake_all,
                             copy->copies->server, diag);
}

/* What the log has, as a start has found it. */
static struct okv_protocol_log log_of(const struct okv_copy *copy)
{
    struct okv_protocol_log log = {.epochs.count = 0};
    struct okv_wal_copies_state state;
    struct okv_wal_epochs epochs;

    okv_wal_copies_get(wal_of(copy), &state);
    okv_wal_copies_get_epochs(wal_of(copy), &epochs);
    log.begin = state.begin;
    log.end = state.sealed;
    log.published = state.applied;
    for (unsigned i = 0; i < epochs.count; i++)
        okv_epochs_add(&log.epochs, epochs.of[i].epoch, epochs.of[i].begin);
    return log;
}

int okv_copy_begin(struct okv_copy *copy, struct okv_diag *diag)
{
    struct okv_copies *copies = copy->copies;
    const struct okv_protocol_options options = options_of(copy);
    int rc = okv_marking_begin(copy, diag);

    if (rc == 0)
        rc = start_log(copy, diag);
    if (rc)
        return rc;
    const struct okv_member self = {copies->id, copy->incarnation};
    const struct okv_protocol_log log = log_of(copy);
    okv_protocol_start(&copy->protocol, &options, self, &log, okv_marking_epoch(copy),
                       okv_random_next(&copies->random), okv_clock_lease_us(), &copies->actions);
    copy->has_begun = true;
    for (unsigned i = 0; i < copies->actions.count; i++)
        perform(copy, &copies->actions.of[i]);
    settle(copy);
    return 0;
}

void okv_copy_end(struct okv_copy *copy)
{
    if (!copy->has_begun)
        return;
    follow(copy);
    okv_mail_end(copy);
    okv_links_close(copy);
}
