/* Which calls of NCCL symm runs: by equal arguments alone. */
#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include "nccl/take.h"
#include "runtime/group/context.h"
#include "runtime/group/tuning.h"
#include "test.h"

enum { MIB = 1 << 20 };

static struct nccl_binding binding = {.nranks = 4};
static struct nccl_comm comm = {.state = NCCL_COMM_ATTACHED, .binding = &binding};
static char in[1], out[1];

static bool takes(enum nccl_operation operation, ncclDataType_t type, ncclRedOp_t op, size_t count)
{
    const struct nccl_call call = {.comm = &comm,
                                   .operation = operation,
                                   .in = in,
                                   .out = out,
                                   .count = count,
                                   .type = type,
                                   .op = op};

    return nccl__takes(&call);
}

TEST_GROUP(take, 10);

TEST(take, types_and_reductions)
{
    /* Of each type: sum, prod, max, min, avg, and a reduction of the user's own. */
    static const char *const taken[ncclNumTypes] = {
        [ncclInt8] = "------",     [ncclUint8] = "------",      [ncclInt32] = "s-xn--",
        [ncclUint32] = "s-----",   [ncclInt64] = "s-xn--",      [ncclUint64] = "s-----",
        [ncclFloat16] = "s-xna-",  [ncclFloat32] = "s-xna-",    [ncclFloat64] = "s-xna-",
        [ncclBfloat16] = "s-xna-", [ncclFloat8e4m3] = "------", [ncclFloat8e5m2] = "------"};

    for (int type = 0; type < ncclNumTypes; type++)
        for (int op = 0; op <= ncclNumOps; op++) {
            const bool want = taken[type][op] != '-';
            ck_assert_int_eq(takes(NCCL_ALL_REDUCE, (ncclDataType_t)type, (ncclRedOp_t)op, 8),
                             want);
            ck_assert_int_eq(takes(NCCL_REDUCE_SCATTER, (ncclDataType_t)type, (ncclRedOp_t)op, 8),
                             want);
        }
    for (int type = 0; type < ncclNumTypes; type++)
        ck_assert(takes(NCCL_ALL_GATHER, (ncclDataType_t)type, ncclSum, 8));
    ck_assert(!takes(NCCL_ALL_GATHER, ncclNumTypes, ncclSum, 8));
    ck_assert(!takes(NCCL_ALL_REDUCE, (ncclDataType_t)-1, ncclSum, 8));
    ck_assert(!takes(NCCL_ALL_REDUCE, ncclFloat32, (ncclRedOp_t)-1, 8));
}

/* A number of the elements' type, as NCCL demands; of floating types. */
TEST(take, scaled_sums)
{
    struct nccl_call call = {.comm = &comm,
                             .operation = NCCL_ALL_REDUCE,
                             .in = in,
                             .out = out,
                             .count = 8,
                             .type = ncclBfloat16,
                             .op = ncclNumOps,
                             .scaled = true,
                             .scale = {.type = ncclBfloat16}};

    ck_assert(nccl__takes(&call));
    call.scale.type = ncclFloat32;
    ck_assert(!nccl__takes(&call));
    call.type = call.scale.type = ncclInt32;
    ck_assert(!nccl__takes(&call));
}

TEST(take, sizes)
{
    ck_assert(takes(NCCL_ALL_REDUCE, ncclFloat32, ncclSum, 4 * MIB));
    ck_assert(!takes(NCCL_ALL_REDUCE, ncclFloat32, ncclSum, 4 * MIB + 1));
    ck_assert(takes(NCCL_ALL_GATHER, ncclInt8, ncclSum, 4 * MIB));
    ck_assert(!takes(NCCL_ALL_GATHER, ncclInt8, ncclSum, 4 * MIB + 1));
    ck_assert(takes(NCCL_REDUCE_SCATTER, ncclFloat64, ncclSum, MIB / 2));
    ck_assert(!takes(NCCL_REDUCE_SCATTER, ncclFloat64, ncclSum, MIB / 2 + 1));
    ck_assert(takes(NCCL_ALL_REDUCE, ncclFloat32, ncclSum, 1));
    ck_assert(!takes(NCCL_ALL_REDUCE, ncclFloat32, ncclSum, 0));
}

/* Rows of other operations, types and numbers of ranks do not matter. */
TEST(take, a_table_that_was_measured_beside_nccl_decides)
{
    static const char rows[] = "symm-tuning 1\n"
                               "all-reduce 4 float32 any 0 low_latency\n"
                               "all-reduce 4 float32 any 1024 forward\n"
                               "all-reduce 4 float32 any 4096 two_shot\n"
                               "all-gather 4 any any 0 forward\n"
                               "all-gather 4 any any 16 one_shot\n"
                               "reduce-scatter 4 float32 any 64 one_shot\n"
                               "reduce-scatter 8 float32 any 64 forward\n";
    struct symm_context context = {.tuning = NULL};

    ck_assert_int_eq(symm__tuning_parse("rows", "", rows, sizeof rows - 1, &context.tuning),
                     SYMM_OK);
    binding.symm = &context;
    ck_assert(takes(NCCL_ALL_REDUCE, ncclFloat32, ncclSum, 255));
    ck_assert(!takes(NCCL_ALL_REDUCE, ncclFloat32, ncclSum, 256));
    ck_assert(!takes(NCCL_ALL_REDUCE, ncclFloat32, ncclSum, 1023));
    ck_assert(takes(NCCL_ALL_REDUCE, ncclFloat32, ncclSum, 1024));
    ck_assert(takes(NCCL_ALL_REDUCE, ncclFloat32, ncclSum, 40 * MIB));
    ck_assert(!takes(NCCL_ALL_REDUCE, ncclFloat64, ncclSum, 8)); /* not measured */
    ck_assert(!takes(NCCL_ALL_GATHER, ncclFloat8e4m3, ncclSum, 3));
    ck_assert(takes(NCCL_ALL_GATHER, ncclFloat8e4m3, ncclSum, 4));
    ck_assert(takes(NCCL_REDUCE_SCATTER, ncclFloat32, ncclSum, 1)); /* by its size */
    ck_assert(!takes(NCCL_REDUCE_SCATTER, ncclFloat32, ncclSum, MIB + 1));
    binding.symm = NULL;
    symm__tuning_destroy(context.tuning);
}

TEST(take, communicators_that_are_not_attached)
{
    atomic_store(&comm.state, NCCL_COMM_ATTACHING);
    ck_assert(!takes(NCCL_ALL_REDUCE, ncclFloat32, ncclSum, 1));
    atomic_store(&comm.state, NCCL_COMM_FORWARDED);
    ck_assert(!takes(NCCL_ALL_REDUCE, ncclFloat32, ncclSum, 1));
    ck_assert(!nccl__takes(&(struct nccl_call){.in = in, .out = out, .count = 1}));
}

TEST(take, settings)
{
    setenv("SYMM_NCCL_DETERMINISTIC", "1", 1);
    setenv("SYMM_NCCL_FORWARD", "reducescatter,nothing", 1);
    ck_assert(takes(NCCL_ALL_REDUCE, ncclFloat32, ncclSum, 40 * MIB));
    ck_assert(!takes(NCCL_ALL_GATHER, ncclInt8, ncclSum, 4 * MIB + 1));
    ck_assert(!takes(NCCL_REDUCE_SCATTER, ncclFloat32, ncclSum, 8));
}
