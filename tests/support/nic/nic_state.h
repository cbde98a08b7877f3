/* What the parts of the emulated devices share. One lock guards all of it. */
#ifndef OKV_TESTS_NIC_STATE_H
#define OKV_TESTS_NIC_STATE_H

#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sys/queue.h>

#include "tests/support/nic/nic.h"

#define NIC_DEVICES 4
#define NIC_ADDRESSES 4 /* of a device */
#define NIC_MRS 8192    /* of all devices, at one time */
#define NIC_QPS 4096    /* at one time */
#define NIC_VECTORS 8

struct nic_device {
    struct ibv_device base;
    struct nic_traits traits;
    struct in_addr addresses[NIC_ADDRESSES];
    unsigned address_count;
    bool is_gone;
    unsigned references;         /* of ids and of lists of devices */
    bool is_dead;                /* the connection manager has noticed that it is gone */
    bool is_closed;              /* it was dead and lost its last reference: the context is freed */
    struct ibv_context *context; /* the connection manager's */
};

/* Work that was posted to a queue pair. */
struct nic_work {
    STAILQ_ENTRY(nic_work) next;
    uint64_t wr_id;
    enum ibv_wr_opcode opcode;
    unsigned flags;
    __be32 immediate;
    uint64_t remote_address;
    uint32_t rkey;
    struct ibv_sge sge;
    uint8_t data[1024]; /* sent inline */
};
STAILQ_HEAD(nic_works, nic_work);

struct nic_qp {
    struct ibv_qp base;
    struct ibv_qp_cap cap;
    unsigned access;
    uint32_t peer_num;
    struct nic_works sends, recvs;
    unsigned send_count, recv_count;
};

/* It serves one completion queue, as okv uses it. */
struct nic_comp_channel {
    struct ibv_comp_channel base;
    struct nic_cq *cq;
};

struct nic_cq {
    struct ibv_cq base;
    struct ibv_wc *ring; /* [base.cqe] */
    unsigned first, count;
    bool is_armed;
    unsigned events, acknowledged;
};

struct nic_mr {
    struct ibv_mr base;
    uint64_t iova;
    unsigned access;
};

enum nic_id_state {
    NIC_ID_IDLE,
    NIC_ID_BOUND,
    NIC_ID_LISTENING,
    NIC_ID_CONNECTING, /* client: REQ sent */
    NIC_ID_REQUESTED,  /* server: REQ received */
    NIC_ID_ANSWERED,   /* client: REP received; server: REP sent */
    NIC_ID_CONNECTED,
    NIC_ID_ENDED,
};

struct nic_id {
    struct rdma_cm_id base;
    LIST_ENTRY(nic_id) in_all;
    enum nic_id_state state;
    struct nic_device *device; /* NULL: bound to none */
    struct nic_id *peer;       /* while both exist and are connected, or connecting */
    struct ibv_sa_path_rec path;
    uint32_t own_qp, peer_qp;
    uint8_t tos;
    enum ibv_mtu path_mtu;
    unsigned unacknowledged; /* events that the program has and has not acknowledged */
};
LIST_HEAD(nic_ids, nic_id);

struct nic_event {
    struct rdma_cm_event base;
    STAILQ_ENTRY(nic_event) next;
    struct nic_id *owner; /* whose destruction waits for the acknowledgement */
    uint8_t data[256];
};

struct nic_channel {
    struct rdma_event_channel base;
    STAILQ_HEAD(, nic_event) events;
};

/* A number that the connection manager still holds. */
struct nic_held {
    struct nic_device *device;
    uint32_t qp_num;
    uint64_t until_ns;
};
#define NIC_HELD 64

struct nic_refusal {
    int errnum;
    unsigned times;
};

struct nic_state {
    pthread_mutex_t lock;
    pthread_cond_t acknowledged;
    struct nic_device *devices[NIC_DEVICES]; /* those that are gone stay */
    unsigned device_count;
    struct nic_mr *mrs[NIC_MRS]; /* by key modulo NIC_MRS */
    uint32_t next_mr, next_pd;
    struct nic_qp *qps[NIC_QPS]; /* by number modulo NIC_QPS */
    uint32_t next_qp;
    uint32_t last_destroyed_qp;
    struct nic_ids ids;
    uint16_t next_port;
    struct nic_refusal refusals[NIC_CALLS];
    uint64_t hold_ns;
    struct nic_held held[NIC_HELD];
    unsigned held_next;
    unsigned open_objects;
    uint32_t last_inline;
    int last_vector;
    uint64_t posted[16]; /* by enum ibv_wr_opcode */
};
extern struct nic_state nic;

/* All of these are called under the lock. */

_Noreturn void nic_misused(const char *what);
/* Memory of a device, zeroed. Where a test makes an allocation fail, that is not meant: it is tried
 * again. */
void *nic_alloc(size_t size);
/* True when this call is to fail; errno is set. */
bool nic_refuses(enum nic_call call);
struct nic_device *nic_device_at(struct in_addr address);
struct nic_device *nic_device_of(const struct ibv_context *context);
/* True when commands to the device fail; errno is EIO then. */
bool nic_is_gone(const struct ibv_context *context);
/* Ends the program when the connection manager has closed the context: it does so with the last
 * reference to a device that is gone, even if objects of it are open. */
void nic_check_open(const struct ibv_context *context);
/* The connection manager looks for devices that are gone, and takes or drops a reference. */
void nic_sync(void);
void nic_hold(struct nic_device *device);
void nic_drop(struct nic_device *device);

struct nic_qp *nic_qp_find(uint32_t number);

/* Adds an event to the id's channel; `data` may be NULL. Returns it, to be completed. */
struct nic_event *nic_event_add(struct nic_id *id, enum rdma_cm_event_type type, int status,
                                const void *data, size_t length);
/* Drops the events of an id that the program has not taken, and waits for the others. */
void nic_events_end(struct nic_id *id);
/* Ends a request that the program has not taken. */
void nic_request_forget(struct nic_id *id);
/* DEVICE_REMOVAL for all ids of a device. */
void nic_cm_removed(struct nic_device *device);
void nic_cm_moved(struct in_addr address);

#endif
