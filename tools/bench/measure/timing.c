/* What is compared, timed by turns. */
#include "timing.h"

#include "statistics.h"

enum { LINE_UP = 16 /* barriers before what is measured: some 60 microseconds */ };

symm_status timing_record(const struct session *s, const struct timed *t, int nops, symm_graph *out)
{
    symm_status st;

    *out = NULL;
    if (!s->options->graph)
        return SYMM_OK;
    st = symm_graph_begin(s->stream);
    if (st != SYMM_OK)
        return st;
    st = t->enqueue(t->what, nops);
    symm_status ended = symm_graph_end(s->stream, out);
    if (st == SYMM_OK)
        return ended;
    if (ended == SYMM_OK)
        symm_graph_destroy(*out);
    *out = NULL;
    return st;
}

symm_status timing_repeat(const struct session *s, const struct timed *t, symm_graph graph,
                          int nops)
{
    return graph ? symm_graph_launch(graph, s->stream) : t->enqueue(t->what, nops);
}

symm_status timing_line_up(const struct session *s, const struct timed *t)
{
    symm_status st = SYMM_OK;

    if (t->prepare)
        TRY(t->prepare(t->what));
    /*
     * A peer that does not wait for the others at its beginning finds their data all the same.
     * While the GPU passes the barriers the host enqueues what is measured: after a single one the
     * GPU would wait for the host, some ranks longer than others, and that would be measured.
     */
    for (int i = 0; i < (s->emulated ? 1 : LINE_UP); i++)
        TRY(symm_barrier(s->group, s->stream));
out:
    return st;
}

/* Times one repetition on this rank. */
static symm_status time_once(const struct session *s, const struct timed *t, float *out)
{
    float us;
    symm_status st;

    TRY(timing_line_up(s, t));
    TRY(symm_event_record(s->begin, s->stream));
    TRY(timing_repeat(s, t, t->graph, t->nops));
    TRY(symm_event_record(s->end, s->stream));
    TRY(symm_synchronize(s->group, s->stream));
    TRY(symm_event_elapsed_us(s->begin, s->end, &us));
    *out = us / (float)t->nops;
out:
    return st;
}

symm_status timing_run(const struct session *s, struct timed *all, int n)
{
    symm_status st = SYMM_OK;
    float us;

    for (int t = 0; t < n; t++)
        TRY(timing_record(s, &all[t], all[t].nops, &all[t].graph));
    for (int i = -s->options->warmup; i < s->options->iters; i++) {
        for (int t = 0; t < n; t++) {
            TRY(time_once(s, &all[t], &us));
            if (i >= 0)
                all[t].samples[i] = us;
        }
    }
out:
    return st;
}

void timing_clear(struct timed *all, int n)
{
    for (int i = 0; i < n; i++) {
        symm_graph_destroy(all[i].graph);
        all[i].graph = NULL;
    }
}

symm_status timing_summarise(struct session *s, struct timed *t, float times[2])
{
    const size_t n = (size_t)s->options->iters;
    float mine[2];

    statistics_sort(t->samples, n);
    mine[0] = statistics_median(t->samples, n);
    mine[1] = statistics_percentile(t->samples, n, 95);
    return session_worst(s, mine, 2, times);
}
