/* Reads the configuration and the launchers' variables, and computes the name of the session. */
#include "join.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/base/settings.h"
#include "boot_id.h"
#include "cards.h"

enum { RANKS_MAX = 1 << 20 }; /* of all hosts */

/*
 * Any variable of `sign` identifies the launcher. All of `sign` and `session` must then be set. The
 * variables of `session` identify the job, unless the configuration or SYMM_SESSION does.
 */
struct launcher {
    const char *name, *rank, *nranks, *local_rank, *local_nranks;
    const char *sign[5], *session[3], *maybe[3];
    bool carries; /* its processes may be daemons of another launcher */
};

static const struct launcher launchers[] = {
    {"symm-run",
     "SYMM_RANK",
     "SYMM_NRANKS",
     NULL,
     NULL,
     {"SYMM_RANK", "SYMM_NRANKS"},
     {"SYMM_SESSION"},
     {NULL},
     false},
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
     {"MASTER_ADDR", "MASTER_PORT"},
     {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
     false},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE"},
     {"PMIX_NAMESPACE"},
     {NULL},
     false},
    /* A batch shell has most of Slurm's variables, but no SLURM_STEP_ID. */
    {"Slurm",
     "SLURM_PROCID",
     "SLURM_NTASKS",
     "SLURM_LOCALID",
     NULL,
     {"SLURM_STEP_ID"},
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     {NULL},
     true},
};

/*
 * Unsupported launchers. If only their variables are set, each rank would become a world of one
 * rank. So it would if they contradict Slurm's variables, because a Slurm step may only run the
 * daemons of such a launcher.
 */
struct foreign {
    /* nranks: NULL, or the variable that is "1" for a single rank */
    const char *name, *rank, *nranks;
    const char *sign[3];
};

static const struct foreign foreigners[] = {
    {"MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE", {"PMI_RANK", "PMI_SIZE"}},
    {"PMIx", "PMIX_RANK", NULL, {"PMIX_RANK", "PMIX_NAMESPACE"}},
};

static const char *value_of(const char *variable)
{
    const char *text = getenv(variable);

    return text && *text ? text : NULL;
}

static symm_status read_int(const struct launcher *l, const char *variable, int least, int most,
                            int *out)
{
    const char *text = value_of(variable);
    char *end;
    long value;

    if (!text)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s is not set, but other variables of %s are",
                          variable, l->name);
    errno = 0;
    value = strtol(text, &end, 10);
    if (errno || *end || end == text)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s=%s is not a number", variable, text);
    if (value < least || value > most)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s=%s is not within %d to %d", variable, text,
                          least, most);
    *out = (int)value;
    return SYMM_OK;
}

static const struct launcher *find_launcher(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++)
        for (const char *const *v = launchers[i].sign; *v; v++)
            if (value_of(*v))
                return &launchers[i];
    return NULL;
}

static symm_status several_hosts(const struct launcher *l, const char *variable, int n, int nranks)
{
    return symm__fail(SYMM_ERROR_UNSUPPORTED,
                      "%s started ranks on more than one host (%s=%d, %s=%d)", l->name, l->nranks,
                      nranks, variable, n);
}

/* Slurm has the number of nodes in one of two variables. Returns the name of that one. */
static const char *read_nodes(const struct launcher *l, int *nodes, symm_status *st)
{
    const char *variable =
        value_of("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";

    *st = value_of(variable) ? read_int(l, variable, 1, RANKS_MAX, nodes) : SYMM_OK;
    return variable;
}

/* span: ranks may be on several hosts. */
static symm_status from_launcher(const struct launcher *l, bool span, struct symm_join *join)
{
    const int most = RANKS_MAX; /* more than SYMM_MAX_RANKS is reported separately */
    int nlocal = 0, nnodes = 1;
    symm_status st;

    TRY(read_int(l, l->nranks, 1, most, &join->nranks));
    TRY(read_int(l, l->rank, 0, join->nranks - 1, &join->rank));
    join->local_rank = join->rank;
    if (l->local_rank)
        TRY(read_int(l, l->local_rank, 0, join->nranks - 1, &join->local_rank));
    if (l->local_nranks) {
        TRY(read_int(l, l->local_nranks, 1, most, &nlocal));
        join->one_host = nlocal == join->nranks;
        if (!join->one_host && !span)
            TRY(several_hosts(l, l->local_nranks, nlocal, join->nranks));
    } else if (l->local_rank) {
        const char *variable = read_nodes(l, &nnodes, &st);
        TRY(st);
        join->one_host = nnodes == 1;
        if (!join->one_host && !span)
            TRY(several_hosts(l, variable, nnodes, join->nranks));
    }
    if (join->nranks > SYMM_MAX_RANKS && !span)
        st = symm__fail(SYMM_ERROR_ARGUMENT, "%s=%d: there can be %d ranks at most", l->nranks,
                        join->nranks, SYMM_MAX_RANKS);
    join->launcher = l->name;
out:
    return st;
}

/* l and join: the supported launcher and its values. */
static symm_status check_foreign(const struct foreign *f, const struct launcher *l,
                                 const struct symm_join *join)
{
    const char *rank = value_of(f->rank), *nranks = f->nranks ? value_of(f->nranks) : NULL;
    const char *sign = NULL;

    for (const char *const *v = f->sign; *v && !sign; v++)
        sign = value_of(*v) ? *v : NULL;
    if (!sign || (nranks && !strcmp(nranks, "1")))
        return SYMM_OK;
    if (l && rank && atoi(rank) == join->rank && (!nranks || atoi(nranks) == join->nranks))
        return SYMM_OK; /* Slurm sets them too */
    return symm__fail(SYMM_ERROR_ARGUMENT,
                      "%s=%s is set, as by %s, which symm does not support: set SYMM_RANK, "
                      "SYMM_NRANKS and, the same text on all ranks, SYMM_SESSION, or give rank, "
                      "nranks and session in symm_config",
                      sign, value_of(sign), f->name);
}

/*
 * Refuses a step's variables without SLURM_STEP_ID. A batch shell also has them, but only with
 * SLURM_PROCID=0.
 */
static symm_status check_half_slurm(void)
{
    const char *rank = value_of("SLURM_PROCID");

    if (!rank || !strcmp(rank, "0"))
        return SYMM_OK;
    return symm__fail(SYMM_ERROR_ARGUMENT,
                      "SLURM_PROCID=%s is set, but SLURM_STEP_ID is not: pass all of Slurm's "
                      "variables on, or set SYMM_RANK, SYMM_NRANKS and SYMM_SESSION",
                      rank);
}

/* Prevents that a rank of a larger job becomes a world of one rank. l is NULL if it would. */
static symm_status check_others(const struct launcher *l, const struct symm_join *join)
{
    symm_status st = SYMM_OK;

    for (size_t i = 0; i < sizeof foreigners / sizeof foreigners[0]; i++)
        TRY(check_foreign(&foreigners[i], l, join));
    if (!l)
        TRY(check_half_slurm());
out:
    return st;
}

static symm_status from_config(const symm_config *config, struct symm_join *join)
{
    const int most = config->span ? RANKS_MAX : SYMM_MAX_RANKS;

    if (config->nranks > most)
        return symm__fail(SYMM_ERROR_ARGUMENT, "nranks is %d: there can be %d ranks at most",
                          config->nranks, most);
    if (config->rank < 0 || config->rank >= config->nranks)
        return symm__fail(SYMM_ERROR_ARGUMENT, "rank is %d, which is not within 0 to %d",
                          config->rank, config->nranks - 1);
    join->rank = join->local_rank = config->rank;
    join->nranks = config->nranks;
    join->one_host = false;
    join->launcher = "configuration";
    return SYMM_OK;
}

/* ---- The session's name ---- */

static uint64_t finish(uint64_t h)
{
    h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
    h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ h >> 33;
}

/* FNV-1a with two bases, and a final mix. */
void symm__join_mix(uint64_t id[2], const char *text)
{
    for (int half = 0; half < 2; half++) {
        uint64_t h =
            id[half] ^ (half ? UINT64_C(0x6c62272e07bb0142) : UINT64_C(0xcbf29ce484222325));
        const char *at = text;
        do
            h = (h ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
        while (*at++);
        id[half] = finish(h);
    }
}

/* Mixes in the name of the job: the given session, else the launcher's variables. */
static symm_status mix_session(const symm_config *config, const struct launcher *l,
                               struct symm_join *join)
{
    const char *given = config->session && *config->session ? config->session : NULL;

    if (!given && symm__setting_is_set(SYMM_SETTING_SESSION))
        given = symm__setting(SYMM_SETTING_SESSION);
    if (given) {
        symm__join_mix(join->id, given);
        return SYMM_OK;
    }
    if (!l && join->nranks > 1)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "session is not given (nor SYMM_SESSION), and nranks is %d",
                          join->nranks);
    symm__join_mix(join->id, join->launcher);
    for (const char *const *v = l ? l->session : NULL; v && *v; v++) {
        if (!value_of(*v))
            return symm__fail(SYMM_ERROR_ARGUMENT, "%s is not set, but other variables of %s are",
                              *v, l->name);
        symm__join_mix(join->id, value_of(*v));
    }
    for (const char *const *v = l ? l->maybe : NULL; v && *v; v++)
        symm__join_mix(join->id, value_of(*v) ? value_of(*v) : "");
    return SYMM_OK;
}

static symm_status mix_host(uint64_t id[2])
{
    char text[64], boot_id[40];
    symm_status st;

    TRY(symm__boot_id(boot_id));
    snprintf(text, sizeof text, "%u %s", (unsigned)geteuid(), boot_id);
    symm__join_mix(id, text);
out:
    return st;
}

static symm_status read_token(struct symm_join *join)
{
    const char *text = symm__setting(SYMM_SETTING_TOKEN);

    if (!symm__setting_is_set(SYMM_SETTING_TOKEN))
        return SYMM_OK;
    if (strlen(text) != 2 * sizeof join->token ||
        strspn(text, "0123456789abcdefABCDEF") != strlen(text))
        return symm__fail(SYMM_ERROR_ARGUMENT, "SYMM_TOKEN is not %zu hexadecimal digits",
                          2 * sizeof join->token);
    for (size_t i = 0; i < sizeof join->token; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1], 0};
        join->token[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    join->has_token = true;
    return SYMM_OK;
}

/* ---- Generations ---- */

/* Counts the contexts of this process by session and rank. Entries stay until the process ends. */
struct generation {
    struct generation *next;
    uint64_t id[2];
    int rank;
    uint64_t n;
};

static pthread_mutex_t generations_lock = PTHREAD_MUTEX_INITIALIZER;
static struct generation *generations;

/* Lock held. */
static struct generation *find_generation(const struct symm_join *join)
{
    struct generation *g = generations;

    while (g && (g->id[0] != join->id[0] || g->id[1] != join->id[1] || g->rank != join->world_rank))
        g = g->next;
    return g;
}

static symm_status generation_of(const struct symm_join *join, uint64_t *out)
{
    symm_status st = SYMM_OK;

    pthread_mutex_lock(&generations_lock);
    struct generation *g = find_generation(join);
    if (!g && (g = calloc(1, sizeof *g))) {
        g->id[0] = join->id[0];
        g->id[1] = join->id[1];
        g->rank = join->world_rank;
        g->next = generations;
        generations = g;
    }
    if (g)
        *out = g->n;
    else
        st = symm__fail(SYMM_ERROR_MEMORY, "no memory for the session");
    pthread_mutex_unlock(&generations_lock);
    return st;
}

void symm__join_done(const struct symm_join *join)
{
    pthread_mutex_lock(&generations_lock);
    struct generation *g = find_generation(join);
    if (g)
        g->n++;
    pthread_mutex_unlock(&generations_lock);
}

symm_status symm__join_explain(const struct symm_join *join, symm_status st)
{
    char why[SYMM_TEXT_MAX];

    if (st != SYMM_ERROR_TIMEOUT || !join->met_nobody)
        return st;
    strcpy(why, symm__failure_text());
    return symm__fail(st, "%.900s; if ranks are on several hosts, set SYMM_ADDRESS on all of them",
                      why);
}

/* ---- All of it ---- */

/* The session of this rank's domain on its host, in hexadecimal digits. */
static symm_status name_session(struct symm_join *join, uint64_t generation)
{
    uint64_t id[2] = {join->id[0], join->id[1]};
    char text[32];
    symm_status st;

    if (!join->has_random_id)
        TRY(mix_host(id));
    snprintf(text, sizeof text, "%llu %d", (unsigned long long)generation,
             join->span ? join->span->domain : 0);
    symm__join_mix(id, text);
    snprintf(join->session, sizeof join->session, "%016llx%016llx", (unsigned long long)id[0],
             (unsigned long long)id[1]);
    st = SYMM_OK;
out:
    return st;
}

/* Rank, number of ranks and launcher. */
static symm_status who(const symm_config *config, const struct launcher *l, struct symm_join *join)
{
    symm_status st = SYMM_OK;

    if (config->nranks < 0 || (!config->nranks && config->rank))
        return symm__fail(SYMM_ERROR_ARGUMENT, "rank is %d and nranks is %d", config->rank,
                          config->nranks);
    if (config->span > 1)
        return symm__fail(SYMM_ERROR_ARGUMENT, "config.span is %u; it may be 0 or 1", config->span);
    if (config->nranks)
        TRY(from_config(config, join));
    else if (l)
        TRY(from_launcher(l, config->span, join));
    if (!config->nranks && (!l || l->carries))
        TRY(check_others(l, join));
    join->world_rank = join->rank;
    join->world_nranks = join->nranks;
out:
    return st;
}

symm_status symm__join_resolve(const symm_config *config, const struct symm_join_wait *wait,
                               struct symm_join *out)
{
    const struct launcher *l = config->nranks ? NULL : find_launcher();
    struct symm_join join = {.nranks = 1, .launcher = "alone", .one_host = true};
    uint64_t generation = 0;
    symm_status st;

    TRY(who(config, l, &join));
    if (config->all_gather) { /* its sessions are used once */
        join.has_random_id = true;
        TRY(symm__cards_gather(config, &join));
    } else {
        TRY(read_token(&join));
        TRY(mix_session(config, l, &join));
        TRY(generation_of(&join, &generation));
        if (config->span)
            TRY(symm__cards_meet(config, wait, &join));
    }
    TRY(name_session(&join, generation));
    *out = join;
out:
    if (st != SYMM_OK)
        symm__span_destroy(join.span);
    return st;
}
