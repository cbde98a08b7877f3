/*
 * A client of the local transport that was written by somebody else: a Unix socket and the two
 * rings, with nothing between them and the test. What should go well and does not fails the test.
 */
#ifndef OKV_TESTS_BARE_CLIENT_H
#define OKV_TESTS_BARE_CLIENT_H

#include "shared/transport/local/ring.h"

struct bare_client {
    int sock;
    struct okv_local_ring ring; /* from the welcome on, as the next two */
    int region, values;         /* descriptors of the welcome; -1: none */
};

/* Connected to the socket at `path`, and silent. */
void bare_connect(struct bare_client *client, const char *path);
/* The first packet, with the magic before `hello`. */
void bare_hello(struct bare_client *client, const void *hello, size_t length);
/* Waits for a welcome; returns its length. The descriptor of the rings is the caller's. */
size_t bare_take_answer(struct bare_client *client, uint8_t *welcome, size_t size, int *rings);
/* Waits for a welcome, maps the rings and seals them; returns its length. */
size_t bare_take_welcome(struct bare_client *client, uint8_t *welcome, size_t size);
/* Unmaps and closes what is open. */
void bare_close(struct bare_client *client);

/* One packet of these bytes. */
void bare_packet(struct bare_client *client, const void *bytes, size_t length);
void bare_bell(struct bare_client *client);

/* Puts a message into the ring and rings the bell if the server sleeps. False: no room. */
bool bare_try_send(struct bare_client *client, const void *bytes, uint32_t length,
                   uint32_t immediate);
void bare_send(struct bare_client *client, const void *bytes, uint32_t length, uint32_t immediate);
/* Waits for a message; returns its length. */
uint32_t bare_receive(struct bare_client *client, uint8_t *to, uint32_t size, uint32_t *immediate);

/* Waits until the server has ended the connection; ignores its messages. */
void bare_expect_end(struct bare_client *client);
bool bare_has_ended(struct bare_client *client);

#endif
