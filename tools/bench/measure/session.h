/* Beginning and end of every command that runs on ranks. */
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
    symm_group *group;  /* the world */
    symm_group *domain; /* the ranks that share memory with this one; the world if all do */
    int rank, nranks;
    int nhosts; /* domains of the world */
    int width;  /* ranks of each; 0: they have different numbers of ranks */
    symm_stream stream;
    symm_event begin, end;
    struct report *report;
    bool emulated;
    uint64_t seed; /* the same on all ranks */
    char device[256], why_driver[512];
    char trouble[512]; /* an error that is not symm's own */
    bool refused;      /* by session_refuse() */
};

/*
 * Collective. session_close() follows in any case. Of collectives and tune the world may have
 * several hosts.
 */
symm_status session_open(struct session *s, struct bench_options *options);

/* The SMs of this rank's device; 0: unknown. */
int session_sms(const struct session *s);

/* For symm_config; 0: the default. */
int session_timeout_ms(const struct bench_options *o);

/*
 * nbytes bytes of each rank, in rank order. Collective. The caller frees them. NULL: *st has the
 * failure.
 */
void *session_gather(struct session *s, const void *mine, size_t nbytes, symm_status *st);

/* Opens NCCL on all ranks; NULL: `why` has the reason, or *st. Collective. */
struct nccl *session_nccl(struct session *s, char why[512], symm_status *st);

/* Opens the report with the lines and members of all commands. `what` is the command's name. */
void session_introduce(struct session *s, const char *what);

/*
 * Refuses a run: all ranks call it with the same reason, and rank 0 prints it. Returns
 * ERROR_UNSUPPORTED.
 */
symm_status session_refuse(struct session *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* An item that cannot run. */
struct unavailable {
    const char *option, *list; /* --option LIST names it, or "all" does */
    const char *name;          /* the item of the list */
    const char *shown;         /* its name in the report */
    const char *reason;
};

/* Reports it, and refuses the run if the list names it: only "all" leaves items out. */
symm_status session_unavailable(struct session *s, const struct unavailable *what);

/* Refuses a run that has reported no row. */
symm_status session_measured(struct session *s);

/* The largest of all ranks' numbers, for each of n. Collective. */
symm_status session_worst(struct session *s, const float *mine, int n, float *out);

/* The sum of all ranks' numbers. Collective. */
symm_status session_sum(struct session *s, uint64_t mine, int64_t *out);

/* Prints a failure, stores it in `error` and aborts the group. Returns whether there was one. */
bool session_failed(struct session *s, symm_status st, const char *peer_error, char error[1024]);

/* Writes the report and releases everything. Returns whether all of that went well. */
bool session_close(struct session *s, const char *error);

#endif
