/* Writing the frames of a segment. */
#ifndef OKV_SERVER_WAL_FRAME_H
#define OKV_SERVER_WAL_FRAME_H

#include "server/wal/file.h"
#include "server/wal/format.h"

/* Where the file has the frame of this position, or ends. */
uint64_t okv_wal_frame_offset(const struct okv_wal_header *segment, uint64_t position);
/* Seals a frame of the segment and writes it to its place, with zeros up to the end of the page: so
 * the kernel need not read what a spare has in the rest of it. Returns 0 or a negative errno. */
int okv_wal_frame_write(struct okv_files *files, struct okv_file *file,
                        const struct okv_wal_header *segment, const struct okv_wal_frame *frame,
                        uint8_t *bytes);

#endif
