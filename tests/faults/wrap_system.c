/*
 * Allocations and calls to the system that are made to fail.
 *
 * Left out, as they cannot fail when their arguments are right, or nobody could do
 * anything about it: close, munmap, clock_gettime, mutexes, pthread_join, and writes to
 * an eventfd.
 */
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "server/store/heap.h"
#include "tests/faults/wrap.h"

/* clang-format off */
WRAP(void *, NULL, malloc, (size_t size), (size), ENOMEM)
WRAP(void *, NULL, calloc, (size_t count, size_t size), (count, size), ENOMEM)
WRAP(void *, NULL, realloc, (void *old, size_t size), (old, size), ENOMEM)
WRAP(char *, NULL, strdup, (const char *text), (text), ENOMEM)
WRAP(void *, NULL, aligned_alloc, (size_t alignment, size_t size), (alignment, size), ENOMEM)
WRAP(void *, NULL, mallocx, (size_t size, int flags), (size, flags), ENOMEM)
/* Ours: when jemalloc has nothing, it is asked again for less, so that a single failure there is
 * none here. */
WRAP(uint64_t, 0, okv_heap_alloc, (struct okv_heap *heap, uint64_t size), (heap, size), ENOMEM)
WRAP(uint64_t, 0, okv_heap_alloc_fixed, (struct okv_heap *heap, uint64_t size), (heap, size),
     ENOMEM)
WRAP_CODE(int, mallctl, (const char *name, void *old, size_t *old_size, void *set, size_t set_size),
          (name, old, old_size, set, set_size), EAGAIN)
WRAP_CODE(int, mallctlnametomib, (const char *name, size_t *mib, size_t *length),
          (name, mib, length), EAGAIN)

WRAP(void *, (void *)-1, mmap, (void *at, size_t length, int prot, int flags, int fd, off_t offset),
     (at, length, prot, flags, fd, offset), ENOMEM)
WRAP(int, -1, madvise, (void *at, size_t length, int advice), (at, length, advice), ENOMEM)
WRAP(int, -1, memfd_create, (const char *name, unsigned flags), (name, flags), EMFILE, ENOMEM)
WRAP(int, -1, ftruncate, (int fd, off_t length), (fd, length), ENOMEM, EINTR)
WRAP(int, -1, fallocate, (int fd, int mode, off_t offset, off_t length), (fd, mode, offset, length),
     ENOSPC, EINTR)
WRAP(int, -1, fstat, (int fd, struct stat *out), (fd, out), ENOMEM)
WRAP(int, -1, lstat, (const char *path, struct stat *out), (path, out), ENOMEM)
WRAP(int, -1, flock, (int fd, int operation), (fd, operation), ENOLCK, EINTR)
WRAP(int, -1, fchmod, (int fd, mode_t mode), (fd, mode), EPERM)
WRAP(int, -1, unlink, (const char *path), (path), EIO)
WRAP(int, -1, access, (const char *path, int mode), (path, mode), EACCES)

WRAP(int, -1, eventfd, (unsigned value, int flags), (value, flags), EMFILE)
WRAP(int, -1, epoll_create1, (int flags), (flags), EMFILE)
WRAP(int, -1, epoll_wait, (int fd, struct epoll_event *events, int max, int timeout),
     (fd, events, max, timeout), EINTR, EBADF)
WRAP(int, -1, timerfd_create, (clockid_t clock, int flags), (clock, flags), EMFILE)
WRAP(int, -1, timerfd_settime, (int fd, int flags, const struct itimerspec *set,
     struct itimerspec *old), (fd, flags, set, old), EINVAL)
WRAP(int, -1, poll, (struct pollfd *fds, nfds_t count, int timeout), (fds, count, timeout),
     EINTR, ENOMEM)

WRAP(int, -1, socket, (int domain, int type, int protocol), (domain, type, protocol), EMFILE)
WRAP(int, -1, bind, (int fd, const struct sockaddr *address, socklen_t length),
     (fd, address, length), ENOMEM)
WRAP(int, -1, listen, (int fd, int backlog), (fd, backlog), EADDRINUSE)
WRAP(int, -1, accept4, (int fd, struct sockaddr *address, socklen_t *length, int flags),
     (fd, address, length, flags), EMFILE, ECONNABORTED, EINTR, ENOMEM)
WRAP(int, -1, getsockopt, (int fd, int level, int name, void *value, socklen_t *length),
     (fd, level, name, value, length), ENOBUFS)
WRAP(int, -1, setsockopt, (int fd, int level, int name, const void *value, socklen_t length),
     (fd, level, name, value, length), ENOBUFS)
WRAP_CODE(int, pthread_create, (pthread_t *thread, const pthread_attr_t *attr,
          void *(*run)(void *), void *user), (thread, attr, run, user), EAGAIN)
WRAP_CODE(int, getaddrinfo, (const char *node, const char *service, const struct addrinfo *hints,
          struct addrinfo **out), (node, service, hints, out), EAI_MEMORY)
WRAP(int, -1, getrlimit, (int what, struct rlimit *out), (what, out), EINVAL)
WRAP(int, -1, gethostname, (char *name, size_t size), (name, size), EPERM)
WRAP(int, -1, nanosleep, (const struct timespec *time, struct timespec *left), (time, left), EINTR)
WRAP(ssize_t, -1, getrandom, (void *bytes, size_t length, unsigned flags),
     (bytes, length, flags), EINTR, ENOSYS)
/* clang-format on */

/* With variable arguments, or more to do. */

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
    va_list list;

    va_start(list, command);
    long argument = va_arg(list, long);
    va_end(list);
    int way = WRAP_ASK(fcntl, EPERM);
    if (way == 0)
        return __real_fcntl(fd, command, argument);
    errno = way;
    return -1;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list list;

    va_start(list, flags);
    mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
    va_end(list);
    int way = WRAP_ASK(open, EMFILE, EINTR);
    if (way == 0)
        return __real_open(path, flags, mode);
    errno = way;
    return -1;
}

/* Only what adds can fail for want of memory. */
int __real_epoll_ctl(int fd, int operation, int what, struct epoll_event *event);
int __wrap_epoll_ctl(int fd, int operation, int what, struct epoll_event *event);
int __wrap_epoll_ctl(int fd, int operation, int what, struct epoll_event *event)
{
    int way = operation == EPOLL_CTL_ADD ? WRAP_ASK(epoll_ctl, ENOMEM, ENOSPC) : 0;

    if (way == 0)
        return __real_epoll_ctl(fd, operation, what, event);
    errno = way;
    return -1;
}

/* 8 bytes are of an eventfd or a timer, which is never asked before it is readable, but may
 * have been emptied by another thread. */
ssize_t __real_read(int fd, void *bytes, size_t length);
ssize_t __wrap_read(int fd, void *bytes, size_t length);
ssize_t __wrap_read(int fd, void *bytes, size_t length)
{
    int way =
        length == 8 ? WRAP_ASK(read, EAGAIN, EINTR) : WRAP_ASK(read, EIO, EINTR, INJECT_SHORT);

    if (way == 0)
        return __real_read(fd, bytes, length);
    if (way == INJECT_SHORT)
        return __real_read(fd, bytes, length > 1 ? length / 2 : length);
    if (way == INJECT_NOTHING)
        return 0;
    errno = way;
    return -1;
}

ssize_t __real_pread(int fd, void *bytes, size_t length, off_t offset);
ssize_t __wrap_pread(int fd, void *bytes, size_t length, off_t offset);
ssize_t __wrap_pread(int fd, void *bytes, size_t length, off_t offset)
{
    int way = WRAP_ASK(pread, EIO, EINTR, INJECT_SHORT, INJECT_NOTHING);

    if (way == 0)
        return __real_pread(fd, bytes, length, offset);
    if (way == INJECT_SHORT)
        return __real_pread(fd, bytes, length > 1 ? length / 2 : length, offset);
    if (way == INJECT_NOTHING)
        return 0;
    errno = way;
    return -1;
}

ssize_t __real_pwrite(int fd, const void *bytes, size_t length, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t length, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    int way = WRAP_ASK(pwrite, ENOSPC, EINTR, INJECT_SHORT);

    if (way == 0)
        return __real_pwrite(fd, bytes, length, offset);
    if (way == INJECT_SHORT)
        return __real_pwrite(fd, bytes, length > 1 ? length / 2 : length, offset);
    errno = way;
    return -1;
}

ssize_t __real_write(int fd, const void *bytes, size_t length);
ssize_t __wrap_write(int fd, const void *bytes, size_t length);
ssize_t __wrap_write(int fd, const void *bytes, size_t length)
{
    int way = length == 8 ? 0 : WRAP_ASK(write, ENOSPC, EINTR, INJECT_SHORT);

    if (way == 0)
        return __real_write(fd, bytes, length);
    if (way == INJECT_SHORT)
        return __real_write(fd, bytes, length > 1 ? length / 2 : length);
    errno = way;
    return -1;
}

/* A peer is not gone because we say so: with these two errors it goes. */
static bool socket_fails(int fd, int way)
{
    if (way == ECONNRESET || way == EPIPE)
        shutdown(fd, SHUT_RDWR);
    errno = way;
    return way != 0;
}

ssize_t __real_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags)
{
    if (socket_fails(fd, WRAP_ASK(send, EAGAIN, EPIPE, ENOBUFS)))
        return -1;
    return __real_send(fd, bytes, length, flags);
}

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (socket_fails(fd, WRAP_ASK(sendmsg, EAGAIN, EPIPE, ENOBUFS)))
        return -1;
    return __real_sendmsg(fd, message, flags);
}

ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    if (socket_fails(fd, WRAP_ASK(recvmsg, EAGAIN, ECONNRESET, EINTR, ENOMEM)))
        return -1;
    return __real_recvmsg(fd, message, flags);
}

/* The socket that was connected last, to be cut. */
static int connected = -1;

int __real_connect(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    int way = WRAP_ASK(connect, ECONNREFUSED, EINTR, EAGAIN);

    connected = fd;
    if (way == 0)
        return __real_connect(fd, address, length);
    errno = way;
    return -1;
}

void inject_cut_local(void)
{
    shutdown(connected, SHUT_RDWR);
}

long __real_sysconf(int name);
long __wrap_sysconf(int name);
long __wrap_sysconf(int name)
{
    return WRAP_ASK(sysconf, EINVAL) ? -1 : __real_sysconf(name);
}
