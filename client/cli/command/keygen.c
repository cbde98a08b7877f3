/* okv keygen: makes a key for a user, or prints its password; needs no server. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/args.h"
#include "shared/base/uri.h"
#include "shared/identity/proof.h"
#include "shared/identity/user_key.h"

struct keygen_arguments {
    struct cli *cli;
    const char *file;     /* NULL or "-": standard output */
    const char *key_file; /* of --password; or NULL */
};

static const struct okv_option keygen_options[] = {
    {"password", 0, "KEYFILE",
     .help = "Make no key: print the password of the key in KEYFILE, for clients of Redis",
     CLI_TEXT(struct keygen_arguments, key_file)},
    {0},
};

static error_t check_keygen(struct argp_state *state, void *input)
{
    const struct keygen_arguments *arguments = input;

    if (arguments->file && arguments->key_file)
        return cli_usage(state, "--password prints, and makes no key: leave out '%s'",
                         arguments->file);
    return 0;
}

static int write_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t some = write(fd, text, length);
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            return -1;
        text += some;
        length -= (size_t)some;
    }
    return 0;
}

static int fail(const char *file, const char *what, const char *advice)
{
    fprintf(stderr, "okv: keygen: %s: %s%s%s\n", file, what, advice ? ": " : "",
            advice ? advice : "");
    return CLI_FAILED;
}

/* An existing file stays: clients may use it. */
static int write_file(const char *file, const char *line, size_t length)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);

    if (fd < 0)
        return fail(file, strerror(errno),
                    errno == EEXIST ? "give another name, or remove it if no client uses its key"
                                    : "give a name in a directory that you can write to");
    int failed = write_all(fd, line, length) || fsync(fd) ? errno : 0;
    if (close(fd) && !failed)
        failed = errno;
    if (!failed)
        return CLI_DONE;
    unlink(file);
    return fail(file, strerror(failed), NULL);
}

/* Writes a line whose NUL is at its end, and wipes it. */
static int print(char *line, size_t length)
{
    int status = CLI_DONE;

    line[length - 1] = '\n';
    if (write_all(STDOUT_FILENO, line, length))
        status = fail("cannot write the output", strerror(errno), NULL);
    sodium_memzero(line, length);
    return status;
}

static int tell_password(const char *key_file)
{
    char line[OKV_PASSWORD_TEXT];
    struct okv_user_key *key = NULL;
    struct okv_diag diag;

    if (okv_identity_init())
        return fail("libsodium", "no random numbers", NULL);
    if (okv_user_key_read(key_file, &key, &diag)) {
        fprintf(stderr, "okv: keygen: %s\n", diag.text);
        return CLI_FAILED;
    }
    okv_user_key_password(key, line);
    okv_user_key_destroy(key);
    return print(line, sizeof line);
}

/* The user's name, if the file is called NAME.key. */
static void print_section(const char *file)
{
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    const char *end = strrchr(base, '.');
    char name[OKV_NAME_SIZE] = "";

    if (end && strcmp(end, ".key") == 0 && end - base < OKV_NAME_SIZE)
        snprintf(name, sizeof name, "%.*s", (int)(end - base), base);
    fprintf(stderr, "  [%s]\n", okv_name_is_valid(name) ? name : "NAME");
}

static void tell_next(const char *file)
{
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr,
            "%s has the user's key: bring it to the client. Add to the server's users file\n",
            file);
    print_section(file);
    fprintf(stderr,
            "  key = (the line in %s)\n"
            "  default = read, write\n"
            "where default is the database, then run `okv admin reload' as a user with the right "
            "admin, or send\nSIGHUP to the server (`systemctl reload okv-server').\n",
            file);
}

static int generate(const char *file)
{
    char line[OKV_USER_KEY_TEXT];
    struct okv_user_key *key = NULL;

    if (okv_identity_init() || okv_user_key_create(&key))
        return fail("libsodium", "no random numbers or no memory", NULL);
    okv_user_key_text(key, line);
    okv_user_key_destroy(key);
    if (!file || strcmp(file, "-") == 0)
        return print(line, sizeof line);
    line[OKV_USER_KEY_TEXT - 1] = '\n';
    int status = write_file(file, line, OKV_USER_KEY_TEXT);
    sodium_memzero(line, sizeof line);
    if (status == CLI_DONE)
        tell_next(file);
    return status;
}

int cli_keygen(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = keygen_options,
        .most = 1,
        .arguments = {offsetof(struct keygen_arguments, file)},
        .unexpected = "unexpected argument '%s': keygen takes one FILE",
        .check = check_keygen,
        .args_doc = "[FILE]",
        .doc =
            "Make a new random key for a user and print it, or write it to a new FILE that only "
            "you can read. In the server's users file it is the line key = KEY; the client reads "
            "it from a file. On a terminal it also says what to add to that file. It needs no "
            "server; options for a connection have no effect.\v"
            "The key proves who the user is. Both files must have mode 0600.\n"
            "\nExamples:\n  okv keygen alice.key\n  okv keygen --password alice.key\n"
            "  (umask 077; printf '[alice]\\nkey = %s\\n' \"$(cat alice.key)\" >>users)\n"
            "  echo 'default = read, write' >>users"};
    struct keygen_arguments arguments = {.cli = cli};

    int status = cli_read(&parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    return arguments.key_file ? tell_password(arguments.key_file) : generate(arguments.file);
}
