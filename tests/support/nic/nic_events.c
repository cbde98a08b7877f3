/* Channels and events of the connection manager. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/support/nic/nic_state.h"

struct rdma_event_channel *rdma_create_event_channel(void)
{
    struct nic_channel *channel = nic_alloc(sizeof *channel);

    channel->base.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    STAILQ_INIT(&channel->events);
    pthread_mutex_lock(&nic.lock);
    nic.open_objects++;
    pthread_mutex_unlock(&nic.lock);
    return &channel->base;
}

void rdma_destroy_event_channel(struct rdma_event_channel *base)
{
    struct nic_channel *channel = (struct nic_channel *)base;

    pthread_mutex_lock(&nic.lock);
    if (!STAILQ_EMPTY(&channel->events))
        nic_misused("a channel is destroyed before its ids");
    close(base->fd);
    free(channel);
    nic.open_objects--;
    pthread_mutex_unlock(&nic.lock);
}

struct nic_event *nic_event_add(struct nic_id *id, enum rdma_cm_event_type type, int status,
                                const void *data, size_t length)
{
    struct nic_channel *channel = (struct nic_channel *)id->base.channel;
    struct nic_event *event = nic_alloc(sizeof *event);

    if (length > sizeof event->data)
        nic_misused("too much private data");
    event->base = (struct rdma_cm_event){.id = &id->base, .event = type, .status = status};
    event->owner = id;
    if (data && length > 0) {
        memcpy(event->data, data, length);
        event->base.param.conn.private_data = event->data;
        event->base.param.conn.private_data_len = (uint8_t)length;
    }
    STAILQ_INSERT_TAIL(&channel->events, event, next);
    eventfd_write(channel->base.fd, 1);
    return event;
}

int rdma_get_cm_event(struct rdma_event_channel *base, struct rdma_cm_event **out)
{
    struct nic_channel *channel = (struct nic_channel *)base;
    eventfd_t one;

    /* An id that ended may have taken its events with it. */
    while (eventfd_read(base->fd, &one) == 0) {
        pthread_mutex_lock(&nic.lock);
        struct nic_event *event = STAILQ_FIRST(&channel->events);
        if (event) {
            STAILQ_REMOVE_HEAD(&channel->events, next);
            event->owner->unacknowledged++;
        }
        pthread_mutex_unlock(&nic.lock);
        if (event) {
            *out = &event->base;
            return 0;
        }
    }
    return -1;
}

int rdma_ack_cm_event(struct rdma_cm_event *base)
{
    struct nic_event *event = (struct nic_event *)base;

    pthread_mutex_lock(&nic.lock);
    event->owner->unacknowledged--;
    pthread_cond_broadcast(&nic.acknowledged);
    pthread_mutex_unlock(&nic.lock);
    free(event);
    return 0;
}

void nic_events_end(struct nic_id *id)
{
    struct nic_channel *channel = (struct nic_channel *)id->base.channel;
    struct nic_event *event, *next;

    for (event = STAILQ_FIRST(&channel->events); event; event = next) {
        next = STAILQ_NEXT(event, next);
        if (event->owner != id)
            continue;
        STAILQ_REMOVE(&channel->events, event, nic_event, next);
        if (event->base.event == RDMA_CM_EVENT_CONNECT_REQUEST)
            nic_request_forget((struct nic_id *)event->base.id);
        free(event);
    }
    while (id->unacknowledged > 0)
        pthread_cond_wait(&nic.acknowledged, &nic.lock);
}

const char *rdma_event_str(enum rdma_cm_event_type type)
{
    return type == RDMA_CM_EVENT_ADDR_RESOLVED ? "RDMA_CM_EVENT_ADDR_RESOLVED" : "another event";
}
