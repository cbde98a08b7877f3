/*
 * Answers of servers of the local transport that were written by somebody else.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/transport/local/local.h"
#include "tests/support/lingering.h"
#include "tests/support/transport_steps.h"

/* The bytes that local.h defines on the wire, repeated so that a change is noticed. */
#define MAGIC 0x4c766b6fu
#define ANSWER_WELCOME 1u

/* The kernel's, which may tell of the end although there is a packet. */
ssize_t __real_recvmsg(int sock, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int sock, struct msghdr *message, int flags);
static atomic_bool end_comes_first; /* once */

ssize_t __wrap_recvmsg(int sock, struct msghdr *message, int flags)
{
    if (!atomic_exchange(&end_comes_first, false))
        return __real_recvmsg(sock, message, flags);
    message->msg_controllen = 0;
    return 0;
}

/* A server that was written by somebody else: answers one client with `answer`
 * and `fd`, then ends. */
struct impostor {
    int sock;
    const uint8_t *answer;
    size_t length;
    int fds[4];
    unsigned fd_count;
};

static void *run_impostor(void *argument)
{
    const struct impostor *impostor = argument;
    uint8_t hello[256];
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof impostor->fds)];
    } control = {0};
    struct iovec vector = {(void *)impostor->answer, impostor->length};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    int sock = accept(impostor->sock, NULL, NULL);

    if (recv(sock, hello, sizeof hello, 0) > 0 && impostor->answer) {
        if (impostor->fd_count > 0) {
            size_t size = impostor->fd_count * sizeof(int);
            message.msg_control = control.space;
            message.msg_controllen = CMSG_SPACE(size);
            control.header.cmsg_level = SOL_SOCKET;
            control.header.cmsg_type = SCM_RIGHTS;
            control.header.cmsg_len = CMSG_LEN(size);
            memcpy(CMSG_DATA(&control.header), impostor->fds, size);
        }
        sendmsg(sock, &message, MSG_NOSIGNAL);
    }
    close(sock);
    return NULL;
}

/* Connects to a server that answers so, with these descriptors; returns what connect said. */
static int meet_impostor_with(struct fixture *fixture, const uint8_t *answer, size_t length,
                              const int *fds, unsigned count)
{
    const struct okv_uri uri = fixture->connect_uri;
    struct impostor impostor = {.answer = answer, .length = length, .fd_count = count};
    struct sockaddr_un address;
    struct okv_answer welcome;
    struct okv_conn *conn = NULL;
    struct okv_diag diag = {""};
    pthread_t thread;

    for (unsigned i = 0; i < count; i++)
        impostor.fds[i] = fds[i];
    strcat(fixture->connect_uri.path, "2");
    address = steps_address(fixture->connect_uri.path);
    impostor.sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(impostor.sock, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(impostor.sock, 1), 0);
    assert_int_equal(pthread_create(&thread, NULL, run_impostor, &impostor), 0);
    unsigned before = steps_open_descriptors();
    int status =
        fixture_try_connect(fixture, FIXTURE_ACCEPT, fixture_soon(), &welcome, &conn, &diag);
    pthread_join(thread, NULL);
    fixture->connect_uri = uri;
    unlink(address.sun_path);
    if (status == 0) {
        fixture->ops->conn_destroy(conn);
        atomic_fetch_sub(&fixture->connected, 1);
    } else {
        assert_true(diag.text[0] != '\0');
    }
    steps_expect_descriptors(before);
    close(impostor.sock);
    return status;
}

/* With the descriptors up to the first -1. */
static int meet_impostor(struct fixture *fixture, const uint8_t *answer, size_t length, int region,
                         int rings)
{
    int fds[] = {region, rings, -1};

    assert_int_equal(okv_local_values_create(&fds[2]), 0);
    int status = meet_impostor_with(fixture, answer, length, fds,
                                    region < 0  ? 0
                                    : rings < 0 ? 1
                                                : 3);
    close(fds[2]);
    return status;
}

static int make_memfd(int seals)
{
    int fd = memfd_create("okv-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/* The descriptors of a welcome, as a server makes them. A client seals the rings for good, so each
 * takes another offer. */
struct offer {
    int fds[4]; /* one too many */
    struct okv_local_ring ring;
};

static void offer_begin(struct offer *offer)
{
    offer->fds[OKV_LOCAL_REGION] = make_memfd(F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE);
    assert_int_equal(
        okv_local_ring_create(FIXTURE_SLOT_SIZE, &offer->ring, &offer->fds[OKV_LOCAL_RINGS]), 0);
    assert_int_equal(okv_local_values_create(&offer->fds[OKV_LOCAL_VALUES]), 0);
    offer->fds[OKV_LOCAL_DESCRIPTORS] = dup(offer->fds[OKV_LOCAL_VALUES]);
}

static void offer_end(struct offer *offer)
{
    for (unsigned i = 0; i < sizeof offer->fds / sizeof *offer->fds; i++)
        close(offer->fds[i]);
    okv_local_ring_unmap(&offer->ring);
}

/* Meets a server that answers so, with this region. */
static void expect_answer(struct fixture *fixture, const uint8_t *answer, size_t length, int region,
                          int status)
{
    struct offer offer;

    offer_begin(&offer);
    assert_int_equal(meet_impostor(fixture, answer, length, region, offer.fds[OKV_LOCAL_RINGS]),
                     status);
    offer_end(&offer);
}

TEST(a_client_takes_sealed_memory_only)
{
    static const struct {
        int seals, status;
    } cases[] = {
        {0, OKV_EPROTO},
        {F_SEAL_SHRINK | F_SEAL_GROW, OKV_EPROTO},
        {F_SEAL_GROW | F_SEAL_FUTURE_WRITE, OKV_EPROTO},
        {F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE, 0},
        {F_SEAL_SHRINK | F_SEAL_WRITE, 0},
    };
    uint8_t answer[8 + 10] = {0};
    okv_put_u32(answer, MAGIC);
    okv_put_u32(answer + 4, ANSWER_WELCOME);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int fd = make_memfd(cases[i].seals);
        expect_answer(*state, answer, sizeof answer, fd, cases[i].status);
        close(fd);
    }
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    expect_answer(*state, answer, sizeof answer, file, OKV_EPROTO);
    close(file);
}

/* Memory with this at its beginning. */
static int make_page(const uint32_t *words, size_t size, int seals)
{
    int fd = memfd_create("okv-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(pwrite(fd, words, 3 * sizeof *words, 0), 3 * sizeof *words);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

TEST(a_client_takes_rings_of_its_format_only)
{
    enum { SIZED = F_SEAL_SHRINK | F_SEAL_GROW, BASE = 8192 };
    static const struct {
        uint32_t words[3]; /* magic, format, capacity */
        size_t size;
        int seals, status;
    } cases[] = {
        {{OKV_LOCAL_RING_MAGIC, 3, 4096}, BASE + 8192, SIZED, 0},
        {{OKV_LOCAL_RING_MAGIC, 3, 4096}, BASE + 8192, SIZED | F_SEAL_SEAL, OKV_EPROTO},
        {{OKV_LOCAL_RING_MAGIC, 3, 4096}, BASE + 8192, F_SEAL_SHRINK, OKV_EPROTO},
        {{OKV_LOCAL_RING_MAGIC, 3, 4096}, BASE + 8192, F_SEAL_GROW, OKV_EPROTO},
        {{OKV_LOCAL_RING_MAGIC, 3, 4096}, BASE + 8192, SIZED | F_SEAL_WRITE, OKV_EPROTO},
        {{OKV_LOCAL_RING_MAGIC, 3, 4096}, BASE + 8192, SIZED | F_SEAL_FUTURE_WRITE, OKV_EPROTO},
        {{OKV_LOCAL_RING_MAGIC + 1, 3, 4096}, BASE + 8192, SIZED, OKV_EPROTO},
        {{OKV_LOCAL_RING_MAGIC, 2, 4096}, BASE + 8192, SIZED, OKV_EPROTO},
        {{OKV_LOCAL_RING_MAGIC, 3, 2048}, BASE + 4096, SIZED, OKV_EPROTO},
        {{OKV_LOCAL_RING_MAGIC, 3, 0}, BASE, SIZED, OKV_EPROTO},
        {{OKV_LOCAL_RING_MAGIC, 3, 4096}, BASE + 8192 + 1, SIZED, OKV_EPROTO},
        {{OKV_LOCAL_RING_MAGIC, 3, 8192}, BASE + 8192, SIZED, OKV_EPROTO},
        {{OKV_LOCAL_RING_MAGIC, 3, 6144}, BASE + 12288, SIZED, OKV_EPROTO},
        {{OKV_LOCAL_RING_MAGIC, 3, 0x80000000u}, BASE + 8192, SIZED, OKV_EPROTO},
        {{OKV_LOCAL_RING_MAGIC, 3, 0x40000000u}, BASE + 0x80000000u, SIZED, OKV_EPROTO},
    };
    uint8_t answer[8 + 10] = {0};
    int region = make_memfd(F_SEAL_SHRINK | F_SEAL_WRITE);

    okv_put_u32(answer, MAGIC);
    okv_put_u32(answer + 4, ANSWER_WELCOME);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int rings = make_page(cases[i].words, cases[i].size, cases[i].seals);
        int status = meet_impostor(*state, answer, sizeof answer, region, rings);
        if (status != cases[i].status)
            fail_msg("case %u: %s", i, okv_error_name(status));
        close(rings);
    }
    int file = open("/dev/zero", O_RDWR | O_CLOEXEC);
    assert_int_equal(meet_impostor(*state, answer, sizeof answer, region, file), OKV_EPROTO);
    close(file);
    close(region);
}

TEST(a_client_understands_no_other_answer)
{
    static const struct {
        uint32_t magic, kind;
        size_t length;
        bool with_memory;
        int status;
    } cases[] = {
        {MAGIC, ANSWER_WELCOME, 8 + OKV_WELCOME_MAX, true, 0},
        {MAGIC, ANSWER_WELCOME, 8 + OKV_WELCOME_MAX + 1, true, OKV_EPROTO},
        {MAGIC, ANSWER_WELCOME, 8, false, OKV_EPROTO},
        {MAGIC, ANSWER_WELCOME, 7, true, OKV_EPROTO},
        {MAGIC + 1, ANSWER_WELCOME, 20, true, OKV_EPROTO},
        {MAGIC, 0, 20, true, OKV_EPROTO},
        {MAGIC, 3, 20, true, OKV_EPROTO},
        {MAGIC, 2, 8 + OKV_REJECT_MAX, false, OKV_EREFUSED},
        {MAGIC, 2, 8 + OKV_REJECT_MAX + 1, false, OKV_EPROTO},
        {MAGIC, 2, 20, true, OKV_EREFUSED},
    };
    int fd = make_memfd(F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE);

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t answer[256] = {0};
        okv_put_u32(answer, cases[i].magic);
        okv_put_u32(answer + 4, cases[i].kind);
        expect_answer(*state, answer, cases[i].length, cases[i].with_memory ? fd : -1,
                      cases[i].status);
    }
    assert_int_equal(meet_impostor(*state, NULL, 0, -1, -1), OKV_EREFUSED);
    uint8_t answer[20] = {0};
    okv_put_u32(answer, MAGIC);
    okv_put_u32(answer + 4, ANSWER_WELCOME);
    assert_int_equal(meet_impostor(*state, answer, sizeof answer, fd, -1), OKV_EPROTO);
    close(fd);
}

/* A server that the test plays itself, up to the client's hello. */
struct stage {
    struct fixture *fixture;
    struct okv_uri uri; /* the fixture's */
    int listening, sock;
    struct okv_connecting *connecting;
    unsigned descriptors; /* open before */
};

static void stage_open(struct stage *stage, struct fixture *fixture)
{
    struct okv_answer welcome;
    struct okv_conn *conn;

    *stage = (struct stage){.fixture = fixture, .uri = fixture->connect_uri};
    stage->descriptors = steps_open_descriptors();
    strcat(fixture->connect_uri.path, "3");
    struct sockaddr_un address = steps_address(fixture->connect_uri.path);
    stage->listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(stage->listening, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(stage->listening, 1), 0);
    assert_int_equal(
        fixture_start_connect(fixture, FIXTURE_ACCEPT, fixture_soon(), &stage->connecting, NULL),
        0);
    assert_int_equal(fixture->ops->connect_step(stage->connecting, &welcome, &conn, NULL),
                     OKV_EAGAIN);
    stage->sock = accept4(stage->listening, NULL, NULL, SOCK_CLOEXEC);
    assert_true(stage->sock >= 0);
}

/* Answers with these descriptors, of which `lingering` becomes one; returns what connect says. */
static int stage_answer(struct stage *stage, uint32_t kind, const int *fds, unsigned count,
                        struct lingering *lingering, struct okv_conn **conn)
{
    struct okv_answer welcome;
    uint8_t answer[20] = {0};

    okv_put_u32(answer, MAGIC);
    okv_put_u32(answer + 4, kind);
    assert_true(descriptors_send(stage->sock, answer, sizeof answer, fds, count));
    if (lingering)
        lingering_leave(lingering);
    return stage->fixture->ops->connect_step(stage->connecting, &welcome, conn, NULL);
}

static void stage_close(struct stage *stage)
{
    close(stage->sock);
    close(stage->listening);
    unlink(stage->fixture->connect_uri.path);
    stage->fixture->connect_uri = stage->uri;
    steps_expect_descriptors(stage->descriptors);
}

/* An answer with a descriptor whose last close takes longer than anybody waits. */
TEST(no_descriptor_of_an_answer_holds_a_client_up)
{
    static const struct {
        uint32_t kind;
        unsigned place, count; /* of the descriptor; of all */
        int status;
    } cases[] = {
        {ANSWER_WELCOME, 0, 1, OKV_EPROTO},
        {ANSWER_WELCOME, 0, 2, OKV_EPROTO},
        {ANSWER_WELCOME, 1, 2, OKV_EPROTO},
        {ANSWER_WELCOME, 1, 3, OKV_EPROTO},
        {ANSWER_WELCOME, 2, 3, OKV_EPROTO},
        {ANSWER_WELCOME, 3, 4, OKV_EPROTO},
        {2, 0, 1, OKV_EREFUSED},
        {2, 2, 3, OKV_EREFUSED},
    };
    unsigned threads = threads_running();
    struct offer offer;

    hang_guard(true);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct lingering lingering;
        struct okv_conn *conn;
        struct stage stage;
        int fds[4];
        offer_begin(&offer);
        memcpy(fds, offer.fds, sizeof fds);
        stage_open(&stage, *state);
        lingering_open(&lingering);
        fds[cases[i].place] = lingering.fd;
        assert_int_equal(
            stage_answer(&stage, cases[i].kind, fds, cases[i].count, &lingering, &conn),
            cases[i].status);
        threads_expect(threads); /* nothing lingers any more */
        lingering_end(&lingering);
        stage_close(&stage);
        offer_end(&offer);
    }
    hang_guard(false);
}

TEST(no_descriptor_of_a_bell_holds_a_client_up)
{
    struct fixture *fixture = *state;
    unsigned threads = threads_running();
    struct offer offer;

    hang_guard(true);
    for (unsigned round = 0; round < 2; round++) {
        struct lingering lingering;
        struct okv_event event;
        struct okv_conn *conn;
        struct stage stage;
        offer_begin(&offer);
        stage_open(&stage, fixture);
        assert_int_equal(
            stage_answer(&stage, ANSWER_WELCOME, offer.fds, OKV_LOCAL_DESCRIPTORS, NULL, &conn), 0);
        descriptors_allow(okv_local_conn(conn)->sock); /* as a kernel that cannot refuse them */
        lingering_open(&lingering);
        assert_true(descriptors_send(stage.sock, "okvB", 4, &lingering.fd, 1));
        lingering_leave(&lingering);
        if (round > 0) {
            assert_true(fixture_wait(conn->endpoint, &event));
            assert_int_equal(event.type, OKV_EVENT_CLOSED);
            assert_int_equal(event.status, OKV_EPROTO);
        }
        fixture->ops->conn_destroy(conn);
        threads_expect(threads);
        lingering_end(&lingering);
        stage_close(&stage);
        offer_end(&offer);
    }
    hang_guard(false);
}

/* One descriptor too many, though it is harmless. */
TEST(a_welcome_has_three_descriptors)
{
    uint8_t answer[20] = {0};
    struct offer offer;

    okv_put_u32(answer, MAGIC);
    okv_put_u32(answer + 4, ANSWER_WELCOME);
    for (unsigned count = 1; count <= 4; count++) {
        offer_begin(&offer);
        assert_int_equal(meet_impostor_with(*state, answer, sizeof answer, offer.fds, count),
                         count == OKV_LOCAL_DESCRIPTORS ? 0 : OKV_EPROTO);
        offer_end(&offer);
    }
}

/* Its client writes there. */
TEST(a_client_takes_values_of_their_size_only)
{
    uint8_t answer[20] = {0};
    struct offer offer;
    int fds[OKV_LOCAL_DESCRIPTORS];

    okv_put_u32(answer, MAGIC);
    okv_put_u32(answer + 4, ANSWER_WELCOME);
    const int wrong[] = {make_memfd(F_SEAL_GROW | F_SEAL_SHRINK),
                         open("/dev/null", O_RDWR | O_CLOEXEC)};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        offer_begin(&offer);
        memcpy(fds, offer.fds, sizeof fds);
        fds[OKV_LOCAL_VALUES] = wrong[i];
        assert_int_equal(
            meet_impostor_with(*state, answer, sizeof answer, fds, OKV_LOCAL_DESCRIPTORS),
            OKV_EPROTO);
        offer_end(&offer);
        close(wrong[i]);
    }
}

/* The kernel reports its length, 0, as it reports the end. */
TEST(an_empty_answer_leaves_no_descriptor_behind)
{
    int region = make_memfd(F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE);
    const int fds[] = {region, region, region};

    for (unsigned count = 1; count <= 3; count++)
        assert_int_equal(meet_impostor_with(*state, (const uint8_t *)"", 0, fds, count),
                         OKV_EPROTO);
    assert_int_equal(meet_impostor(*state, (const uint8_t *)"", 0, -1, -1), OKV_EREFUSED);
    close(region);
}

/* A server sends its welcome and dies, or a rejection and closes. */
TEST(the_end_overtakes_no_answer)
{
    struct okv_conn *conn = NULL;
    struct offer offer;
    struct stage stage;

    offer_begin(&offer);
    stage_open(&stage, *state);
    atomic_store(&end_comes_first, true);
    assert_int_equal(
        stage_answer(&stage, ANSWER_WELCOME, offer.fds, OKV_LOCAL_DESCRIPTORS, NULL, &conn), 0);
    assert_false(atomic_load(&end_comes_first));
    stage.fixture->ops->conn_destroy(conn);
    stage_close(&stage);
    offer_end(&offer);
}

TEST_PROGRAM(fixture_setup_local, fixture_teardown)
