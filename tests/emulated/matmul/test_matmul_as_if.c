/* Products that run as if they were of more ranks: ranks that differ. symm-bench checks results. */
#include <stdio.h>
#include <stdlib.h>
#include "ranks.h"
#include "test.h"
#include <symm/matmul.h>

enum { M = 12, N = 8, K = 8 };

static symm_tensor tensor(int rows, int columns)
{
    return (symm_tensor){
        .dtype = SYMM_BFLOAT16, .ndim = 2, .shape = {rows, columns}, .strides = {columns, 1}};
}

/* Each rank's description suits its own number of ranks. */
static void create_as_others(struct rank *self, void *arg)
{
    const int as_if = 3 + self->rank;
    const symm_matmul_desc desc = {.kind = SYMM_ALL_GATHER_MATMUL,
                                   .strategy = SYMM_STRATEGY_FUSED,
                                   .a = tensor(M / as_if, K),
                                   .b = {tensor(K, N)},
                                   .d = {tensor(M, N)}};
    symm_context *ctx = NULL;
    symm_matmul *m = NULL;
    char number[12];

    (void)arg;
    RANK_TRY(self, rank_join(self, &ctx));
    snprintf(number, sizeof number, "%d", as_if);
    setenv("SYMM_MATMUL_AS_IF", number, 1);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "as if 3 ranks",
                     symm_matmul_create(symm_context_world(ctx), &desc, &m));
    RANK_TEXT(self, "as if 4 ranks");
    CHECK_RANK(self, m == NULL);
out:
    symm_context_destroy(ctx);
}

TEST_GROUP(as_if, 60);

TEST(as_if, ranks_with_other_numbers_are_told)
{
    ranks_run_ok(2, RANKS_AS_PROCESSES, create_as_others, NULL, 30);
}
