/*
 * A client written straight on verbs, which says a good hello and can then post
 * anything. It never posts receives. Each call fails the test when what it
 * needs of its own device does not work.
 */
#ifndef OKV_TESTS_HOSTILE_VERBS_H
#define OKV_TESTS_HOSTILE_VERBS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/format/wire.h"
#include "tests/support/server_process.h"

#define ATTACKER_SENDS 1024
#define ATTACKER_BYTES (64u << 10)

struct attacker {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    uint8_t *bytes; /* ATTACKER_BYTES: what is sent, and where READs land */
    struct okv_welcome table;
};

/* What to post: `length` bytes of the attacker's memory against `offset` of the region. */
struct attack {
    enum ibv_wr_opcode opcode;
    uint32_t length;
    uint64_t offset;
    uint32_t rkey;
    uint32_t immediate;
};

void attacker_join(struct attacker *attacker, const struct server_process *server);
/* The same; false when the server refuses, after which it must leave. For a process of its own. */
bool attacker_may_join(struct attacker *attacker, const struct server_process *server);
/* Asks for a connection on which the server may READ nothing, and is rejected. */
void attacker_join_unpulled(struct attacker *attacker, const struct server_process *server);
/* Asks for a connection with the number of a queue pair that it does not have, and never confirms
 * the answer; it can only leave. False: the server refused. */
bool attacker_join_half(struct attacker *attacker, const struct server_process *server,
                        uint32_t qp_num);
/* Puts its queue pair into the error state; nobody is told. */
void attacker_break(struct attacker *attacker);
/* Disconnects, if still connected, and frees everything. */
void attacker_leave(struct attacker *attacker);

void attacker_post(struct attacker *attacker, const struct attack *attack);
/* Posts it and waits for its completion. */
enum ibv_wc_status attacker_try(struct attacker *attacker, const struct attack *attack);
/* Takes completions that are there; returns their number, *good of which were successes. */
unsigned attacker_drain(struct attacker *attacker, unsigned *good);
/* Waits for the next word of the connection manager; false when none came in `ms`. */
bool attacker_waits(struct attacker *attacker, int ms);
/* Waits until the server has ended the connection. */
void attacker_expect_end(struct attacker *attacker, const char *what);

#endif
