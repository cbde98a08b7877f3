/* Rendezvous reads of a connection. Its transport performs each piece by piece. */
#ifndef OKV_SHARED_TRANSPORT_COMMON_RENDEZVOUS_READS_H
#define OKV_SHARED_TRANSPORT_COMMON_RENDEZVOUS_READS_H

#include "shared/transport/transport.h"

struct okv_rendezvous_read {
    bool is_busy;
    uint32_t key;
    uint64_t address; /* of the next piece, in the client's memory */
    uint8_t *to;      /* of the next piece, here */
    uint64_t cookie;
    uint32_t left;   /* bytes not posted yet */
    unsigned pieces; /* under way */
    int status;      /* of the first piece that failed */
};

struct okv_rendezvous_reads {
    struct okv_rendezvous_read slots[OKV_RENDEZVOUS_MAX];
    unsigned first; /* the oldest, where they end in order: then busy slots form a ring; else 0 */
    unsigned count;
};

/* 0, or why a rendezvous read is refused: OKV_EINVAL, OKV_EDISCONNECTED, OKV_EAGAIN. */
int okv_rendezvous_check(const struct okv_rendezvous_reads *reads,
                         const struct okv_rendezvous *rendezvous, uint64_t region_length,
                         bool is_open);
/* Takes the first free slot from `first` on; there is one. `base` is the region's. Returns its
 * index. */
unsigned okv_rendezvous_begin(struct okv_rendezvous_reads *reads,
                              const struct okv_rendezvous *rendezvous, void *base);
/* `length` bytes of it are posted, or copied. */
void okv_rendezvous_advance(struct okv_rendezvous_read *read, uint32_t length);
/* Makes the event of a rendezvous read and frees its slot. One that has not come to its end fails
 * with OKV_EDISCONNECTED, unless a piece has failed before. */
void okv_rendezvous_report(struct okv_rendezvous_reads *reads, unsigned index,
                           struct okv_conn *conn, struct okv_event *event);
/* The same for the oldest. */
void okv_rendezvous_report_oldest(struct okv_rendezvous_reads *reads, struct okv_conn *conn,
                                  struct okv_event *event);

#endif
