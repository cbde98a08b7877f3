/* Attacks on the socket and the shared memory of local://, mostly by a user who was let in. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shared/format/wire.h"
#include "shared/transport/local/local.h"
#include "tests/chaos/attack.h"
#include "tests/support/lingering.h"
#include "tests/support/pace.h"
#include "tests/support/prover.h"

#define BELL "okvB"
#define BELL_LENGTH 4
#define LINGERING 16
#define HOLDERS 40
#define HELD_PACKETS 2
#define HELD_EACH 8 /* descriptors */
#define HOLES 16
#define FLOODERS 8
#define FLOOD 4096 /* packets, if the socket takes them */

/* ---- a session, as somebody else would have written its client ---- */

struct member {
    int sock, region, rings, values; /* -1: none */
};

static void member_leave(struct member *member)
{
    int *const fds[] = {&member->sock, &member->region, &member->rings, &member->values};

    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

/* Takes the answer and its descriptors; returns the length behind its header, or -1. */
static ssize_t take_answer(struct member *member, uint8_t *answer, size_t size)
{
    struct pollfd pollfd = {.fd = member->sock, .events = POLLIN};
    uint8_t header[OKV_LOCAL_ANSWER_HEADER];
    int fds[OKV_LOCAL_DESCRIPTORS];
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof fds)];
    } control;
    struct iovec vectors[2] = {{header, sizeof header}, {answer, size}};
    struct msghdr message = {.msg_iov = vectors,
                             .msg_iovlen = 2,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};

    if (poll(&pollfd, 1, PACE_GUARD_MS) != 1)
        return -1;
    ssize_t got = recvmsg(member->sock, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *passed = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (passed && passed->cmsg_len == CMSG_LEN(sizeof fds)) {
        memcpy(fds, CMSG_DATA(passed), sizeof fds);
        member->region = fds[OKV_LOCAL_REGION];
        member->rings = fds[OKV_LOCAL_RINGS];
        member->values = fds[OKV_LOCAL_VALUES];
    }
    return got - (ssize_t)sizeof header;
}

/* Connects and says hello. Returns the answer's length, or -1. */
static ssize_t ask(const struct attacker *attacker, const struct okv_wire_hello *hello,
                   struct member *member, uint8_t *answer, size_t size)
{
    uint8_t frame[OKV_LOCAL_HELLO_HEADER + sizeof *hello];

    *member = (struct member){attacker_connect(attacker), -1, -1, -1};
    okv_put_u32(frame, OKV_LOCAL_MAGIC);
    memcpy(frame + OKV_LOCAL_HELLO_HEADER, hello, sizeof *hello);
    if (member->sock < 0 || send(member->sock, frame, sizeof frame, MSG_NOSIGNAL) < 0)
        return -1;
    return take_answer(member, answer, size);
}

/* Joins as mallory. False: turned away; a blow that was refused. */
static bool member_join(struct attacker *attacker, struct member *member)
{
    static const struct okv_binding none;
    struct okv_hello hello = {.slot_size = OKV_SLOT_SIZE_DEFAULT,
                              .credits = 1,
                              .database = okv_database_id(ATTACK_DATABASE)};
    struct prover prover = {.user = ATTACK_USER, .key = attacker->key};
    struct okv_wire_hello proven;
    uint8_t answer[OKV_WELCOME_MAX];

    *member = (struct member){-1, -1, -1, -1};
    ssize_t length = getrandom(hello.client_id, sizeof hello.client_id, 0);
    okv_hello_encode(&hello, &prover.sent);
    if (length > 0)
        length = ask(attacker, &prover.sent, member, answer, sizeof answer);
    member_leave(member);
    if (length > 0 && prover_next_hello(&prover, answer, (size_t)length, &none, (uint8_t *)&proven))
        ask(attacker, &proven, member, answer, sizeof answer);
    if (member->values >= 0)
        return true;
    member_leave(member);
    attacker_turned_away(attacker);
    return false;
}

/* The i-th to join, in the place of the oldest of `count`. NULL: turned away. */
static struct member *member_renew(struct attacker *attacker, struct member *members,
                                   unsigned count, unsigned i)
{
    struct member *member = &members[i % count];

    if (i >= count)
        member_leave(member);
    return member_join(attacker, member) ? member : NULL;
}

/* ---- descriptors ---- */

/* To a stranger's connection and to a member's in turn. Their last close takes an hour, or until
 * LINGERING others were passed. */
void attack_descriptors(struct attacker *attacker)
{
    struct lingering held[LINGERING];
    struct member member;

    for (unsigned i = 0;; i++) {
        struct lingering *one = &held[i % LINGERING];
        if (i >= LINGERING)
            lingering_end(one);
        lingering_open(one);
        if (i % 2)
            member_join(attacker, &member);
        else
            member = (struct member){attacker_connect(attacker), -1, -1, -1};
        bool was_taken = descriptors_send(member.sock, BELL, BELL_LENGTH, &one->fd, 1);
        if (was_taken)
            lingering_leave(one);
        member_leave(&member);
        attacker_count(attacker, !was_taken);
    }
}

void attack_holders(struct attacker *attacker)
{
    struct member members[HOLDERS];
    int fds[HELD_EACH];

    for (unsigned i = 0; i < HELD_EACH; i++)
        fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (unsigned i = 0;; i++) {
        struct member *member = member_renew(attacker, members, HOLDERS, i);
        if (!member)
            continue;
        for (unsigned packet = 0; packet < HELD_PACKETS; packet++)
            attacker_count(attacker,
                           !descriptors_send(member->sock, BELL, BELL_LENGTH, fds, HELD_EACH));
    }
}

/* ---- memory ---- */

static off_t size_of(int fd)
{
    struct stat file;

    return fstat(fd, &file) ? 0 : file.st_size;
}

/* The server is the last who has it. */
void attack_memory(struct attacker *attacker)
{
    struct member member;

    for (;;) {
        if (!member_join(attacker, &member))
            continue;
        bool is_full = fallocate(member.values, 0, 0, size_of(member.values)) == 0;
        member_leave(&member);
        attacker_count(attacker, !is_full);
    }
}

/* False: nothing of it was possible. */
static bool abuse(int fd)
{
    bool allocated = fallocate(fd, 0, 0, size_of(fd)) == 0;
    bool punched = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size_of(fd)) == 0;
    bool cut = ftruncate(fd, 0) == 0;

    return allocated || punched || cut;
}

/* Through the descriptors that it was given, and through others for the same memory. It does not
 * seal the rings, rings the bell, and makes holes where the server would look then. */
void attack_holes(struct attacker *attacker)
{
    struct member member;
    char path[32];

    for (;;) {
        if (!member_join(attacker, &member))
            continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d", member.region);
        int again = open(path, O_RDWR | O_CLOEXEC);
        send(member.sock, BELL, BELL_LENGTH, MSG_NOSIGNAL);
        unsigned possible = abuse(member.region) + abuse(again) + abuse(member.values);
        for (unsigned i = 0; i < HOLES; i++)
            possible += abuse(member.rings);
        if (again >= 0)
            close(again);
        member_leave(&member);
        attacker_count(attacker, possible == 0);
    }
}

/* ---- packets ---- */

/* Fills the sockets of FLOODERS sessions, and leaves the oldest with what nobody took. */
void attack_packets(struct attacker *attacker)
{
    struct member members[FLOODERS];

    for (unsigned i = 0;; i++) {
        struct member *member = member_renew(attacker, members, FLOODERS, i);
        if (!member)
            continue;
        for (unsigned packet = 0; packet < FLOOD; packet++)
            if (send(member->sock, BELL, BELL_LENGTH, MSG_NOSIGNAL) < 0)
                break;
        attacker_count(attacker, false);
    }
}
