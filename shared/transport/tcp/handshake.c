#include "shared/transport/tcp/handshake.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "shared/base/error.h"

static uint64_t limit_ns(void *user)
{
    const struct okv_tcp_listener *l = user;

    return atomic_load(&l->pending.silence_ns);
}

/* On the thread. */
static void ended(void *user, struct okv_handshake *handshake, enum okv_handshake_end how)
{
    struct okv_tcp_request *request =
        (struct okv_tcp_request *)((char *)handshake - offsetof(struct okv_tcp_request, handshake));
    struct okv_tcp_listener *l = user;

    request->how = how;
    pthread_mutex_lock(&l->handshakes.lock);
    STAILQ_INSERT_TAIL(&l->handshakes.returned, request, in_returned);
    pthread_mutex_unlock(&l->handshakes.lock);
    eventfd_write(l->handshakes.fd, 1);
}

static const struct okv_handshakes_ops handshakes_ops = {.limit_ns = limit_ns, .ended = ended};

int okv_tcp_handshakes_open(struct okv_tcp_listener *l, struct okv_diag *diag)
{
    struct okv_diag why = {.text = ""};

    STAILQ_INIT(&l->handshakes.returned);
    l->handshakes.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    if (l->handshakes.fd < 0)
        return okv_diag_set(diag, OKV_EIO, "no descriptor for handshakes of TLS: %s",
                            strerror(errno));
    pthread_mutex_init(&l->handshakes.lock, NULL);
    int rc = okv_handshakes_start(&l->handshakes.thread, &handshakes_ops, l, &why);
    if (rc == 0)
        return 0;
    pthread_mutex_destroy(&l->handshakes.lock);
    close(l->handshakes.fd);
    return okv_diag_set(diag, rc, "cannot start the thread of handshakes of TLS: %s",
                        why.text[0] ? why.text : okv_error_text(rc));
}

void okv_tcp_handshakes_close(struct okv_tcp_listener *l)
{
    pthread_mutex_destroy(&l->handshakes.lock);
    close(l->handshakes.fd);
}

void okv_tcp_handshakes_stop(struct okv_tcp_listener *l)
{
    okv_handshakes_stop(&l->handshakes.thread);
}

void okv_tcp_handshakes_begin(struct okv_tcp_listener *l, struct okv_tcp_request *request)
{
    request->handshake.stream = &request->stream;
    okv_handshakes_add(&l->handshakes.thread, &request->handshake);
}

struct okv_tcp_request *okv_tcp_handshakes_next(struct okv_tcp_listener *l)
{
    eventfd_t count;

    eventfd_read(l->handshakes.fd, &count);
    pthread_mutex_lock(&l->handshakes.lock);
    struct okv_tcp_request *request = STAILQ_FIRST(&l->handshakes.returned);
    if (request)
        STAILQ_REMOVE_HEAD(&l->handshakes.returned, in_returned);
    pthread_mutex_unlock(&l->handshakes.lock);
    return request;
}
