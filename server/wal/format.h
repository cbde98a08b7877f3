/*
 * The bytes of log and snapshots: docs/durability-format.md. Encoding and checking only; nothing
 * here knows of files.
 */
#ifndef OKV_SERVER_WAL_FORMAT_H
#define OKV_SERVER_WAL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/bytes.h"

#define OKV_WAL_FORMAT 2
#define OKV_WAL_FORMAT_OLD 1 /* is read */
#define OKV_WAL_ID_SIZE 16
#define OKV_WAL_HEADER_SIZE 4096
#define OKV_WAL_ALIGNMENT 8u

struct okv_wal_wire_header {
    uint8_t magic[8];
    okv_le32 format_version;
    okv_le32 bucket_size;
    uint8_t database_id[OKV_WAL_ID_SIZE];
    okv_le64 number;
    okv_le64 position;
    okv_le64 hash_seed;
    okv_le64 bucket_count;
    uint8_t is_relaxed;
    uint8_t is_clean;
    uint8_t reserved[6];
    okv_le64 raise;
    okv_le64 epoch;
    okv_le64 checksum;
};
_Static_assert(sizeof(struct okv_wal_wire_header) == 96, "header");
_Static_assert(offsetof(struct okv_wal_wire_header, number) == 32, "header.number");
_Static_assert(offsetof(struct okv_wal_wire_header, raise) == 72, "header.raise");
_Static_assert(offsetof(struct okv_wal_wire_header, checksum) == 88, "header.checksum");

struct okv_wal_wire_frame {
    okv_le64 checksum;
    okv_le64 length;
    okv_le64 position;
    okv_le64 durable;
    okv_le64 clock_ms;
    okv_le64 wall_ms;
    okv_le64 epoch;
};
_Static_assert(sizeof(struct okv_wal_wire_frame) == 56, "frame header");
/* The epoch is what version 1 lacks. */
#define OKV_WAL_OLD_FRAME_HEADER 48u
_Static_assert(offsetof(struct okv_wal_wire_frame, epoch) == OKV_WAL_OLD_FRAME_HEADER, "epoch");

struct okv_wal_wire_record {
    uint8_t kind;
    uint8_t reserved;
    okv_le16 key_length;
    okv_le32 value_length;
    okv_le64 version;
    okv_le64 expiry_ms;
};
_Static_assert(sizeof(struct okv_wal_wire_record) == 24, "record header");
_Static_assert(offsetof(struct okv_wal_wire_record, version) == 8, "record.version");

/* Of a segment of the log, or of a snapshot. */
struct okv_wal_header {
    uint8_t database_id[OKV_WAL_ID_SIZE];
    uint64_t number;   /* of the segment; of a snapshot: of the segment that continues it */
    uint64_t position; /* of that segment's first frame */
    uint64_t epoch;    /* of the last frame before that position; 0: none was begun */
    uint64_t hash_seed;
    uint64_t bucket_count; /* of a snapshot: of the table at that moment; of a segment 0 */
    uint32_t bucket_size;  /* likewise */
    bool is_relaxed;       /* of a segment: changes were answered before they were durable */
    bool is_clean;         /* of a segment: a clean stop began it, and nothing comes in it */
    uint64_t raise;        /* of a segment: versions of all before it are raised by this much */
    uint32_t format;       /* that was read; what is written is OKV_WAL_FORMAT */
};

struct okv_wal_frame {
    uint64_t length;
    uint64_t position;
    uint64_t durable;
    uint64_t clock_ms;
    uint64_t wall_ms;
    uint64_t epoch;
};

/* Numbers of blob files have 24 bits for it (blob/blobs.h). */
#define OKV_WAL_EPOCH_MAX ((UINT64_C(1) << 24) - 1)

/* The longest frame. A batch may exceed its limit by one record of a largest value. */
#define OKV_WAL_FRAME_MAX (UINT64_C(1) << 28)

enum okv_wal_kind {
    OKV_WAL_PUT = 1,
    OKV_WAL_DELETE = 2,
    /* Of snapshots only. */
    OKV_WAL_BUCKET = 3, /* the puts after it are of this bucket */
    OKV_WAL_END = 4,
    /* What the server remembers of its clients. */
    OKV_WAL_CLIENT = 5,    /* its key identifies the client */
    OKV_WAL_REPLY = 6,     /* to a write; its key is an encoded okv_wal_reply */
    OKV_WAL_FORGOTTEN = 7, /* in snapshots */
    /* Of segments of version 1; the header says so today. */
    OKV_WAL_RAISE = 8, /* all versions are raised */
    OKV_WAL_CLEAN = 9, /* nothing was lost after this record */

    OKV_WAL_LONG = 10,  /* a put; its value is an encoded okv_wal_long */
    OKV_WAL_EPOCH = 11, /* in segments: an epoch begins with this frame */
};

/* By how much versions are raised when answered changes may be lost: more than there can be. */
#define OKV_WAL_RAISE_BY (UINT64_C(1) << 28)

/* Bytes of the keys of CLIENT and REPLY. */
#define OKV_WAL_CLIENT_SIZE 40u
#define OKV_WAL_REPLY_SIZE 16u
/* The value of CLIENT: the session since which all its writes are known. */
#define OKV_WAL_CLIENT_VALUE_SIZE 8u
/* The longest value of a reply. */
#define OKV_WAL_REPLY_VALUE_MAX 16u

struct okv_wal_record {
    enum okv_wal_kind kind;
    const void *key;
    uint32_t key_length;
    const void *value;
    uint32_t value_length;
    /* Of END: the number of items; of CLIENT: the first session of its reply cache, which names it;
     * of FORGOTTEN: reply caches of sessions up to this one may have been dropped; of RAISE: by how
     * much; of CLEAN: the number of its segment; of EPOCH: the epoch. */
    uint64_t version;
    union {
        uint64_t expiry_ms;
        uint64_t bucket;   /* of BUCKET: its number */
        uint64_t slots;    /* of CLIENT: of its reply cache */
        uint64_t sequence; /* of REPLY */
        uint64_t raise;    /* of EPOCH: all versions before it are raised by this much */
    };
};

/* Where the value of a LONG is. */
struct okv_wal_long {
    uint64_t number;   /* of the file */
    uint64_t length;   /* bytes */
    uint64_t checksum; /* okv_hash_checksum() with seed 0 */
};
#define OKV_WAL_LONG_SIZE 24u

/* The write that a reply answers. */
struct okv_wal_reply {
    uint64_t client;  /* version of its CLIENT */
    uint32_t session; /* id of the session minus `client` */
    uint16_t slot;
    uint8_t opcode;
};

/* Whether it changes an item. */
static inline bool okv_wal_is_change(const struct okv_wal_record *record)
{
    return record->kind == OKV_WAL_PUT || record->kind == OKV_WAL_DELETE ||
           record->kind == OKV_WAL_LONG;
}

/* Writes OKV_WAL_HEADER_SIZE bytes. A header with buckets is of a snapshot. */
void okv_wal_header_encode(const struct okv_wal_header *header, uint8_t *out);
/* `bytes` has OKV_WAL_HEADER_SIZE. OKV_EVERSION: a format that is not read; OKV_ECORRUPT. */
int okv_wal_header_decode(const uint8_t *bytes, struct okv_wal_header *out);
/* The format_version that the bytes have, whatever else is damaged. */
uint32_t okv_wal_header_format(const uint8_t *bytes);

/* Bytes of a record in a frame. */
uint64_t okv_wal_record_size(uint32_t key_length, uint32_t value_length);
/* Writes a record. */
void okv_wal_record_encode(const struct okv_wal_record *record, uint8_t *out);
/* Writes a record without its value and the padding. */
void okv_wal_record_encode_head(const struct okv_wal_record *record, uint8_t *out);
/* Sets the version of an encoded record. */
void okv_wal_record_set_version(uint8_t *record, uint64_t version);
/* Reads the record at *at, before `end`, and moves *at past it. The record points into the bytes.
 * OKV_ECORRUPT. */
int okv_wal_record_decode(const uint8_t *bytes, uint64_t end, uint64_t *at,
                          struct okv_wal_record *out);

void okv_wal_reply_encode(const struct okv_wal_reply *reply, uint8_t out[OKV_WAL_REPLY_SIZE]);
/* The key of a REPLY that was decoded. */
void okv_wal_reply_decode(const uint8_t bytes[OKV_WAL_REPLY_SIZE], struct okv_wal_reply *out);

void okv_wal_long_encode(const struct okv_wal_long *at, uint8_t out[OKV_WAL_LONG_SIZE]);
/* The value of a LONG that was decoded. */
void okv_wal_long_decode(const uint8_t bytes[OKV_WAL_LONG_SIZE], struct okv_wal_long *out);
/* The length of the value of a PUT or a LONG that was decoded. */
uint32_t okv_wal_value_length(const struct okv_wal_record *record);

/* Writes the header of a frame before its records; all has frame->length bytes. */
void okv_wal_frame_seal(const struct okv_wal_frame *frame, uint64_t segment, uint8_t *bytes);
/* The same for a frame in parts: its first `length` bytes are at `bytes`, the next at `rest`, and
 * the padding after them is zeros. */
void okv_wal_frame_seal_parts(const struct okv_wal_frame *frame, uint64_t segment, uint8_t *bytes,
                              uint64_t length, const uint8_t *rest, uint64_t rest_length);
/* Reads a header of sizeof(struct okv_wal_wire_frame) bytes; those of version 1 are shorter, and a
 * record follows. False: no frame has its length, or it is above `most`. */
bool okv_wal_frame_peek(const uint8_t *bytes, uint64_t most, struct okv_wal_frame *out);
/* Whether the bytes, frame->length of them, are the frame at this position of this segment. */
bool okv_wal_frame_check(const struct okv_wal_frame *frame, uint64_t segment, uint64_t position,
                         const uint8_t *bytes);

#endif
