/* The names of the files of a log, and which of them there are. */
#ifndef OKV_SERVER_WAL_LISTING_H
#define OKV_SERVER_WAL_LISTING_H

#include <stdbool.h>
#include <stdint.h>

#include "server/wal/file.h"
#include "shared/base/diag.h"

#define OKV_WAL_NAME_SIZE 32
#define OKV_WAL_SEGMENT "log."
#define OKV_WAL_SNAPSHOT "snapshot."
/* A snapshot and a segment that are not whole. */
#define OKV_WAL_PART "snapshot.part"
#define OKV_WAL_SEGMENT_PART "log.part"
/* A segment that is not needed any more: preallocate.h. */
#define OKV_WAL_SPARE "log.spare"

struct okv_wal_listing {
    uint64_t snapshot;    /* the newest; 0: there is none */
    uint64_t first, last; /* segments that go on from it; 0: there is none */
    uint64_t count;
};

/* The name of the segment or snapshot of this number. */
void okv_wal_name(const char *prefix, uint64_t number, char name[OKV_WAL_NAME_SIZE]);
/* The number in such a name; 0: it is no such name. */
uint64_t okv_wal_number(const char *prefix, const char *name);
/* OKV_ECORRUPT: a segment is missing, and *out is as ever; OKV_EIO, OKV_ENOMEM. */
int okv_wal_list(struct okv_files *files, struct okv_wal_listing *out, struct okv_diag *diag);
/* Whether there is no segment and no snapshot. OKV_EIO, OKV_ENOMEM. */
int okv_wal_is_empty(struct okv_files *files, bool *is_empty, struct okv_diag *diag);
/* The lowest number of a segment from *number on; 0: there is none. OKV_EIO. */
int okv_wal_list_from(struct okv_files *files, uint64_t *number, struct okv_diag *diag);
/* The bytes of the files that a start reads. OKV_ECORRUPT, OKV_EIO, OKV_ENOMEM. */
int okv_wal_list_bytes(struct okv_files *files, uint64_t *out, struct okv_diag *diag);
/* Removes segments and snapshots below this number, and a snapshot that is not whole. With
 * `keeps_spare` one of the segments becomes OKV_WAL_SPARE. Returns 0 or a negative errno value. */
int okv_wal_remove_before(struct okv_files *files, uint64_t number, bool keeps_spare);

#endif
