/* Reads the frames of one file: of a segment of the log, or of a snapshot. */
#ifndef OKV_SERVER_WAL_RECOVERY_READER_H
#define OKV_SERVER_WAL_RECOVERY_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "server/wal/file.h"
#include "server/wal/format.h"

/* There is no further valid frame, or no further file. */
#define OKV_WAL_NONE 1

struct okv_wal_reader {
    struct okv_files *files;
    struct okv_file *file; /* NULL: none is open */
    const char *name;      /* of the file; borrowed */
    uint32_t format;       /* of its frames */
    uint64_t number;       /* in the checksums */
    uint64_t first;        /* position of the first frame */
    bool is_adrift;        /* the file's header is damaged: the first valid frame tells `first` */
    uint64_t begin;        /* of the frame that was read last, in the file */
    uint64_t offset;       /* of the next frame in the file */
    uint8_t *bytes;        /* what was read last */
    uint64_t capacity;
    size_t header_length; /* bytes of the header that the file has */
};

/* Opens a file and reads its header into reader->bytes. okv_wal_check_header() (validate.h) makes
 * the reader ready for frames. OKV_ENOTFOUND, OKV_EPERM, OKV_EIO, OKV_ENOMEM. */
int okv_wal_reader_open(struct okv_wal_reader *reader, struct okv_files *files, const char *name,
                        struct okv_diag *diag);
/* Accepts a reader without a file. The caller frees reader->bytes at last. */
void okv_wal_reader_close(struct okv_wal_reader *reader);

/* The position that the next frame has. */
uint64_t okv_wal_reader_position(const struct okv_wal_reader *reader);
/* Reads the next frame into reader->bytes and moves past it. One of version 1 is longer there by
 * the epoch that it lacks, 0, and so is frame->length. OKV_WAL_NONE: there is no valid one.
 * OKV_EIO, OKV_ENOMEM. */
int okv_wal_reader_next(struct okv_wal_reader *reader, struct okv_wal_frame *frame,
                        struct okv_diag *diag);
/* Searches after an invalid frame for a valid one that says that the log was durable up to position
 * `durable` at least. *offset: where that is in the file; 0: there is none. The reader does not
 * move. OKV_EIO, OKV_ENOMEM. */
int okv_wal_reader_find_later(struct okv_wal_reader *reader, uint64_t durable, uint64_t *offset,
                              struct okv_diag *diag);
/* The bytes that the file has of an invalid frame where the next one would begin; 0: none was begun
 * there. A recycled file has older frames there, of other positions. OKV_EIO, OKV_ENOMEM. */
int okv_wal_reader_begun(struct okv_wal_reader *reader, uint64_t *out, struct okv_diag *diag);
/* Whether the file ends where the next frame would begin. OKV_EIO, OKV_ENOMEM. */
int okv_wal_reader_is_at_end(struct okv_wal_reader *reader, bool *is_at_end, struct okv_diag *diag);

/* Sets the sentence that the file is damaged at this byte. Returns OKV_ECORRUPT. */
int okv_wal_reader_damaged(const struct okv_wal_reader *reader, uint64_t offset, const char *what,
                           struct okv_diag *diag);

#endif
