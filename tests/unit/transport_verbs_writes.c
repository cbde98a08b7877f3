/* Part of transport_verbs_test.c: a hostile server that writes to its client, and a hostile client
 * that READs another region. */
#include "tests/support/test.h"

#include "shared/base/error.h"
#include "tests/support/verbs_meeting.h"
#include "tests/unit/transport_verbs_list.h"

/* The server's device is made to write to the client: the server has no such code. */
static void write_to_client(struct meeting *meeting, enum ibv_wr_opcode opcode, uint64_t address,
                            uint32_t key, uint32_t length)
{
    struct verbs_conn *server = (struct verbs_conn *)meeting->server.conn;
    struct ibv_sge sge = {.addr = (uintptr_t)server->slab.memory.base,
                          .length = length,
                          .lkey = server->slab.mr->lkey};
    struct ibv_send_wr wr = {.wr_id = verbs_wr_id(VERBS_WORK_HEARTBEAT, 0),
                             .sg_list = &sge,
                             .num_sge = length > 0,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {.remote_addr = address, .rkey = key}};
    struct ibv_send_wr *bad;

    verbs_conn_posted(server, 1);
    assert_int_equal(ibv_post_send(server->qp, &wr, &bad), 0);
}

/* A client's queue pair allows writes because of heartbeats; its memory does not. */
TEST(a_server_writes_to_no_memory)
{
    struct meeting *meeting = *state;
    uint8_t bytes[64];
    const struct ibv_mr *mr;

    for (int i = 0; i < 3; i++) {
        struct okv_memory *memory;
        struct okv_advert *advert;
        memset(bytes, 7, sizeof bytes);
        meeting_connect(meeting);
        struct okv_conn *client = meeting->client.conn;
        assert_int_equal(
            meeting->ops->memory_register(client->endpoint, bytes, sizeof bytes, &memory), 0);
        assert_int_equal(meeting->ops->advertise(client, bytes, sizeof bytes, &advert), 0);
        mr = i == 0 ? memory->mr : ((struct verbs_conn *)client)->slab.mr;
        if (i < 2)
            write_to_client(meeting, IBV_WR_RDMA_WRITE, (uintptr_t)mr->addr, mr->rkey, 8);
        else
            write_to_client(meeting, IBV_WR_RDMA_WRITE, advert->address, advert->key, 8);
        MEETING_UNTIL(meeting, meeting->server.closed);
        assert_int_equal(meeting->server.close_status, OKV_EDISCONNECTED);
        for (unsigned k = 0; k < sizeof bytes; k++)
            assert_int_equal(bytes[k], 7);
        meeting->ops->withdraw(advert, false);
        meeting->ops->memory_unregister(memory);
        meeting_disconnect(meeting);
    }
}

TEST(a_write_with_an_immediate_ends_the_connection)
{
    struct meeting *meeting = *state;

    meeting_connect(meeting);
    write_to_client(meeting, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 0);
    MEETING_UNTIL(meeting, meeting->client.closed);
    assert_int_equal(meeting->client.close_status, OKV_EPROTO);
    meeting_disconnect(meeting);
}

/* Who knows the key of another region cannot use it: its queue pairs are of another domain. */
TEST(a_key_of_another_region_is_refused)
{
    struct meeting *meeting = *state;
    struct okv_memory *memory;
    static uint8_t bytes[64], untouched[64];

    memset(meeting->other, 0x77, sizeof bytes);
    meeting_connect(meeting);
    struct okv_conn *conn = meeting->client.conn;
    meeting->ops->set_remote(conn, 0, MEETING_REGION, meeting->listener->rkeys[1]);
    assert_int_equal(meeting->ops->memory_register(conn->endpoint, bytes, sizeof bytes, &memory),
                     0);
    const struct okv_read read = {0, bytes, memory, sizeof bytes, 1};
    assert_int_equal(meeting->ops->post_read(conn, &read, 1), 0);
    MEETING_UNTIL(meeting, meeting->client.reads == 1);
    assert_int_equal(meeting->client.read_status, OKV_EDISCONNECTED);
    assert_memory_equal(bytes, untouched, sizeof bytes);
    meeting->ops->memory_unregister(memory);
    meeting_disconnect(meeting);
}
