/*
 * Hits that a client reports, and the server's answer (docs/protocol-admin.md section 2.7): gets by
 * READ leave no trace.
 *
 * A message has the hashes of 1 to OKV_HITS_MAX keys, 8 bytes each.
 */
#ifndef OKV_SHARED_FORMAT_HITS_H
#define OKV_SHARED_FORMAT_HITS_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/bytes.h"
#include "shared/base/error.h"

#define OKV_HITS_MAX 256u
#define OKV_HIT_SIZE 8u
#define OKV_HITS_THINNING_MAX 6u

/* How the client is to go on. */
struct okv_wire_hits {
    okv_le32 interval_ms;
    okv_le16 batch;
    okv_le16 thinning;
    okv_le16 reserved[4];
};
_Static_assert(sizeof(struct okv_wire_hits) == 16, "hits");
_Static_assert(offsetof(struct okv_wire_hits, batch) == 4, "hits.batch");
_Static_assert(offsetof(struct okv_wire_hits, thinning) == 6, "hits.thinning");

struct okv_hits {
    uint32_t interval_ms; /* an item is not reported again for this time */
    uint32_t batch;       /* hashes of a message, 1 to OKV_HITS_MAX */
    uint32_t thinning;    /* one of 2^thinning items is reported; to OKV_HITS_THINNING_MAX */
};

static inline struct okv_wire_hits okv_hits_encode(const struct okv_hits *hits)
{
    return (struct okv_wire_hits){.interval_ms = okv_le32_of(hits->interval_ms),
                                  .batch = okv_le16_of((uint16_t)hits->batch),
                                  .thinning = okv_le16_of((uint16_t)hits->thinning)};
}

/* OKV_EPROTO: it makes no sense. */
static inline int okv_hits_decode(const uint8_t *bytes, size_t length, struct okv_hits *out)
{
    const struct okv_wire_hits *wire = (const struct okv_wire_hits *)bytes;

    if (length != sizeof *wire)
        return OKV_EPROTO;
    out->interval_ms = okv_le32_get(wire->interval_ms);
    out->batch = okv_le16_get(wire->batch);
    out->thinning = okv_le16_get(wire->thinning);
    if (out->batch < 1 || out->batch > OKV_HITS_MAX || out->thinning > OKV_HITS_THINNING_MAX)
        return OKV_EPROTO;
    return 0;
}

#endif
