/* Two variants in my own loop: CUDA graphs, the worst rank's median, and a look at the result. */
#include <symm/collectives.h>
#include <symm/stream.h>
#include <stdlib.h>
#include "numbers.h"
#include "try.h"

enum { REPLAYS_MAX = 50, RANKS_MAX = 72 };

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

int main(void)
{
    static const struct {
        symm_algo algo;
        const char *name;
    } variants[] = {{SYMM_ALGO_TWO_SHOT, "two_shot"}, {SYMM_ALGO_MULTIMEM, "multimem"}};
    symm_status st;
    symm_context *ctx = NULL;
    symm_stream s = NULL;
    symm_graph graph = NULL;
    symm_event t[2] = {0};
    symm_bf16 *host = NULL;
    float us[REPLAYS_MAX], all[RANKS_MAX];
    void *x, *y;
    int wrong = 0;

    TRY(symm_context_create(NULL, &ctx));
    symm_group *world = symm_context_world(ctx);
    const int nranks = symm_nranks(world), rank = symm_rank(world);
    /* The emulated driver is for being right, not for being fast: less of everything. */
    const int emulated = strcmp(symm_context_driver(ctx), "emulated") == 0;
    const int ops = emulated ? 2 : 20, replays = emulated ? 3 : REPLAYS_MAX;
    const size_t most = emulated ? 64u << 10 : 64u << 20;
    const symm_bf16 sum = to_bf16((float)(nranks * (nranks + 1) / 2));

    TRY(symm_alloc(world, most, &x));
    TRY(symm_alloc(world, most, &y));
    TRY(symm_stream_create(ctx, &s));
    host = malloc(most);
    wrong = !host;
    if (wrong)
        goto out;
    for (size_t i = 0; i < most / sizeof *host; i++)
        host[i] = to_bf16((float)(rank + 1));
    TRY(symm_copy(x, host, most, s));
    TRY(symm_group_reserve(world, 0)); /* a capture makes no areas */
    for (int i = 0; i < 2; i++)
        TRY(symm_event_create(ctx, &t[i]));
    for (int v = 0; v < 2; v++) {
        const symm_options options = {.algo = variants[v].algo};
        const char *why =
            symm_all_reduce_unavailable(world, variants[v].algo, SYMM_BFLOAT16, SYMM_SUM);
        if (why) {
            if (rank == 0)
                printf("# %s: not available: %s\n", variants[v].name, why);
            continue;
        }
        for (size_t nbytes = 1024; nbytes <= most; nbytes *= 4) {
            const size_t count = nbytes / sizeof *host;
            TRY(symm_fill(y, 0, nbytes, s));
            TRY(symm_graph_begin(s));
            for (int i = 0; i < ops; i++)
                TRY(symm_all_reduce(world, x, y, count, SYMM_BFLOAT16, SYMM_SUM, &options, s));
            TRY(symm_graph_end(s, &graph));
            for (int i = 0; i < replays; i++) {
                TRY(symm_barrier(world, s)); /* all start together */
                TRY(symm_event_record(t[0], s));
                TRY(symm_graph_launch(graph, s));
                TRY(symm_event_record(t[1], s));
                TRY(symm_synchronize(world, s));
                TRY(symm_event_elapsed_us(t[0], t[1], &us[i]));
            }
            TRY(symm_copy(host, y, nbytes, s));
            TRY(symm_synchronize(world, s));
            for (size_t i = 0; i < count; i++)
                wrong += host[i].bits != sum.bits;

            qsort(us, (size_t)replays, sizeof us[0], by_value);
            TRY(symm_exchange(world, &us[replays / 2], sizeof us[0], all));
            float worst = 0;
            for (int r = 0; r < nranks; r++)
                if (all[r] > worst)
                    worst = all[r];
            if (rank == 0)
                printf("%9zu %-9s %8.2f us%s\n", nbytes, variants[v].name,
                       (double)worst / (double)ops, emulated ? " (emulated)" : "");
            symm_graph_destroy(graph);
            graph = NULL;
        }
    }
    if (wrong)
        fprintf(stderr, "rank %d: %d sums are wrong\n", rank, wrong);
out:
    free(host);
    if (graph)
        symm_graph_destroy(graph);
    for (int i = 0; i < 2; i++)
        if (t[i])
            symm_event_destroy(t[i]);
    if (s)
        symm_stream_destroy(s);
    symm_context_destroy(ctx);
    return st != SYMM_OK || wrong;
}
