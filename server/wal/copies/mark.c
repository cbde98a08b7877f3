#include "server/wal/copies/mark.h"

#include <string.h>

#include "shared/base/error.h"
#include "shared/format/hash.h"

#define PART "copy.part"

static const uint8_t magic[8] = {'o', 'k', 'v', 'c', 'o', 'p', 'y', '\0'};

static uint64_t checksum(const struct okv_wal_wire_mark *wire)
{
    return okv_hash_checksum(wire, offsetof(struct okv_wal_wire_mark, checksum), 0);
}

void okv_wal_mark_encode(const struct okv_wal_mark *mark, uint8_t out[OKV_WAL_MARK_SIZE])
{
    struct okv_wal_wire_mark wire = {.is_whole = mark->is_whole};

    memcpy(wire.magic, magic, sizeof magic);
    wire.format_version = okv_le32_of(OKV_WAL_MARK_FORMAT);
    wire.incarnation = okv_le64_of(mark->incarnation);
    wire.epoch = okv_le64_of(mark->epoch);
    wire.cluster_id = okv_le64_of(mark->cluster_id);
    memcpy(wire.cluster, mark->cluster, strnlen(mark->cluster, OKV_WAL_CLUSTER_SIZE - 1));
    wire.checksum = okv_le64_of(checksum(&wire));
    memcpy(out, &wire, sizeof wire);
}

int okv_wal_mark_decode(const uint8_t bytes[OKV_WAL_MARK_SIZE], struct okv_wal_mark *out)
{
    static const uint8_t zeros[sizeof((struct okv_wal_wire_mark *)0)->reserved];
    struct okv_wal_wire_mark wire;

    memcpy(&wire, bytes, sizeof wire);
    if (memcmp(wire.magic, magic, sizeof magic) != 0)
        return OKV_ECORRUPT;
    if (okv_le32_get(wire.format_version) != OKV_WAL_MARK_FORMAT)
        return OKV_EVERSION;
    if (okv_le64_get(wire.checksum) != checksum(&wire) || wire.is_whole > 1 ||
        memcmp(wire.reserved, zeros, sizeof zeros) != 0 ||
        wire.cluster[OKV_WAL_CLUSTER_SIZE - 1] != 0)
        return OKV_ECORRUPT;
    *out = (struct okv_wal_mark){
        .incarnation = okv_le64_get(wire.incarnation),
        .epoch = okv_le64_get(wire.epoch),
        .cluster_id = okv_le64_get(wire.cluster_id),
        .is_whole = wire.is_whole,
    };
    memcpy(out->cluster, wire.cluster, sizeof out->cluster);
    return 0;
}

int okv_wal_mark_read(struct okv_files *files, struct okv_wal_mark *out, struct okv_diag *why)
{
    uint8_t bytes[OKV_WAL_MARK_SIZE];
    struct okv_file *file;
    size_t got = 0;
    int rc = files->ops->open(files, OKV_WAL_MARK, &file, why);

    if (rc)
        return rc;
    rc = files->ops->read(file, bytes, sizeof bytes, 0, &got, why);
    files->ops->close(file);
    if (rc == 0)
        rc = got == sizeof bytes ? okv_wal_mark_decode(bytes, out) : OKV_ECORRUPT;
    if (rc == OKV_ECORRUPT || rc == OKV_EVERSION)
        okv_diag_set(why, rc, "the file " OKV_WAL_MARK " %s",
                     rc == OKV_ECORRUPT ? "is damaged" : "is of another version of okv-server");
    return rc;
}

static int write_part(struct okv_files *files, const uint8_t bytes[OKV_WAL_MARK_SIZE],
                      struct okv_diag *why)
{
    struct iovec vector = {(void *)bytes, OKV_WAL_MARK_SIZE};
    struct okv_file *file;

    files->ops->remove(files, PART, NULL); /* of a start that died */
    int rc = files->ops->create(files, PART, &file, why);
    if (rc)
        return rc;
    rc = files->ops->write(file, &vector, 1, 0, why);
    if (rc == 0)
        rc = files->ops->sync(file, why);
    files->ops->close(file);
    return rc;
}

int okv_wal_mark_write(struct okv_files *files, const struct okv_wal_mark *mark,
                       struct okv_diag *why)
{
    uint8_t bytes[OKV_WAL_MARK_SIZE];

    okv_wal_mark_encode(mark, bytes);
    int rc = write_part(files, bytes, why);
    if (rc == 0)
        rc = files->ops->rename(files, PART, OKV_WAL_MARK, why);
    return rc ? rc : files->ops->sync_names(files, why);
}
