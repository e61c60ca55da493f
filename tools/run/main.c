/* symm-run: starts the ranks of a job on this host. */
#include <getopt.h>
#include <stdio.h>
#include <symm/symm.h>
#include "common/stdio_guard.h"
#include "common/text.h"
#include "launch.h"
#include "preload.h"

static const char tool[] = "symm-run";

static void print_help(void)
{
    printf(
        "# Usage: symm-run -n N [option...] PROGRAM [argument...]\n"
        "#\n"
        "# Starts N ranks of PROGRAM on this host and waits for them. Each finds SYMM_RANK,\n"
        "# SYMM_NRANKS, SYMM_SESSION, SYMM_TOKEN, SYMM_DIR and LOCAL_RANK in its environment,\n"
        "# which is where symm_context_create() looks.\n"
        "#\n"
        "#   -n, --ranks N       how many ranks, 1 to %d\n"
        "#       --hosts N       as if the ranks were on N hosts, in blocks of equal size or one\n"
        "#                       apart (SYMM_HOSTID, NCCL_HOSTID, SYMM_ADDRESS): to try programs\n"
        "#                       that set symm_config.span; others see one host\n"
        "#       --emulated      on the emulated driver (SYMM_DRIVER=emulated)\n"
        "#       --timeout S     stop the ranks after S seconds and return 124\n"
        "#       --keep-going    when a rank fails, let the others go on\n"
        "#       --nccl          symm takes NCCL calls of PROGRAM (LD_PRELOAD=libsymm_nccl.so);\n"
        "#                       without -n it only runs PROGRAM, such as torchrun; then\n"
        "#                       --emulated is the only other option\n"
        "#       --tag-output    begin each line of a rank's output with [RANK]\n"
        "#       --output-dir DIR  output and errors of rank R go to DIR/rank-R.log\n"
        "#   -h, --help\n"
        "#       --version\n"
        "#\n"
        "# When a rank fails the others get SIGTERM, and SIGKILL 2 s later; so does everything "
        "they\n"
        "# have started. Ranks that had exited with 0 by then are named as well: others may have "
        "waited\n"
        "# for them. Signals are passed on to all ranks; a second Ctrl-C kills them. Rank 0 "
        "reads\n"
        "# the standard input if that is no terminal; the others find it empty.\n"
        "#\n"
        "# Exit code: 0; that of the rank that failed first, 128 + N if signal N ended it; 124 "
        "after\n"
        "# the time limit; 126, 127 if PROGRAM cannot be run, is not found; 2 for wrong usage.\n",
        SYMM_MAX_RANKS);
}

static void tell_unknown_settings(void)
{
    const char *variable;

    for (int i = 0; (variable = symm_setting_unknown(i)); i++)
        fprintf(stderr, "# %s: %s is no setting of symm (symm-info --env has them)\n", tool,
                variable);
}

/* An option that is for ranks that symm-run starts; NULL: there is none. */
static const char *option_of_ranks(const struct launch *job)
{
    return job->nhosts          ? "--hosts"
           : job->timeout_s > 0 ? "--timeout"
           : job->keep_going    ? "--keep-going"
           : job->tag_output    ? "--tag-output"
           : job->output_dir    ? "--output-dir"
                                : NULL;
}

int main(int argc, char **argv)
{
    enum {
        OPT_HOSTS = 256,
        OPT_EMULATED,
        OPT_TIMEOUT,
        OPT_KEEP_GOING,
        OPT_NCCL,
        OPT_TAG,
        OPT_DIR,
        OPT_VERSION
    };
    static const struct option options[] = {
        {"ranks", required_argument, NULL, 'n'},
        {"hosts", required_argument, NULL, OPT_HOSTS},
        {"emulated", no_argument, NULL, OPT_EMULATED},
        {"timeout", required_argument, NULL, OPT_TIMEOUT},
        {"keep-going", no_argument, NULL, OPT_KEEP_GOING},
        {"nccl", no_argument, NULL, OPT_NCCL},
        {"tag-output", no_argument, NULL, OPT_TAG},
        {"output-dir", required_argument, NULL, OPT_DIR},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, OPT_VERSION},
        {0},
    };
    struct launch job = {.tool = tool};
    bool nccl = false;
    int c;

    stdio_guard();
    opterr = 0;
    while ((c = getopt_long(argc, argv, "+:n:h", options, NULL)) != -1) {
        switch (c) {
        case 'n':
            if (!text_int(optarg, 1, SYMM_MAX_RANKS, &job.nranks))
                return text_usage_error(tool, "-n %s: not a number from 1 to %d", optarg,
                                        SYMM_MAX_RANKS);
            break;
        case OPT_HOSTS:
            if (!text_int(optarg, 1, SYMM_MAX_RANKS, &job.nhosts))
                return text_usage_error(tool, "--hosts %s: not a number from 1 to %d", optarg,
                                        SYMM_MAX_RANKS);
            break;
        case OPT_EMULATED:
            job.driver = "emulated";
            break;
        case OPT_TIMEOUT:
            if (!text_seconds(optarg, &job.timeout_s))
                return text_usage_error(tool, "--timeout %s: not a number of seconds above 0",
                                        optarg);
            break;
        case OPT_KEEP_GOING:
            job.keep_going = true;
            break;
        case OPT_NCCL:
            nccl = true;
            break;
        case OPT_TAG:
            job.tag_output = true;
            break;
        case OPT_DIR:
            job.output_dir = optarg;
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
    if (job.tag_output && job.output_dir)
        return text_usage_error(tool, "--tag-output and --output-dir exclude each other");
    if (job.nranks == 0 && !nccl)
        return text_usage_error(tool, "-n N is missing: how many ranks");
    if (job.nranks == 0 && option_of_ranks(&job))
        return text_usage_error(tool, "%s needs -n N: how many ranks", option_of_ranks(&job));
    if (job.nhosts > job.nranks)
        return text_usage_error(tool, "--hosts %d: there are %d ranks only", job.nhosts,
                                job.nranks);
    if (optind == argc)
        return text_usage_error(tool, "the program to run is missing");
    job.argv = argv + optind;
    tell_unknown_settings();
    if (nccl && !preload_nccl(tool))
        return LAUNCH_NOT_FOUND;
    return job.nranks == 0 ? preload_run(&job) : launch_ranks(&job);
}
