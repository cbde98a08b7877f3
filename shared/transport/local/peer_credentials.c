/*
 * Who is at the other end of a socket, and whether to trust it. Another user may put a socket where
 * a server's is expected, and relay what client and server say. And a process that shares memory
 * with another one can delay it, whatever seals the memory has: the kernel locks it as long as the
 * process likes.
 */
#include "shared/transport/local/peer_credentials.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base/error.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

#define LINKS_MAX 40u /* as the kernel has it */

/* A path that is followed as the kernel follows it: name by name, through each symbolic link. */
struct walk {
    char reached[PATH_MAX]; /* has no links; "" is the root */
    char left[PATH_MAX];    /* what is to be looked up there; begins with no slash */
    unsigned links;
};

static const char *directory_of(const struct walk *walk)
{
    return walk->reached[0] ? walk->reached : "/";
}

/* Goes on at the target of the link that was reached. `parent` is the length of its directory's
 * path. */
static int follow_link(struct walk *walk, size_t parent, const char *rest)
{
    char target[PATH_MAX], left[PATH_MAX];
    ssize_t length = readlink(walk->reached, target, sizeof target);

    if (length < 0)
        return errno;
    if (++walk->links > LINKS_MAX)
        return ELOOP;
    int size = snprintf(left, sizeof left, "%.*s/%s", (int)length, target, rest);
    if (size < 0 || (size_t)size >= sizeof left)
        return ENAMETOOLONG;
    walk->reached[left[0] == '/' ? 0 : parent] = '\0';
    strcpy(walk->left, left + strspn(left, "/"));
    return 0;
}

/* Looks up the next name. Returns 0 or an errno value. */
static int take_step(struct walk *walk)
{
    size_t parent = strlen(walk->reached);
    size_t length = strcspn(walk->left, "/");
    const char *rest = walk->left + length + strspn(walk->left + length, "/");
    struct stat file;

    if (length == 2 && strncmp(walk->left, "..", length) == 0) {
        char *slash = strrchr(walk->reached, '/');
        if (slash)
            *slash = '\0';
    } else if (length != 1 || walk->left[0] != '.') {
        if (parent + 1 + length >= sizeof walk->reached)
            return ENAMETOOLONG;
        snprintf(walk->reached + parent, length + 2, "/%s", walk->left);
        if (lstat(walk->reached, &file))
            return errno;
        if (S_ISLNK(file.st_mode))
            return follow_link(walk, parent, rest);
    }
    memmove(walk->left, rest, strlen(rest) + 1);
    return 0;
}

/* Some links of /proc lead elsewhere than their text says. */
static bool is_same_file(const char *one, const char *other)
{
    struct stat first, second;

    return stat(one, &first) == 0 && stat(other, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

static int refuse_uncertain(const char *path, const char *where, const char *why,
                            struct okv_diag *diag)
{
    return okv_diag_set(diag, OKV_EDENIED,
                        "the server at local://%s belongs to another user, and whether anybody "
                        "could have put it there cannot be told (%s: %s): name its socket by a "
                        "path without symbolic links",
                        path, where, why);
}

/* 0 when only trusted users may make a file at the path, or at one of the directories and links
 * that lead to it. */
static int check_place(const char *path, struct okv_diag *diag)
{
    struct walk walk = {.links = 0};
    struct stat status;

    snprintf(walk.left, sizeof walk.left, "%s", path + strspn(path, "/"));
    while (walk.left[0]) {
        const char *directory = directory_of(&walk);
        if (stat(directory, &status))
            return refuse_uncertain(path, directory, strerror(errno), diag);
        if (status.st_mode & S_IWOTH)
            return okv_diag_set(diag, OKV_EDENIED,
                                "the server at local://%s belongs to another user, and anybody "
                                "could have put it there (%s is open to all): have it listen in a "
                                "directory that only its user may write to",
                                path, directory);
        int error = take_step(&walk);
        if (error)
            return refuse_uncertain(path, directory_of(&walk), strerror(error), diag);
    }
    if (!is_same_file(path, directory_of(&walk)))
        return refuse_uncertain(path, directory_of(&walk), "it is another file", diag);
    return 0;
}

int okv_local_peer_is_trusted(int sock, bool *is_trusted)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &length))
        return okv_error_from_errno(errno);
    *is_trusted = peer.uid == 0 || peer.uid == geteuid();
    return 0;
}

int okv_local_peer_verify(int sock, const char *path, struct okv_diag *diag)
{
    bool is_trusted;
    int status = okv_local_peer_is_trusted(sock, &is_trusted);

    if (status)
        return okv_diag_set(diag, status, "nobody tells who listens at local://%s: %s", path,
                            strerror(errno));
    return is_trusted ? 0 : check_place(path, diag);
}

void okv_local_peer_name(int sock, char name[64], char user[64])
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    bool is_known = getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;

    if (is_known)
        snprintf(name, 64, "pid %d uid %u", (int)peer.pid, (unsigned)peer.uid);
    else
        snprintf(name, 64, "unknown");
    if (user && is_known)
        snprintf(user, 64, "uid %u", (unsigned)peer.uid);
    else if (user)
        snprintf(user, 64, "unknown");
}

/* Before Linux 6.5 there is only the process id, which may have passed to another process. Then
 * that process is watched and the client's death shows on its socket only. */
int okv_local_peer_process(int sock, int *out)
{
    struct ucred peer = {.pid = 0};
    socklen_t size = sizeof *out, length = sizeof peer;

    if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, out, &size) == 0)
        return 0;
    *out = -1;
    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &length) || peer.pid <= 0)
        return 0;
    *out = (int)syscall(SYS_pidfd_open, peer.pid, 0);
    return *out < 0 && errno == ESRCH ? OKV_EDISCONNECTED : 0;
}
