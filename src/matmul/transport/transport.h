/* The transport of A's rows: the memory and signals it needs, and the parts of a run. */
#ifndef SYMM_MATMUL_TRANSPORT_H
#define SYMM_MATMUL_TRANSPORT_H

#include "matmul/plan/plan.h"
#include "matmul/trace/trace.h"
#include "runtime/group/call.h"
#include "runtime/group/side_stream.h"

/* The transport of a product, for all of its runs. */
struct symm_transport {
    const struct symm_group *group;
    const struct symm_problem *problem;
    const struct symm_matmul_plan *plan;
    symm_view view;  /* of the product's kernels: the group's, with the product's trace */
    char *workspace; /* symmetric; NULL: nothing is gathered */
    symm_signal_pad *pad;
    uint64_t *signal_values; /* copy engines copy them to the receivers' pads; NULL: SMs send */
    uint32_t *tickets;       /* of units, see symm_push_args; NULL: copy engines send */
    symm_round_state *round; /* NULL: all rows are present */
};

/* Allocates the memory of runs, owned by `owner`, for a plan with a workspace. Collective. */
symm_status symm__transport_alloc(struct symm_call *call, void *owner, struct symm_transport *t);

/* Clears that memory and creates the side streams. Local; before the first signal of any rank. */
symm_status symm__transport_prepare(struct symm_call *call, struct symm_transport *t);

/* How rows arrive, for the product. */
symm_arrival_plan symm__transport_arrivals(const struct symm_transport *t);

/* The chunks that SMs send in a run. */
uint32_t symm__transport_sends(const struct symm_transport *t);

/*
 * Sets *out to the shards of this run. First copies this rank's rows to its slab if they cannot be
 * sent in place.
 */
symm_status symm__transport_locate(struct symm_call *call, const struct symm_transport *t,
                                   const struct symm_problem *p, symm_shards *out);

/* The transfers of one run. */
struct symm_round {
    const struct symm_transport *t;
    struct symm_call *call;
    const symm_shards *shards;
    struct symm_side_stream *side;
    uint32_t sender_nbytes; /* shared memory of a matmul_push_free_sms block, by the product */
};

/* Sends this rank's rows to all others on the side stream, which follows the last mark. */
symm_status symm__transport_open(const struct symm_round *round);

/*
 * Waits on the call's stream until all rows of the rank of a step have arrived. The wait of the
 * last step ends the run's arrivals; a fused product does it itself.
 */
symm_status symm__transport_await(const struct symm_call *call, const struct symm_transport *t,
                                  int step);

/* Makes the areas that symm_all_gather needs for all rows. Collective, during the create. */
symm_status symm__transport_provide(struct symm_call *call, const struct symm_transport *t);
/* Gathers all rows by symm_all_gather. */
symm_status symm__transport_all_gather(struct symm_call *call, const struct symm_transport *t,
                                       const symm_shards *shards);

/* Copies all of A to the matrix, if it has data. All rows have arrived. */
symm_status symm__transport_copy(struct symm_call *call, const struct symm_transport *t,
                                 const symm_shards *shards, const symm_matrix *to);

#endif
