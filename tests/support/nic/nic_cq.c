/* Completion queues. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "tests/support/nic/nic_queue.h"

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int size, void *user,
                             struct ibv_comp_channel *channel, int vector)
{
    struct nic_cq *cq = NULL;

    pthread_mutex_lock(&nic.lock);
    if (size < 1 || size > nic_device_of(context)->traits.attr.max_cqe || vector < 0 ||
        vector >= context->num_comp_vectors) {
        errno = EINVAL;
    } else if (!nic_is_gone(context) && (cq = nic_alloc(sizeof *cq))) {
        cq->ring = nic_alloc((size_t)size * sizeof *cq->ring);
        cq->base = (struct ibv_cq){
            .context = context, .channel = channel, .cq_context = user, .cqe = size};
        nic.last_vector = vector;
        if (channel)
            ((struct nic_comp_channel *)channel)->cq = cq;
        nic.open_objects++;
    }
    pthread_mutex_unlock(&nic.lock);
    return cq ? &cq->base : NULL;
}

int ibv_destroy_cq(struct ibv_cq *base)
{
    struct nic_cq *cq = (struct nic_cq *)base;

    pthread_mutex_lock(&nic.lock);
    nic_check_open(base->context);
    if (cq->events != cq->acknowledged)
        nic_misused("a completion queue is destroyed before its events are acknowledged");
    if (base->channel)
        ((struct nic_comp_channel *)base->channel)->cq = NULL;
    free(cq->ring);
    free(cq);
    nic.open_objects--;
    pthread_mutex_unlock(&nic.lock);
    return 0;
}

void nic_complete(struct ibv_cq *base, const struct ibv_wc *wc)
{
    struct nic_cq *cq = (struct nic_cq *)base;

    if (cq->count == (unsigned)base->cqe)
        nic_misused("a completion queue has overflowed");
    cq->ring[(cq->first + cq->count++) % (unsigned)base->cqe] = *wc;
    if (!cq->is_armed || !base->channel)
        return;
    cq->is_armed = false;
    eventfd_write(base->channel->fd, 1);
}

int nic_poll_cq(struct ibv_cq *base, int max, struct ibv_wc *out)
{
    struct nic_cq *cq = (struct nic_cq *)base;
    int count = 0;

    pthread_mutex_lock(&nic.lock);
    nic_check_open(base->context);
    while (!nic_device_of(base->context)->is_gone && count < max && cq->count > 0) {
        out[count++] = cq->ring[cq->first];
        cq->first = (cq->first + 1) % (unsigned)base->cqe;
        cq->count--;
    }
    pthread_mutex_unlock(&nic.lock);
    return count;
}

int nic_req_notify_cq(struct ibv_cq *base, int solicited_only)
{
    (void)solicited_only;
    pthread_mutex_lock(&nic.lock);
    ((struct nic_cq *)base)->is_armed = true;
    pthread_mutex_unlock(&nic.lock);
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **out, void **user)
{
    eventfd_t one;

    if (eventfd_read(channel->fd, &one))
        return -1;
    pthread_mutex_lock(&nic.lock);
    struct nic_cq *cq = ((struct nic_comp_channel *)channel)->cq;
    cq->events++;
    *out = &cq->base;
    *user = cq->base.cq_context;
    pthread_mutex_unlock(&nic.lock);
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *base, unsigned count)
{
    pthread_mutex_lock(&nic.lock);
    ((struct nic_cq *)base)->acknowledged += count;
    pthread_mutex_unlock(&nic.lock);
}
