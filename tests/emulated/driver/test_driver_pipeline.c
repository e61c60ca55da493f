/*
 * Programs for the units of Hopper GPUs that break no rule: copies with bounds and swizzle, copies
 * to a cluster, products of operands in each layout, and rings of stages.
 */
#include "hopper_kernels.h"

#include <symm/detail/convert.h>

TEST_GROUP(pipeline, 60, .setup = open_driver, .teardown = close_driver);

/* ---- Copies ---- */

enum { COLUMNS = 100, ROWS = 50, LINES = 32, BOX = LINES * 128 };

static uint16_t element_at(int64_t row, int64_t column)
{
    const bool inside = row >= 0 && row < ROWS && column >= 0 && column < COLUMNS;
    return inside ? (uint16_t)(1 + row * 251 + column) : 0;
}

static CUdeviceptr make_tensor(void)
{
    const size_t pitch = (COLUMNS + 7) / 8 * 8;
    CUdeviceptr data = device_memory(ROWS * pitch * HALF);
    uint16_t *x = (uint16_t *)(uintptr_t)data;
    for (size_t i = 0; i < ROWS * pitch; i++)
        x[i] =
            i % pitch < COLUMNS ? element_at((int64_t)(i / pitch), (int64_t)(i % pitch)) : 0xdead;
    return data;
}

static const int32_t places[][2] = {{0, 0},   {64, 20}, {36, 40}, {-10, -5},
                                    {-64, 3}, {100, 0}, {3, 7}};
enum { NPLACES = sizeof places / sizeof places[0] };

/* One thread loads, all threads check; block 0 for all if it multicasts. */
static void copies(const struct hopper_args *a)
{
    uint16_t *box = (uint16_t *)(void *)dynamic();
    begin_barrier(1);
    for (uint32_t i = 0; i < NPLACES; i++) {
        const int32_t *at = places[i];
        if (thread_index() == 0)
            unit->mbarrier_expect(&bars[0], BOX);
        unit->cluster_arrive();
        unit->cluster_wait();
        if (thread_index() == 0 && (a->transposed == 0 || unit->cluster_rank() == 0))
            unit->tensor_load(box, &a->map, 2, at, &bars[0], a->transposed);
        unit->mbarrier_wait(&bars[0], i & 1);
        for (uint32_t e = thread_index(); e < BOX / HALF; e += block_threads()) {
            const uint32_t place = a->value ? swizzled(e * HALF) / HALF : e;
            if (box[place] != element_at(at[1] + e / 64, at[0] + e % 64))
                atomic_fetch_add(a->count, 1);
        }
        unit->cluster_arrive();
        unit->cluster_wait();
    }
}

static const struct {
    int swizzle;
    unsigned cluster;
    uint32_t blocks;
} kinds_of_copies[] = {{CU_TENSOR_MAP_SWIZZLE_NONE, 1, 0},
                       {CU_TENSOR_MAP_SWIZZLE_128B, 1, 0},
                       {CU_TENSOR_MAP_SWIZZLE_128B, 2, 0},
                       {CU_TENSOR_MAP_SWIZZLE_128B, 4, 15}};

TEST_LOOP(pipeline, boxes_are_copied, 0, 4)
{
    static atomic_uint wrong;
    CUdeviceptr data = make_tensor();
    const unsigned cluster = kinds_of_copies[_i].cluster;
    const struct hopper_args a = {
        .map = map_of(data, COLUMNS, ROWS, LINES, kinds_of_copies[_i].swizzle),
        .body = copies,
        .count = &wrong,
        .transposed = kinds_of_copies[_i].blocks,
        .value = kinds_of_copies[_i].swizzle != CU_TENSOR_MAP_SWIZZLE_NONE};
    hopper_works((struct hopper_shape){2 * cluster, 64, cluster, BOX}, &a);
    ck_assert_uint_eq(atomic_load(&wrong), 0);
    OK(cu.cuMemFree(data));
}

/* ---- Products ---- */

enum { M = 64, DEPTH = 16, A_NBYTES = 16 << 10 };

static float of_a(uint32_t i, uint32_t k)
{
    return (float)((int)(i * 7 + k * 3) % 9 - 4);
}

static float of_b(uint32_t k, uint32_t j)
{
    return (float)((int)(k * 5 + j * 11) % 7 - 3);
}

/* The layouts of the PTX manual; each has bits of the descriptor and the place of an element. */
struct operand_layout {
    uint32_t width; /* of the swizzle; 16: none */
    bool transposed;
    uint32_t leading, stride; /* bytes */
};

static uint64_t descriptor_of(const struct operand_layout *x)
{
    const uint64_t mode = x->width == 16 ? 0 : x->width == 32 ? 3 : x->width == 64 ? 2 : 1;
    return mode << 62 | (uint64_t)(x->stride / 16) << 32 | (uint64_t)(x->leading / 16) << 16;
}

static uint32_t place_of(const struct operand_layout *x, uint32_t line, uint32_t k)
{
    const uint32_t unit_elements = x->width / 2;
    uint32_t at;
    if (x->transposed)
        at = k % 8 * x->width + line % unit_elements * 2 +
             (x->width == 16 ? line / 8 * x->stride + k / 8 * x->leading
                             : line / unit_elements * x->leading + k / 8 * x->stride);
    else
        at = line % 8 * x->width + line / 8 * x->stride +
             (x->width == 16 ? k / 8 * x->leading + k % 8 * 2 : k * 2);
    return x->width == 16 ? at : at ^ (at >> 7 & (x->width / 16 - 1)) << 4;
}

static const struct operand_layout *layout_of_a, *layout_of_b; /* of the product that runs */

static uint16_t bits_of(float x, uint32_t type)
{
    return type == SYMM_EMULATED_WGMMA_F16 ? symm_detail_to_f16(x) : symm_detail_to_bf16(x);
}

/* d = a b + a b; a->out: M x columns. */
static void product(const struct hopper_args *a)
{
    char *shared = dynamic();
    const uint64_t at = unit->in_shared(shared) / 16;
    float d[GROUP];
    for (uint32_t e = thread_index(); e < M * DEPTH; e += GROUP)
        *(uint16_t *)(void *)(shared + place_of(layout_of_a, e / DEPTH, e % DEPTH)) =
            bits_of(of_a(e / DEPTH, e % DEPTH), a->value);
    for (uint32_t e = thread_index(); e < a->columns * DEPTH; e += GROUP)
        *(uint16_t *)(void *)(shared + A_NBYTES + place_of(layout_of_b, e / DEPTH, e % DEPTH)) =
            bits_of(of_b(e % DEPTH, e / DEPTH), a->value);
    unit->fence_async();
    ops->sync_threads(0);
    struct symm_emulated_wgmma how = {.a = a->a + at,
                                      .b = a->b + at + A_NBYTES / 16,
                                      .columns = a->columns,
                                      .type = a->value,
                                      .a_transposed = layout_of_a->transposed,
                                      .b_transposed = layout_of_b->transposed};
    unit->wgmma_fence();
    unit->wgmma(d, &how);
    unit->wgmma_commit();
    how.add = 1;
    unit->wgmma(d, &how);
    unit->wgmma_commit();
    unit->wgmma_wait(1);
    if (d[0] == d[0]) /* no number until the last of them is retired */
        atomic_fetch_add(a->count, 1);
    unit->wgmma_wait(0);
    for (uint32_t i = 0; i < a->columns / 2; i++) {
        const uint32_t t = thread_index(), row = t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8,
                       column = i / 4 * 8 + t % 4 * 2 + i % 2;
        a->out[row * a->columns + column] = d[i];
    }
}

/* A of M lines, B of as many as the product has columns. */
static const struct {
    struct operand_layout a, b;
    uint32_t columns, type;
} products[] = {
    {{128, false, 0, 1024}, {128, false, 0, 1024}, 64, SYMM_EMULATED_WGMMA_F16},
    {{128, false, 0, 1024}, {128, false, 0, 1024}, 256, SYMM_EMULATED_WGMMA_BF16},
    {{128, true, 0, 1024}, {128, true, 2048, 1024}, 208, SYMM_EMULATED_WGMMA_BF16},
    {{128, true, 0, 1024}, {128, false, 0, 1024}, 144, SYMM_EMULATED_WGMMA_F16},
    {{64, true, 1024, 512}, {128, true, 8192, 1024}, 64, SYMM_EMULATED_WGMMA_F16},
    {{64, false, 0, 512}, {64, false, 0, 512}, 128, SYMM_EMULATED_WGMMA_F16},
    {{32, true, 512, 256}, {64, true, 1024, 512}, 96, SYMM_EMULATED_WGMMA_F16},
    {{16, true, 128, 256}, {32, false, 0, 256}, 40, SYMM_EMULATED_WGMMA_BF16},
    {{32, false, 0, 256}, {32, true, 512, 256}, 48, SYMM_EMULATED_WGMMA_F16},
    {{16, false, 128, 256}, {16, false, 128, 256}, 8, SYMM_EMULATED_WGMMA_F16},
    {{128, false, 0, 1024}, {16, true, 128, 256}, 24, SYMM_EMULATED_WGMMA_BF16},
};
enum { NPRODUCTS = sizeof products / sizeof products[0] };

/* The number of wrong elements, with other descriptors. */
static unsigned run_product(int i, uint64_t of_first, uint64_t of_second)
{
    static float out[M * 256];
    static atomic_uint early;
    const uint32_t n = products[i].columns;
    unsigned wrong = 0;
    const struct hopper_args a = {.body = product,
                                  .out = out,
                                  .count = &early,
                                  .a = of_first,
                                  .b = of_second,
                                  .columns = n,
                                  .value = products[i].type};
    layout_of_a = &products[i].a;
    layout_of_b = &products[i].b;
    hopper_works((struct hopper_shape){1, GROUP, 1, 96 << 10}, &a);
    ck_assert_uint_eq(atomic_load(&early), 0);
    for (uint32_t e = 0; e < M * n; e++) {
        float sum = 0;
        for (uint32_t k = 0; k < DEPTH; k++)
            sum += 2 * of_a(e / n, k) * of_b(k, e % n);
        wrong += out[e] != sum;
    }
    return wrong;
}

TEST_LOOP(pipeline, products_of_each_layout, 0, NPRODUCTS)
{
    ck_assert_uint_eq(
        run_product(_i, descriptor_of(&products[_i].a), descriptor_of(&products[_i].b)), 0);
}

/* Descriptors of an operand of this many lines that say something else; their number. */
static int wrong_descriptors(const struct operand_layout *right, uint32_t lines, uint64_t out[3])
{
    struct operand_layout x = *right;
    int n = 0;
    if (lines > 8 || right->transposed) {
        x.stride *= 2;
        out[n++] = descriptor_of(&x);
    }
    if (right->leading && (right->width == 16 || lines > right->width / 2)) {
        x = *right;
        x.leading += 128;
        out[n++] = descriptor_of(&x);
    }
    out[n++] = descriptor_of(right) ^ UINT64_C(1) << 62;
    return n;
}

/* A wrong stride or swizzle: other elements. */
TEST_LOOP(pipeline, wrong_descriptors_give_wrong_numbers, 0, NPRODUCTS)
{
    const uint64_t a = descriptor_of(&products[_i].a), b = descriptor_of(&products[_i].b);
    uint64_t others[3];
    for (int n = wrong_descriptors(&products[_i].a, M, others); n > 0; n--)
        ck_assert_uint_gt(run_product(_i, others[n - 1], b), 0);
    for (int n = wrong_descriptors(&products[_i].b, products[_i].columns, others); n > 0; n--)
        ck_assert_uint_gt(run_product(_i, a, others[n - 1]), 0);
}

/* ---- Warps in weakly ordered memory ---- */

enum { OVERWRITTEN = 100, WARP_LINES = M / 4 };

static void set_lines(char *shared, uint32_t warp, float x)
{
    for (uint32_t e = thread_index() % 32; e < WARP_LINES * DEPTH; e += 32)
        *(uint16_t *)(void *)(shared + place_of(layout_of_a, warp * WARP_LINES + e / DEPTH,
                                                e % DEPTH)) = bits_of(x, SYMM_EMULATED_WGMMA_F16);
}

/* Each warp clears the next one's lines of A when its own product is done. value: they meet. */
static void overwrite(const struct hopper_args *a)
{
    char *shared = dynamic();
    const uint64_t at = unit->in_shared(shared) / 16;
    const struct symm_emulated_wgmma how = {
        .a = a->a + at, .b = a->a + at, .columns = a->columns, .type = SYMM_EMULATED_WGMMA_F16};
    const uint32_t warp = thread_index() / 32;
    float d[4];

    for (uint32_t round = 0; round < OVERWRITTEN; round++) {
        set_lines(shared, warp, 1);
        unit->fence_async();
        ops->sync_threads(0);
        unit->wgmma_fence();
        unit->wgmma(d, &how);
        unit->wgmma_commit();
        unit->wgmma_wait(0);
        if (a->value)
            unit->bar_sync(1, GROUP);
        set_lines(shared, (warp + 1) % 4, 0);
        for (uint32_t i = 0; i < a->columns / 2; i++)
            if (d[i] != DEPTH)
                atomic_fetch_add(a->count, 1);
        ops->sync_threads(0);
    }
}

static unsigned wrong_after_overwriting(uint32_t meet)
{
    static atomic_uint wrong;
    const struct hopper_args a = {.body = overwrite,
                                  .count = &wrong,
                                  .a = descriptor_of(layout_of_a),
                                  .columns = 8,
                                  .value = meet};
    atomic_store(&wrong, 0);
    hopper_works((struct hopper_shape){8, GROUP, 1, 96 << 10}, &a);
    return atomic_load(&wrong);
}

TEST_GROUP(weak, 60);

TEST(weak, a_warp_may_be_done_before_the_others)
{
    setenv("SYMM_EMULATED_WEAK", "1", 1);
    setenv("SYMM_EMULATED_SEED", "3", 1);
    open_driver();
    layout_of_a = &products[9].a;
    ck_assert_uint_eq(wrong_after_overwriting(1), 0);
    ck_assert_uint_gt(wrong_after_overwriting(0), 0);
    close_driver();
}

/* ---- Barriers of some threads ---- */

enum { SYNCS = 50 };

/* Two warpgroups, each behind a barrier of its own: every round, a thread reads its neighbour's. */
static void rounds_of_groups(const struct hopper_args *a)
{
    const uint32_t t = thread_index(), group = t / GROUP, next = group * GROUP + (t + 33) % GROUP;
    atomic_uint *shared = (atomic_uint *)(void *)dynamic();
    for (uint32_t round = 0; round < SYNCS * (group + 1); round++) {
        atomic_store(&shared[t], round * 1000 + t);
        unit->bar_sync(1 + group, GROUP);
        if (atomic_load(&shared[next]) != round * 1000 + next)
            atomic_fetch_add(a->count, 1);
        unit->bar_sync(1 + group, GROUP);
    }
}

TEST(pipeline, barriers_of_some_threads)
{
    static atomic_uint wrong;
    const struct hopper_args a = {.body = rounds_of_groups, .count = &wrong};
    hopper_works((struct hopper_shape){2, 2 * GROUP, 1, 2 * GROUP * sizeof(atomic_uint)}, &a);
    ck_assert_uint_eq(atomic_load(&wrong), 0);
}

/* ---- Registers ---- */

static void shrink_and_grow(const struct hopper_args *a)
{
    (void)a;
    if (thread_index() < GROUP)
        unit->setmaxnreg(48, 0);
    else
        unit->setmaxnreg(216, 1);
}

TEST(pipeline, registers_are_shared)
{
    const struct hopper_args a = {.body = shrink_and_grow};
    hopper_works((struct hopper_shape){2, 3 * GROUP, 1, 0}, &a);
}

/* ---- A ring of stages ---- */

enum { STAGES = 3, STEPS = 20 };

/* One thread loads stages of two blocks; the warps of both release them. */
static void ring(const struct hopper_args *a)
{
    static _Thread_local uint64_t full[STAGES], empty[STAGES];
    char *stages = dynamic();
    const uint32_t rank = unit->cluster_rank(), warps = block_threads() / 32 - 1;
    if (thread_index() == 0) {
        for (uint32_t i = 0; i < STAGES; i++) {
            unit->mbarrier_init(&full[i], 1);
            unit->mbarrier_init(&empty[i], 2 * warps);
        }
        unit->fence_mbarrier_init();
        unit->fence_async();
    }
    unit->cluster_arrive();
    unit->cluster_wait();
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint32_t slot = step % STAGES, parity = step / STAGES & 1;
        const int32_t at[] = {(int32_t)step, (int32_t)(rank * LINES / 2)};
        char *to = stages + slot * BOX;
        if (thread_index() == 0) {
            unit->mbarrier_wait(&empty[slot], parity ^ 1);
            unit->mbarrier_expect(&full[slot], BOX);
            unit->tensor_load(to + rank * BOX / 2, &a->map, 2, at, &full[slot], 3);
        } else if (thread_index() >= 32) {
            unit->mbarrier_wait(&full[slot], parity);
            for (uint32_t e = thread_index() - 32; e < BOX / HALF; e += block_threads() - 32)
                if (((uint16_t *)(void *)to)[swizzled(e * HALF) / HALF] !=
                    element_at(e / 64, step + e % 64))
                    atomic_fetch_add(a->count, 1);
            ops->warp_exchange(~0u, &rank, 4, (uint32_t[32]){0});
            if (thread_index() % 32 < 2)
                unit->mbarrier_arrive(&empty[slot], thread_index() % 32);
        }
    }
    unit->cluster_arrive();
    unit->cluster_wait();
}

TEST(pipeline, a_ring_of_two_blocks)
{
    static atomic_uint wrong;
    CUdeviceptr data = make_tensor();
    const struct hopper_args a = {
        .map = map_of(data, COLUMNS, ROWS, LINES / 2, CU_TENSOR_MAP_SWIZZLE_128B),
        .body = ring,
        .count = &wrong};
    hopper_works((struct hopper_shape){6, 96, 2, STAGES * BOX}, &a);
    ck_assert_uint_eq(atomic_load(&wrong), 0);
    OK(cu.cuMemFree(data));
}
