#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "tests/chaos/attack.h"

#define PROGRAM "/proc/self/exe"
#define PRIORITY 10
#define MOMENT_NS 1000000

extern char **environ;

/* Those that leave reply caches come after the one that fills the server with them. */
const struct attack attacks[] = {
    {"clients", "comes with one client id after the other", attack_clients, ATTACK_ANY,
     "reply_caches"},
    {"descriptors", "passes descriptors whose last close blocks", attack_descriptors, ATTACK_LOCAL,
     NULL},
    {"bucket", "fills a bucket and goes on", attack_bucket, ATTACK_ANY, "puts_refused"},
    {"append", "appends bytes to a large value", attack_append, ATTACK_ANY, "appends"},
    {"large", "puts large values", attack_large, ATTACK_ANY, "rendezvous_bytes"},
    {"requests", "has as many short requests outstanding as it may", attack_requests, ATTACK_ANY,
     NULL},
    {"full", "keeps a database full and puts values of many sizes", attack_full, ATTACK_FULL,
     "puts_refused"},
    {"silent", "connects and says nothing", attack_silent, ATTACK_SOCKET, NULL},
    {"challenges", "takes a challenge and proves nothing", attack_challenges, ATTACK_ANY,
     "challenges"},
    {"holders", "holds sessions and passes descriptors to each", attack_holders, ATTACK_LOCAL,
     "closed_lost"},
    {"memory", "leaves with its shared memory full", attack_memory, ATTACK_LOCAL, "closed_lost"},
    {"holes", "allocates and punches shared memory", attack_holes, ATTACK_LOCAL,
     "closed_malformed"},
    {"packets", "floods the socket with packets", attack_packets, ATTACK_LOCAL, "closed_malformed"},
    {"resp_silent", "connects as a client of Redis and says nothing", attack_resp_silent,
     ATTACK_ANY, "closed_crowded_out"},
    {"resp_floods", "sends pipelines and reads no reply", attack_resp_floods, ATTACK_ANY,
     "resp_commands"},
    {"resp_frames", "breaks the protocol of Redis", attack_resp_frames, ATTACK_ANY,
     "resp_clients_total"},
    {"resp_halves", "begins long requests and never ends them", attack_resp_halves, ATTACK_ANY,
     "resp_clients_total"},
    {"resp_slow", "takes many values by single bytes, or never", attack_resp_slow, ATTACK_ANY,
     "resp_hits"},
    {"resp_passwords", "gives wrong passwords", attack_resp_passwords, ATTACK_ANY,
     "rejected_denied"},
    {"resp_transactions", "runs or leaves large transactions", attack_resp_transactions, ATTACK_ANY,
     "deletes"},
    {"resp_gets", "gets one key after the other, as fast as it can", attack_resp_gets, ATTACK_ANY,
     "resp_hits"},
    {"resp_setrange", "changes bytes of the longest value", attack_resp_setrange, ATTACK_ANY,
     "resp_commands"},
    {"resp_append", "appends bytes to a long value", attack_resp_append, ATTACK_ANY,
     "resp_commands"},
    {"resp_copy", "copies the longest value", attack_resp_copy, ATTACK_ANY, "resp_commands"},
    {"resp_mset", "sets 1,000 keys at once", attack_resp_mset, ATTACK_ANY, "resp_commands"},
    {"resp_exec", "runs the longest transactions", attack_resp_exec, ATTACK_ANY, "resp_commands"},
    {"resp_keys", "lists keys by a pattern that takes long", attack_resp_keys, ATTACK_ANY,
     "resp_commands"},
    {"resp_scan", "the same in steps", attack_resp_scan, ATTACK_ANY, "resp_commands"},
    {"resp_watch", "watches as many of the longest keys as it may", attack_resp_watch, ATTACK_ANY,
     "resp_commands"},
    {"tls_handshakes", "shakes hands over TLS and leaves", attack_tls_handshakes, ATTACK_TLS,
     "resp_clients_total"},
    {"tls_updates", "updates keys of TLS and sends no data", attack_tls_updates, ATTACK_TLS,
     "resp_clients_total"},
    {"proofs", "proves wrongly, 1,000 times a second", attack_proofs, ATTACK_ANY,
     "rejected_denied"},
};
const size_t attack_count = sizeof attacks / sizeof *attacks;

_Static_assert(sizeof attacks / sizeof *attacks <= ATTACKS_MAX, "struct attackers");

#define STATES_SIZE (ATTACKS_MAX * sizeof(struct attack_state))

void attackers_init(struct attackers *attackers, const struct attack_target *target, unsigned each,
                    int processor)
{
    *attackers = (struct attackers){.target = *target,
                                    .fd = memfd_create("attackers", 0), /* not closed on exec */
                                    .each = each,
                                    .processor = processor};
    assert_true(attackers->fd >= 0);
    assert_int_equal(ftruncate(attackers->fd, STATES_SIZE), 0);
    attackers->states =
        mmap(NULL, STATES_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, attackers->fd, 0);
    assert_ptr_not_equal(attackers->states, MAP_FAILED);
}

void attackers_fini(struct attackers *attackers)
{
    attackers_kill(attackers);
    munmap(attackers->states, STATES_SIZE);
    close(attackers->fd);
}

void attackers_start(struct attackers *attackers, size_t index)
{
    const struct attack_target *target = &attackers->target;
    char fd[16], number[16], processor[16];
    char *argv[] = {PROGRAM,
                    ATTACKER_ROLE,
                    (char *)attacks[index].name,
                    (char *)target->uri,
                    (char *)target->key_file,
                    (char *)target->resp_path,
                    (char *)target->resps,
                    fd,
                    number,
                    processor,
                    NULL};

    snprintf(fd, sizeof fd, "%d", attackers->fd);
    snprintf(number, sizeof number, "%zu", index);
    snprintf(processor, sizeof processor, "%d", attackers->processor);
    for (unsigned i = 0; i < attackers->each; i++)
        assert_int_equal(
            posix_spawn(&attackers->pids[index][i], PROGRAM, NULL, NULL, argv, environ), 0);
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};

    return pid && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
}

bool attackers_has_ended(struct attackers *attackers, size_t index)
{
    for (unsigned i = 0; i < attackers->each; i++)
        if (has_ended(attackers->pids[index][i]))
            return true;
    return false;
}

void attackers_kill(struct attackers *attackers)
{
    pid_t *pids = attackers->pids[0];

    for (size_t i = 0; i < ATTACKS_MAX * ATTACKERS_MAX; i++)
        if (pids[i])
            kill(pids[i], SIGKILL);
    for (size_t i = 0; i < ATTACKS_MAX * ATTACKERS_MAX; i++) {
        if (pids[i])
            waitpid(pids[i], NULL, 0);
        pids[i] = 0;
    }
}

/* ---- in the attacker ---- */

void attacker_count(struct attacker *attacker, bool was_refused)
{
    atomic_fetch_add(&attacker->state->done, 1);
    atomic_fetch_add(&attacker->state->refused, was_refused);
}

void attacker_turned_away(struct attacker *attacker)
{
    attacker_count(attacker, true);
    nanosleep(&(struct timespec){0, MOMENT_NS}, NULL);
}

/* There it takes what others leave, as if it were on a host of its own: what it computes keeps
 * nobody waiting, what it asks of the server and the kernel does. */
static bool stay_on(int processor)
{
    const struct sched_param none = {0};
    cpu_set_t set;

    if (processor < 0)
        return true;
    if (sched_setscheduler(0, SCHED_IDLE, &none))
        return false;
    CPU_ZERO(&set);
    CPU_SET((unsigned)processor, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

/* False: it is not what attackers_start() gives. */
static bool understand(struct attacker *attacker, const struct attack *attack, char **argv)
{
    struct okv_diag diag;

    *attacker = (struct attacker){.server = argv[3],
                                  .resp_path = argv[5],
                                  .options = {.user = ATTACK_USER, .key_file = argv[4]}};
    snprintf(attacker->options.database, sizeof attacker->options.database, "%s",
             attack->reach == ATTACK_FULL ? ATTACK_DATABASE_FULL : ATTACK_DATABASE);
    return okv_uri_parse(argv[3], &attacker->uri, &diag) == 0 &&
           okv_uri_parse(argv[6], &attacker->resps, &diag) == 0 && okv_identity_init() == 0 &&
           okv_user_key_read(argv[4], &attacker->key, &diag) == 0 &&
           okv_user_key_create(&attacker->wrong) == 0;
}

int attacker_main(int argc, char **argv)
{
    static struct attacker attacker; /* for as long as the process */

    if (argc != 10 || strcmp(argv[1], ATTACKER_ROLE) != 0)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpriority(PRIO_PROCESS, 0, PRIORITY);
    if (!stay_on((int)strtol(argv[9], NULL, 10)))
        return 1;
    struct attack_state *states = mmap(NULL, STATES_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
                                       (int)strtol(argv[7], NULL, 10), 0);
    const struct attack *attack = &attacks[strtoul(argv[8], NULL, 10) % attack_count];
    if (states == MAP_FAILED || !understand(&attacker, attack, argv))
        return 1;
    okv_user_key_password(attacker.key, attacker.password);
    attacker.state = &states[attack - attacks];
    attack->run(&attacker);
    return 1;
}
