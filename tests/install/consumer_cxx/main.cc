// A C++11 program outside of symm's tree: the headers compile, the library links, memory is allocated
// and freed, kernels of two files run.
#include <symm/collectives.h>
#include <symm/matmul.h>
#include <symm/dlpack.h>
#include <symm/stream.h>
#include <cstdio>
#include "kernels.h"

extern const symm_image first_one_kernels;

static bool run(symm_context *ctx, const char *name, const add_args &a)
{
    symm_kernel *kernel = nullptr;
    symm_grid grid = symm_grid();

    grid.blocks = 1;
    grid.threads = 32;
    return symm_kernel_load(ctx, &first_one_kernels, name, &kernel) == SYMM_OK &&
           symm_launch(symm_context_world(ctx), kernel, &grid, &a, sizeof a, nullptr) == SYMM_OK;
}

int main()
{
    symm_config config = symm_config();
    symm_context *ctx = nullptr;
    void *p = nullptr;
    float x[32] = {1}, want = 1 + 5 - 3;

    config.driver = "emulated";
    bool ok = symm_context_create(&config, &ctx) == SYMM_OK &&
              symm_alloc(symm_context_world(ctx), sizeof x, &p) == SYMM_OK &&
              symm_peer(symm_context_world(ctx), p, symm_rank(symm_context_world(ctx))) == p &&
              symm_copy(p, x, sizeof x, nullptr) == SYMM_OK &&
              run(ctx, "add", add_args{static_cast<float *>(p), 5}) &&
              run(ctx, "subtract", add_args{static_cast<float *>(p), 3}) &&
              symm_copy(x, p, sizeof x, nullptr) == SYMM_OK &&
              symm_synchronize(symm_context_world(ctx), nullptr) == SYMM_OK;
    if (!ok)
        std::fprintf(stderr, "%s\n", symm_error_text());
    else if (x[0] != want || x[31] != want - 1)
        std::fprintf(stderr, "%g and %g\n", x[0], x[31]);
    ok = ok && x[0] == want && x[31] == want - 1;
    return symm_context_destroy(ctx) == SYMM_OK && ok ? 0 : 1;
}
