/* The names of the files of a log, and which of them exist. */
#ifndef OKV_SERVER_WAL_LISTING_H
#define OKV_SERVER_WAL_LISTING_H

#include <stdbool.h>
#include <stdint.h>

#include "server/wal/file.h"

#define OKV_WAL_NAME_SIZE 32
#define OKV_WAL_SEGMENT "log."
#define OKV_WAL_SNAPSHOT "snapshot."
#define OKV_WAL_BLOB "value."
/* An incomplete snapshot or segment. */
#define OKV_WAL_PART "snapshot.part"
#define OKV_WAL_SEGMENT_PART "log.part"
/* A segment that is not needed any more: preallocate.h. */
#define OKV_WAL_RECYCLED "log.spare"

struct okv_wal_listing {
    uint64_t snapshot;    /* number of the newest; 0: there is none */
    uint64_t first, last; /* segments that continue it; 0: there is none */
    uint64_t count;
};

/* The name of the file of this number. */
void okv_wal_name(const char *prefix, uint64_t number, char name[OKV_WAL_NAME_SIZE]);
/* The number in such a name; 0: it is no such name. */
uint64_t okv_wal_number(const char *prefix, const char *name);
/* OKV_ECORRUPT: a segment is missing, and *out has the rest; OKV_EIO, OKV_EPERM, OKV_ENOMEM. */
int okv_wal_list(struct okv_files *files, struct okv_wal_listing *out, struct okv_diag *diag);
/* Whether there is no segment and no snapshot. OKV_EIO, OKV_EPERM, OKV_ENOMEM. */
int okv_wal_is_empty(struct okv_files *files, bool *is_empty, struct okv_diag *diag);
/* Finds the lowest number of a segment from *number on; 0: there is none. OKV_EIO, OKV_EPERM,
 * OKV_ENOMEM. */
int okv_wal_list_from(struct okv_files *files, uint64_t *number, struct okv_diag *diag);
/* The bytes of the files that a start reads. Fails like okv_wal_list() and okv_file_ops.open. */
int okv_wal_list_bytes(struct okv_files *files, uint64_t *out, struct okv_diag *diag);
/* Removes segments and snapshots below this number, and an incomplete snapshot. With `recycles` one
 * of the segments becomes OKV_WAL_RECYCLED. Fails like okv_file_ops.remove. */
int okv_wal_remove_before(struct okv_files *files, uint64_t number, bool recycles,
                          struct okv_diag *why);

#endif
