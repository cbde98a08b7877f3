/*
 * The first pages of the region (docs/format.md section 2). The superblock describes the region and
 * is written once, before the server is reachable. The server keeps the status block up to date.
 * The directory of the index follows.
 */
#ifndef OKV_SHARED_FORMAT_SUPERBLOCK_H
#define OKV_SHARED_FORMAT_SUPERBLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/bytes.h"

#define OKV_SUPERBLOCK_MAGIC UINT64_C(0x656c626174766b6f) /* "okvtable" in memory */
#define OKV_FORMAT_VERSION 2
#define OKV_STATUS_OFFSET 128
#define OKV_DIRECTORY_OFFSET 4096
/* Segments of the index. The superblock says how many buckets each has. */
#define OKV_DIRECTORY_ENTRIES 1024
#define OKV_DIRECTORY_SIZE (OKV_DIRECTORY_ENTRIES * 8)
#define OKV_HEAP_OFFSET (OKV_DIRECTORY_OFFSET + OKV_DIRECTORY_SIZE) /* to the end of the region */

struct okv_wire_superblock {
    okv_le64 magic;
    okv_le32 format_version;
    okv_le32 bucket_size;
    okv_le64 boot_id;
    okv_le64 hash_seed;
    okv_le64 region_length;
    okv_le64 directory_offset;
    okv_le32 directory_entries;
    okv_le32 segment_buckets;
    okv_le64 reserved;
    okv_le64 boot_wall_ms;
    okv_le64 checksum;
};
_Static_assert(sizeof(struct okv_wire_superblock) == 80, "superblock");
_Static_assert(offsetof(struct okv_wire_superblock, boot_id) == 16, "superblock.boot_id");
_Static_assert(offsetof(struct okv_wire_superblock, directory_entries) == 48,
               "superblock.directory_entries");
_Static_assert(offsetof(struct okv_wire_superblock, boot_wall_ms) == 64, "superblock.boot_wall_ms");
_Static_assert(offsetof(struct okv_wire_superblock, checksum) == 72, "superblock.checksum");

struct okv_superblock {
    uint64_t boot_id;       /* random, never 0, new at every start */
    uint64_t hash_seed;     /* of okv_hash_key */
    uint64_t region_length; /* bytes */
    uint64_t directory_offset;
    uint64_t boot_wall_ms;      /* server's wall clock when the table was made */
    uint32_t directory_entries; /* OKV_DIRECTORY_ENTRIES */
    uint32_t segment_buckets;   /* a power of two: buckets in each segment of the index */
    uint32_t bucket_size;
};

void okv_superblock_encode(const struct okv_superblock *block, struct okv_wire_superblock *out);
/* OKV_EPROTO: not a superblock, or damaged. OKV_EVERSION: another format. */
int okv_superblock_decode(const uint8_t *bytes, size_t length, struct okv_superblock *out);

/* One cache line. */
struct okv_wire_status {
    okv_le64 clock_ms;
    okv_le64 bucket_count;
    okv_le64 valid_until_us;
    okv_le64 epoch;
    okv_le64 map_version;
    okv_le64 applied;
    okv_le64 flags;
    okv_le64 checksum;
};
_Static_assert(sizeof(struct okv_wire_status) == 64, "status");
_Static_assert(offsetof(struct okv_wire_status, bucket_count) == 8, "status.bucket_count");
_Static_assert(offsetof(struct okv_wire_status, valid_until_us) == 16, "status.valid_until_us");
_Static_assert(offsetof(struct okv_wire_status, flags) == 48, "status.flags");
_Static_assert(offsetof(struct okv_wire_status, checksum) == 56, "status.checksum");
_Static_assert(OKV_STATUS_OFFSET % 64 == 0, "one cache line");
_Static_assert(OKV_STATUS_OFFSET >= sizeof(struct okv_wire_superblock), "status after superblock");

/* Bits of `flags`; unknown ones are ignored. */
enum okv_lease_flag {
    OKV_LEASE_MEMBER = 1, /* the server is a member of a cluster: READs need a lease */
};

/* What the copies of a table have agreed on; zeros on a server alone. */
struct okv_table_lease {
    uint64_t valid_until_us; /* on the server's lease clock: until then no copy takes over; 0: the
                                server is no primary */
    uint64_t epoch;          /* of the primary; another primary has a higher one */
    uint64_t map_version;    /* of the cluster's map */
    uint64_t applied;        /* by a copy: its position in the primary's log */
    uint64_t flags;          /* of enum okv_lease_flag */
};

/* The status block: what changes while the server runs. */
struct okv_table_status {
    uint64_t clock_ms;     /* the server's clock, the base of expiries; at least 1 */
    uint64_t bucket_count; /* of the index, at least 1 */
    struct okv_table_lease lease;
};

void okv_status_encode(const struct okv_table_status *status, uint64_t boot_id,
                       struct okv_wire_status *out);
/* OKV_ECORRUPT: it was being written, or it is from another boot. */
int okv_status_decode(const uint8_t *bytes, uint64_t boot_id, struct okv_table_status *out);

#endif
