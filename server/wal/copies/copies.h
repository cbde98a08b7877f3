/*
 * A log that has copies on other servers (docs/copies.md section 3). The thread of the cluster
 * decides what is appended, cut off and published; the log's thread writes, applies and publishes.
 *
 *   cluster thread                          log's thread
 *   lead -> the epoch's first frame  -----> writes it
 *                                    <----- appends frames of batches
 *   append (of a primary), cut       -----> writes them, cuts the files
 *   publish                          -----> applies frames, or publishes its batch
 *
 * What the cluster thread calls takes effect in memory at once; the files follow. Changes begin
 * when the first frame of an epoch that is led here is published. A batch ends when its frame is
 * published; its writes are OKV_EUNKNOWN if this copy stops to lead before.
 *
 * Such a log publishes nothing before its frame, whatever `sync_within_ns` says, and begins no
 * files of long values.
 */
#ifndef OKV_SERVER_WAL_COPIES_COPIES_H
#define OKV_SERVER_WAL_COPIES_COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/wal/format.h"

struct okv_diag;
struct okv_wal;
struct okv_wal_tail_frame;

/* What all copies have in common. */
struct okv_wal_identity {
    uint8_t database_id[OKV_WAL_ID_SIZE];
    uint64_t hash_seed;
    uint64_t position; /* at which the log begins */
};

struct okv_wal_copies_params {
    void (*changed)(void *user); /* okv_wal_copies_get() says more; on the log's thread */
    void *user;
    const _Atomic uint32_t *spin_us; /* the log's thread polls this long before it sleeps; borrowed;
                                        NULL: it does not */
};

/* Where the epochs of a log begin: the latest that a start has found. */
#define OKV_WAL_EPOCHS_MAX 16
struct okv_wal_epochs {
    unsigned count;
    struct {
        uint64_t epoch, begin; /* begin 0: somewhere before what was read */
    } of[OKV_WAL_EPOCHS_MAX];
};

/* Positions: each is the end of a frame. */
struct okv_wal_copies_state {
    uint64_t begin;    /* of the first frame that is still in memory */
    uint64_t sealed;   /* of the last frame */
    uint64_t durable;  /* in the files, and synced as far as the log's mode has it */
    uint64_t applied;  /* in the store */
    uint64_t epoch;    /* of the last frame */
    uint64_t clock_ms; /* the primary's, when it sealed the frame that was applied last */
    bool is_failed;    /* the log, for ever */
    bool has_no_room;  /* the store, for what is published */
    bool is_disk_full; /* frames wait until there is space */
    uint64_t step_ns; /* on okv_clock_ns(): when the log's thread began what it does; 0: it waits */
    unsigned pieces;  /* of a snapshot, that were loaded since okv_wal_copies_load() */
    bool is_loading;
    bool is_drained; /* as after okv_wal_copies_drain() */
    bool takes_changes;
};

/* Between okv_wal_open() and okv_wal_recover(): the log is to have copies, and keeps `keep` bytes
 * of frames in memory for those that are behind. OKV_ENOMEM. */
int okv_wal_copies_create(struct okv_wal *wal, uint64_t keep);
/* Whether the log has neither a frame nor a snapshot. After okv_wal_recover(). */
bool okv_wal_is_empty_log(const struct okv_wal *wal);
/* What another copy begins with: a position of 0 has it load a snapshot. After okv_wal_recover().
 */
void okv_wal_get_identity(const struct okv_wal *wal, struct okv_wal_identity *out);
/* Between okv_wal_recover() and okv_wal_start(). OKV_EEXISTS: the log has files, and another
 * identity. */
int okv_wal_set_identity(struct okv_wal *wal, const struct okv_wal_identity *identity);
/* Between okv_wal_set_identity() and okv_wal_start(). */
void okv_wal_copies_begin(struct okv_wal *wal, const struct okv_wal_copies_params *params);
void okv_wal_copies_get_epochs(const struct okv_wal *wal, struct okv_wal_epochs *out);

/* For okv_wal_close(). */
void okv_wal_copies_end(struct okv_wal *wal);
/* Before a segment begins: has it begin where the store is, with the frames that are not published.
 */
void okv_wal_copies_carry_unpublished(struct okv_wal *wal);

/* ---- the cluster thread, after okv_wal_start() ---- */

void okv_wal_copies_get(struct okv_wal *wal, struct okv_wal_copies_state *out);
/* Begins an epoch, above that of the last frame, with a frame, before which all versions are raised
 * by `raise`. OKV_ENOMEM. */
int okv_wal_copies_lead(struct okv_wal *wal, uint64_t epoch, uint64_t raise);
/* Stops to lead: the open batch and one that is not published are dropped, their frames stay. */
void okv_wal_copies_follow(struct okv_wal *wal);
/* Ends the batch and takes no further changes, or takes them again. */
void okv_wal_copies_drain(struct okv_wal *wal, bool drains);
/* While it does not lead: appends the frames in `bytes`; those that begin before `sealed` are
 * skipped. OKV_EPROTO: they are damaged, or do not follow, and the ones from
 * there on were left out; OKV_ENOMEM. */
int okv_wal_copies_append(struct okv_wal *wal, const uint8_t *bytes, size_t length);
/* While it does not lead: drops frames from `position` on, none of which is published. */
void okv_wal_copies_cut(struct okv_wal *wal, uint64_t position);
/* All before `position` is committed. */
void okv_wal_copies_publish(struct okv_wal *wal, uint64_t position);
/* Keeps frames from `position` on, for a copy that gets a snapshot; UINT64_MAX: as usual. */
void okv_wal_copies_pin(struct okv_wal *wal, uint64_t position);
/* While it does not lead: gives up all frames and items, and expects the pieces of a snapshot.
 * Until it is loaded all positions are 0. */
void okv_wal_copies_load(struct okv_wal *wal);
/* The next piece: records (docs/protocol-peers.md). The bytes are freed by free(). With `end` it is
 * the last one; the log then begins and ends at that position, after a frame of `epoch`.
 * OKV_ENOMEM. */
int okv_wal_copies_add_piece(struct okv_wal *wal, uint8_t *bytes, size_t length, uint64_t end,
                             uint64_t epoch);
/* Changes are refused with this code; 0: they are not. */
void okv_wal_copies_refuse(struct okv_wal *wal, int code);
/* Copies whole frames from `position` to `end` or before, as many as fit into `room` bytes, but at
 * least one. *used: their bytes, also of one that does not fit. OKV_ENOTFOUND: no frame in memory
 * begins there; OKV_EVALUESIZE: the first one does not fit. */
int okv_wal_copies_read(struct okv_wal *wal, uint64_t position, uint64_t end, uint8_t *bytes,
                        size_t room, size_t *used);

#endif
