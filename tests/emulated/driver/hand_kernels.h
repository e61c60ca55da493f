/*
 * Kernels written in C against the binary interface of symm/detail/emulated.h, so that tests of the
 * driver need neither device headers nor the runtime. They use ordinary memory of the test.
 */
#ifndef TEST_HAND_KERNELS_H
#define TEST_HAND_KERNELS_H

#include <stdatomic.h>
#include <stdint.h>
#include <symm/detail/emulated.h>

static const struct symm_emulated_ops *ops;

/* The linear index of this thread in its block. */
static inline uint32_t thread_index(void)
{
    const struct symm_emulated_thread *self = ops->self();
    return self->thread.x +
           self->block_dim.x * (self->thread.y + self->block_dim.y * self->thread.z);
}

static inline uint32_t block_index(void)
{
    const struct symm_emulated_thread *self = ops->self();
    return self->block.x + self->grid_dim.x * (self->block.y + self->grid_dim.y * self->block.z);
}

static inline uint32_t block_threads(void)
{
    const struct symm_emulated_thread *self = ops->self();
    return self->block_dim.x * self->block_dim.y * self->block_dim.z;
}

struct hand_args {
    void *ptr;
    uint32_t *out;
    uint32_t value, stay;
    atomic_uint *go, *started, *most, *running;
};

/* Each thread stores its number in the grid plus value. */
static void hand_number(const void *args)
{
    const struct hand_args *a = args;
    uint32_t i = block_index() * block_threads() + thread_index();
    a->out[i] = i + a->value;
}

/* All threads wait for *go. Counts the blocks that run at the same time. */
static void hand_spin(const void *args)
{
    const struct hand_args *a = args;
    if (thread_index() == 0) {
        atomic_fetch_add(a->started, 1);
        unsigned now = atomic_fetch_add(a->running, 1) + 1, most = atomic_load(a->most);
        while (now > most && !atomic_compare_exchange_weak(a->most, &most, now))
            ;
    }
    while (atomic_load_explicit(a->go, memory_order_acquire) == 0)
        ops->yield();
    if (thread_index() == 0)
        atomic_fetch_sub(a->running, 1);
}

/* The same, without a promise that two blocks fit an SM. */
static void hand_spin_alone(const void *args)
{
    hand_spin(args);
}

/* The same with 112 registers a thread. */
static void hand_spin_with_112(const void *args)
{
    hand_spin(args);
}

/* All blocks of the grid wait for each other. */
static void hand_meet(const void *args)
{
    const struct hand_args *a = args;
    atomic_fetch_add(a->started, 1);
    while (atomic_load(a->started) < ops->self()->grid_dim.x * block_threads())
        ops->yield();
}

/* Ten rounds: each thread reads the value that its neighbour wrote in the same round. */
static void hand_sync(const void *args)
{
    const struct hand_args *a = args;
    static uint32_t shared[16][1024]; /* one row for each block */
    uint32_t n = block_threads(), i = thread_index(), *row = shared[block_index()];
    for (uint32_t round = 0; round < 10; round++) {
        row[i] = round * n + i;
        ops->sync_threads(0);
        uint32_t next = (i + 1) % n;
        if (row[next] != round * n + next)
            atomic_fetch_add(a->started, 1);
        int any = ops->sync_threads(round == 7 && i == n / 2);
        if (any != (round == 7))
            atomic_fetch_add(a->started, 1);
    }
}

/* Seven of eight threads end at once; half of the others come late to the barrier. */
static void hand_leave(const void *args)
{
    const struct hand_args *a = args;
    if (thread_index() % 8 != 0)
        return;
    if (thread_index() % 16 != 0)
        ops->yield();
    ops->sync_threads(0);
    atomic_fetch_add(a->started, 1);
}

/* Exchanges the lanes' numbers in full warps, in halves, and with lanes that have ended. */
static void hand_exchange(const void *args)
{
    const struct hand_args *a = args;
    uint32_t i = thread_index(), lane = i % 32, all[32], sum = 0;
    ops->warp_exchange(~0u, &i, sizeof i, all);
    for (uint32_t l = 0; l < 32 && i - lane + l < block_threads(); l++)
        if (all[l] != i - lane + l)
            atomic_fetch_add(a->started, 1);
    for (uint32_t l = 0; l < 32; l++)
        all[l] = 1000;
    ops->warp_exchange(lane < 16 ? 0xffffu : 0xffff0000u, &lane, sizeof lane, all);
    for (uint32_t l = 0; l < 32; l++)
        sum += all[l];
    uint32_t own = lane < 16 ? 15 * 8 : (16 + 31) * 8;
    if (block_threads() % 32 == 0 && sum != 16000 + own)
        atomic_fetch_add(a->started, 1);
    if (lane % 2)
        return;
    uint64_t wide[2] = {i, ~(uint64_t)i}, every[32][2] = {{0}};
    ops->warp_exchange(~0u, wide, sizeof wide, every);
    for (uint32_t l = 0; l < 32 && i - lane + l < block_threads(); l += 2)
        if (every[l][0] != i - lane + l || every[l][1] != ~(uint64_t)(i - lane + l))
            atomic_fetch_add(a->started, 1);
}

/* Records the order in which the threads run, twice. */
static void hand_order(const void *args)
{
    const struct hand_args *a = args;
    for (int pass = 0; pass < 2; pass++) {
        a->out[atomic_fetch_add(a->started, 1)] = thread_index();
        ops->yield();
    }
}

/* Appends value to out, with *started as the length, after `stay` turns. */
static void hand_append(const void *args)
{
    const struct hand_args *a = args;
    for (uint32_t i = 0; i < a->stay; i++)
        ops->yield();
    a->out[atomic_fetch_add(a->started, 1)] = a->value;
}

/* The last thread of the first block accesses ptr, while the others wait for it. */
static void hand_touch(const void *args)
{
    const struct hand_args *a = args;
    if (block_index() == 0 && thread_index() == block_threads() - 1)
        *(volatile uint32_t *)a->ptr = a->value;
    ops->sync_threads(0);
    if (block_index() == 0)
        atomic_fetch_add(a->started, 1);
}

/* Stores value at ptr, as device.cuh does. */
static void hand_reach(const void *args)
{
    const struct hand_args *a = args;
    *(uint32_t *)ops->home(a->ptr) = a->value;
}

/* Stores value to all replicas of `stay` bytes at ptr; out: their number, then their old values. */
static void hand_probe(const void *args)
{
    const struct hand_args *a = args;
    void *replicas[128];
    int n = ops->replicas(a->ptr, a->stay, replicas);
    a->out[0] = (uint32_t)n;
    for (int i = 0; i < n; i++) {
        a->out[1 + i] = *(uint32_t *)replicas[i];
        *(uint32_t *)replicas[i] = a->value;
    }
}

/* Allows the next kernel to begin if value is not 0, then waits for *go, and stores to ptr. */
static void hand_lead(const void *args)
{
    const struct hand_args *a = args;
    if (a->value)
        ops->pdl(SYMM_EMULATED_PDL_RELEASE);
    hand_spin(args);
    *(uint32_t *)a->ptr = a->value;
}

/* Begins, waits for the kernel before it, and appends the value at ptr to out. */
static void hand_follow(const void *args)
{
    const struct hand_args *a = args;
    atomic_fetch_add(a->started, 1);
    ops->pdl(SYMM_EMULATED_PDL_RELEASE);
    ops->pdl(SYMM_EMULATED_PDL_WAIT);
    a->out[atomic_fetch_add(a->most, 1)] = (*(uint32_t *)a->ptr)++;
}

/* Reads the word at ptr before and after the kernel before it has ended, into out[0] and out[1]. */
static void hand_reread(const void *args)
{
    const struct hand_args *a = args;
    ops->read(a->ptr, sizeof *a->out, &a->out[0], 0);
    atomic_fetch_add(a->started, 1);
    ops->pdl(SYMM_EMULATED_PDL_WAIT);
    ops->read(a->ptr, sizeof *a->out, &a->out[1], 0);
}

static void hand_fault(const void *args)
{
    const struct hand_args *a = args;
    ops->fault(a->value ? "misaligned packet" : "a packet without a receiver", a->ptr);
    atomic_fetch_add(a->started, 1);
}

/* One thread waits at the barrier, the others in a warp exchange with that thread. */
static void hand_diverge(const void *args)
{
    uint32_t all[32], i = thread_index();
    (void)args;
    if (i == 0)
        ops->sync_threads(0);
    else
        ops->warp_exchange(~0u, &i, sizeof i, all);
}

static uint32_t dive(uint32_t depth)
{
    volatile char frame[512];
    frame[depth % sizeof frame] = (char)depth;
    return depth == 0 ? 0 : dive(depth - 1) + (uint32_t)frame[depth % sizeof frame];
}

/* Uses more stack than a CUDA thread has. */
static void hand_dive(const void *args)
{
    ((const struct hand_args *)args)->out[0] = dive(1u << 20);
}

/* The same with one frame, which reaches far below the stack. */
static void hand_leap(const void *args)
{
    const struct hand_args *a = args;
    volatile char frame[512 << 10];
    frame[a->value] = 1; /* an index known at run time, so that the compiler keeps the array */
    a->out[0] = (uint32_t)frame[a->value];
}

/* X(name, most threads of a block, least blocks of an SM, registers of a thread or 0) */
#define HAND_KERNELS(X)                                                                            \
    X(number, 1024, 2, 0)                                                                          \
    X(spin, 256, 2, 0)                                                                             \
    X(spin_alone, 256, 1, 0)                                                                       \
    X(spin_with_112, 1024, 0, 112)                                                                 \
    X(meet, 256, 2, 0)                                                                             \
    X(sync, 1024, 2, 0)                                                                            \
    X(leave, 1024, 2, 0)                                                                           \
    X(exchange, 1024, 2, 0)                                                                        \
    X(order, 1024, 2, 0)                                                                           \
    X(append, 32, 1, 0)                                                                            \
    X(touch, 1024, 2, 0)                                                                           \
    X(reach, 32, 1, 0)                                                                             \
    X(probe, 32, 1, 0)                                                                             \
    X(lead, 32, 1, 0)                                                                              \
    X(follow, 32, 1, 0)                                                                            \
    X(reread, 32, 1, 0)                                                                            \
    X(fault, 32, 1, 0)                                                                             \
    X(diverge, 32, 1, 0)                                                                           \
    X(dive, 32, 1, 0)                                                                              \
    X(leap, 32, 1, 0)

#define HAND_DEFINE_(name, threads, blocks, registers)                                             \
    static const struct symm_emulated_kernel hand_##name##_kernel = {                              \
        #name, hand_##name, sizeof(struct hand_args), threads, 0, registers, blocks};
HAND_KERNELS(HAND_DEFINE_)
#undef HAND_DEFINE_

static const struct symm_emulated_kernel *const hand_list[] = {
#define HAND_LIST_(name, threads, blocks, registers) &hand_##name##_kernel,
    HAND_KERNELS(HAND_LIST_)
#undef HAND_LIST_
};

static const struct symm_emulated_module hand_module = {
    .magic = SYMM_EMULATED_MAGIC,
    .abi = SYMM_EMULATED_ABI,
    .first = hand_list,
    .last = hand_list + sizeof hand_list / sizeof hand_list[0],
    .ops = &ops,
};

/* ---- For the tests ---- */

static CUmodule hand_loaded;

/* The counters of the kernels. */
static atomic_uint go, started, most, running;

static inline struct hand_args hand_args(void)
{
    return (struct hand_args){.go = &go, .started = &started, .most = &most, .running = &running};
}

static inline CUfunction hand_unloaded_function(const char *name)
{
    CUfunction function;
    OK(cu.cuModuleGetFunction(&function, hand_loaded, name));
    return function;
}

static inline CUfunction hand_function(const char *name)
{
    CUfunction function = hand_unloaded_function(name);
    OK(cu.cuFuncLoad(function));
    return function;
}

/* Launches blocks x threads. The call must copy the argument. */
static inline CUresult hand_launch(CUfunction function, unsigned blocks, unsigned threads,
                                   const struct hand_args *args, CUstream stream)
{
    CUlaunchConfig config = {blocks, 1, 1, threads, 1, 1, 0, stream, NULL, 0};
    struct hand_args copy = *args;
    void *params[] = {&copy};
    CUresult result = cu.cuLaunchKernelEx(&config, function, params, NULL);
    memset(&copy, 0xee, sizeof copy);
    return result;
}

static inline void hand_wait_for(atomic_uint *counter, unsigned value)
{
    for (int i = 0; atomic_load(counter) < value && i < 100000; i++)
        usleep(100);
    ck_assert_uint_ge(atomic_load(counter), value);
}

static inline void hand_open(int device)
{
    driver_open(device);
    OK(cu.cuModuleLoadData(&hand_loaded, &hand_module));
    atomic_store(&go, 0);
    atomic_store(&started, 0);
    atomic_store(&most, 0);
    atomic_store(&running, 0);
}

static inline void hand_close(int device)
{
    OK(cu.cuModuleUnload(hand_loaded));
    driver_close(device);
}

#endif
