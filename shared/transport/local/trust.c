/* Who listens at a path: another user may have put a socket where a server's was expected, and pass
 * on what the two say. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/transport/local/local.h"

/* Whether anybody may make a file at the path, or at one of the directories that lead to it. */
static bool is_open_to_all(const char *path)
{
    char directory[sizeof((struct sockaddr_un *)0)->sun_path + 1];
    struct stat status;
    char *slash;

    snprintf(directory, sizeof directory, "%s", path);
    while ((slash = strrchr(directory, '/'))) {
        slash[slash == directory] = '\0'; /* "/" stays */
        if (stat(directory, &status) || status.st_mode & S_IWOTH)
            return true;
        if (strcmp(directory, "/") == 0)
            return false;
    }
    return true; /* a relative path */
}

int okv_local_trust(int sock, const char *path)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &length))
        return okv_error_from_errno(errno);
    if (peer.uid == 0 || peer.uid == geteuid() || !is_open_to_all(path))
        return 0;
    return OKV_EDENIED;
}
