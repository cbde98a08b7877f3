#include "shared/transport/common/rendezvous_reads.h"

#include "shared/base/error.h"

int okv_rendezvous_check(const struct okv_rendezvous_reads *reads,
                         const struct okv_rendezvous *rendezvous, uint64_t region_length,
                         bool is_open)
{
    bool is_inside = rendezvous->destination ||
                     okv_range_inside(rendezvous->offset, rendezvous->length, region_length);

    if (rendezvous->length == 0 || region_length == 0 || !is_inside)
        return OKV_EINVAL;
    if (!is_open)
        return OKV_EDISCONNECTED;
    return reads->count == OKV_RENDEZVOUS_MAX ? OKV_EAGAIN : 0;
}

unsigned okv_rendezvous_begin(struct okv_rendezvous_reads *reads,
                              const struct okv_rendezvous *rendezvous, void *base)
{
    unsigned index = reads->first;

    while (reads->slots[index].is_busy)
        index = (index + 1) % OKV_RENDEZVOUS_MAX;
    reads->slots[index] = (struct okv_rendezvous_read){
        .is_busy = true,
        .key = rendezvous->key,
        .address = rendezvous->address,
        .to = rendezvous->destination ? rendezvous->destination
                                      : (uint8_t *)base + rendezvous->offset,
        .cookie = rendezvous->cookie,
        .left = rendezvous->length,
    };
    reads->count++;
    return index;
}

void okv_rendezvous_advance(struct okv_rendezvous_read *read, uint32_t length)
{
    read->address += length;
    read->to += length;
    read->left -= length;
}

void okv_rendezvous_report(struct okv_rendezvous_reads *reads, unsigned index,
                           struct okv_conn *conn, struct okv_event *event)
{
    struct okv_rendezvous_read *read = &reads->slots[index];
    bool is_whole = read->left == 0 && read->pieces == 0;

    *event = (struct okv_event){
        .type = OKV_EVENT_RENDEZVOUS_DONE,
        .status = is_whole || read->status ? read->status : OKV_EDISCONNECTED,
        .conn = conn,
        .cookie = read->cookie,
    };
    read->is_busy = false;
    reads->count--;
}

void okv_rendezvous_report_oldest(struct okv_rendezvous_reads *reads, struct okv_conn *conn,
                                  struct okv_event *event)
{
    okv_rendezvous_report(reads, reads->first, conn, event);
    reads->first = (reads->first + 1) % OKV_RENDEZVOUS_MAX;
}
