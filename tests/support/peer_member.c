#include "tests/support/peer_member.h"

#include <poll.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "tests/support/test.h"

#define PATIENCE_NS UINT64_C(60000000000)
#define MESSAGES 8
#define STEP_MS 20 /* what the test waits for may be no event of the link */

uint8_t peer_body_byte(const struct peer_message *message, uint32_t i)
{
    return (uint8_t)(message->number * 31 + i * 7 + (i >> 9) * 3 + (i >> 17));
}

/* ---- the thread of the inbox ---- */

static bool is_right(const struct okv_peer_mail *mail, uint32_t number)
{
    struct peer_message message;

    if (mail->opcode < OKV_OP_JOIN || mail->header_length != sizeof message)
        return false;
    memcpy(&message, mail->header, sizeof message);
    if (message.number != number || message.length != mail->length)
        return false;
    for (uint32_t i = 0; i < mail->length; i++)
        if (mail->body[i] != peer_body_byte(&message, i))
            return false;
    return true;
}

static void answer_all(struct peer_member *member, struct okv_peer_mail_list *held)
{
    struct okv_peer_mail *mail;

    while (!atomic_load(&member->holds) && (mail = STAILQ_FIRST(held))) {
        STAILQ_REMOVE_HEAD(held, next);
        okv_peer_inbox_answer(member->inbox, mail, OKV_OK, mail->header, mail->header_length);
    }
}

/* Sessions come one after the other in these tests. */
static void *serve(void *user)
{
    struct peer_member *member = user;
    struct okv_peer_mail_list held = STAILQ_HEAD_INITIALIZER(held);
    struct pollfd fd = {.fd = member->inbox->fd, .events = POLLIN};
    struct okv_peer_mail *mail;
    uint64_t session = 0;
    uint32_t number = 0;

    while (!atomic_load(&member->stops)) {
        poll(&fd, 1, 1);
        while ((mail = okv_peer_inbox_take(member->inbox))) {
            if (mail->from->id != session)
                number = 0;
            session = mail->from->id;
            if (mail->opcode && !is_right(mail, number++))
                atomic_fetch_add(&member->wrong, 1);
            atomic_fetch_add(mail->opcode ? &member->taken : &member->lost, 1);
            STAILQ_INSERT_TAIL(&held, mail, next);
        }
        answer_all(member, &held);
    }
    atomic_store(&member->holds, false);
    answer_all(member, &held);
    return NULL;
}

/* ---- the server ---- */

const char *peer_member_listen(void)
{
    static char uri[64];
    const char *text = getenv("OKV_TEST_LISTEN");

    if (!uri[0]) /* a child has the same */
        snprintf(uri, sizeof uri, "local:///tmp/okv-peer-%d.sock", (int)getpid());
    return text ? text : uri;
}

struct okv_uri peer_member_uri(void)
{
    const char *text = getenv("OKV_TEST_URI");
    struct okv_uri uri;

    assert_int_equal(okv_uri_parse(text ? text : peer_member_listen(), &uri, NULL), 0);
    return uri;
}

void peer_member_start(struct peer_member *member, const char *users, bool is_member)
{
    const char *const options[] = {
        "--listen", peer_member_listen(),         "--memory", "64M", "--workers", "2", "--credits",
        "8",        users ? "--users" : "--open", users,      NULL};

    *member = (struct peer_member){.inbox = NULL};
    server_thread_create(&member->server, options);
    if (is_member) {
        assert_int_equal(okv_peer_inbox_create(member->server.server, &member->inbox), 0);
        member->server.server->peer_inbox = member->inbox;
        assert_int_equal(pthread_create(&member->thread, NULL, serve, member), 0);
    }
    server_thread_run(&member->server);
}

void peer_member_stop(struct peer_member *member)
{
    server_thread_stop(&member->server);
    if (!member->inbox)
        return;
    atomic_store(&member->stops, true);
    pthread_join(member->thread, NULL);
    okv_peer_inbox_destroy(member->inbox);
    assert_int_equal(atomic_load(&member->wrong), 0);
}

/* ---- the link ---- */

static void opened(void *context)
{
    ((struct peer_dial *)context)->is_open = true;
}

static void answered(void *context, uint64_t cookie, int status, const uint8_t *bytes,
                     uint32_t length)
{
    struct peer_dial *dial = context;
    struct peer_message message = {.number = UINT32_MAX};

    if (length == sizeof message)
        memcpy(&message, bytes, sizeof message);
    if (cookie != dial->answered || (status == OKV_OK && message.number != dial->answered))
        dial->wrong++;
    dial->answered++;
    dial->last_status = status;
}

static void lost(void *context, int status, const char *why)
{
    struct peer_dial *dial = context;

    assert_false(dial->is_lost);
    dial->is_lost = true;
    dial->status = status;
    snprintf(dial->why, sizeof dial->why, "%s", why);
}

static const struct okv_link_calls CALLS = {opened, answered, lost};

void peer_dial_step(struct peer_dial *dial)
{
    const struct okv_link_wait wait = okv_link_run(dial->link);
    struct pollfd fd = {.fd = wait.fd, .events = POLLIN};

    if (!dial->is_lost)
        poll(&fd, 1, okv_clock_sooner_ms(STEP_MS, okv_clock_ms_until(wait.wake_ns)));
}

static void step_until(struct peer_dial *dial, uint64_t deadline_ns, const char *what)
{
    if (okv_clock_ns() > deadline_ns)
        fail_msg("%s: sent %u, answered %u, lost %d: %d %s", what, dial->sent, dial->answered,
                 dial->is_lost, dial->status, dial->why);
    peer_dial_step(dial);
}

static void dial_once(struct peer_dial *dial, const char *user, const struct okv_user_key *key,
                      uint64_t client_id, uint64_t deadline_ns)
{
    const struct okv_uri uri = peer_member_uri();
    const struct okv_link_params params = {.uri = &uri,
                                           .database = "default",
                                           .client_id = client_id,
                                           .user = user,
                                           .key = key,
                                           .messages_max = MESSAGES,
                                           .timeout_ns = PATIENCE_NS,
                                           .calls = &CALLS,
                                           .context = dial};
    struct okv_diag diag = {.text = ""};

    *dial = (struct peer_dial){.link = NULL};
    int rc = okv_link_open(&params, &dial->link, &diag);
    if (rc)
        lost(dial, rc, diag.text);
    while (!dial->is_open && !dial->is_lost)
        step_until(dial, deadline_ns, "opening");
}

void peer_dial_open(struct peer_dial *dial, const char *user, const char *text, uint64_t client_id)
{
    uint64_t deadline_ns = okv_clock_ns() + PATIENCE_NS;
    struct okv_user_key *key = NULL;

    assert_int_equal(okv_identity_init(), 0);
    if (text)
        assert_int_equal(okv_user_key_parse(text, &key), 0);
    dial_once(dial, user, key, client_id, deadline_ns);
    /* Nobody listens yet. */
    while (dial->is_lost && dial->status == OKV_EREFUSED && okv_clock_ns() < deadline_ns) {
        okv_link_close(dial->link);
        usleep(5000);
        dial_once(dial, user, key, client_id, deadline_ns);
    }
    okv_user_key_destroy(key);
}

int peer_dial_try(struct peer_dial *dial, uint32_t length)
{
    const struct peer_message message = {.number = dial->sent, .length = length};
    uint8_t *body = malloc(length + 1);
    uint32_t half = length / 3;
    const struct iovec parts[] = {{body, half}, {NULL, 0}, {body + half, length - half}};

    assert_non_null(body);
    for (uint32_t i = 0; i < length; i++)
        body[i] = peer_body_byte(&message, i);
    int rc = okv_link_send(dial->link, OKV_OP_JOIN + dial->sent % 6, &message, sizeof message,
                           parts, 3, dial->sent);
    dial->sent += rc == 0;
    free(body);
    return rc;
}

void peer_dial_send(struct peer_dial *dial, uint32_t length)
{
    uint64_t deadline_ns = okv_clock_ns() + PATIENCE_NS;
    int rc;

    while ((rc = peer_dial_try(dial, length)) == OKV_EAGAIN)
        step_until(dial, deadline_ns, "sending");
    assert_int_equal(rc, 0);
}

void peer_dial_until_answered(struct peer_dial *dial, uint32_t count)
{
    uint64_t deadline_ns = okv_clock_ns() + PATIENCE_NS;

    while (dial->answered < count)
        step_until(dial, deadline_ns, "waiting for answers");
    assert_int_equal(dial->wrong, 0);
    assert_false(dial->is_lost);
}

void peer_dial_until_lost(struct peer_dial *dial)
{
    uint64_t deadline_ns = okv_clock_ns() + PATIENCE_NS;

    while (!dial->is_lost)
        step_until(dial, deadline_ns, "waiting for the end");
}

void peer_dial_until(struct peer_dial *dial, const atomic_uint *figure, unsigned value)
{
    uint64_t deadline_ns = okv_clock_ns() + PATIENCE_NS;

    while (atomic_load(figure) < value)
        step_until(dial, deadline_ns, "waiting for the server");
}

void peer_dial_close(struct peer_dial *dial)
{
    okv_link_close(dial->link);
    dial->link = NULL;
}
