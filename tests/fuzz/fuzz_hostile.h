/*
 * A server that says what a fuzz input tells it to: handshakes, the bytes of its table
 * and replies. Where that is what lets a client go on, checksums and lengths are right.
 */
#ifndef OKV_TESTS_FUZZ_HOSTILE_H
#define OKV_TESTS_FUZZ_HOSTILE_H

#include "shared/format/superblock.h"
#include "shared/format/wire.h"
#include "shared/transport/transport.h"
#include "tests/fuzz/fuzz_input.h"

#define HOSTILE_CHAINS 16
#define HOSTILE_HEAP_SIZE 65536u
/* READs that it answers; then it hangs up, since what it says of a table may have no end. */
#define HOSTILE_READS 1000

/* An overflow page that an image has referred to. */
struct hostile_chain {
    uint64_t offset;
    uint64_t bucket;
    unsigned page;
};

struct hostile {
    struct fuzz_input *input;
    struct okv_welcome welcome; /* as it was said last */
    uint64_t bucket_count;      /* likewise */
    uint64_t directory[OKV_DIRECTORY_ENTRIES];
    struct hostile_chain chains[HOSTILE_CHAINS];
    bool endless; /* every overflow page refers to a further one */
    unsigned reads;
    unsigned connects;
    uint8_t heap[HOSTILE_HEAP_SIZE]; /* where references lead */
};

void hostile_init(struct hostile *server, struct fuzz_input *input);

/* Answers a hello: 0 with a welcome, or what connecting failed with. */
int hostile_connect(struct hostile *server, const struct okv_connect_params *params,
                    struct okv_answer *out);

/* What a READ of the region finds. */
void hostile_read(struct hostile *server, uint64_t offset, uint8_t *out, uint32_t length);

/* The reply to a request; false: none. `room` has OKV_SLOT_SIZE_DEFAULT bytes. */
bool hostile_reply(struct hostile *server, const struct okv_request_message *request, uint8_t *room,
                   uint32_t *length, uint32_t *immediate, bool *has_immediate);

/* The keys that clients ask for and that are in the table. */
#define HOSTILE_KEYS 8
const uint8_t *hostile_key(unsigned number, uint32_t *length);

#endif
