#include "server/resp/commands/describe.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/resp/proto/args.h"

/* ---- words of a text ---- */

#define WORD_MAX 64

static const char *next_word(const char *word)
{
    word += strcspn(word, " ");
    return word + strspn(word, " ");
}

static bool has_word(const char *text, const char *wanted, size_t length)
{
    for (const char *word = text; word && *word; word = next_word(word))
        if (strcspn(word, " ") == length && strncasecmp(word, wanted, length) == 0)
            return true;
    return false;
}

bool okv_resp_describe_has(const char *words, const struct okv_resp_arg *arg)
{
    return has_word(words, (const char *)arg->text, arg->length);
}

/* Categories end the words of traits that are flags. */
static bool is_word(const char *word)
{
    return word && *word && *word != '@';
}

static void reply_words(const struct okv_resp_reply *to, const char *text,
                        void (*reply)(const struct okv_resp_reply *to, const char *word))
{
    char copy[WORD_MAX];
    size_t count = 0;

    for (const char *word = text; is_word(word); word = next_word(word))
        count++;
    okv_resp_set(to, count);
    for (const char *word = text; is_word(word); word = next_word(word)) {
        snprintf(copy, sizeof copy, "%.*s", (int)strcspn(word, " "), word);
        reply(to, copy);
    }
}

void okv_resp_describe_access(const struct okv_resp_reply *to, const char *access)
{
    reply_words(to, access, okv_resp_simple);
}

/* ---- categories ---- */

/* In the order of Redis. */
static const struct {
    const char *name;
    const char *flag; /* implies it; or NULL */
    bool is_implied_without;
} categories[] = {
    {"@keyspace", NULL, false},   {"@read", "readonly", false},  {"@write", "write", false},
    {"@string", NULL, false},     {"@bitmap", NULL, false},      {"@admin", "admin", false},
    {"@fast", "fast", false},     {"@slow", "fast", true},       {"@dangerous", "admin", false},
    {"@connection", NULL, false}, {"@transaction", NULL, false}, {"@scripting", NULL, false},
};
#define CATEGORY_COUNT (sizeof categories / sizeof *categories)

static bool has_trait(const struct okv_resp_command *command, const char *trait)
{
    return has_word(command->traits, trait, strlen(trait));
}

static bool is_in(const struct okv_resp_command *command, size_t category)
{
    const char *flag = categories[category].flag;

    if (flag && strcmp(flag, "readonly") == 0 && has_trait(command, "@scripting"))
        return false; /* as Redis does */
    return has_trait(command, categories[category].name) ||
           (flag && has_trait(command, flag) != categories[category].is_implied_without);
}

bool okv_resp_command_is_in(const struct okv_resp_command *command,
                            const struct okv_resp_arg *category)
{
    for (size_t i = 0; i < CATEGORY_COUNT; i++)
        if (okv_resp_arg_is(category, categories[i].name + 1))
            return is_in(command, i);
    return false;
}

static void reply_categories(const struct okv_resp_reply *to,
                             const struct okv_resp_command *command)
{
    size_t count = 0;

    for (size_t i = 0; i < CATEGORY_COUNT; i++)
        count += is_in(command, i);
    okv_resp_set(to, count);
    for (size_t i = 0; i < CATEGORY_COUNT; i++)
        if (is_in(command, i))
            okv_resp_simple(to, categories[i].name);
}

/* ---- key specifications ---- */

static void add_number(const struct okv_resp_reply *to, const char *name, int number)
{
    okv_resp_text(to, name);
    okv_resp_integer(to, number);
}

static void add_type(const struct okv_resp_reply *to, const char *name, const char *type)
{
    okv_resp_text(to, name);
    okv_resp_map(to, 2);
    okv_resp_text(to, "type");
    okv_resp_text(to, type);
    okv_resp_text(to, "spec");
}

/* What is said of keys before how they are found, from argument `first` on. */
static void reply_begin(const struct okv_resp_reply *to, const struct okv_resp_command *command,
                        const char *access, int first)
{
    char flags[WORD_MAX];

    snprintf(flags, sizeof flags, "%s%s", access, command->access_without ? " variable_flags" : "");
    okv_resp_map(to, command->notes ? 4 : 3);
    if (command->notes) {
        okv_resp_text(to, "notes");
        okv_resp_text(to, command->notes);
    }
    okv_resp_text(to, "flags");
    okv_resp_describe_access(to, flags);
    add_type(to, "begin_search", "index");
    okv_resp_map(to, 1);
    add_number(to, "index", first);
}

/* `last`: counted from `first`, or from the end if negative. */
static void reply_keys(const struct okv_resp_reply *to, const struct okv_resp_command *command,
                       const char *access, int first, int last)
{
    reply_begin(to, command, access, first);
    add_type(to, "find_keys", "range");
    okv_resp_map(to, 3);
    add_number(to, "lastkey", last);
    add_number(to, "keystep", command->key_step);
    add_number(to, "limit", 0);
}

static void reply_counted_keys(const struct okv_resp_reply *to,
                               const struct okv_resp_command *command)
{
    reply_begin(to, command, command->access, 2);
    add_type(to, "find_keys", "keynum");
    okv_resp_map(to, 3);
    add_number(to, "keynumidx", 0);
    add_number(to, "firstkey", 1);
    add_number(to, "keystep", 1);
}

static void reply_key_specifications(const struct okv_resp_reply *to,
                                     const struct okv_resp_command *command)
{
    int first = command->first_key, last = command->last_key;
    bool has_two = command->access_rest;

    okv_resp_set(to, command->access ? 1 + has_two : 0);
    if (command->flags & OKV_RESP_COUNTED)
        reply_counted_keys(to, command);
    if (!first)
        return;
    reply_keys(to, command, command->access, first, has_two ? 0 : last < 0 ? last : last - first);
    if (has_two)
        reply_keys(to, command, command->access_rest, first + 1,
                   last < 0 ? last : last - first - 1);
}

/* ---- a command ---- */

void okv_resp_describe_name(const struct okv_resp_reply *to, const struct okv_resp_command *command)
{
    char name[32];

    okv_resp_lower(command->name, name, sizeof name);
    okv_resp_text(to, name);
}

/* Without subcommands. */
static void describe(const struct okv_resp_reply *to, const struct okv_resp_command *command)
{
    okv_resp_array(to, 10);
    okv_resp_describe_name(to, command);
    okv_resp_integer(to, command->arity);
    reply_words(to, command->traits, okv_resp_simple);
    okv_resp_integer(to, command->first_key);
    okv_resp_integer(to, command->last_key);
    okv_resp_integer(to, command->key_step);
    reply_categories(to, command);
    reply_words(to, command->tips, okv_resp_text);
    reply_key_specifications(to, command);
}

void okv_resp_describe(const struct okv_resp_reply *to, const struct okv_resp_command_table *table,
                       const struct okv_resp_command *command)
{
    unsigned parts = okv_resp_command_parts(table, command);

    describe(to, command);
    (parts ? okv_resp_array : okv_resp_set)(to, parts); /* as Redis 7.0 does */
    for (unsigned i = 1; i <= parts; i++) {
        describe(to, command + i);
        okv_resp_set(to, 0);
    }
}

static void describe_docs(const struct okv_resp_reply *to, const struct okv_resp_command *command,
                          bool has_parts)
{
    okv_resp_describe_name(to, command);
    okv_resp_map(to, has_parts ? 3 : 2);
    okv_resp_text(to, "summary");
    okv_resp_text(to, command->summary);
    okv_resp_text(to, "group");
    okv_resp_text(to, command->group);
}

void okv_resp_describe_docs(const struct okv_resp_reply *to,
                            const struct okv_resp_command_table *table,
                            const struct okv_resp_command *command)
{
    unsigned parts = okv_resp_command_parts(table, command);

    describe_docs(to, command, parts);
    if (parts) {
        okv_resp_text(to, "subcommands");
        okv_resp_map(to, parts);
    }
    for (unsigned i = 1; i <= parts; i++)
        describe_docs(to, command + i, false);
}
