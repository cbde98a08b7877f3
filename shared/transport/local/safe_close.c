/*
 * Releases what a hostile peer had access to, without waiting for the peer.
 *
 * A socket may hold packets, and packets may hold descriptors. To remove such a packet closes these
 * descriptors, and that may take as long as the peer likes: a TCP socket with SO_LINGER waits for
 * its own peer. To look at a packet (MSG_PEEK) closes nothing. A socket with packets left is closed
 * by an ending thread, because the kernel lets no ending thread linger.
 *
 * A process that makes holes in memory holds a lock for which munmap waits, the longer the more
 * often the memory is mapped there. So a separate thread unmaps rings that were never sealed
 * against holes.
 */
#include "shared/transport/local/safe_close.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2u /* Linux 5.9 */
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* Packets that are removed one by one before a socket is closed. Honest peers leave few. */
#define PACKETS_MAX 16

/* Memory that is freed without a thread of its own. */
#define FREED_AT_ONCE (1 << 20)

struct parting {
    int fd;
    sem_t held, closed;
};

struct rings {
    struct okv_local_ring ring;
    int fd; /* -1: closed */
};

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void await(sem_t *event)
{
    while (sem_wait(event) && errno == EINTR)
        continue;
}

/* Takes a table of descriptors of its own, with the one that is to go, and ends after the others
 * have closed it. */
static void *hold(void *argument)
{
    struct parting *parting = argument;

    syscall(SYS_close_range, (unsigned)parting->fd + 1, ~0u, CLOSE_RANGE_UNSHARE);
    sem_post(&parting->held);
    await(&parting->closed);
    return NULL;
}

/* The caller may be kept to a processor that is for requests. */
static void run_where_the_main_thread_may(void)
{
    cpu_set_t processors;

    if (sched_getaffinity(getpid(), sizeof processors, &processors) == 0)
        sched_setaffinity(0, sizeof processors, &processors);
}

/* Where the kernel gives no table, or no thread, the close makes this thread wait and nobody else.
 */
static void *part(void *argument)
{
    struct parting parting = {.fd = (int)(intptr_t)argument};
    pthread_t holder;
    bool is_held;

    run_where_the_main_thread_may();
    sem_init(&parting.held, 0, 0);
    sem_init(&parting.closed, 0, 0);
    is_held = pthread_create(&holder, NULL, hold, &parting) == 0;
    if (is_held)
        await(&parting.held);
    close(parting.fd);
    if (is_held) {
        sem_post(&parting.closed);
        pthread_join(holder, NULL);
    }
    sem_destroy(&parting.closed);
    sem_destroy(&parting.held);
    return NULL;
}

/* Only close: another process that has the memory can hold its lock for ever, and most other calls
 * would wait for that. */
static void *free_memory(void *argument)
{
    run_where_the_main_thread_may();
    close((int)(intptr_t)argument);
    return NULL;
}

/* Only unmap and close. To seal them would wait for ever, as for a client that writes to them from
 * memory that he provides page by page. */
static void *free_rings(void *argument)
{
    struct rings *rings = argument;

    run_where_the_main_thread_may();
    okv_local_ring_unmap(&rings->ring);
    close_if_open(rings->fd);
    free(rings);
    return NULL;
}

/* False when there is no thread; then nothing has run. */
static bool run_apart(void *(*run)(void *), void *argument)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;

    if (pthread_attr_init(&attributes))
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all); /* the program's signals are for its own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error == 0;
}

static bool close_apart(int fd, void *(*run)(void *fd))
{
    return run_apart(run, (void *)(intptr_t)fd);
}

/* Removes the packets of a socket that is shut down. False when a packet has descriptors, or there
 * are many. With SO_PASSCRED a packet, even an empty one, shows by its credentials. */
static bool empty(int sock)
{
    const int on = 1;

    if (setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof on))
        return false;
    for (unsigned i = 0; i < PACKETS_MAX; i++) {
        union {
            struct cmsghdr header;
            char space[CMSG_SPACE(sizeof(struct ucred))]; /* and no room for descriptors */
        } control;
        struct msghdr message = {.msg_control = control.space,
                                 .msg_controllen = sizeof control.space};
        if (recvmsg(sock, &message, MSG_PEEK | MSG_DONTWAIT) < 0) {
            if (errno == ENOTCONN) /* it never was connected */
                return true;
            continue; /* the error of the peer's end, once */
        }
        if (message.msg_flags & MSG_CTRUNC)
            return false;
        if (message.msg_controllen == 0)
            return true;
        recv(sock, NULL, 0, MSG_DONTWAIT);
    }
    return false;
}

void okv_local_socket_close(int sock)
{
    /* No packet comes after this. It also ends the connection where a forked child has it, too. */
    shutdown(sock, SHUT_RDWR);
    if (empty(sock))
        close(sock);
    else
        close_apart(sock, part); /* without a thread it stays open: better than to wait */
}

void okv_local_listening_close(int sock)
{
    int client;

    shutdown(sock, SHUT_RDWR); /* no client comes after this */
    do {
        client = accept4(sock, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0)
            okv_local_socket_close(client);
    } while (client >= 0 || errno == EINTR || errno == ECONNABORTED);
    bool is_empty = errno == EAGAIN || errno == EINVAL;
    if (is_empty || !close_apart(sock, part))
        close(sock);
}

void okv_local_values_close(int fd)
{
    struct stat file;

    if (fd < 0)
        return;
    bool is_large = fstat(fd, &file) == 0 && file.st_blocks * 512 > FREED_AT_ONCE;
    if (!is_large || !close_apart(fd, free_memory))
        close(fd);
}

void okv_local_rings_close(struct okv_local_ring *ring, int fd)
{
    bool is_slow = fd >= 0 || okv_local_ring_mapped(ring->capacity) > FREED_AT_ONCE;
    struct rings *rings = ring->page && is_slow ? malloc(sizeof *rings) : NULL;

    if (rings) {
        *rings = (struct rings){*ring, fd};
        if (run_apart(free_rings, rings))
            return;
        free(rings);
    }
    okv_local_ring_unmap(ring);
    close_if_open(fd);
}
