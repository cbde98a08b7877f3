#include <stdio.h>

#include "client/cli/args.h"

/* Keys of options without a letter, above those of the common options. */
#define KEYS 0x1000

struct parsing {
    const struct cli_parser *parser;
    void *arguments;
};

static void *field(const struct parsing *parsing, size_t offset)
{
    return (char *)parsing->arguments + offset;
}

static int key_of(const struct cli_parser *parser, const struct cli_option *option)
{
    return option->letter ? option->letter : KEYS + (int)(option - parser->options);
}

static error_t read_option(const struct cli_option *option, struct argp_state *state,
                           const char *text, void *out)
{
    char name[32];

    snprintf(name, sizeof name, "--%s", option->name);
    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)out = true;
        return 0;
    case CLI_TEXT:
        *(const char **)out = text;
        return 0;
    case CLI_NUMBER:
        return cli_number(state, name, text, option->low, option->high, out);
    case CLI_SIZE:
        return cli_size(state, name, text, option->low, option->high, out);
    case CLI_TIME:
        return cli_timeout(state, name, text, out);
    case CLI_TTL:
        return cli_ttl(state, name, text, out);
    case CLI_TTL_OR_NONE:
        return cli_ttl_or_none(state, name, text, out);
    }
    return ARGP_ERR_UNKNOWN;
}

static error_t read_argument(const struct parsing *parsing, struct argp_state *state, char *text)
{
    const struct cli_parser *parser = parsing->parser;

    if (parser->has_rest)
        return ARGP_ERR_UNKNOWN; /* ARGP_KEY_ARGS follows */
    if (state->arg_num >= parser->most)
        return cli_usage(state, parser->unexpected, text);
    *(char **)field(parsing, parser->arguments[state->arg_num]) = text;
    return 0;
}

static error_t read_rest(const struct parsing *parsing, const struct argp_state *state)
{
    *(char ***)field(parsing, parsing->parser->arguments[0]) = state->argv + state->next;
    *(int *)field(parsing, parsing->parser->arguments[1]) = state->argc - state->next;
    return 0;
}

static error_t end(const struct parsing *parsing, struct argp_state *state)
{
    const struct cli_parser *parser = parsing->parser;

    if (state->arg_num < parser->least)
        return cli_usage(state, "%s", parser->missing);
    return parser->check ? parser->check(state, parsing->arguments) : 0;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    const struct parsing *parsing = state->input;
    const struct cli_option *option = parsing->parser->options;

    cli_parse_child(key, state, *(struct cli **)parsing->arguments);
    if (key == ARGP_KEY_ARG)
        return read_argument(parsing, state, text);
    if (key == ARGP_KEY_ARGS)
        return read_rest(parsing, state);
    if (key == ARGP_KEY_END)
        return end(parsing, state);
    for (; option && option->name; option++)
        if (key == key_of(parsing->parser, option))
            return read_option(option, state, text, field(parsing, option->offset));
    return ARGP_ERR_UNKNOWN;
}

int cli_read(const struct cli_parser *parser, int argc, char **argv, void *arguments)
{
    struct argp_option options[CLI_OPTIONS_MAX + 1] = {{.name = NULL}};
    struct parsing parsing = {parser, arguments};
    const struct argp argp = {.options = options,
                              .parser = parse,
                              .args_doc = parser->args_doc,
                              .doc = parser->doc,
                              .children = cli_common_options};
    struct argp_option *out = options;

    for (const struct cli_option *option = parser->options; option && option->name; option++)
        *out++ = (struct argp_option){.name = option->name,
                                      .key = key_of(parser, option),
                                      .arg = option->argument,
                                      .doc = option->help};
    return cli_parse(&argp, 0, argc, argv, &parsing);
}
