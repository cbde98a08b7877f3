/*
 * What hostile clients over libfabric attack: a server with items, and what must stay as it is. A
 * bystander puts and gets, and a reader READs the region as an attacker does.
 */
#ifndef OKV_TESTS_HOSTILE_OFI_H
#define OKV_TESTS_HOSTILE_OFI_H

#include "tests/support/hostile_client.h"
#include "tests/support/ofi_attacker.h"

#define SCENE_ITEMS 100u

struct scene {
    struct bystander bystander;
    struct okv_uri uri;
    struct ofi_attacker reader, attacker;
    bool is_attacked; /* the attacker has joined, and not left */
    struct okv_welcome table;
};

/* cmocka's; the state is a struct scene. The server has room for few clients. */
int scene_setup(void **state);
int scene_teardown(void **state);

/* The attacker joins with the hello of a client of okv. One that a failed test left behind leaves
 * before. */
struct ofi_attacker *scene_join(struct scene *scene);
void scene_leave(struct scene *scene);
/* The same for a process of its own, which finds the server by the environment. */
bool scene_may_join(const struct okv_uri *uri, struct ofi_attacker *attacker);
/* Every byte of the region. */
uint64_t scene_hash(struct scene *scene);
/* No attacker is left, each byte is what it was, each item is there, and the bystander is served.
 * `what` is for people. Returns the hash from now on. */
uint64_t scene_expect_calm(struct scene *scene, const char *what, uint64_t hash);
/* The same where the bystander has put meanwhile. */
void scene_expect_items(struct scene *scene, const char *what);
void scene_await_sessions(struct scene *scene, unsigned attackers);

bool scene_is_over_verbs(const struct scene *scene);
/* A message that the attacked server's libfabric survives. rxm of libfabric 1.17 crashes when the
 * sender of messages that do not fit its own buffers goes away: docs/fabrics.md. */
bool scene_may_send(const struct scene *scene, size_t length);

/* A PING with the header that flips make wrong; returns the length of all. */
size_t scene_write_ping(struct ofi_attacker *attacker, uint64_t key_flip, uint32_t connection_flip);

#endif
