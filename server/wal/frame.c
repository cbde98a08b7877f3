#include "server/wal/frame.h"

#define PAGE 4096u

uint64_t okv_wal_frame_offset(const struct okv_wal_header *segment, uint64_t position)
{
    return OKV_WAL_HEADER_SIZE + position - segment->position;
}

int okv_wal_frame_write(struct okv_files *files, struct okv_file *file,
                        const struct okv_wal_header *segment, const struct okv_wal_frame *frame,
                        uint8_t *bytes, struct okv_diag *why)
{
    static uint8_t zeros[PAGE];
    uint64_t offset = okv_wal_frame_offset(segment, frame->position);
    struct iovec vectors[] = {{bytes, frame->length}, {zeros, -(offset + frame->length) % PAGE}};

    okv_wal_frame_seal(frame, segment->number, bytes);
    return files->ops->write(file, vectors, 2, offset, why);
}

int okv_wal_frame_write_copy(struct okv_files *files, struct okv_file *file,
                             const struct okv_wal_header *segment,
                             const struct okv_wal_frame *frame, const uint8_t *bytes,
                             struct okv_diag *why)
{
    static uint8_t zeros[PAGE];
    uint64_t offset = okv_wal_frame_offset(segment, frame->position);
    uint64_t rest = frame->length - OKV_WAL_FRAME_HEADER;
    uint8_t header[OKV_WAL_FRAME_HEADER];
    struct iovec vectors[] = {{header, sizeof header},
                              {(void *)(bytes + OKV_WAL_FRAME_HEADER), rest},
                              {zeros, -(offset + frame->length) % PAGE}};

    okv_wal_frame_seal_parts(frame, segment->number, header, sizeof header,
                             bytes + OKV_WAL_FRAME_HEADER, rest);
    return files->ops->write(file, vectors, 3, offset, why);
}

int okv_wal_header_write(struct okv_files *files, struct okv_file *file,
                         const struct okv_wal_header *header, struct okv_diag *why)
{
    uint8_t bytes[OKV_WAL_HEADER_SIZE];
    struct iovec vector = {bytes, sizeof bytes};

    okv_wal_header_encode(header, bytes);
    return files->ops->write(file, &vector, 1, 0, why);
}
