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

/* All ranks take the seed of rank 0. Collective. */
static symm_status agree_on_seed(struct session *s)
{
    uint64_t mine = s->options->seed, all[SYMM_MAX_RANKS];

    if (!s->options->has_seed && getrandom(&mine, sizeof mine, 0) != (ssize_t)sizeof mine)
        mine = (uint64_t)getpid();
    symm_status st = symm_exchange(s->group, &mine, sizeof mine, all);
    if (st == SYMM_OK)
        s->seed = all[0];
    return st;
}

/* Opens the report. Only rank 0 can fail; all ranks return its status. Collective. */
static symm_status open_report(struct session *s)
{
    int failed, all[SYMM_MAX_RANKS];

    s->report = report_open(s->options, s->rank == 0, s->trouble);
    failed = !s->report;
    symm_status st = symm_exchange(s->group, &failed, sizeof failed, all);
    for (int r = 0; st == SYMM_OK && r < s->nranks; r++) {
        if (all[r]) {
            st = SYMM_ERROR_SYSTEM;
            if (!failed)
                snprintf(s->trouble, sizeof s->trouble, "rank %d cannot write its report", r);
        }
    }
    return st;
}

int session_timeout_ms(const struct bench_options *o)
{
    return (int)ceil(o->timeout_s * 1000);
}

symm_status session_open(struct session *s, struct bench_options *options)
{
    const symm_config config = {.timeout_ms = session_timeout_ms(options)};
    symm_status st;

    s->options = options;
    TRY(driver_open(options->driver, &config, &s->ctx, s->why_driver));
    s->group = symm_context_world(s->ctx);
    s->rank = symm_rank(s->group);
    s->nranks = symm_nranks(s->group);
    s->emulated = driver_is_emulated(s->ctx);
    name_device(s);
    parallel_threads((int)sysconf(_SC_NPROCESSORS_ONLN) / s->nranks);
    TRY(symm_group_reserve(s->group, 0)); /* captured calls make no areas */
    TRY(agree_on_seed(s));
    TRY(open_report(s));
    TRY(symm_stream_create(s->ctx, &s->stream));
    TRY(symm_event_create(s->ctx, &s->begin));
    TRY(symm_event_create(s->ctx, &s->end));
out:
    return st;
}

/* The words of the command line, in the order in which they were given. */
static json_t *command_line(void)
{
    json_t *words = json_array();
    FILE *file = fopen("/proc/self/cmdline", "re");
    char *word = NULL;
    size_t size = 0;

    while (file && getdelim(&word, &size, 0, file) > 0)
        json_array_append_new(words, json_string(word));
    free(word);
    if (file)
        fclose(file);
    return words;
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

void session_introduce(struct session *s, const char *what)
{
    char version[32], seed[32];

    snprintf(version, sizeof version, "%d.%d.%d", SYMM_VERSION_MAJOR, SYMM_VERSION_MINOR,
             SYMM_VERSION_PATCH);
    /* As text: a JSON number may lose bits. */
    snprintf(seed, sizeof seed, "0x%" PRIx64, s->seed);
    report_head(s->report,
                json_pack("{s:s, s:o, s:s, s:s, s:s, s:o, s:s, s:i, s:s}", "version", version,
                          "command", command_line(), "operation", what, "driver",
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
    float all[SYMM_MAX_RANKS * 4];
    symm_status st = symm_exchange(s->group, mine, (size_t)n * sizeof *mine, all);

    for (int i = 0; st == SYMM_OK && i < n; i++) {
        out[i] = all[i];
        for (int r = 1; r < s->nranks; r++)
            out[i] = all[r * n + i] > out[i] ? all[r * n + i] : out[i];
    }
    return st;
}

symm_status session_sum(struct session *s, uint64_t mine, int64_t *out)
{
    uint64_t all[SYMM_MAX_RANKS], sum = 0;
    symm_status st = symm_exchange(s->group, &mine, sizeof mine, all);

    for (int r = 0; st == SYMM_OK && r < s->nranks; r++)
        sum += all[r];
    if (st == SYMM_OK)
        *out = (int64_t)sum;
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
