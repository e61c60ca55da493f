/* The table of protocols, and those of one kernel. */
#include "protocols.h"

#include <string.h>
#include "calls.h"
#include "ends.h"
#include "norms.h"
#include "products.h"

#define OK(call) stage_ok(st, (call), #call)

int protocols_pad(const struct protocol *p)
{
    return (int)(p - protocols);
}

/* ---- one kernel does it ---- */

struct launch {
    const char *kernel;
    uint32_t blocks;
    proof_args args;
};

static bool enqueue_launch(struct stage *st, void *arg)
{
    const struct launch *l = arg;
    return stage_launch(st, l->kernel, l->blocks, &l->args, sizeof l->args, st->stream);
}

static bool run_kernel(struct stage *st, const struct protocol *p, struct draw *draw)
{
    struct launch l = {.kernel = p->kernel, .args = stage_args(st, protocols_pad(p))};
    l.blocks = p->least_blocks + draw_below(draw, p->most_blocks - p->least_blocks + 1);
    l.args.rounds = 2 + draw_below(draw, 3);
    l.args.packs = 1 + draw_below(draw, PROOF_PACKS);
    l.args.shift = draw_below(draw, 64);
    l.args.way = p->first_way + draw_below(draw, p->ways);
    l.args.variant = draw_below(draw, p->variants);
    return stage_repeat(st, draw, enqueue_launch, &l);
}

/* ---- the table ---- */

/* clang-format off */
#define KERNEL(name_, first_, ways_, variants_, least_, most_)                                     \
    {.name = #name_, .run = run_kernel, .kernel = "proof_" #name_, .first_way = first_,            \
     .ways = ways_, .variants = variants_, .least_blocks = least_, .most_blocks = most_}
#define MULTICAST(name_, kernel_, first_, ways_, variants_, least_, most_)                         \
    {.name = #name_, .run = run_kernel, .kernel = "proof_" #kernel_, .first_way = first_,          \
     .ways = ways_, .variants = variants_, .least_blocks = least_, .most_blocks = most_,           \
     .multicast = true}
#define COLLECTIVE(name_, operation_, algo_, multicast_)                                           \
    {.name = #name_, .run = calls_run_collective, .operation = operation_,                         \
     .algo = SYMM_ALGO_##algo_, .multicast = multicast_}
#define NORM(algo_, value_)                                                                        \
    {.name = "rms_norm_" #algo_, .run = norms_run, .algo = SYMM_ALGO_##value_}
#define PRODUCT(name_, strategy_)                                                                  \
    {.name = #name_, .run = products_run, .algo = SYMM_STRATEGY_##strategy_,                       \
     .product = SYMM_ALL_GATHER_MATMUL}
#define COLLECTED(name_, kind_, strategy_)                                                         \
    {.name = #name_, .run = products_run, .algo = SYMM_STRATEGY_##strategy_,                       \
     .product = SYMM_MATMUL_##kind_}
#define HOPPER(name_, strategy_)                                                                   \
    {.name = #name_, .run = products_hopper, .algo = SYMM_STRATEGY_##strategy_, .wide = true,      \
     .product = SYMM_ALL_GATHER_MATMUL}
#define HOPPER_COLLECTED(name_, kind_)                                                             \
    {.name = #name_, .run = products_hopper, .algo = SYMM_STRATEGY_FUSED, .wide = true,            \
     .whole_k = true, .product = SYMM_MATMUL_##kind_}

const struct protocol protocols[] = {
    KERNEL(barrier, 0, PROOF_UNICAST, 2, 1, 3),
    MULTICAST(barrier_multicast, barrier, PROOF_SPREAD, 3, 2, 1, 2),
    KERNEL(split, 0, PROOF_UNICAST, 2, 1, 3),
    MULTICAST(split_multicast, split, PROOF_SPREAD, 3, 2, 1, 2),
    KERNEL(agree, 0, PROOF_UNICAST, 1, 1, 3),
    KERNEL(insist, 0, PROOF_UNICAST, 1, 1, 3),
    KERNEL(flight, 0, PROOF_UNICAST, 1, 1, 2),
    KERNEL(grid_sync, 0, 1, 1, 2, 4),
    KERNEL(grid_barrier, 0, PROOF_UNICAST, 1, 2, 4),
    MULTICAST(grid_barrier_multicast, grid_barrier, PROOF_SPREAD, 3, 1, 2, 3),
    KERNEL(signal, 0, 1, 3, 1, 3),
    KERNEL(pairs, 0, PROOF_UNICAST, 1, 1, 3),
    KERNEL(peek, 0, 1, 1, 2, 4),
    KERNEL(put, 0, 1, 3, 1, 3),
    KERNEL(red_add, 0, 1, 3, 1, 2),
    MULTICAST(multimem_red, multimem_red, 0, 1, 3, 1, 2),
    KERNEL(packets, 0, 1, 2, 1, 3),
    KERNEL(block_sum, 0, 1, 1, 1, 2),
    {.name = "stream_signal", .run = calls_run_signals},
    {.name = "stream_barrier", .run = calls_run_barriers},
    COLLECTIVE(low_latency, ALL_REDUCE, LOW_LATENCY, false),
    COLLECTIVE(low_latency_two_shot, ALL_REDUCE, LOW_LATENCY_TWO_SHOT, false),
    COLLECTIVE(lamport, ALL_REDUCE, LAMPORT, false),
    COLLECTIVE(one_shot, ALL_REDUCE, ONE_SHOT, false),
    COLLECTIVE(two_shot, ALL_REDUCE, TWO_SHOT, false),
    COLLECTIVE(multimem, ALL_REDUCE, MULTIMEM, true),
    COLLECTIVE(multimem_one_shot, ALL_REDUCE, MULTIMEM_ONE_SHOT, true),
    COLLECTIVE(reduce_scatter_low_latency, REDUCE_SCATTER, LOW_LATENCY, false),
    COLLECTIVE(reduce_scatter_lamport, REDUCE_SCATTER, LAMPORT, false),
    COLLECTIVE(reduce_scatter_one_shot, REDUCE_SCATTER, ONE_SHOT, false),
    COLLECTIVE(reduce_scatter_multimem, REDUCE_SCATTER, MULTIMEM, true),
    COLLECTIVE(all_gather_low_latency, ALL_GATHER, LOW_LATENCY, false),
    COLLECTIVE(all_gather_one_shot, ALL_GATHER, ONE_SHOT, false),
    COLLECTIVE(all_gather_multimem, ALL_GATHER, MULTIMEM, true),
    COLLECTIVE(broadcast_low_latency, BROADCAST, LOW_LATENCY, false),
    COLLECTIVE(broadcast_one_shot, BROADCAST, ONE_SHOT, false),
    COLLECTIVE(broadcast_multimem, BROADCAST, MULTIMEM, true),
    COLLECTIVE(copy_engine, ALL_REDUCE, COPY_ENGINE, false),
    COLLECTIVE(reduce_scatter_copy_engine, REDUCE_SCATTER, COPY_ENGINE, false),
    COLLECTIVE(all_gather_copy_engine, ALL_GATHER, COPY_ENGINE, false),
    COLLECTIVE(broadcast_copy_engine, BROADCAST, COPY_ENGINE, false),
    {.name = "mixture", .run = calls_run_mixture},
    {.name = "roots", .run = calls_run_roots},
    NORM(low_latency, LOW_LATENCY),
    NORM(low_latency_two_shot, LOW_LATENCY_TWO_SHOT),
    NORM(lamport, LAMPORT),
    HOPPER(hopper_fused, FUSED),
    HOPPER(hopper_pipelined, PIPELINED),
    HOPPER(hopper_unfused, UNFUSED),
    HOPPER_COLLECTED(hopper_reduce_scatter, REDUCE_SCATTER),
    HOPPER_COLLECTED(hopper_all_reduce, ALL_REDUCE),
    HOPPER_COLLECTED(hopper_all_scatter, ALL_SCATTER),
    {.name = "hopper_stream_k", .run = products_stream_k, .algo = SYMM_STRATEGY_FUSED, .wide = true,
     .stream_k = true, .whole_k = true, .product = SYMM_MATMUL_ALL_REDUCE},
    {.name = "rms_norm_clusters", .run = norms_run, .algo = SYMM_ALGO_LOW_LATENCY, .wide = true},
    {.name = "hopper_bands", .run = products_bands, .algo = SYMM_STRATEGY_FUSED, .wide = true,
     .multicast = true, .any_order = true, .whole_k = true, .product = SYMM_MATMUL_ALL_REDUCE},
    {.name = "hopper_plain", .run = products_plain, .algo = SYMM_STRATEGY_UNFUSED, .wide = true,
     .product = SYMM_ALL_GATHER_MATMUL},
    {.name = "hopper_packs", .run = products_packs, .algo = SYMM_STRATEGY_FUSED, .wide = true,
     .product = SYMM_MATMUL_ALL_REDUCE},
    PRODUCT(matmul_fused, FUSED),
    PRODUCT(matmul_pipelined, PIPELINED),
    PRODUCT(matmul_unfused, UNFUSED),
    COLLECTED(matmul_reduce_scatter, REDUCE_SCATTER, UNFUSED),
    COLLECTED(matmul_all_reduce, ALL_REDUCE, UNFUSED),
    COLLECTED(matmul_all_scatter, ALL_SCATTER, UNFUSED),
    COLLECTED(matmul_reduce_scatter_fused, REDUCE_SCATTER, FUSED),
    COLLECTED(matmul_all_reduce_fused, ALL_REDUCE, FUSED),
    COLLECTED(matmul_all_scatter_fused, ALL_SCATTER, FUSED),
    COLLECTED(matmul_reduce_scatter_pipelined, REDUCE_SCATTER, PIPELINED),
    {.name = "matmul_late", .run = products_late, .algo = SYMM_STRATEGY_FUSED,
     .product = SYMM_ALL_GATHER_MATMUL},
    {.name = "wrap", .run = calls_run_wrap},
    {.name = "record", .run = ends_run_record, .kernel = "proof_wait_long"},
    {.name = "abort", .run = ends_run_abort, .ends = true},
    {.name = "silence", .run = ends_run_silence, .kernel = "proof_wait_for_ever", .ends = true},
    {.name = "matmul_silence", .run = products_silence, .algo = SYMM_STRATEGY_FUSED, .ends = true,
     .product = SYMM_ALL_GATHER_MATMUL},
    {.name = "hearsay", .run = ends_run_hearsay, .kernel = "proof_dawdle", .ends = true},
    {.name = "mismatch", .run = ends_run_mismatch, .kernel = "proof_insist", .ends = true},
};
/* clang-format on */
_Static_assert(sizeof protocols / sizeof protocols[0] <= PROTOCOLS_MAX, "no pad for some protocol");

int protocols_count(void)
{
    return sizeof protocols / sizeof protocols[0];
}

bool protocols_open(struct stage *st, struct rank *self, struct hall *hall)
{
    bool ok = stage_open(st, self, hall) && stage_kernel(st, "proof_data") &&
              stage_kernel(st, "proof_product_data") && stage_kernel(st, "proof_send_late");
    for (int p = 0; ok && p < protocols_count(); p++)
        ok = !protocols[p].kernel || stage_kernel(st, protocols[p].kernel);
    return ok && OK(symm_exchange(st->group, NULL, 0, NULL));
}

int protocols_find(const char *name)
{
    for (int p = 0; p < protocols_count(); p++)
        if (strcmp(protocols[p].name, name) == 0)
            return p;
    return -1;
}
