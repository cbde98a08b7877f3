#include "server/copies/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "server/copies/letter.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/database/reply_cache_log.h"
#include "server/peers/link.h"
#include "server/store/export.h"
#include "server/wal/copies/copies.h"
#include "server/wal/format.h"
#include "shared/base/error.h"

/* Bytes of items of a piece, about. */
#define PIECE_BYTES (UINT32_C(1) << 18)
/* Pieces that are not loaded yet. */
#define PIECES_MAX 4
/* Bytes of frames that are kept for a copy that loads: one that is slower begins again. */
#define PINNED_MAX (UINT64_C(256) << 20)

struct piece {
    uint8_t *bytes;
    size_t used, size;
    int rc;
};

static void add(struct piece *piece, const struct okv_wal_record *record)
{
    uint64_t size = okv_wal_record_size(record->key_length, record->value_length);

    if (piece->rc == 0 && piece->used + size > piece->size) {
        size_t larger = 2 * (piece->used + size);
        uint8_t *bytes = realloc(piece->bytes, larger);
        piece->rc = bytes ? 0 : OKV_ENOMEM;
        piece->bytes = bytes ? bytes : piece->bytes;
        piece->size = bytes ? larger : piece->size;
    }
    if (piece->rc)
        return;
    okv_wal_record_encode(record, piece->bytes + piece->used);
    piece->used += size;
}

static void add_client(void *user, const struct okv_wal_record *record)
{
    add(user, record);
}

static void add_interval(void *user, uint64_t position, uint64_t version)
{
    const struct okv_wal_record record = {
        .kind = OKV_WAL_BUCKET, .bucket = position, .version = version};

    add(user, &record);
}

static void add_item(void *user, const struct okv_entry *entry)
{
    const struct okv_wal_record record = {
        .kind = OKV_WAL_PUT,
        .key = entry->key,
        .key_length = entry->key_length,
        .value = entry->value,
        .value_length = entry->value_length,
        .version = entry->version,
        .expiry_ms = entry->expiry_ms,
    };

    add(user, &record);
}

/* The next items. */
static void fill(struct okv_copy_link *link, struct piece *piece)
{
    struct okv_copy *copy = link->copy;
    const struct okv_store_export_visitor visitor = {add_interval, add_item, piece};
    bool is_first = link->sending.position == 0;

    if (is_first)
        okv_reply_caches_save_recovered(copy->database->reply_caches, add_client, piece);
    do
        piece->rc = piece->rc ? piece->rc
                              : okv_store_export(&copy->database->store, copy->work,
                                                 &link->sending.position, PIECE_BYTES, &visitor);
    while (piece->rc == 0 && link->sending.position != 0 && piece->used < PIECE_BYTES);
}

static int send_next(struct okv_copy_link *link)
{
    struct piece piece = {.bytes = NULL};

    fill(link, &piece);
    link->sending.is_whole = link->sending.position == 0;
    const struct okv_peer_message message = {
        .type = OKV_PEER_PIECE,
        .flags = link->sending.is_whole ? OKV_PEER_LAST : 0,
        .epoch = link->copy->protocol.epoch,
        .sent_us = link->sending.id,
        .from = link->sending.begin,
        .to = link->sending.epoch,
        .published = link->copy->protocol.published,
    };
    if (piece.rc == 0)
        piece.rc = okv_letter_send(link, &message, piece.bytes, piece.used);
    free(piece.bytes);
    link->sending.under_way += piece.rc == 0;
    return piece.rc;
}

void okv_snapshot_begin_sending(struct okv_copy_link *link)
{
    const struct okv_peer *peer = okv_protocol_peer(&link->copy->protocol, link->server);

    link->sending =
        (struct okv_copy_sending){.is_active = true, .id = peer ? peer->join_sent_us : 0};
    okv_log_say(&link->copy->copies->server->log, OKV_LOG_NOTICE, "cluster",
                "database %s: server %016llx gets a snapshot", link->copy->database->config->name,
                (unsigned long long)link->server);
}

void okv_snapshot_note_loaded(struct okv_copy_link *link)
{
    link->sending.under_way -= link->sending.under_way > 0;
}

void okv_snapshot_end_sending(struct okv_copy_link *link)
{
    link->sending = (struct okv_copy_sending){.is_active = false};
}

/* From where on the copy needs frames; UINT64_MAX: it has what it needs. */
static uint64_t needs_from(const struct okv_copy_link *link)
{
    const struct okv_protocol *protocol = &link->copy->protocol;
    const struct okv_peer *peer = okv_protocol_peer(protocol, link->server);
    uint64_t from = link->sending.begin;

    if (!link->sending.is_active || !peer)
        return UINT64_MAX;
    if (link->sending.is_whole && !peer->is_loading)
        from = peer->position;
    return protocol->sealed - from > PINNED_MAX ? UINT64_MAX : from;
}

/* Not before the first frame of this epoch is applied: it may raise versions, once. */
static bool begin_walk(struct okv_copy_link *link)
{
    const struct okv_protocol *protocol = &link->copy->protocol;

    if (link->sending.begin == 0 && protocol->applied > protocol->first) {
        link->sending.begin = protocol->applied;
        link->sending.epoch = okv_epochs_at(&protocol->epochs, protocol->applied);
    }
    return link->sending.begin != 0;
}

void okv_snapshot_continue_sending(struct okv_copy_link *link)
{
    const struct okv_protocol *protocol = &link->copy->protocol;
    const struct okv_peer *peer = okv_protocol_peer(protocol, link->server);

    if (!link->sending.is_active || !begin_walk(link))
        return;
    while (!link->sending.is_whole && link->sending.under_way < PIECES_MAX && !link->is_lost &&
           !link->rest.bytes && okv_link_takes_parts(link->link))
        link->is_lost = send_next(link) != 0;
    if (link->sending.is_whole && peer && !peer->is_loading &&
        peer->position >= protocol->published)
        okv_snapshot_end_sending(link);
    link->copy->needed =
        needs_from(link) < link->copy->needed ? needs_from(link) : link->copy->needed;
}
