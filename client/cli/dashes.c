#include "client/cli/dashes.h"

#include <stdbool.h>
#include <string.h>

#include "shared/base/spell_suggest.h"

static bool begins_with_dash(const char *word)
{
    return word[0] == '-' && word[1] != '\0';
}

static bool is_negative(const char *word)
{
    return word[0] == '-' && word[1] >= '0' && word[1] <= '9';
}

/* Copies the options with their arguments, or the arguments of the command. Returns how many. */
static int copy(const struct argp *parser, int argc, char **argv, bool wants_options, char **out)
{
    bool options_ended = false, has_argument = false;
    int count = 0;

    for (int i = 1; i < argc; i++) {
        bool is_option =
            !options_ended && begins_with_dash(argv[i]) && !(has_argument && is_negative(argv[i]));
        bool takes_next = false;
        if (is_option && strcmp(argv[i], "--") == 0) {
            options_ended = true;
            continue;
        }
        if (is_option)
            okv_spell_known(parser, argv[i], &takes_next);
        takes_next &= i + 1 < argc;
        if (is_option == wants_options) {
            out[count++] = argv[i];
            if (takes_next)
                out[count++] = argv[i + 1];
        }
        i += takes_next;
        has_argument |= !is_option;
    }
    return count;
}

/* Whether the last option lacks its argument, so that a "--" would become that. */
static bool is_cut_off(const struct argp *parser, int argc, char **argv)
{
    bool takes_next = false;
    int i = 1;

    for (; i < argc; i += 1 + takes_next)
        okv_spell_known(parser, argv[i], &takes_next);
    return i > argc;
}

int cli_dashes_order(const struct argp *parser, int argc, char **argv, char **out)
{
    int count = 1 + copy(parser, argc, argv, true, out + 1);

    out[0] = argv[0];
    if (!is_cut_off(parser, count, out)) {
        out[count++] = (char *)"--";
        count += copy(parser, argc, argv, false, out + count);
    }
    out[count] = NULL;
    return count;
}

const char *cli_dashes_unknown(const struct argp *parser, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        bool takes_next = false;
        if (begins_with_dash(argv[i]) && !okv_spell_known(parser, argv[i], &takes_next))
            return argv[i];
        i += takes_next;
    }
    return NULL;
}

/* Whether the word asks for help, for usage or the version, and *is_alone: for nothing else. */
static bool asks_for_help(const struct argp *parser, const char *word, bool *is_alone)
{
    bool is_long = word[1] == '-', takes_next = false;
    const struct argp_option *option = okv_spell_known(parser, word, &takes_next);
    char letter[] = "-?";

    *is_alone = is_long || word[2] == '\0';
    if (is_long)
        return option && (strcmp(option->name, "help") == 0 || strcmp(option->name, "usage") == 0 ||
                          strcmp(option->name, "version") == 0);
    for (word++; *word; word++) {
        if (strchr("?hV", *word))
            return true;
        letter[1] = *word;
        if (!okv_spell_known(parser, letter, &takes_next) || takes_next)
            return false;
    }
    return false;
}

const char *cli_dashes_help(const struct argp *parser, int argc, char **argv)
{
    bool has_argument = false, options_ended = false;
    const char *help = NULL;

    for (int i = 1; i < argc; i++) {
        bool takes_next = false, is_alone = true;
        if (options_ended || !begins_with_dash(argv[i])) {
            has_argument = true;
            continue;
        }
        options_ended = strcmp(argv[i], "--") == 0;
        if (!help && !options_ended && asks_for_help(parser, argv[i], &is_alone)) {
            help = argv[i];
            has_argument |= !is_alone;
        }
        okv_spell_known(parser, argv[i], &takes_next);
        i += takes_next;
    }
    return has_argument ? help : NULL;
}
