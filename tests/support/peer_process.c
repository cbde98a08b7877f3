#include "tests/support/peer_process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"

#define TRY_NS 10000000
#define PIECES 64 /* of an answer; the others come at once, however long it is */

static bool is_installed(const char *program)
{
    const char *path = getenv("PATH");
    char *folders = strdup(path ? path : "");
    bool found = false;

    for (char *save, *folder = strtok_r(folders, ":", &save); folder && !found;
         folder = strtok_r(NULL, ":", &save)) {
        char file[512];
        snprintf(file, sizeof file, "%s/%s", folder, program);
        found = access(file, X_OK) == 0;
    }
    free(folders);
    if (!found)
        print_message("left out: %s is not installed; run: tests/support/packages.sh peers\n",
                      program);
    return found;
}

static void choose_places(struct peer_process *process, const char *scheme)
{
    snprintf(process->directory, sizeof process->directory, "/tmp/okv-test-XXXXXX");
    assert_non_null(mkdtemp(process->directory));
    snprintf(process->socket_uri, sizeof process->socket_uri, "%s://%s/socket", scheme,
             process->directory);
    process->tcp_uri[0] = '\0';
}

static const char *socket_path(const struct peer_process *process)
{
    return strstr(process->socket_uri, "://") + 3;
}

/* A port that nobody has, at this moment. */
static unsigned choose_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;

    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static int connect_socket(const struct peer_process *process)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path(process));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool is_port_open(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool open = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return open;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = TRY_NS}, NULL);
}

static void await_ready(struct peer_process *process, unsigned port)
{
    for (uint64_t end = pace_guard_end(); okv_clock_ns() < end;) {
        int fd = connect_socket(process);
        if (fd >= 0) {
            close(fd);
            if (port == 0 || is_port_open(port))
                return;
        }
        if (waitpid(process->pid, NULL, WNOHANG) != 0)
            fail_msg("the server ended at once");
        pause_briefly();
    }
    fail_msg("the server never was ready");
}

static void run(struct peer_process *process, const char *const *arguments)
{
    process->pid = fork();
    assert_true(process->pid >= 0);
    if (process->pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(null, STDOUT_FILENO);
        execvp(arguments[0], (char *const *)arguments);
        _exit(127);
    }
}

bool peer_process_redis(struct peer_process *process)
{
    char port[16];

    if (!is_installed("redis-server"))
        return false;
    choose_places(process, "redis");
    unsigned number = choose_port();
    snprintf(port, sizeof port, "%u", number);
    snprintf(process->tcp_uri, sizeof process->tcp_uri, "redis://127.0.0.1:%s", port);
    const char *arguments[] = {"redis-server",
                               "--unixsocket",
                               socket_path(process),
                               "--port",
                               port,
                               "--bind",
                               "127.0.0.1",
                               "--save",
                               "",
                               "--dir",
                               process->directory,
                               NULL};
    run(process, arguments);
    await_ready(process, number);
    return true;
}

bool peer_process_memcached(struct peer_process *process, bool tcp)
{
    char port[16];

    if (!is_installed("memcached"))
        return false;
    choose_places(process, "memcached");
    unsigned number = tcp ? choose_port() : 0;
    snprintf(port, sizeof port, "%u", number);
    if (tcp)
        snprintf(process->tcp_uri, sizeof process->tcp_uri, "memcached://127.0.0.1:%s", port);
    /* It listens either there or here. */
    const char *unix_arguments[] = {"memcached", "-s", socket_path(process), "-u", "root",
                                    "-M",        NULL};
    const char *tcp_arguments[] = {"memcached", "-p", port, "-l", "127.0.0.1", "-u", "root", NULL};
    run(process, tcp ? tcp_arguments : unix_arguments);
    for (uint64_t end = pace_guard_end(); tcp && !is_port_open(number); pause_briefly())
        if (okv_clock_ns() > end || waitpid(process->pid, NULL, WNOHANG) != 0)
            fail_msg("the server does not listen at %s", process->tcp_uri);
    if (!tcp)
        await_ready(process, 0);
    return true;
}

void peer_process_stop(struct peer_process *process)
{
    char path[160];

    kill(process->pid, SIGTERM);
    while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    snprintf(path, sizeof path, "%s", socket_path(process));
    unlink(path);
    rmdir(process->directory);
}

/* ---- a server that answers as it is told ----------------------------------- */

static void play(int listener, const char *const *answers, bool stays)
{
    char message[65536];

    int fd = accept(listener, NULL, NULL);
    for (; *answers && recv(fd, message, sizeof message, 0) > 0; answers++)
        /* In the smallest pieces, so that one ends anywhere. */
        for (const char *byte = *answers; *byte && send(fd, byte, 1, MSG_NOSIGNAL) == 1; byte++)
            if (byte < *answers + PIECES)
                sched_yield();
    while (stays && recv(fd, message, sizeof message, 0) > 0)
        ;
    _exit(0);
}

void peer_process_play(struct peer_process *process, const char *scheme, const char *const *answers,
                       bool stays)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    choose_places(process, scheme);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path(process));
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    process->pid = fork();
    assert_true(process->pid >= 0);
    if (process->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        play(listener, answers, stays);
    }
    close(listener);
}
