/*
 * The first bytes of the region: what it is and how it is laid out
 * (docs/format.md section 2). Written once, before the server is reachable.
 */
#ifndef OKV_SHARED_SUPERBLOCK_H
#define OKV_SHARED_SUPERBLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "shared/bytes.h"

#define OKV_SUPERBLOCK_MAGIC UINT64_C(0x656c626174766b6f) /* "okvtable" in memory */
#define OKV_FORMAT_VERSION 1
#define OKV_SUPERBLOCK_SIZE 4096 /* bucket 0 starts here */

struct okv_wire_superblock {
    okv_le64 magic;
    okv_le32 format_version;
    okv_le32 bucket_size;
    okv_le64 boot_id;
    okv_le64 hash_seed;
    okv_le64 region_length;
    okv_le64 index_offset;
    okv_le64 index_length;
    okv_le32 depth;
    okv_le32 reserved;
    okv_le64 boot_clock_ms;
    okv_le64 checksum;
};
_Static_assert(sizeof(struct okv_wire_superblock) == 80, "superblock");
_Static_assert(offsetof(struct okv_wire_superblock, boot_id) == 16, "superblock.boot_id");
_Static_assert(offsetof(struct okv_wire_superblock, depth) == 56, "superblock.depth");
_Static_assert(offsetof(struct okv_wire_superblock, boot_clock_ms) == 64,
               "superblock.boot_clock_ms");
_Static_assert(offsetof(struct okv_wire_superblock, checksum) == 72, "superblock.checksum");

struct okv_superblock {
    uint64_t boot_id;       /* random, never 0, new at every start */
    uint64_t hash_seed;     /* of okv_hash_key */
    uint64_t region_length; /* bytes */
    uint64_t index_offset;
    uint64_t index_length;
    uint64_t boot_clock_ms; /* server's wall clock when the table was made */
    uint32_t bucket_size;
    uint32_t depth; /* when the table was made */
};

void okv_superblock_encode(const struct okv_superblock *block, struct okv_wire_superblock *out);
/* OKV_EPROTO: not a superblock, or damaged. OKV_EVERSION: of another format. */
int okv_superblock_decode(const uint8_t *bytes, size_t length, struct okv_superblock *out);

#endif
