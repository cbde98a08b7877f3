/* okv clients: lists the connected clients. */
#include <inttypes.h>
#include <jansson.h>
#include <okv_admin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/args.h"
#include "client/cli/output.h"
#include "client/cli/stats.h"

#define COMMAND_MAX 64

struct clients_arguments {
    struct cli *cli;
    bool json, all;
};

/* A line of the server's answer (docs/protocol-admin.md section 2.5). */
struct client_line {
    uint64_t id;
    char user[32], address[64], database[32], transport[16];
    uint64_t age_ms, requests, idle_ms, bytes_in, bytes_out, gets, hits, over;
    uint32_t credits;
    int reports;
    const char *how;
};

static bool read_line(const char *line, struct client_line *out)
{
    int end = 0;
    int count = sscanf(line,
                       "%" SCNx64 " %31s %63s %" SCNu64 " %" SCNu64 " %31s %" SCNu64 " %" SCNu32
                       " %" SCNu64 " %" SCNu64 " %d %" SCNu64 " %" SCNu64 " %" SCNu64 " %15s %n",
                       &out->id, out->user, out->address, &out->age_ms, &out->requests,
                       out->database, &out->idle_ms, &out->credits, &out->bytes_in, &out->bytes_out,
                       &out->reports, &out->gets, &out->hits, &out->over, out->transport, &end);

    out->how = line + end;
    return count == 15 && end > 0;
}

static json_t *text_or_null(const char *text)
{
    return strcmp(text, "-") == 0 ? json_null() : json_string(text);
}

static json_t *count_or_null(bool is_known, uint64_t count)
{
    return is_known ? json_integer((json_int_t)count) : json_null();
}

static void add_json(json_t *list, const struct client_line *line)
{
    json_array_append_new(
        list,
        json_pack("{s:o, s:o, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:I}",
                  "session", cli_json_id(line->id), "user", text_or_null(line->user), "address",
                  line->address, "database", line->database, "transport", line->transport, "how",
                  line->how, "age_ms", (json_int_t)line->age_ms, "idle_ms",
                  (json_int_t)line->idle_ms, "credits", (json_int_t)line->credits, "requests",
                  (json_int_t)line->requests, "bytes_in", (json_int_t)line->bytes_in, "bytes_out",
                  (json_int_t)line->bytes_out, "gets", count_or_null(line->reports, line->gets),
                  "hits", count_or_null(line->reports, line->hits), "reports_over",
                  (json_int_t)line->over));
}

/* What is shown, and where. */
struct listing {
    json_t *list; /* NULL: a table */
    bool has_heading;
};

static void print_heading(struct listing *listing)
{
    if (listing->has_heading)
        return;
    listing->has_heading = true;
    printf("%-16s %-12s %-26s %-12s %8s %8s %7s %8s %6s %6s %6s %6s %6s  %s\n", "SESSION", "USER",
           "ADDRESS", "DATABASE", "AGE/S", "IDLE/S", "CREDITS", "REQUESTS", "IN", "OUT", "GETS",
           "HIT/%", "OVER", "HOW");
}

/* A client that does not report has a dash for its gets, and one without gets for its hits. */
static void print_line(const struct client_line *line)
{
    char requests[16], in[16], out[16], gets[16] = "-", hits[16] = "-", over[16];

    if (line->reports)
        cli_short_number((double)line->gets, gets);
    if (line->reports && line->gets)
        snprintf(hits, sizeof hits, "%.1f", 100.0 * (double)line->hits / (double)line->gets);
    printf("%016" PRIx64 " %-12s %-26s %-12s %8.1f %8.1f %7" PRIu32
           " %8s %6s %6s %6s %6s %6s  %s: %s\n",
           line->id, line->user, line->address, line->database, (double)line->age_ms / 1e3,
           (double)line->idle_ms / 1e3, line->credits,
           cli_short_number((double)line->requests, requests),
           cli_short_number((double)line->bytes_in, in),
           cli_short_number((double)line->bytes_out, out), gets, hits,
           cli_short_number((double)line->over, over), line->transport, line->how);
}

/* Prints the sessions of one answer, or adds them to the list; cuts the text up. False: an invalid
 * line. */
static bool take_lines(char *text, struct listing *listing, uint64_t *last)
{
    struct client_line line;
    char *rest = NULL;

    if (!listing->list)
        print_heading(listing);
    for (char *at = strtok_r(text, "\n", &rest); at; at = strtok_r(NULL, "\n", &rest)) {
        if (!read_line(at, &line) || line.id <= *last)
            return false;
        if (listing->list)
            add_json(listing->list, &line);
        else
            print_line(&line);
        *last = line.id;
    }
    return true;
}

/* Fetches the sessions after this one, into *text to free(). Returns the code. */
static int fetch_lines(struct cli *cli, const struct listing *listing, uint64_t after, char **text)
{
    char command[COMMAND_MAX], *answer = NULL;

    snprintf(command, sizeof command, "sessions %" PRIx64, after);
    int rc = cli_fetch_stat(cli->handle, command, &answer);
    *text = listing->list && rc == OKV_OK ? cli_json_text(answer) : answer;
    if (*text != answer)
        free(answer);
    return rc == OKV_OK && !*text ? OKV_ENOMEM : rc;
}

/* Asks for further sessions until there are none. */
static int list_database(struct cli *cli, const char *name, void *user)
{
    struct listing *listing = user;
    uint64_t last = 0, after;

    (void)name;
    do {
        char *text = NULL;
        after = last;
        int rc = fetch_lines(cli, listing, after, &text);
        if (rc != OKV_OK)
            return cli_fail(cli, "clients", NULL, 0, rc);
        bool is_read = take_lines(text, listing, &last);
        free(text);
        if (!is_read) {
            fprintf(stderr, "okv: clients: the server is older and lists them otherwise: use the "
                            "okv of its release\n");
            return CLI_FAILED;
        }
    } while (last != after);
    return CLI_DONE;
}

static int list_databases(struct cli *cli, struct listing *listing)
{
    char *names = NULL;
    int rc = cli_fetch_stat(cli->handle, "databases", &names);

    if (rc != OKV_OK)
        return cli_fail(cli, "clients --all", NULL, 0, rc);
    cli_disconnect(cli);
    int status = cli_each_database(cli, names, list_database, listing);
    free(names);
    return status;
}

static const struct okv_option clients_options[] = {
    {"all", 0, NULL, .help = "Those of every database", CLI_FLAG(struct clients_arguments, all)},
    {"json", 0, NULL, .help = "One JSON array instead of a table",
     CLI_FLAG(struct clients_arguments, json)},
    {0},
};

int cli_clients(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = clients_options,
        .unexpected = "unexpected argument '%s': clients takes no arguments",
        .doc = "List the clients of the database: session, user, address, seconds since it "
               "connected and since its last request, credits, requests and their bytes in and "
               "out, gets and hits that the client has reported (-: it does not report), hits "
               "beyond what it may report to a database that evicts, transport and device or "
               "socket. Takes the right admin.\v"
               "Examples:\n  okv clients\n  okv clients --all\n"
               "  okv clients --json | jq -r '.[].user' | sort | uniq -c"};
    struct clients_arguments arguments = {.cli = cli};

    cli->may_observe = true;
    int status = cli_read(&parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    if (arguments.all && cli_uri_names_database(cli, "clients --all"))
        return CLI_USAGE;
    status = cli_connect(cli, 0);
    if (status != CLI_DONE)
        return status;
    struct listing listing = {.list = arguments.json ? json_array() : NULL};
    status = arguments.all ? list_databases(cli, &listing) : list_database(cli, NULL, &listing);
    if (arguments.json && status != CLI_FAILED)
        status = cli_worse(status, cli_print_json("clients", "the clients", listing.list));
    else
        json_decref(listing.list);
    return cli_worse(status, cli_output_end("clients"));
}
