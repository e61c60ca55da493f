/* Replays on two groups. */
#include "group_pair.h"

#include <stdlib.h>
#include <symm/stream.h>
#include "exercise.h"

enum { EAGER_MOST = 500 };

/* One of the two groups. */
struct line {
    struct collective call;
    symm_group *group;
    symm_stream stream;
    symm_graph graph;
    char *in, *out, *host;
    size_t nbytes; /* of each buffer */
};

static symm_status line_open(struct rank *self, symm_context *ctx, struct line *l)
{
    l->nbytes = (size_t)self->nranks * l->call.count * 4;
    l->host = calloc(1, l->nbytes);
    RANK_TRY(self, group_of_all(symm_context_world(ctx), &l->group));
    RANK_TRY(self, symm_stream_create(ctx, &l->stream));
    RANK_TRY(self, symm_alloc(l->group, l->nbytes, (void **)&l->in));
    RANK_TRY(self, symm_alloc(l->group, l->nbytes, (void **)&l->out));
    collective_fill(&l->call, self->rank, self->nranks, l->host);
    RANK_TRY(self, symm_copy(l->in, l->host, l->nbytes, l->stream));
    RANK_TRY(self, symm_synchronize(l->group, l->stream));
    RANK_TRY(self, symm_graph_begin(l->stream));
    RANK_TRY(self, symm_fill(l->out, 0xff, l->nbytes, l->stream));
    RANK_TRY(self, collective_call(&l->call, l->group, l->in, l->out, l->stream));
    RANK_TRY(self, symm_graph_end(l->stream, &l->graph));
out:
    return self->report->status;
}

/* One replay, and now and then an eager call of another size and algorithm before it. */
static symm_status line_replay(struct rank *self, struct line *l, int replay)
{
    struct collective eager = l->call;
    if (replay % 20 == 9)
        eager.algo = SYMM_ALGO_AUTO;
    eager.count = 1 + (size_t)replay % EAGER_MOST;
    if (replay % 10 == 9)
        RANK_TRY(self, collective_call(&eager, l->group, l->in, l->out, l->stream));
    RANK_TRY(self, symm_graph_launch(l->graph, l->stream));
out:
    return self->report->status;
}

static symm_status line_look(struct rank *self, struct line *l)
{
    RANK_TRY(self, symm_copy(l->host, l->out, l->nbytes, l->stream));
    RANK_TRY(self, symm_synchronize(l->group, l->stream));
    self->report->wrong += collective_wrong(&l->call, self->rank, self->nranks, l->host);
    self->report->value[0]++;
out:
    return self->report->status;
}

static void line_close(struct line *l)
{
    symm_graph_destroy(l->graph);
    symm_stream_destroy(l->stream);
    symm_group_destroy(l->group);
    free(l->host);
}

void group_pair_replay(struct rank *self, symm_context *ctx, const struct group_pair *pair)
{
    struct line lines[2] = {{.host = NULL}, {.host = NULL}};
    for (uint64_t i = 0; i < 2; i++) {
        lines[i].call = (struct collective){.operation = pair->variants[i].operation,
                                            .algo = pair->variants[i].algo,
                                            .dtype = SYMM_FLOAT32,
                                            .count = pair->count,
                                            .max_blocks = pair->max_blocks,
                                            .round = 1 + i};
        RANK_TRY(self, line_open(self, ctx, &lines[i]));
    }
    for (int replay = 0; replay < pair->replays; replay++) {
        RANK_TRY(self, line_replay(self, &lines[self->rank % 2], replay));
        RANK_TRY(self, line_replay(self, &lines[1 - self->rank % 2], replay));
        for (int i = 0; i < 2 && (replay + 1) % pair->looks == 0; i++)
            RANK_TRY(self, line_look(self, &lines[i]));
    }
    for (int i = 0; i < 2; i++)
        RANK_TRY(self, symm_synchronize(lines[i].group, lines[i].stream));
out:
    line_close(&lines[0]);
    line_close(&lines[1]);
}
