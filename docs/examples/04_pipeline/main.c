/*
 * A pipeline over the ranks: each takes a chunk from the rank before, works on it, puts it into the
 * rank after. What the first rank starts with comes out of the last one with one added for every
 * rank.
 */
#include <symm/stream.h>
#include <symm/symm.h>
#include <stdlib.h>
#include <string.h>
#include "launch.h"
#include "try.h"

enum { FULL, FREE, CHANNELS, DEPTH = 4, THREADS = 256 };

int main(void)
{
    symm_status st;
    symm_context *ctx = NULL;
    symm_stream s = NULL;
    symm_graph graph = NULL;
    symm_signal_pad *pad;
    void *inbox, *outbox;
    float *host = NULL;
    uint32_t blocks;
    int wrong = 0;

    TRY(symm_context_create(NULL, &ctx));
    symm_group *w = symm_context_world(ctx);
    const int rank = symm_rank(w), nranks = symm_nranks(w);
    const int before = rank - 1, after = rank + 1 < nranks ? rank + 1 : -1;
    /* The emulated driver is for being right, not for being fast: less of everything. */
    const int emulated = strcmp(symm_context_driver(ctx), "emulated") == 0;
    const int chunks = emulated ? 10 : 1000, replays = emulated ? 3 : 10;
    const size_t chunk = emulated ? 16u << 10 : 1u << 20, count = chunk / sizeof *host;

    TRY(stage_load(ctx, THREADS, &blocks));
    if (blocks > 32)
        blocks = 32;
    TRY(symm_alloc(w, DEPTH * chunk, &inbox)); /* written by `before` */
    TRY(symm_device_alloc(ctx, chunk, &outbox));
    TRY(symm_signal_pad_alloc(w, CHANNELS, &pad));
    TRY(symm_stream_create(ctx, &s));
    host = malloc(DEPTH * chunk);
    wrong = !host;
    if (wrong)
        goto out;
    for (size_t i = 0; i < DEPTH * count; i++)
        host[i] = (float)i;
    TRY(symm_copy(inbox, host, DEPTH * chunk,
                  s)); /* the first rank's input; the others' is overwritten */
    if (before >= 0)
        TRY(symm_signal(w, pad, FREE, before, DEPTH,
                        s)); /* credits: every put below has its wait */

    TRY(symm_graph_begin(s)); /* counting signals: this may be replayed for ever */
    for (int i = 0; i < chunks; i++) {
        char *slot = (char *)inbox + (size_t)(i % DEPTH) * chunk;
        const stage_args args = {(const float *)slot, outbox, (int32_t)count};
        if (before >= 0)
            TRY(symm_wait(w, pad, FULL, before, 1, s));
        TRY(stage_launch(w, blocks, THREADS, &args, s));
        if (before >= 0)
            TRY(symm_signal(w, pad, FREE, before, 1, s));
        if (after >= 0) {
            TRY(symm_wait(w, pad, FREE, after, 1, s));
            TRY(symm_put(w, slot, outbox, chunk, after,
                         s));                            /* my slot's address + a rank = its slot */
            TRY(symm_signal(w, pad, FULL, after, 1, s)); /* stream order: after the data */
        }
    }
    TRY(symm_graph_end(s, &graph));
    for (int i = 0; i < replays; i++)
        TRY(symm_graph_launch(graph, s));

    /* The last chunk: slot (chunks - 1) % DEPTH of the first rank, one more on every rank it has
     * passed. */
    TRY(symm_copy(host, outbox, chunk, s));
    TRY(symm_synchronize(w, s));
    for (size_t i = 0; i < count; i++)
        wrong += host[i] != (float)((size_t)((chunks - 1) % DEPTH) * count + i + (size_t)rank + 1);
    if (after < 0)
        printf("rank %d, the last: %d chunks, %d elements are wrong\n", rank, chunks * replays,
               wrong);
out:
    free(host);
    if (graph)
        symm_graph_destroy(graph);
    if (s)
        symm_stream_destroy(s);
    symm_context_destroy(ctx);
    return st != SYMM_OK || wrong;
}
