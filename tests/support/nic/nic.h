/*
 * RDMA devices of this process. Programs that link this library have no others: it defines the
 * functions of libibverbs and librdmacm that okv calls, and the linker takes these.
 *
 * A device moves bytes between queue pairs of this process as soon as both sides allow it. It keeps
 * the rules that okv depends on: domains, keys and rights of memory, order within a queue pair,
 * flushing, limits. The connection manager keeps its states, and the rule that an id is destroyed
 * only after its events were acknowledged. Like librdmacm it closes the context of a device that is
 * gone with the last id or list that refers to it. Nothing here takes time.
 *
 *   nic         devices and what befalls them
 *   nic_verbs   contexts, domains, memory
 *   nic_cq      completion queues
 *   nic_qp      queue pairs, and what is posted to them
 *   nic_work    the work between two of them
 *   nic_cm      the connection manager's ids and their states
 *   nic_events  its channels and events
 *
 * Like the libraries that it replaces it has its state in the process. A misuse that would corrupt
 * memory or hang on a real device ends the program with a sentence.
 */
#ifndef OKV_TESTS_NIC_H
#define OKV_TESTS_NIC_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* What a device reports. A test may change it while nothing is open. */
struct nic_traits {
    struct ibv_device_attr attr;
    enum ibv_transport_type transport;
    enum ibv_mtu active_mtu;
    uint32_t max_inline;
    unsigned foreign_gids; /* before its own, of other network namespaces */
    bool has_no_thread_domains;
    bool is_reusing_numbers; /* the next queue pair gets the number of the last destroyed one */
};

/* Calls that can be made to fail. */
enum nic_call {
    NIC_CREATE_QP,
    NIC_MODIFY_QP,
    NIC_REG_MR,
    NIC_ACCEPT,
    NIC_CALLS,
};

/* Ends what was there and begins with one device, nic0 at 192.0.2.1, which has the limits of a
 * usual adapter. Nothing may be open. A program begins like this. */
void nic_reset(void);
/* Adds a device at an IPv4 address. */
void nic_add(const char *name, const char *address);
struct nic_traits *nic_traits_of(const char *name);

/* Takes a device away, as a reset of its firmware or its driver's end does: its ids get
 * DEVICE_REMOVAL, its work never completes, commands fail with EIO. nic_add() brings it back. */
void nic_remove(const char *name);
/* Moves an address to another device, as a bond with fail_over_mac does: listeners there get
 * ADDR_CHANGE. */
void nic_move_address(const char *address, const char *to);
/* Has the next `times` calls fail with `errnum`. */
void nic_refuse(enum nic_call call, int errnum, unsigned times);
/* From now on the number of a queue pair whose connection has ended is stale for this time. */
void nic_hold_numbers(uint64_t ns);

/* Objects that are open: what a library that cleans up leaves at 0. */
unsigned nic_open_objects(void);
/* Bytes that the last queue pair takes inline. */
uint32_t nic_last_inline(void);
/* The vector of the last completion queue. */
int nic_last_vector(void);
/* Calls so far of ibv_post_send() with these opcodes. */
uint64_t nic_posted(enum ibv_wr_opcode opcode);

#endif
