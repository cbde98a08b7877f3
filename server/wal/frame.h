/* Writes headers and frames of segments and snapshots. */
#ifndef OKV_SERVER_WAL_FRAME_H
#define OKV_SERVER_WAL_FRAME_H

#include "server/wal/file.h"
#include "server/wal/format.h"

#define OKV_WAL_FRAME_HEADER sizeof(struct okv_wal_wire_frame)

/* Where the file has the frame of this position, or ends. */
uint64_t okv_wal_frame_offset(const struct okv_wal_header *segment, uint64_t position);
/* Seals a frame of the segment and writes it to its place, followed by zeros up to the end of the
 * page: so the kernel need not read the rest of that page from a recycled segment. Fails like
 * okv_file_ops.write. */
int okv_wal_frame_write(struct okv_files *files, struct okv_file *file,
                        const struct okv_wal_header *segment, const struct okv_wal_frame *frame,
                        uint8_t *bytes, struct okv_diag *why);
/* The same for the bytes of a frame that is sealed otherwise, and stays so. */
int okv_wal_frame_write_copy(struct okv_files *files, struct okv_file *file,
                             const struct okv_wal_header *segment,
                             const struct okv_wal_frame *frame, const uint8_t *bytes,
                             struct okv_diag *why);
/* Writes the header of a segment or a snapshot. Fails likewise. */
int okv_wal_header_write(struct okv_files *files, struct okv_file *file,
                         const struct okv_wal_header *header, struct okv_diag *why);

#endif
