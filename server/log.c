#include "server/log.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "server/session/lifecycle.h"
#include "shared/base/clock.h"
#include "shared/format/wire.h"

#define SECOND_NS UINT64_C(1000000000)
#define TEXT_MAX 200

void okv_log_init(struct okv_log *log, int fd)
{
    *log = (struct okv_log){.fd = fd};
    pthread_mutex_init(&log->lock, NULL);
}

/* At once and whole, or not at all: a pipe that is ready takes at least PIPE_BUF bytes. */
static bool write_line(const struct okv_log *log, const char *text)
{
    struct pollfd ready = {.fd = log->fd, .events = POLLOUT};
    char line[TEXT_MAX + 16];

    if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT))
        return false;
    int length = snprintf(line, sizeof line, "okv-server: %.*s\n", TEXT_MAX, text);
    return write(log->fd, line, (size_t)length) == length;
}

static bool tell_left_out(struct okv_log *log)
{
    char text[TEXT_MAX];

    snprintf(text, sizeof text,
             "%" PRIu64 " more connections ended or were refused, not told one by one: see closed_ "
             "and rejected_ in okv stat",
             log->left_out);
    if (!write_line(log, text))
        return false;
    log->left_out = 0;
    log->lines++;
    return true;
}

void okv_log_fini(struct okv_log *log)
{
    if (log->left_out)
        tell_left_out(log);
    pthread_mutex_destroy(&log->lock);
}

void okv_log_line(struct okv_log *log, uint64_t now_ns, const char *text)
{
    pthread_mutex_lock(&log->lock);
    /* Each thread read the clock by itself, so that an earlier time may come after a later one. */
    if (now_ns > log->second_ns && now_ns - log->second_ns >= SECOND_NS) {
        log->second_ns = now_ns;
        log->lines = 0;
        if (log->left_out)
            tell_left_out(log);
    }
    if (log->lines >= OKV_LOG_LINES_MAX || log->left_out || !write_line(log, text))
        log->left_out++;
    else
        log->lines++;
    pthread_mutex_unlock(&log->lock);
}

/* NULL: nothing to tell. */
static const char *end_text(enum okv_session_end_reason reason)
{
    switch (reason) {
    case OKV_SESSION_END_BY_CLIENT:
    case OKV_SESSION_END_STOPPING:
        return NULL;
    case OKV_SESSION_END_LOST:
        return "without a word: the client died or gave up";
    case OKV_SESSION_END_DEAD:
        return "its device acknowledged nothing";
    case OKV_SESSION_END_UNRESPONSIVE:
        return "it acknowledged nothing within --keepalive-ms";
    case OKV_SESSION_END_REPLACED:
        return "the client has another connection";
    case OKV_SESSION_END_IDLE:
        return "no request within --idle-s";
    case OKV_SESSION_END_MALFORMED:
        return "a message that makes no sense";
    case OKV_SESSION_END_NO_IMMEDIATE:
        return "a message without immediate";
    case OKV_SESSION_END_CREDIT:
        return "more requests than credits, or a wrong lane";
    case OKV_SESSION_END_FAILED:
        break;
    }
    return "the device failed";
}

void okv_log_session_end(struct okv_log *log, const struct okv_session *session, unsigned reason)
{
    uint64_t now_ns = okv_clock_ns();
    const char *why = end_text((enum okv_session_end_reason)reason);
    const char *failure = session->conn->failure;
    char text[TEXT_MAX];

    if (!why)
        return;
    if (reason == OKV_SESSION_END_FAILED && failure[0] != '\0')
        why = failure;
    snprintf(text, sizeof text, "%s: ended: %s (session %016" PRIx64 ", %.1f s)",
             session->conn->peer, why, session->id, (double)(now_ns - session->created_ns) / 1e9);
    okv_log_line(log, now_ns, text);
}

void okv_log_reject(struct okv_log *log, const struct okv_request *request, int reason)
{
    char text[TEXT_MAX];

    if (reason == OKV_REJECT_STOPPING)
        return;
    snprintf(text, sizeof text, "%s: refused: %s", request->peer,
             okv_reject_text((uint32_t)reason));
    okv_log_line(log, okv_clock_ns(), text);
}
