/*
 * From the text of a users file to a snapshot. inih takes the lines apart. It is built in several
 * ways, so nothing here depends on whether it knows continuations or byte order marks, nor on how
 * it treats lines that are too long.
 */
#include <ini.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/identity/users_state.h"
#include "shared/base/error.h"
#include "shared/base/regular_file.h"
#include "shared/format/opcode.h"

#define KEY "key" /* the name of a line with a key */
#define ALL "*"   /* that of a line for all databases */
#define BYTE_ORDER_MARK "\xef\xbb\xbf"
#define WHAT_SIZE 224
/* More than inih's functions have on the stack, where a wrong line may leave a key. */
#define INIH_STACK 4096

struct parse {
    const char *name; /* of the file */
    const char *next, *end;
    const char *const *databases;
    unsigned database_count;
    struct okv_users *users;
    unsigned line;         /* of the line that inih was given last */
    unsigned section_line; /* of a [NAME] without a line below it yet, else 0 */
    struct okv_user *user; /* whose lines these are; NULL in front of the first one */
    unsigned user_line;    /* of its [NAME] */
    unsigned user_keys;
    uint32_t user_databases; /* a bit for each that had its line */
    int code;                /* nothing else is looked at once it is set */
    unsigned code_line;      /* `line` at that time */
    struct okv_diag *diag;
};

/* Always -1. */
static int wrong(struct parse *parse, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int wrong(struct parse *parse, unsigned line, const char *format, ...)
{
    char what[WHAT_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    parse->code_line = parse->line;
    parse->code = okv_diag_set(parse->diag, OKV_EINVAL, "%s:%u: %s", parse->name, line, what);
    return -1;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* ---- users ---- */

static int end_user(struct parse *parse)
{
    if (parse->section_line)
        return wrong(parse, parse->section_line,
                     "this user has no key: add a line " KEY " = with what okv keygen prints");
    if (parse->user && parse->user_keys == 0)
        return wrong(parse, parse->user_line,
                     "user %s has no key: add a line " KEY " = with what okv keygen prints",
                     parse->user->name);
    return 0;
}

static int begin_user(struct parse *parse, const char *name)
{
    struct okv_users *users = parse->users;

    parse->user_line = parse->section_line;
    parse->section_line = 0;
    if (!okv_name_is_valid(name))
        return wrong(parse, parse->user_line, "this is no name of a user: write " OKV_NAME_RULE);
    for (unsigned i = 0; i < users->count; i++)
        if (strcmp(users->list[i].name, name) == 0)
            return wrong(parse, parse->user_line,
                         "user %s was there before: write all its lines under one [%s]", name,
                         name);
    if (users->count == OKV_USERS_MAX)
        return wrong(parse, parse->user_line, "more than %u users: remove some", OKV_USERS_MAX);
    parse->user = &users->list[users->count];
    *parse->user = (struct okv_user){.index = users->count++};
    snprintf(parse->user->name, sizeof parse->user->name, "%s", name);
    parse->user_keys = 0;
    parse->user_databases = 0;
    return 0;
}

/* ---- lines of a user ---- */

/* Whose key it is already, or NULL. */
static const struct okv_user *holder_of(const struct okv_users *users,
                                        const struct okv_users_key *key)
{
    for (unsigned i = 0; i < users->key_count; i++)
        if (users->held[i].id == key->id &&
            memcmp(users->held[i].fingerprint, key->fingerprint, sizeof key->fingerprint) == 0)
            return &users->list[users->held[i].user];
    return NULL;
}

static int take_key(struct parse *parse, const char *text)
{
    struct okv_users *users = parse->users;
    struct okv_users_key *held = &users->held[users->key_count];
    struct okv_user_key *key = &users->keys[users->key_count];
    const struct okv_user *holder;

    if (okv_user_key_decode(text, strlen(text), key))
        return wrong(parse, parse->line,
                     "this is no key: write the 44 characters that okv keygen prints");
    okv_user_key_fingerprint(key, held->fingerprint);
    held->id = okv_user_key_id(held->fingerprint);
    held->user = parse->user->index;
    holder = holder_of(users, held);
    if (holder)
        return wrong(parse, parse->line,
                     "user %s has this key already: make another one with okv keygen",
                     holder->name);
    if (parse->user_keys == OKV_USERS_KEYS)
        return wrong(parse, parse->line,
                     "more than %u keys of user %s: remove those that no client uses",
                     OKV_USERS_KEYS, parse->user->name);
    parse->user_keys++;
    users->key_count++;
    return 0;
}

static uint8_t right_of(const char *text, size_t length)
{
    for (unsigned right = 1; right <= OKV_RIGHTS_ALL; right <<= 1) {
        const char *name = okv_right_name(right);
        if (strlen(name) == length && memcmp(name, text, length) == 0)
            return (uint8_t)right;
    }
    return 0;
}

/* A list with commas. Returns 0 when something else is in it. */
static uint8_t rights_of(const char *text)
{
    uint8_t rights = 0;

    for (;;) {
        text += strspn(text, " \t");
        size_t whole = strcspn(text, ","), length = whole;
        while (length > 0 && is_blank(text[length - 1]))
            length--;
        uint8_t right = right_of(text, length);
        if (!right)
            return 0;
        rights |= right;
        if (!text[whole])
            return rights;
        text += whole + 1;
    }
}

/* A bit for each database that a line is about. */
static uint32_t databases_of(const struct parse *parse, const char *name)
{
    uint32_t databases = 0;

    for (unsigned i = 0; i < parse->database_count; i++)
        if (strcmp(name, ALL) == 0 || strcmp(name, parse->databases[i]) == 0)
            databases |= 1u << i;
    return databases;
}

/* The text of a name is shown only when it is too short for a key. */
static int take_database(struct parse *parse, const char *name, const char *value)
{
    uint32_t databases;

    if (strcmp(name, ALL) != 0 && !okv_name_is_valid(name))
        return wrong(parse, parse->line,
                     "neither " KEY " nor the name of a database in front of =: correct it");
    databases = databases_of(parse, name);
    if (!databases)
        return wrong(parse, parse->line,
                     "the server has no database %s: correct the name, or start it with --database",
                     name);
    if (parse->user_databases & databases)
        return wrong(parse, parse->line,
                     "database %s was there before: write all rights of user %s in it on one line",
                     name, parse->user->name);
    uint8_t rights = rights_of(value);
    if (!rights)
        return wrong(
            parse, parse->line,
            "these are no rights: write read, write and admin, with commas between them, or "
            "replicate");
    if (rights & OKV_RIGHT_REPLICATE)
        rights |= OKV_RIGHT_READ;
    if (rights & OKV_RIGHT_REPLICATE && rights & (OKV_RIGHT_WRITE | OKV_RIGHT_ADMIN))
        return wrong(parse, parse->line,
                     "replicate with other rights: it is for a user of servers alone, and implies "
                     "read");
    if (!(rights & OKV_RIGHT_READ))
        return wrong(parse, parse->line,
                     "rights without read, which is not possible, because any connected client can "
                     "read over RDMA: add read, or remove the line");
    parse->user_databases |= databases;
    for (unsigned i = 0; i < parse->database_count; i++)
        if (databases & 1u << i)
            parse->user->rights[i] = rights;
    return 0;
}

/* ---- inih ---- */

/* Its handler: returns 0 for an error. */
static int take_pair(void *context, const char *section, const char *name, const char *value)
{
    struct parse *parse = context;

    if (parse->code || (parse->section_line && begin_user(parse, section)))
        return 0;
    if (!parse->user)
        wrong(parse, parse->line, "a line of no user: write [NAME] in front of the first one");
    else if (strcmp(name, KEY) == 0)
        take_key(parse, value ? value : "");
    else
        take_database(parse, name, value ? value : "");
    return !parse->code;
}

static bool is_text(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((line[i] >= 0 && line[i] < ' ' && line[i] != '\t') || line[i] == 0x7f)
            return false;
    return true;
}

/* A line with [. inih ignores what follows the ], and reports a section only with its first line.
 */
static int begin_section(struct parse *parse, const char *line, size_t length)
{
    const char *close = memchr(line, ']', length);

    if (end_user(parse))
        return -1;
    while (close && ++close < line + length && is_blank(*close))
        ;
    if (!close || (close < line + length && *close != ';' && *close != '#'))
        return wrong(parse, parse->line, "not [NAME] alone: correct it");
    parse->section_line = parse->line;
    return 0;
}

/* One line of text without indentation, which would continue the line before, and without what ends
 * it. */
static const char *cut_line(struct parse *parse, size_t *length)
{
    const char *line = parse->next;
    const char *end = memchr(line, '\n', (size_t)(parse->end - line));

    parse->next = end ? end + 1 : parse->end;
    if (!end)
        end = parse->end;
    if (parse->line == 0 && end - line >= 3 && memcmp(line, BYTE_ORDER_MARK, 3) == 0)
        line += 3;
    while (line < end && is_blank(*line))
        line++;
    if (line < end && end[-1] == '\r')
        end--;
    *length = (size_t)(end - line);
    return line;
}

/* Its reader. `out` is inih's line, which it does not wipe. */
static char *read_line(char *out, int room, void *context)
{
    struct parse *parse = context;
    const char *line;
    size_t length;

    sodium_memzero(out, (size_t)room);
    if (parse->code || parse->next == parse->end)
        return NULL;
    line = cut_line(parse, &length);
    parse->line++;
    if (length > OKV_USERS_LINE || length + 2 > (size_t)room)
        wrong(parse, parse->line, "more than %u bytes: make the line shorter", OKV_USERS_LINE);
    else if (!is_text(line, length))
        wrong(parse, parse->line, "a control character: write plain text");
    else if (length > 0 && *line == '[')
        begin_section(parse, line, length);
    if (parse->code)
        return NULL;
    memcpy(out, line, length);
    out[length] = '\n';
    return out;
}

/* ---- all of it ---- */

static void parse_text(struct parse *parse)
{
    int line = ini_parse_stream(read_line, parse, take_pair, parse);

    sodium_stackzero(INIH_STACK);
    if (line < 0)
        parse->code = okv_diag_set(parse->diag, OKV_ENOMEM, "%s cannot be read: %s", parse->name,
                                   okv_error_text(OKV_ENOMEM));
    else if (line > 0 && (!parse->code || (unsigned)line < parse->code_line))
        wrong(parse, (unsigned)line,
              "neither [NAME] nor NAME = VALUE: correct it, or put # in front of a comment");
    else if (!parse->code && !end_user(parse) && parse->users->count == 0)
        parse->code = okv_diag_set(parse->diag, OKV_EINVAL,
                                   "%s has no users: write [NAME], below it " KEY
                                   " = with what okv keygen prints, and a line for each database",
                                   parse->name);
}

/* A snapshot with room for all users and keys that so much text can have. */
static struct okv_users *users_create(size_t length)
{
    struct okv_users *users = calloc(1, sizeof *users);
    size_t keys = length / OKV_USER_KEY_TEXT + 1;

    if (!users)
        return NULL;
    users->list = calloc(OKV_USERS_MAX, sizeof *users->list);
    users->held = calloc(keys, sizeof *users->held);
    users->keys = sodium_allocarray(keys, sizeof *users->keys);
    if (users->list && users->held && users->keys)
        return users;
    okv_users_destroy(users);
    return NULL;
}

int okv_users_parse(const char *name, const char *text, size_t length, const char *const *databases,
                    unsigned count, struct okv_users **out, struct okv_diag *diag)
{
    struct parse parse = {.name = name,
                          .next = text,
                          .end = text + length,
                          .databases = databases,
                          .database_count = count,
                          .diag = diag};

    if (count > OKV_DATABASES_MAX)
        return okv_diag_set(diag, OKV_EINVAL, "more than %u databases", OKV_DATABASES_MAX);
    for (unsigned i = 0; i < count; i++)
        if (strcmp(databases[i], KEY) == 0)
            return okv_diag_set(diag, OKV_EINVAL,
                                "a database called " KEY
                                " cannot have a line in a users file: give it another name");
    parse.users = users_create(length);
    if (!parse.users)
        return okv_diag_set(diag, OKV_ENOMEM, "%s cannot be read: %s", name,
                            okv_error_text(OKV_ENOMEM));
    parse_text(&parse);
    if (parse.code)
        okv_users_destroy(parse.users);
    else
        *out = parse.users;
    return parse.code;
}

int okv_users_load(const char *path, const char *const *databases, unsigned count,
                   struct okv_users **out, struct okv_diag *diag)
{
    char *text;
    size_t length;

    int rc = okv_secret_file_read(path, OKV_USERS_FILE_MAX, &text, &length, diag);
    if (rc)
        return rc;
    rc = okv_users_parse(okv_file_shown(path), text, length, databases, count, out, diag);
    sodium_free(text);
    return rc;
}
