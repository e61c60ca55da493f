/* What every command that runs on ranks begins and ends with. */
#ifndef SYMM_BENCH_SESSION_H
#define SYMM_BENCH_SESSION_H

#include <symm/stream.h>
#include "bench/cli/options.h"
#include "bench/report/report.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        st = (call);                                                                               \
        if (st != SYMM_OK)                                                                         \
            goto out;                                                                              \
    } while (0)

struct session {
    struct bench_options *options;
    symm_context *ctx;
    symm_group *group; /* the world */
    int rank, nranks;
    symm_stream stream;
    symm_event begin, end;
    struct report *report;
    bool emulated;
    uint64_t seed; /* all ranks' */
    char device[256], why_driver[512];
    char trouble[512]; /* an error that is not symm's own */
    bool refused;      /* by session_refuse() */
};

/* Collective. After a failure, too, session_close() is what follows. */
symm_status session_open(struct session *s, struct bench_options *options);

/* For symm_config; 0: the default. */
int session_timeout_ms(const struct bench_options *o);

/*
 * The opening of the report: what is the same for all commands, on the standard output and in the
 * JSON. `what` is the command's name.
 */
void session_introduce(struct session *s, const char *what);

/*
 * Ends a run that cannot be done as asked for. All ranks come here with the same reason, which
 * `format` says; rank 0 prints it. Returns ERROR_UNSUPPORTED.
 */
symm_status session_refuse(struct session *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What cannot run, and why. */
struct unavailable {
    const char *option, *list; /* --option LIST, by which it was asked for */
    const char *name;          /* the item of the list */
    const char *shown;         /* in the report */
    const char *reason;
};

/* Reports it. Refuses the run if the list has its name: only `all` leaves out what cannot run. */
symm_status session_unavailable(struct session *s, const struct unavailable *what);

/* Refuses a run that has reported no row. */
symm_status session_measured(struct session *s);

/* The worst of all ranks' n numbers, each by itself. Collective. */
symm_status session_worst(struct session *s, const float *mine, int n, float *out);

/* The sum of all ranks' numbers. Collective. */
symm_status session_sum(struct session *s, uint64_t mine, int64_t *out);

/*
 * Says what has failed and tells the others. `error` gets it; returns whether there was a failure.
 */
bool session_failed(struct session *s, symm_status st, const char *peer_error, char error[1024]);

/* Writes the report and releases everything. Returns whether all of that went well. */
bool session_close(struct session *s, const char *error);

#endif
