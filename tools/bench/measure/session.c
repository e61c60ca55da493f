/* Beginning and end of every command that runs on ranks. */
#include "session.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "common/driver.h"
#include "common/json_text.h"
#include "oracle/parallel.h"

static void name_device(struct session *s)
{
    union {
        void *symbol;
        int (*call)(char *name, int capacity, int device);
    } get_name;

    get_name.symbol = symm_context_driver_symbol(s->ctx, "cuDeviceGetName");
    if (!get_name.symbol ||
        get_name.call(s->device, (int)sizeof s->device, symm_context_device(s->ctx)) != 0)
        snprintf(s->device, sizeof s->device, "unknown device");
}

void *session_gather(struct session *s, const void *mine, size_t nbytes, symm_status *st)
{
    void *all = calloc((size_t)s->nranks, nbytes);

    *st = all ? symm_exchange(s->group, mine, nbytes, all) : SYMM_ERROR_MEMORY;
    if (*st == SYMM_OK)
        return all;
    free(all);
    return NULL;
}

/* All ranks take the seed of rank 0. Collective. */
static symm_status agree_on_seed(struct session *s)
{
    uint64_t mine = s->options->seed, *all;
    symm_status st;

    if (!s->options->has_seed && getrandom(&mine, sizeof mine, 0) != (ssize_t)sizeof mine)
        mine = (uint64_t)getpid();
    all = session_gather(s, &mine, sizeof mine, &st);
    if (all)
        s->seed = all[0];
    free(all);
    return st;
}

/* Opens the report. Only rank 0 can fail; all ranks return its status. Collective. */
static symm_status open_report(struct session *s)
{
    int failed, *all;
    symm_status st;

    s->report = report_open(s->options, s->rank == 0, s->trouble);
    failed = !s->report;
    all = session_gather(s, &failed, sizeof failed, &st);
    for (int r = 0; all && r < s->nranks; r++) {
        if (all[r]) {
            st = SYMM_ERROR_SYSTEM;
            if (!failed)
                snprintf(s->trouble, sizeof s->trouble, "rank %d cannot write its report", r);
        }
    }
    free(all);
    return st;
}

/* The ranks of each host, if all have as many, else 0. */
static int width_of(const struct session *s)
{
    const int each = s->nranks / s->nhosts;

    for (int h = 0; h < s->nhosts; h++) {
        int n = 0;

        for (int r = 0; r < s->nranks; r++)
            n += symm_group_domain_of(s->group, r) == (uint32_t)h;
        if (n != each)
            return 0;
    }
    return each;
}

static bool may_span(const struct bench_options *o)
{
    return o->command == BENCH_TUNE || (o->operation && !o->operation->norms);
}

int session_sms(const struct session *s)
{
    enum { MULTIPROCESSOR_COUNT = 16 };
    void *const symbol = symm_context_driver_symbol(s->ctx, "cuDeviceGetAttribute");
    int (*get)(int *, int, int);
    int sms = 0;

    memcpy(&get, &symbol, sizeof get);
    if (!symbol || get(&sms, MULTIPROCESSOR_COUNT, symm_context_device(s->ctx)) != 0)
        return 0;
    return sms;
}

int session_timeout_ms(const struct bench_options *o)
{
    return (int)ceil(o->timeout_s * 1000);
}

symm_status session_open(struct session *s, struct bench_options *options)
{
    const symm_config config = {.timeout_ms = session_timeout_ms(options),
                                .span = may_span(options)};
    symm_status st;

    s->options = options;
    TRY(driver_open(options->driver, &config, &s->ctx, s->why_driver));
    s->group = symm_context_world(s->ctx);
    s->domain = symm_context_domain(s->ctx);
    s->rank = symm_rank(s->group);
    s->nranks = symm_nranks(s->group);
    s->nhosts = (int)symm_group_ndomains(s->group);
    s->width = width_of(s);
    s->emulated = driver_is_emulated(s->ctx);
    name_device(s);
    parallel_threads((int)sysconf(_SC_NPROCESSORS_ONLN) / symm_nranks(s->domain));
    TRY(symm_group_reserve(s->group, 0)); /* captured calls make no areas and no links */
    TRY(agree_on_seed(s));
    TRY(open_report(s));
    TRY(symm_stream_create(s->ctx, &s->stream));
    TRY(symm_event_create(s->ctx, &s->begin));
    TRY(symm_event_create(s->ctx, &s->end));
out:
    return st;
}

struct nccl *session_nccl(struct session *s, char why[512], symm_status *st)
{
    *st = SYMM_OK;
    if (!s->emulated || getenv("SYMM_NCCL_LIBRARY"))
        return nccl_open(s->group, why, st);
    snprintf(why, 512, "it needs GPUs, and this is the emulated driver");
    return NULL;
}

/* The host's system, processors and driver. */
static json_t *host(const struct session *s)
{
    union {
        void *symbol;
        int (*call)(int *version);
    } driver = {symm_context_driver_symbol(s->ctx, "cuDriverGetVersion")};
    struct utsname system = {0};
    int version = 0;

    uname(&system);
    if (driver.symbol)
        driver.call(&version);
    return json_sprintf("%s %s, %s, %ld CPUs, CUDA driver %d.%d", system.sysname, system.release,
                        system.machine, sysconf(_SC_NPROCESSORS_ONLN), version / 1000,
                        version % 1000 / 10);
}

/* Pretended hosts have names of their own (symm-run --hosts), and all ranks are on one host. */
static void introduce_hosts(struct session *s)
{
    const bool pretended = getenv("SYMM_HOSTID") != NULL;

    report_head(s->report, json_pack("{s:i, s:i, s:b}", "hosts", s->nhosts, "ranks_per_host",
                                     s->width, "pretended_hosts", pretended));
    if (s->width)
        report_say(s->report, "# %d hosts, %d rank%s on each", s->nhosts, s->width,
                   s->width == 1 ? "" : "s");
    else
        report_say(s->report, "# %d hosts, with different numbers of ranks: all calls are flat",
                   s->nhosts);
    if (pretended)
        report_say(s->report, "# the hosts are pretended (SYMM_HOSTID), all on one machine; the "
                              "times say nothing about a network");
}

void session_introduce(struct session *s, const char *what)
{
    char version[32], seed[32];

    snprintf(version, sizeof version, "%d.%d.%d", SYMM_VERSION_MAJOR, SYMM_VERSION_MINOR,
             SYMM_VERSION_PATCH);
    /* As text: a JSON number may lose bits. */
    snprintf(seed, sizeof seed, "0x%" PRIx64, s->seed);
    report_head(s->report,
                json_pack("{s:s, s:o, s:s, s:s, s:s, s:o, s:s, s:i, s:s}", "version", version,
                          "command", json_command_line(), "operation", what, "driver",
                          symm_context_driver(s->ctx), "device", s->device, "host", host(s),
                          "timings", s->emulated ? "emulated, no performance" : "measured", "ranks",
                          s->nranks, "seed", seed));
    report_say(s->report, "# symm-bench %s %s: %d rank%s, %s driver, %s", version, what, s->nranks,
               s->nranks == 1 ? "" : "s", symm_context_driver(s->ctx), s->device);
    if (s->why_driver[0])
        report_say(s->report, "# %s driver: %s", symm_context_driver(s->ctx), s->why_driver);
    if (s->nranks == 1)
        report_say(
            s->report,
            "# one rank alone: nothing crosses a link; symm-run -n N symm-bench %s [option...] "
            "measures N ranks",
            what);
    report_say(s->report, "# seed %s", seed);
    if (s->nhosts > 1)
        introduce_hosts(s);
    if (s->emulated)
        report_say(s->report, "# the times are those of an emulation on CPUs; they say nothing "
                              "about performance");
}

symm_status session_refuse(struct session *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(s->trouble, sizeof s->trouble, format, args);
    va_end(args);
    s->refused = true;
    return SYMM_ERROR_UNSUPPORTED;
}

symm_status session_unavailable(struct session *s, const struct unavailable *what)
{
    report_unavailable(s->report, what->shown, what->reason);
    return bench_options_name(what->list, what->name)
               ? session_refuse(s, "--%s %s cannot run here: %s", what->option, what->name,
                                what->reason)
               : SYMM_OK;
}

symm_status session_measured(struct session *s)
{
    return report_rows(s->report) > 0 ? SYMM_OK : session_refuse(s, "nothing was measured");
}

symm_status session_worst(struct session *s, const float *mine, int n, float *out)
{
    symm_status st;
    float *all = session_gather(s, mine, (size_t)n * sizeof *mine, &st);

    for (int i = 0; all && i < n; i++) {
        out[i] = all[i];
        for (int r = 1; r < s->nranks; r++)
            out[i] = all[r * n + i] > out[i] ? all[r * n + i] : out[i];
    }
    free(all);
    return st;
}

symm_status session_sum(struct session *s, uint64_t mine, int64_t *out)
{
    symm_status st;
    uint64_t *all = session_gather(s, &mine, sizeof mine, &st), sum = 0;

    for (int r = 0; all && r < s->nranks; r++)
        sum += all[r];
    if (all)
        *out = (int64_t)sum;
    free(all);
    return st;
}

bool session_failed(struct session *s, symm_status st, const char *peer_error, char error[1024])
{
    if (st == SYMM_OK)
        return false;
    snprintf(error, 1024, "%s: %s%s", symm_status_name(st), peer_error ? "nccl: " : "",
             peer_error      ? peer_error
             : s->trouble[0] ? s->trouble
                             : symm_error_text());
    if (!s->ctx)
        fprintf(stderr, "# symm-bench: %s\n", error);
    else if (!s->refused || s->rank == 0)
        fprintf(stderr, "# rank %d: %s\n", symm_rank(s->group), error);
    /* So that the other ranks do not wait after a failure of this rank alone. */
    if (s->ctx && !s->refused)
        symm_abort(s->group, error);
    return true;
}

bool session_close(struct session *s, const char *error)
{
    bool written = report_close(s->report, error);

    symm_event_destroy(s->end);
    symm_event_destroy(s->begin);
    symm_stream_destroy(s->stream);
    symm_status destroyed = symm_context_destroy(s->ctx);
    if (!error && destroyed != SYMM_OK)
        fprintf(stderr, "# symm-bench: %s: %s\n", symm_status_name(destroyed), symm_error_text());
    return written && destroyed == SYMM_OK;
}
