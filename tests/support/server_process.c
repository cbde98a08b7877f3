#include "tests/support/server_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"

#define ARGUMENTS_MAX 40
#define SERVERS_MAX 16
/* Below those that the system gives away. */
#define OWN_PORTS 20000
#define OWN_PORTS_COUNT 10000

const char *server_scheme(void)
{
    static const char *const schemes[] = {"rdma", "ofi", "tcp"};
    const char *uri = getenv("OKV_TEST_URI");

    for (size_t i = 0; uri && i < sizeof schemes / sizeof *schemes; i++)
        if (strncmp(uri, schemes[i], strlen(schemes[i])) == 0)
            return schemes[i];
    return "local";
}

bool server_is_rdma(void)
{
    return strcmp(server_scheme(), "rdma") == 0;
}

bool server_is_fabric(void)
{
    return server_is_rdma() || strcmp(server_scheme(), "ofi") == 0;
}

bool server_has_tls(void)
{
    const char *uri = getenv("OKV_TEST_URI");

    return uri && strncmp(uri, "tcps:", 5) == 0;
}

bool server_is_slow(void)
{
    return server_is_rdma() || getenv("OKV_GUEST");
}

bool server_is_local(void)
{
    return strcmp(server_scheme(), "local") == 0;
}

bool server_is_one_sided(const okv *handle)
{
    struct okv_info info;

    okv_info(handle, &info);
    return info.one_sided;
}

/* ---- those that run: a test that fails leaves its own behind ---- */

static pthread_mutex_t running_lock = PTHREAD_MUTEX_INITIALIZER; /* a thread may end a server */
static struct server_process running[SERVERS_MAX];
static pid_t owner; /* whoever forks without an exec ends nobody's server */

static void remove_directory(const struct server_process *server)
{
    static const char *const names[] = {"okv.sock", "okv.sock.lock"};
    char path[160];

    if (!server->directory[0])
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", server->directory, names[i]);
        unlink(path);
    }
    rmdir(server->directory);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status, (void)kind, (void)place;
    return remove(path);
}

/* The next server of the test begins with an empty table, whatever became of this one. */
static void remove_data(const struct server_process *server)
{
    if (server->data[0])
        nftw(server->data, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void end_left_behind(struct server_process *left)
{
    fprintf(stderr, "a server at %s that a failed test left behind is ended\n", left->listen);
    kill(left->pid, SIGKILL);
    waitpid(left->pid, NULL, 0);
    remove_directory(left);
    remove_data(left);
    left->pid = 0;
}

static void end_all(void)
{
    for (size_t i = 0; i < SERVERS_MAX && owner == getpid(); i++)
        if (running[i].pid)
            end_left_behind(&running[i]);
}

static void end_who_listens_at(const char *listen)
{
    pthread_mutex_lock(&running_lock);
    for (size_t i = 0; i < SERVERS_MAX; i++)
        if (running[i].pid && strcmp(running[i].listen, listen) == 0)
            end_left_behind(&running[i]);
    pthread_mutex_unlock(&running_lock);
}

static void note_start(const struct server_process *server)
{
    if (owner != getpid())
        atexit(end_all);
    owner = getpid();
    pthread_mutex_lock(&running_lock);
    size_t i = 0;
    while (i < SERVERS_MAX && running[i].pid)
        i++;
    if (i < SERVERS_MAX)
        running[i] = *server;
    pthread_mutex_unlock(&running_lock);
    if (i == SERVERS_MAX)
        fail_msg("more than %d servers at once", SERVERS_MAX);
}

static void note_end(pid_t pid)
{
    pthread_mutex_lock(&running_lock);
    for (size_t i = 0; i < SERVERS_MAX; i++)
        if (running[i].pid == pid)
            running[i].pid = 0;
    pthread_mutex_unlock(&running_lock);
}

/* ---- start ---- */

/* An RDMA address without a port gets one of this process, so that no other test's server has it.
 */
static void copy_uri(char out[256], const char *uri)
{
    int address = (int)strcspn(uri, "?");

    if (strncmp(uri, "rdma:", 5) != 0 || memchr(uri + 5, ':', (size_t)address - 5))
        snprintf(out, 256, "%s", uri);
    else
        snprintf(out, 256, "%.*s:%d%s", address, uri, OWN_PORTS + (int)getpid() % OWN_PORTS_COUNT,
                 uri + address);
}

static void choose_socket(struct server_process *server)
{
    snprintf(server->directory, sizeof server->directory, "/tmp/okv-test-XXXXXX");
    assert_non_null(mkdtemp(server->directory));
    snprintf(server->uri, sizeof server->uri, "local://%s/okv.sock", server->directory);
    snprintf(server->listen, sizeof server->listen, "%s", server->uri);
}

/* With its port from now on, also for programs that the test starts. */
static void uri_from(const char *variable, char out[256])
{
    copy_uri(out, getenv(variable));
    assert_int_equal(setenv(variable, out, 1), 0);
}

static void choose_uris(struct server_process *server)
{
    server->directory[0] = '\0';
    if (getenv("OKV_TEST_URI"))
        uri_from("OKV_TEST_URI", server->uri);
    else
        choose_socket(server);
    if (getenv("OKV_TEST_LISTEN"))
        uri_from("OKV_TEST_LISTEN", server->listen);
    else
        snprintf(server->listen, sizeof server->listen, "%s", server->uri);
}

static void choose_data(struct server_process *server)
{
    const char *below = getenv("OKV_TEST_DATA");

    server->data[0] = '\0';
    if (!below)
        return;
    snprintf(server->data, sizeof server->data, "%s/okv-test-data-XXXXXX", below);
    assert_non_null(mkdtemp(server->data));
}

const char *server_program(void)
{
    const char *program = getenv("OKV_SERVER_BIN");

    return program ? program : OKV_SERVER_BIN;
}

static void exec_server(const struct server_process *server, const char *const *arguments, int out,
                        pid_t parent)
{
    const char *program = server_program();
    const char *further = getenv("OKV_TEST_SERVER_ARGS");
    const char *sync = getenv("OKV_TEST_SYNC");
    const char *argv[ARGUMENTS_MAX] = {program,  "--listen",     server->listen,
                                       "--open", "--log-format", "text"};
    int count = 6;

    if (server->data[0]) {
        argv[count++] = "--data";
        argv[count++] = server->data;
        argv[count++] = "--sync";
        argv[count++] = sync ? sync : "always";
    }
    /* The test's own arguments come last and so prevail. */
    char *words = further ? strdup(further) : NULL;
    for (char *save, *word = words ? strtok_r(words, " ", &save) : NULL;
         word && count + 1 < ARGUMENTS_MAX; word = strtok_r(NULL, " ", &save))
        argv[count++] = word;
    for (int i = 0; arguments && arguments[i] && count + 1 < ARGUMENTS_MAX; i++)
        argv[count++] = arguments[i];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127); /* it died before this could be told of it */
    dup2(out, STDOUT_FILENO);
    execv(argv[0], (char *const *)argv);
    _exit(127);
}

static void await_ready(int fd)
{
    char line[512] = "";
    size_t length = 0;

    while (!strchr(line, '\n')) {
        struct pollfd pollfd = {.fd = fd, .events = POLLIN};
        if (poll(&pollfd, 1, PACE_GUARD_MS) <= 0)
            fail_msg("the server never was ready");
        ssize_t n = read(fd, line + length, sizeof line - 1 - length);
        if (n <= 0)
            fail_msg("the server ended before it was ready");
        length += (size_t)n;
        line[length] = '\0';
    }
    assert_memory_equal(line, "ready ", 6);
}

static void start(struct server_process *server, const char *const *arguments)
{
    pid_t parent = getpid();
    int out[2];

    choose_data(server);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0)
        exec_server(server, arguments, out[1], parent);
    note_start(server);
    close(out[1]);
    await_ready(out[0]);
    close(out[0]);
}

void server_start(struct server_process *server, const char *const *arguments)
{
    choose_uris(server);
    end_who_listens_at(server->listen);
    start(server, arguments);
}

void server_start_local(struct server_process *server, const char *const *arguments)
{
    choose_socket(server);
    start(server, arguments);
}

void server_start_after(struct server_process *server, const struct server_process *there,
                        const char *const *arguments)
{
    server->directory[0] = '\0';
    memcpy(server->uri, there->uri, sizeof server->uri);
    memcpy(server->listen, there->listen, sizeof server->listen);
    start(server, arguments);
}

bool server_is_running(const struct server_process *server)
{
    siginfo_t info = {.si_pid = 0};

    assert_int_equal(waitid(P_PID, (id_t)server->pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
    return info.si_pid == 0;
}

/* One line per thread: its name and state, the system call that it is in, and what it waits for. */
static void show_threads(pid_t pid)
{
    char command[256];

    snprintf(command, sizeof command,
             "cd /proc/%d/task && for t in *; do echo \"$t $(cat $t/comm), "
             "$(grep State $t/status), call $(cut -d' ' -f1 $t/syscall), $(cat $t/wchan)\"; done",
             (int)pid);
    if (system(command))
        print_error("its threads cannot be shown\n");
}

static int reap(struct server_process *server)
{
    uint64_t end = pace_guard_end();
    int status;
    pid_t reaped;

    while ((reaped = waitpid(server->pid, &status, WNOHANG)) == 0 && okv_clock_ns() < end)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    if (reaped == 0) {
        show_threads(server->pid);
        fail_msg("the server does not end");
    }
    assert_int_equal(reaped, server->pid);
    note_end(server->pid);
    server->pid = 0;
    remove_data(server);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int server_stop(struct server_process *server)
{
    if (server->pid) {
        /* A test that failed may have left it stopped. Not after SIGTERM: a SIGCONT discards the
         * SIGSTOP by which LeakSanitizer attaches to a process that ends, which then hangs. */
        kill(server->pid, SIGCONT);
        kill(server->pid, SIGTERM);
    }
    return server_wait(server);
}

int server_wait(struct server_process *server)
{
    int status = server->pid ? reap(server) : 0;

    remove_directory(server);
    return status;
}

void server_signal(struct server_process *server, int signal)
{
    siginfo_t stopped;

    assert_int_equal(kill(server->pid, signal), 0);
    if (signal == SIGKILL)
        reap(server);
    /* Told when the last of its threads stands, which may be long after the first one does. */
    if (signal == SIGSTOP)
        assert_int_equal(waitid(P_PID, (id_t)server->pid, &stopped, WSTOPPED), 0);
}

/* proc(5): fields 14 and 15; the command before them may hold spaces. */
uint64_t server_cpu_ticks(const struct server_process *server)
{
    char path[64], text[1024];
    unsigned long user, system;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)server->pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    const char *after = strrchr(text, ')');
    assert_non_null(after);
    assert_int_equal(
        sscanf(after, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system), 2);
    return user + system;
}

/* proc(5): of one thread; 0 when it has ended. */
static uint64_t thread_sleeps(const struct server_process *server, const char *thread)
{
    char path[320], line[256];
    unsigned long sleeps = 0;

    snprintf(path, sizeof path, "/proc/%d/task/%s/status", (int)server->pid, thread);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "voluntary_ctxt_switches: %lu", &sleeps) == 1)
            break;
    fclose(file);
    return sleeps;
}

uint64_t server_sleeps(const struct server_process *server)
{
    char path[64];
    uint64_t sleeps = 0;
    struct dirent *entry;

    snprintf(path, sizeof path, "/proc/%d/task", (int)server->pid);
    DIR *tasks = opendir(path);
    assert_non_null(tasks);
    while ((entry = readdir(tasks)) != NULL)
        if (entry->d_name[0] != '.')
            sleeps += thread_sleeps(server, entry->d_name);
    closedir(tasks);
    return sleeps;
}

okv *server_connect(const struct server_process *server, const struct okv_options *options)
{
    char why[320];
    okv *handle;
    int rc = patient_open(server->uri, options, &handle, why, sizeof why);

    if (rc)
        fail_msg("okv_open: %s: %s", okv_errname(rc), why);
    return handle;
}

uint64_t server_stat(okv *handle, const char *name)
{
    char text[16384];
    size_t length;
    size_t name_length = strlen(name);

    assert_int_equal(okv_stat(handle, text, sizeof text, &length), OKV_OK);
    for (char *save, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (strncmp(line, name, name_length) == 0 && line[name_length] == ' ')
            return strtoull(line + name_length + 1, NULL, 10);
    fail_msg("the server has no figure %s", name);
    return 0;
}

/* A stat is a request of its own: between two the server has time for others. */
static uint64_t await_stat(okv *handle, const char *name, uint64_t from, uint64_t to)
{
    uint64_t end = pace_guard_end();
    uint64_t seen;

    while (seen = server_stat(handle, name), (seen < from || seen > to) && okv_clock_ns() < end)
        nanosleep(&(struct timespec){0, 200000}, NULL);
    return seen;
}

void server_await_stat_from(okv *handle, const char *name, uint64_t value)
{
    uint64_t seen = await_stat(handle, name, value, UINT64_MAX);

    if (seen < value)
        fail_msg("%s is %llu and should be at least %llu", name, (unsigned long long)seen,
                 (unsigned long long)value);
}

void server_await_stat(okv *handle, const char *name, uint64_t value)
{
    uint64_t seen = await_stat(handle, name, value, value);

    if (seen != value)
        fail_msg("%s is %llu and should be %llu", name, (unsigned long long)seen,
                 (unsigned long long)value);
}
