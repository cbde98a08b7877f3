#include "tests/support/nic/nic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/nic/nic_verbs.h"

struct nic_state nic = {.lock = PTHREAD_MUTEX_INITIALIZER,
                        .acknowledged = PTHREAD_COND_INITIALIZER};

void nic_misused(const char *what)
{
    fprintf(stderr, "nic: %s\n", what);
    abort();
}

void *nic_alloc(size_t size)
{
    void *memory = calloc(1, size);

    if (!memory)
        memory = calloc(1, size);
    if (!memory)
        nic_misused("no memory");
    return memory;
}

bool nic_refuses(enum nic_call call)
{
    struct nic_refusal *refusal = &nic.refusals[call];

    if (refusal->times == 0)
        return false;
    refusal->times--;
    errno = refusal->errnum;
    return true;
}

static struct in_addr address_of(const char *text)
{
    struct in_addr address;

    if (inet_pton(AF_INET, text, &address) != 1)
        nic_misused("an address is no IPv4 address");
    return address;
}

static bool has_address(const struct nic_device *device, struct in_addr address)
{
    for (unsigned i = 0; i < device->address_count; i++)
        if (device->addresses[i].s_addr == address.s_addr)
            return true;
    return false;
}

struct nic_device *nic_device_at(struct in_addr address)
{
    for (unsigned i = 0; i < nic.device_count; i++)
        if (!nic.devices[i]->is_gone && has_address(nic.devices[i], address))
            return nic.devices[i];
    return NULL;
}

struct nic_device *nic_device_of(const struct ibv_context *context)
{
    return (struct nic_device *)(void *)context->device;
}

void nic_check_open(const struct ibv_context *context)
{
    if (nic_device_of(context)->is_closed && nic_device_of(context)->context == context)
        nic_misused("a context is used that librdmacm has closed");
}

static void close_dead(struct nic_device *device)
{
    if (device->is_dead && device->references == 0)
        device->is_closed = true;
}

void nic_sync(void)
{
    for (unsigned i = 0; i < nic.device_count; i++) {
        nic.devices[i]->is_dead = nic.devices[i]->is_gone;
        close_dead(nic.devices[i]);
    }
}

void nic_hold(struct nic_device *device)
{
    nic_sync();
    device->references++;
}

void nic_drop(struct nic_device *device)
{
    device->references--;
    close_dead(device);
}

bool nic_is_gone(const struct ibv_context *context)
{
    nic_check_open(context);
    if (!nic_device_of(context)->is_gone)
        return false;
    errno = EIO;
    return true;
}

static struct nic_device *device_named(const char *name)
{
    for (unsigned i = 0; i < nic.device_count; i++)
        if (!nic.devices[i]->is_gone && strcmp(nic.devices[i]->base.name, name) == 0)
            return nic.devices[i];
    nic_misused("there is no device of this name");
}

/* The limits that okv looks at, as a ConnectX-5 reports them. */
static const struct nic_traits usual = {
    .attr = {.fw_ver = "16.35.2000",
             .max_mr_size = UINT64_MAX,
             .max_qp = NIC_QPS,
             .max_qp_wr = 32768,
             .max_sge = 30,
             .max_cq = 16777216,
             .max_cqe = 4194303,
             .max_mr = 16777216,
             .max_pd = 8388608,
             .max_qp_rd_atom = 16,
             .max_qp_init_rd_atom = 16,
             .phys_port_cnt = 1},
    .transport = IBV_TRANSPORT_IB,
    .active_mtu = IBV_MTU_1024,
    .max_inline = 956,
};

void nic_add(const char *name, const char *address)
{
    pthread_mutex_lock(&nic.lock);
    if (nic.device_count == NIC_DEVICES)
        nic_misused("too many devices");
    struct nic_device *device = nic_alloc(sizeof *device);
    device->traits = usual;
    device->addresses[device->address_count++] = address_of(address);
    device->base.node_type = IBV_NODE_CA;
    device->base.transport_type = IBV_TRANSPORT_IB;
    snprintf(device->base.name, sizeof device->base.name, "%s", name);
    nic.devices[nic.device_count++] = device;
    pthread_mutex_unlock(&nic.lock);
}

__attribute__((constructor)) void nic_reset(void)
{
    if (nic_open_objects() > 0)
        nic_misused("reset while objects are open");
    for (unsigned i = 0; i < nic.device_count; i++) {
        nic_context_free(nic.devices[i]->context);
        free(nic.devices[i]);
    }
    memset(nic.devices, 0, sizeof nic.devices);
    nic.device_count = 0;
    nic.next_port = 20000;
    nic.hold_ns = 0;
    memset(nic.refusals, 0, sizeof nic.refusals);
    memset(nic.held, 0, sizeof nic.held);
    memset(nic.posted, 0, sizeof nic.posted);
    nic_add("nic0", "192.0.2.1");
}

struct nic_traits *nic_traits_of(const char *name)
{
    pthread_mutex_lock(&nic.lock);
    struct nic_traits *traits = &device_named(name)->traits;
    pthread_mutex_unlock(&nic.lock);
    return traits;
}

void nic_remove(const char *name)
{
    pthread_mutex_lock(&nic.lock);
    struct nic_device *device = device_named(name);
    device->is_gone = true;
    nic_cm_removed(device);
    pthread_mutex_unlock(&nic.lock);
}

void nic_move_address(const char *address, const char *to)
{
    struct in_addr moved = address_of(address);

    pthread_mutex_lock(&nic.lock);
    struct nic_device *target = device_named(to), *from = nic_device_at(moved);
    for (unsigned i = 0; from && i < from->address_count; i++)
        if (from->addresses[i].s_addr == moved.s_addr)
            from->addresses[i] = from->addresses[--from->address_count];
    if (target->address_count == NIC_ADDRESSES)
        nic_misused("too many addresses");
    target->addresses[target->address_count++] = moved;
    nic_cm_moved(moved);
    pthread_mutex_unlock(&nic.lock);
}

void nic_refuse(enum nic_call call, int errnum, unsigned times)
{
    pthread_mutex_lock(&nic.lock);
    nic.refusals[call] = (struct nic_refusal){errnum, times};
    pthread_mutex_unlock(&nic.lock);
}

void nic_hold_numbers(uint64_t ns)
{
    pthread_mutex_lock(&nic.lock);
    nic.hold_ns = ns;
    pthread_mutex_unlock(&nic.lock);
}

unsigned nic_open_objects(void)
{
    pthread_mutex_lock(&nic.lock);
    unsigned count = nic.open_objects;
    pthread_mutex_unlock(&nic.lock);
    return count;
}

uint32_t nic_last_inline(void)
{
    pthread_mutex_lock(&nic.lock);
    uint32_t bytes = nic.last_inline;
    pthread_mutex_unlock(&nic.lock);
    return bytes;
}

int nic_last_vector(void)
{
    pthread_mutex_lock(&nic.lock);
    int vector = nic.last_vector;
    pthread_mutex_unlock(&nic.lock);
    return vector;
}

uint64_t nic_posted(enum ibv_wr_opcode opcode)
{
    pthread_mutex_lock(&nic.lock);
    uint64_t count = nic.posted[opcode];
    pthread_mutex_unlock(&nic.lock);
    return count;
}
