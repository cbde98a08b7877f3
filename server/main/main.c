/* okv-server: reads its options and does what they ask for. */
#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>

#include "server/config/option_table.h"
#include "server/config/print.h"
#include "server/core/server.h"
#include "server/main/offline.h"
#include "server/main/serve.h"
#include "server/main/unnamed_logs.h"
#include "shared/base/spell_suggest.h"
#include "shared/base/standard_files.h"
#include "shared/base/standard_output.h"

static int run_without_serving(const struct okv_config *config)
{
    bool is_whole = false;

    if (config->has_to_print) {
        okv_config_print(config, stdout);
        return 0;
    }
    int rc = okv_offline_run(config, &is_whole);

    return rc ? OKV_EXIT_CANNOT_SERVE : is_whole ? 0 : OKV_EXIT_DAMAGED;
}

static bool has_slip(int argc, char **argv)
{
    struct okv_options_argp options;
    const struct argp parser = {.options = options.list};
    char hint[OKV_SPELL_HINT_TEXT];

    okv_options_argp(okv_config_options, &options);
    if (!okv_spell_hint(&parser, 0, argc, argv, hint))
        return false;
    fprintf(stderr, "okv-server: %s\n", hint);
    return true;
}

int main(int argc, char **argv)
{
    struct okv_diag diag = {.text = ""};
    int status = OKV_EXIT_CANNOT_SERVE;

    if (okv_standard_files_open()) {
        perror("okv-server: /dev/null for a descriptor that is closed");
        return status;
    }
    okv_standard_output_check_at_exit("okv-server");
    curl_global_init(CURL_GLOBAL_DEFAULT);
    signal(SIGXFSZ, SIG_IGN); /* a log beyond the limit on files fails by its write */
    if (has_slip(argc, argv))
        return OKV_EXIT_USAGE;
    struct okv_server *server = okv_server_create();
    if (!server)
        return status;
    server->start_ms = okv_clock_boot_ms();
    const struct okv_config *config = &server->config;
    int rc = okv_config_parse(argc, argv, &server->config);
    if (rc == 0 && (config->has_to_print || config->check || config->salvage)) {
        status = run_without_serving(config);
    } else if (rc == 0 && !okv_unnamed_logs_check(config)) {
        status = OKV_EXIT_USAGE;
    } else if (rc == 0) {
        rc = okv_serve(server, &diag);
        status = rc ? OKV_EXIT_CANNOT_SERVE : 0;
    }
    okv_config_fini(&server->config);
    okv_server_destroy(server);
    return status;
}
