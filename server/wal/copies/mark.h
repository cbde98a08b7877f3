/*
 * The file `copy` of a directory (docs/cluster-format.md section 2): of which cluster its log is
 * a copy, and what of it counts. A directory with this file is for a server of that cluster only: a
 * server alone would go on with the same epoch, and no copy could tell the two logs apart.
 */
#ifndef OKV_SERVER_WAL_COPIES_MARK_H
#define OKV_SERVER_WAL_COPIES_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/wal/file.h"
#include "shared/base/bytes.h"

#define OKV_WAL_MARK "copy"
#define OKV_WAL_MARK_FORMAT 1
#define OKV_WAL_MARK_SIZE 80u
#define OKV_WAL_CLUSTER_SIZE 32u

struct okv_wal_wire_mark {
    uint8_t magic[8];
    okv_le32 format_version;
    uint8_t is_whole;
    uint8_t reserved[3];
    okv_le64 incarnation;
    okv_le64 epoch;
    okv_le64 cluster_id;
    uint8_t cluster[OKV_WAL_CLUSTER_SIZE];
    okv_le64 checksum;
};
_Static_assert(sizeof(struct okv_wal_wire_mark) == OKV_WAL_MARK_SIZE, "mark");
_Static_assert(offsetof(struct okv_wal_wire_mark, cluster) == 40, "mark.cluster");

struct okv_wal_mark {
    char cluster[OKV_WAL_CLUSTER_SIZE]; /* a string */
    uint64_t incarnation;               /* of the log */
    uint64_t epoch;                     /* the highest that was seen */
    uint64_t cluster_id;                /* as etcd has it; 0: not known yet */
    bool is_whole;                      /* else the log is the rest of one that was given up */
};

void okv_wal_mark_encode(const struct okv_wal_mark *mark, uint8_t out[OKV_WAL_MARK_SIZE]);
/* Reads OKV_WAL_MARK_SIZE bytes. OKV_EVERSION: of another format; OKV_ECORRUPT. */
int okv_wal_mark_decode(const uint8_t bytes[OKV_WAL_MARK_SIZE], struct okv_wal_mark *out);

/* OKV_ENOTFOUND: there is none; OKV_EVERSION, OKV_ECORRUPT, OKV_EIO, OKV_EPERM, OKV_ENOMEM. */
int okv_wal_mark_read(struct okv_files *files, struct okv_wal_mark *out, struct okv_diag *why);
/* Replaces the file; it is durable when this returns 0. Fails like okv_file_ops. */
int okv_wal_mark_write(struct okv_files *files, const struct okv_wal_mark *mark,
                       struct okv_diag *why);

#endif
