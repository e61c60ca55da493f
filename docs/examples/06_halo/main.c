/*
 * A halo exchange: Jacobi's iteration on a grid that is split in rows over the ranks, a kernel a
 * step, two steps a graph. Checked against the whole grid computed in double precision.
 *
 *   symm-run --emulated -n 3 ./06_halo [rows [columns [steps]]]
 */
#include <symm/stream.h>
#include <symm/symm.h>
#include <math.h>
#include <stdlib.h>
#include "launch.h"
#include "numbers.h"
#include "try.h"

/* Rank r's rows are first_row(r) up to first_row(r + 1); row 0 and the last are the edge. */
static int first_row(int rows, int nranks, int rank)
{
    return 1 + (int)((int64_t)(rows - 2) * rank / nranks);
}

/* The same iteration on one processor. Returns the grid after the last step; NULL: no memory. */
static double *reference(uint64_t seed, int rows, int columns, int steps)
{
    const size_t w = (size_t)columns, n = (size_t)rows * w;
    double *now = malloc(n * sizeof *now), *next = malloc(n * sizeof *next), *swap;

    for (size_t i = 0; now && next && i < n; i++)
        now[i] = next[i] = (double)random_number(seed, 0, i);
    for (int step = 0; now && next && step < steps; step++) {
        for (size_t row = 1; row < (size_t)rows - 1; row++)
            for (size_t i = row * w + 1; i < row * w + w - 1; i++)
                next[i] = 0.25 * (now[i - 1] + now[i + 1] + now[i - w] + now[i + w]);
        swap = now;
        now = next;
        next = swap;
    }
    if (!next) {
        free(now);
        now = NULL;
    }
    free(next);
    return now;
}

int main(int argc, char **argv)
{
    symm_status st;
    symm_context *ctx = NULL;
    symm_stream s = NULL;
    symm_graph graph = NULL;
    stencil_args a = {0};
    void *grid[2]; /* they take turns as input and output */
    float *host = NULL;
    double *want = NULL;
    uint64_t seed;
    long wrong = -1;

    TRY(symm_context_create(NULL, &ctx));
    symm_group *w = symm_context_world(ctx);
    const int rank = symm_rank(w), nranks = symm_nranks(w);
    /* The emulated driver is for being right, not for being fast: less of everything. */
    const int emulated = strcmp(symm_context_driver(ctx), "emulated") == 0;
    const int rows = argc > 1 ? atoi(argv[1]) : emulated ? 45 : 2000;
    const int columns = argc > 2 ? atoi(argv[2]) : emulated ? 333 : 2000;
    const int steps = argc > 3 ? atoi(argv[3]) : emulated ? 12 : 200;
    if (rows < nranks + 2 || columns < 3 || steps < 2 || steps % 2) {
        fprintf(stderr,
                "usage: %s [rows [columns [steps]]], a row a rank and two for the edge, "
                "an even number of steps\n",
                argv[0]);
        goto out;
    }
    const int mine = first_row(rows, nranks, rank);
    a.rows = first_row(rows, nranks, rank + 1) - mine;
    a.rows_above = rank > 0 ? mine - first_row(rows, nranks, rank - 1) : 0;
    a.columns = columns;
    a.pitch = (columns + 3) / 4 * 4;
    const size_t most = (size_t)((rows - 2 + nranks - 1) / nranks) + 2, pitch = (size_t)a.pitch;
    const size_t nbytes = most * pitch * sizeof *host; /* the same on every rank */
    const uint32_t threads = emulated ? 32 : 256;
    const uint32_t enough = (uint32_t)(most * pitch / 4 + threads - 1) / threads;
    uint32_t blocks;

    TRY(stencil_load(ctx, threads, &blocks));
    if (blocks > enough)
        blocks = enough;
    TRY(symm_signal_pad_alloc(w, (int)blocks, &a.pad));
    TRY(symm_group_view(w, &a.view));
    TRY(symm_stream_create(ctx, &s));
    TRY(random_seed(w, &seed));

    /* My rows, with the row above and the one below. Both grids need the edge. */
    host = calloc(most * pitch, sizeof *host);
    want = reference(seed, rows, columns, steps);
    if (!host || !want)
        goto out;
    for (size_t row = 0; row < (size_t)a.rows + 2; row++)
        for (size_t c = 0; c < (size_t)columns; c++)
            host[row * pitch + c] =
                random_number(seed, 0, ((size_t)mine - 1 + row) * (size_t)columns + c);
    for (int i = 0; i < 2; i++) {
        TRY(symm_alloc(w, nbytes, &grid[i]));
        TRY(symm_copy(grid[i], host, nbytes, s));
    }
    TRY(symm_barrier(w, s)); /* all halos are there before a neighbour writes the next */

    TRY(symm_graph_begin(s)); /* counting signals: this may be replayed for ever */
    for (int i = 0; i < 2; i++) {
        a.in = grid[i];
        a.out = grid[!i];
        TRY(stencil_launch(w, blocks, threads, &a, s));
    }
    TRY(symm_graph_end(s, &graph));
    for (int step = 0; step < steps; step += 2)
        TRY(symm_graph_launch(graph, s));
    TRY(symm_copy(host, grid[0], nbytes, s));
    TRY(symm_synchronize(w, s));

    wrong = 0;
    for (size_t row = 1; row <= (size_t)a.rows; row++)
        for (size_t c = 0; c < (size_t)columns; c++) {
            const double x = want[((size_t)mine - 1 + row) * (size_t)columns + c];
            /* Numbers of at most 1: a step's three sums and a product round by 2^-25 each. */
            wrong += !(fabs((double)host[row * pitch + c] - x) <= steps * 0x1p-23);
        }
    if (wrong)
        fprintf(stderr, "rank %d: %ld elements are wrong (seed %llu)\n", rank, wrong,
                (unsigned long long)seed);
    if (rank == 0)
        printf("%d ranks, %d x %d, %d steps, %u blocks of %u threads: %ld elements are wrong\n",
               nranks, rows, columns, steps, blocks, threads, wrong);
out:
    free(host);
    free(want);
    if (graph)
        symm_graph_destroy(graph);
    if (s)
        symm_stream_destroy(s);
    symm_context_destroy(ctx);
    return st != SYMM_OK || wrong != 0;
}
