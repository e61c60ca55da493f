/* symm-bench stress: random calls of every collective and product, each result checked. */
#include "stress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "common/progress.h"
#include "common/text.h"
#include "stress_group.h"

extern const symm_image stress_kernels;

enum { NGROUPS = 3 };

struct job {
    struct stress x;
    bool operates, multiplies; /* there are calls of operations, and products, by the options */
    struct stress_stream random;
    struct stress_group groups[NGROUPS];
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ----------------------------------------------------------------------------------- the rounds */

/* Refuses an algorithm that is named and does not run. */
static symm_status check_algos(struct session *s)
{
    const char *list = s->options->algos;
    char algo[64];

    if (strcmp(list, "all") == 0 || strcmp(list, "none") == 0)
        return SYMM_OK;
    while (text_next(&list, algo, sizeof algo)) {
        if (!stress_runs(s->group, algo))
            return session_refuse(s, "--algo %s runs here in no operation", algo);
    }
    return SYMM_OK;
}

/*
 * Of a call of an operation. The blocks of all groups' calls are resident at the same time, and
 * leave SMs to a product.
 */
static uint32_t most_blocks(const struct session *s)
{
    enum { MOST = 32 };
    const int quarter = session_sms(s) / 4;

    return quarter < 1 ? 1 : quarter < MOST ? (uint32_t)quarter : MOST;
}

/* Chooses a call of an operation: auto if a smaller group lacks the world's variant. */
static struct stress_choice choose_operation(struct job *j, const struct stress_group *g)
{
    struct stress_choice c =
        stress_choose(&j->random, j->x.s.options, j->x.s.group, most_blocks(&j->x.s));

    if (c.operation->unavailable(g->group, c.variant->algo, c.element->dtype, c.op))
        c.variant = &c.operation->variants[0];
    return c;
}

/*
 * Chooses the calls of a round. All ranks draw the same random numbers. One group may multiply: a
 * product may need all SMs, and the blocks of collectives that wait for other ranks need some too.
 */
static void choose(struct job *j)
{
    const struct session *s = &j->x.s;
    const uint64_t groups = 1 + stress_below(&j->random, (1 << NGROUPS) - 1),
                   one = stress_below(&j->random, NGROUPS);
    const bool product = stress_below(&j->random, 2) == 0;

    for (uint64_t i = 0; i < NGROUPS; i++) {
        struct stress_group *g = &j->groups[i];
        const bool multiplies = j->multiplies && i == one && (product || !j->operates);

        g->busy = j->operates ? groups >> i & 1 : multiplies;
        if (g->busy)
            g->choice = multiplies ? stress_choose_product(&j->random, s->options, s->nranks)
                                   : choose_operation(j, g);
    }
}

static symm_status play(struct job *j)
{
    struct stress_group *const end = j->groups + NGROUPS;
    symm_status st = SYMM_OK;

    choose(j);
    for (struct stress_group *g = j->groups; g < end; g++) {
        if (g->busy)
            TRY(stress_group_prepare(g));
    }
    for (struct stress_group *g = j->groups; g < end; g++) {
        if (g->busy)
            TRY(stress_group_start(&j->x, g));
    }
    for (struct stress_group *g = j->groups; g < end; g++) {
        if (g->busy)
            TRY(stress_group_check(&j->x, g));
    }
    j->x.rounds++;
out:
    return st;
}

/* Until rank 0's time is up and it has checked an element, or a result is wrong. */
static symm_status play_on(struct job *j, int64_t *wrong)
{
    struct session *s = &j->x.s;
    const double end = now() + s->options->seconds;
    int64_t over;
    symm_status st;

    do {
        if (s->rank == 0)
            progress_show("stress: round %" PRIu64 ", %.0f s left", j->x.rounds, end - now());
        TRY(play(j));
        TRY(session_sum(s, j->x.wrong, wrong));
        TRY(session_sum(s, s->rank == 0 && now() >= end && j->x.elements > 0, &over));
    } while (*wrong == 0 && !over);
out:
    progress_end();
    return st;
}

/* --------------------------------------------------------------------------------- opening, end */

/* A group of the even ranks, or of the odd ones. */
static symm_status create_half(struct stress *x, symm_group **out)
{
    int ranks[SYMM_MAX_RANKS], n = 0;

    for (int r = x->s.rank % 2; r < x->s.nranks; r += 2)
        ranks[n++] = r;
    return symm_group_create(x->s.group, n, ranks, out);
}

static symm_status create_twin(struct stress *x, symm_group **out)
{
    int ranks[SYMM_MAX_RANKS];

    for (int r = 0; r < x->s.nranks; r++)
        ranks[r] = r;
    return symm_group_create(x->s.group, x->s.nranks, ranks, out);
}

static symm_status create_groups(struct job *j)
{
    struct stress *x = &j->x;
    struct stress_group *g = j->groups;
    symm_status st;

    /* A count below the number of ranks grows to it. */
    x->capacity = stress_group_capacity((size_t)x->s.options->max_bytes +
                                        (size_t)x->s.nranks * sizeof(double));
    g[0].name = "world";
    g[0].group = x->s.group;
    g[0].is_world = true;
    g[1].name = "twin";
    TRY(create_twin(x, &g[1].group));
    g[2].name = x->s.rank % 2 ? "odd" : "even";
    g[2].salt = (uint64_t)x->s.rank % 2 << 60;
    TRY(create_half(x, &g[2].group));
    for (int i = 0; i < NGROUPS; i++)
        TRY(stress_group_open(x, &g[i]));
out:
    return st;
}

static symm_status run(struct job *j, struct bench_options *options, int64_t *wrong)
{
    struct stress *x = &j->x;
    symm_status st;

    TRY(session_open(&x->s, options));
    if (options->max_bytes == 0)
        options->max_bytes = x->s.emulated ? 64 << 10 : 16 << 20;
    j->random.seed = x->s.seed;
    session_introduce(&x->s, "stress");
    TRY(check_algos(&x->s));
    j->operates = stress_runs(x->s.group, options->algos);
    j->multiplies = stress_multiplies(options);
    TRY(symm_kernel_load(x->s.ctx, &stress_kernels, "stress_delay", &x->late));
    TRY(create_groups(j));
    TRY(play_on(j, wrong));
    report_say(x->s.report,
               "# %" PRIu64 " rounds, %" PRIu64 " calls, %" PRIu64 " elements checked, %s",
               x->rounds, x->calls, x->elements, *wrong ? "WRONG" : "none wrong");
out:
    return st;
}

int stress_run(struct bench_options *options)
{
    struct job j = {.groups = {{0}}};
    char error[1024];
    int64_t wrong = 0;
    bool failed = session_failed(&j.x.s, run(&j, options, &wrong), NULL, error);

    for (int i = 0; i < NGROUPS; i++)
        stress_group_close(&j.x, &j.groups[i]);
    return !session_close(&j.x.s, failed ? error : NULL) || failed || wrong > 0;
}
