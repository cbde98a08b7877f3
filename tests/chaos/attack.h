/*
 * Attacks on a server with users and two databases, each a loop in a process of its own, which is
 * the test's program started again: PROGRAM attacker NAME URI KEY_FILE RESP_PATH RESPS_URI FD
 * INDEX PROCESSOR.
 *
 * The attackers are mallory, who may read and write in databases "two" and "three", and processes
 * without a key.
 * A refusal stops none of them. They run at a lower priority than the others of this machine, or
 * on a processor of their own, so that what shows is what the server does for them, and not that
 * they take its processors.
 */
#ifndef OKV_TESTS_ATTACK_H
#define OKV_TESTS_ATTACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <okv.h>

#include "shared/base/uri.h"
#include "shared/identity/proof.h"
#include "shared/identity/user_key.h"

#define ATTACKS_MAX 32
#define ATTACKERS_MAX 64 /* processes of one attack */
#define ATTACK_USER "mallory"
#define ATTACK_DATABASE "two"
#define ATTACK_DATABASE_FULL "three"
#define ATTACKER_ROLE "attacker" /* the first argument */

/* In memory that the test shares with its attackers. */
struct attack_state {
    atomic_uint_fast64_t done;    /* blows that were struck, refused ones among them */
    atomic_uint_fast64_t refused; /* of these, what the server or the kernel refused */
};

struct attacker {
    const char *server;               /* its URI */
    struct okv_uri uri;               /* the same */
    const char *resp_path;            /* of its socket for clients of Redis */
    struct okv_uri resps;             /* for those with TLS */
    struct okv_options options;       /* of mallory in the attack's database */
    struct okv_user_key *key;         /* mallory's */
    struct okv_user_key *wrong;       /* of nobody */
    char password[OKV_PASSWORD_TEXT]; /* that goes with mallory's */
    struct attack_state *state;
};

/* What an attack needs: any transport, a socket to connect to (not over RDMA), shared memory; a
 * build with OpenSSL; or any transport and ATTACK_DATABASE_FULL, where others are in
 * ATTACK_DATABASE. */
enum attack_reach { ATTACK_ANY, ATTACK_SOCKET, ATTACK_LOCAL, ATTACK_TLS, ATTACK_FULL };

struct attack {
    const char *name;
    const char *about;
    void (*run)(struct attacker *attacker); /* never returns */
    enum attack_reach reach;
    const char *figure; /* a count of the server or the database that rises by it; or NULL */
};

extern const struct attack attacks[];
extern const size_t attack_count; /* at most ATTACKS_MAX */

/* A socket, non-blocking, that is connected to the server's, and has said nothing; -1: none. Not
 * over RDMA. In attack_door.c. */
int attacker_connect(const struct attacker *attacker);
/* The same to its socket for clients of Redis, over every transport. */
int attacker_connect_resp(const struct attacker *attacker);
/* The same to its listener with TLS, and a blocking one. */
int attacker_connect_resps(const struct attacker *attacker);
/* One blow more. */
void attacker_count(struct attacker *attacker, bool was_refused);
/* One that was turned away, after which nothing else can be done for a moment. */
void attacker_turned_away(struct attacker *attacker);

/* By users, in attack_user.c. */
void attack_bucket(struct attacker *attacker);
void attack_append(struct attacker *attacker);
void attack_large(struct attacker *attacker);
void attack_requests(struct attacker *attacker);
void attack_clients(struct attacker *attacker);
void attack_full(struct attacker *attacker);
/* Before there is a session, in attack_door.c. */
void attack_silent(struct attacker *attacker);
void attack_resp_silent(struct attacker *attacker);
void attack_challenges(struct attacker *attacker);
void attack_proofs(struct attacker *attacker);
/* On the socket and the shared memory, in attack_local.c. */
void attack_descriptors(struct attacker *attacker);
void attack_holders(struct attacker *attacker);
void attack_memory(struct attacker *attacker);
void attack_holes(struct attacker *attacker);
void attack_packets(struct attacker *attacker);
/* By clients of Redis, in attack_resp.c. */
void attack_resp_floods(struct attacker *attacker);
void attack_resp_frames(struct attacker *attacker);
void attack_resp_halves(struct attacker *attacker);
void attack_resp_slow(struct attacker *attacker);
void attack_resp_passwords(struct attacker *attacker);
void attack_resp_transactions(struct attacker *attacker);
void attack_resp_gets(struct attacker *attacker);
void attack_resp_setrange(struct attacker *attacker);
void attack_resp_append(struct attacker *attacker);
void attack_resp_copy(struct attacker *attacker);
void attack_resp_mset(struct attacker *attacker);
void attack_resp_exec(struct attacker *attacker);
void attack_resp_keys(struct attacker *attacker);
void attack_resp_scan(struct attacker *attacker);
void attack_resp_watch(struct attacker *attacker);
/* With TLS, before a log-in, in attack_tls.c. */
void attack_tls_handshakes(struct attacker *attacker);
void attack_tls_updates(struct attacker *attacker);
/* False: the build has no OpenSSL, and there is no such attack. */
bool attack_has_tls(void);
/* What the server's listener needs; fails the test. */
void attack_write_certificate(const char *cert_path, const char *key_path);

/* ---- processes: attackers.c ---- */

/* Whom they attack, and mallory's key. */
struct attack_target {
    const char *uri, *key_file, *resp_path;
    const char *resps; /* URI of the listener with TLS, even where there is none */
};

struct attackers {
    struct attack_target target;
    int fd;
    struct attack_state *states;            /* of attacks[], by index */
    unsigned each;                          /* processes of an attack; at most ATTACKERS_MAX */
    int processor;                          /* that they run on; -1: any */
    pid_t pids[ATTACKS_MAX][ATTACKERS_MAX]; /* 0: none */
};

/* Fails the test when there is no memory. Texts are borrowed. */
void attackers_init(struct attackers *attackers, const struct attack_target *target, unsigned each,
                    int processor);
void attackers_fini(struct attackers *attackers);
/* Starts attacks[index]; fails the test when there is no process. */
void attackers_start(struct attackers *attackers, size_t index);
/* Whether one of them ended by itself, which none should. */
bool attackers_has_ended(struct attackers *attackers, size_t index);
/* Kills all with -9 and waits until they are gone. */
void attackers_kill(struct attackers *attackers);

/* main() of such a process. */
int attacker_main(int argc, char **argv);

#endif
