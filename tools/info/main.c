/* symm-info: shows what symm finds on this machine, and verifies that it works. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include "common/driver.h"
#include "common/stdio_guard.h"
#include "common/text.h"
#include "describe.h"
#include "domains.h"
#include "host_info.h"
#include "verify.h"

static const char tool[] = "symm-info";

enum { EXIT_WRONG = 1, EXIT_NO_DEVICE = 3 };

struct request {
    bool json, env, verify, domains;
    int verify_fd; /* -1: this is not a rank of a verification */
    const char *driver;
};

static void print_help(void)
{
    printf(
        "# Usage: symm-info [option...]\n"
        "#\n"
        "# Shows the driver, the devices, peer access, multicast or the reason why not, and the\n"
        "# limits.\n"
        "#\n"
        "#   --env                show the settings only: environment variables and their values\n"
        "#   --verify             move data between all devices, run every algorithm of every\n"
        "#                        collective, check every result\n"
        "#   --domains            show only which ranks of this job share memory, and on which "
        "host,\n"
        "#                        the rails, and the NCCL between domains; each rank of the job\n"
        "#                        runs it, and rank 0 shows it\n"
        "#   --json               as JSON\n"
        "#   --driver DRIVER      auto, cuda or emulated (auto: SYMM_DRIVER, else cuda)\n"
        "#   -h, --help\n"
        "#       --version\n"
        "#\n"
        "# Exit code: 0 success; 1 a wrong result or a failure; 2 wrong usage; 3 no usable "
        "device.\n");
}

enum { OPT_JSON = 256, OPT_ENV, OPT_VERIFY, OPT_DOMAINS, OPT_DRIVER, OPT_VERIFY_RANK, OPT_VERSION };
static const struct option options[] = {
    {"json", no_argument, NULL, OPT_JSON},
    {"env", no_argument, NULL, OPT_ENV},
    {"verify", no_argument, NULL, OPT_VERIFY},
    {"domains", no_argument, NULL, OPT_DOMAINS},
    {"driver", required_argument, NULL, OPT_DRIVER},
    {"verify-rank", required_argument, NULL, OPT_VERIFY_RANK}, /* between this program and itself */
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, OPT_VERSION},
    {0},
};

/* Returns -1 when there is something to do, else an exit code. */
static int parse(int argc, char **argv, struct request *out)
{
    int c;

    *out = (struct request){.driver = "auto", .verify_fd = -1};
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (c) {
        case OPT_JSON:
            out->json = true;
            break;
        case OPT_ENV:
            out->env = true;
            break;
        case OPT_VERIFY:
            out->verify = true;
            break;
        case OPT_DOMAINS:
            out->domains = true;
            break;
        case OPT_DRIVER:
            out->driver = optarg;
            if (!driver_is_choice(optarg))
                return text_usage_error(tool, "--driver %s: not auto, cuda or emulated", optarg);
            break;
        case OPT_VERIFY_RANK:
            if (!text_int(optarg, 0, 1 << 20, &out->verify_fd))
                return text_usage_error(tool, "--verify-rank %s: not a descriptor", optarg);
            break;
        case 'h':
            print_help();
            return 0;
        case OPT_VERSION:
            text_version(tool);
            return 0;
        default:
            return text_bad_option(tool, argv, c, options);
        }
    }
    if (out->domains && (out->verify || out->env))
        return text_usage_error(tool, "--domains excludes --verify and --env");
    if (optind < argc)
        return text_usage_error(tool, "%s: it takes options only", argv[optind]);
    return -1;
}

/* Tells why symm-info cannot go on; `why` may be empty. Returns the exit code. */
static int fail(json_t *info, symm_status st, const char *why)
{
    char error[1024];

    snprintf(error, sizeof error, "%s: %s", symm_status_name(st), why[0] ? why : symm_error_text());
    fprintf(stderr, "# %s: %s\n", tool, error);
    json_object_set_new(info, "error", json_string(error));
    return st == SYMM_ERROR_DRIVER || st == SYMM_ERROR_UNSUPPORTED ? EXIT_NO_DEVICE : EXIT_WRONG;
}

/* Adds the domains. *shows: this process writes them for all ranks. Returns the exit code. */
static int add_domains(const struct request *r, json_t *info, bool *shows)
{
    json_t *job = NULL;
    int rank = -1;
    symm_status st = domains_ask(r->driver, &job, &rank);

    *shows = rank == 0;
    if (st != SYMM_OK)
        return fail(info, st, "");
    json_object_update(info, job);
    json_decref(job);
    return 0;
}

/* Adds the machine and, if wished, its verification. Returns the exit code. */
static int add_machine(const struct request *r, json_t *info)
{
    static struct host_info machine;
    char why[512];
    symm_status st = host_info_ask(r->driver, &machine, why);

    if (st != SYMM_OK)
        return fail(info, st, why);
    json_t *described = describe_host(&machine);
    json_object_update(info, described);
    json_decref(described);
    if (!r->verify)
        return 0;
    json_t *found = verify_all(machine.driver, machine.ndevices);
    json_t *off = json_object_get(found, "multicast_off");
    if (off)
        json_object_set_new(info, "multicast", describe_multicast(json_string_value(off), false));
    json_object_set_new(info, "verification", found);
    return json_is_true(json_object_get(found, "ok")) ? 0 : EXIT_WRONG;
}

int main(int argc, char **argv)
{
    struct request request;
    char version[32];
    bool shows = true;

    stdio_guard();
    int code = parse(argc, argv, &request);

    if (code >= 0)
        return code;
    if (request.verify_fd >= 0)
        return verify_rank(request.verify_fd);
    snprintf(version, sizeof version, "%d.%d.%d", SYMM_VERSION_MAJOR, SYMM_VERSION_MINOR,
             SYMM_VERSION_PATCH);
    json_t *info = json_pack("{s:s}", "version", version);
    if (request.domains)
        code = add_domains(&request, info, &shows);
    else
        code = request.env && !request.verify ? 0 : add_machine(&request, info);
    if (request.env)
        json_object_set_new(info, "settings", describe_settings());
    if (request.env)
        json_object_set_new(info, "unknown_settings", describe_unknown_settings());
    if (request.json && shows) {
        json_dumpf(info, stdout, JSON_INDENT(1));
        printf("\n");
    } else if (shows && code != EXIT_NO_DEVICE) {
        describe_print(info);
    }
    json_decref(info);
    return fflush(stdout) == 0 ? code : EXIT_WRONG;
}
