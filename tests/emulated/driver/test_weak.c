/*
 * Weakly ordered memory of the emulated driver: each program runs with many seeds. An old value
 * that a GPU may show must be seen, and one that it may not show must never be.
 */
#include "driver_table.h"
#include "hand_kernels.h"
#include "weak_programs.h"

#include <sys/mman.h>

enum { DEVICE = 3, SEEDS = 400, REGS = 16 };

#define NEEDS_WEAK()                                                                               \
    if (TEST_TSAN)                                                                                 \
    TEST_SKIP("builds with ThreadSanitizer have no weakly ordered memory")

/* ---- The kernel that runs programs ---- */

struct litmus_args {
    char *vars, *raw;
    uint64_t *regs;
    const struct step (*program)[STEPS]; /* one for each thread, block after block */
    uint32_t *order;                     /* the threads in the order of their steps; or NULL */
    atomic_uint *turn;
};

static void add(void *at, const void *operand)
{
    uint64_t x;
    memcpy(&x, operand, sizeof x);
    __atomic_fetch_add((uint64_t *)at, x, __ATOMIC_RELAXED);
}

static void run_step(const struct litmus_args *a, const struct step *s)
{
    char *p = s->var == RAW ? a->raw : a->vars + 16 * s->var;
    uint64_t value[2] = {s->value, s->value}, got = 0;
    uint32_t all[32], lane = 0;
    switch (s->operation) {
    case WRITE:
        ops->write(p, s->nbytes, value, s->how);
        break;
    case READ:
        ops->read(p + s->value, s->nbytes, &a->regs[s->reg],
                  s->how); /* value: an offset in bytes */
        break;
    case UPDATE:
        ops->update(p, s->nbytes, value, add, s->how);
        break;
    case SETTLED:
        ops->settle(p, s->nbytes);
        add(p, value);
        break;
    case FENCE:
        ops->fence(s->how);
        break;
    case WAIT:
        while (ops->read(p, 8, &got, SYMM_EMULATED_RELAXED), got != s->value)
            ops->yield();
        break;
    case SYNC:
        ops->sync_threads(0);
        break;
    case SYNCWARP:
        ops->fence(SYMM_EMULATED_WARP);
        ops->warp_exchange(~0u, &lane, sizeof lane, all);
        break;
    case SHUFFLE:
        ops->warp_exchange(~0u, &lane, sizeof lane, all);
        break;
    default:
        break;
    }
}

static void litmus_run(const void *args)
{
    const struct litmus_args *a = args;
    uint32_t i = block_index() * block_threads() + thread_index();
    const struct step *s = a->program[i % THREADS];
    for (int n = 0; n < STEPS && s[n].operation != STOP; n++) {
        if (s[n].operation == REPEAT) { /* runs the previous steps `value` times */
            for (uint64_t more = 1; more < s[n].value; more++)
                for (int k = 0; k < n; k++)
                    run_step(a, &s[k]);
            continue;
        }
        run_step(a, &s[n]);
        if (a->order)
            a->order[atomic_fetch_add(a->turn, 1)] = i;
    }
}

static const struct symm_emulated_kernel litmus_kernel = {
    "litmus", litmus_run, sizeof(struct litmus_args), 1024, 0, 0, 1};
static const struct symm_emulated_kernel *const litmus_list[] = {&litmus_kernel};
static const struct symm_emulated_module litmus_module = {
    .magic = SYMM_EMULATED_MAGIC,
    .abi = SYMM_EMULATED_ABI,
    .first = litmus_list,
    .last = litmus_list + 1,
    .ops = &ops,
};

/* ---- A driver with weakly ordered memory ---- */

static CUstream stream;
static CUmodule module;
static CUfunction function;
static uint64_t regs[REGS];
static void (*set_seed)(uint64_t seed);

static void open_weak(int device)
{
    setenv("SYMM_EMULATED_WEAK", "1", 1);
    driver_open(device);
    OK(driver_lookup()("symm_emulated_set_seed", (void **)&set_seed, 0, 0, NULL));
    OK(cu.cuModuleLoadData(&module, &litmus_module));
    OK(cu.cuModuleGetFunction(&function, module, "litmus"));
    OK(cu.cuFuncLoad(function));
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ck_assert_uint_eq(ops->flags, SYMM_EMULATED_WEAK);
}

static void close_weak(int device)
{
    OK(cu.cuStreamDestroy(stream));
    OK(cu.cuModuleUnload(module));
    driver_close(device);
}

static char *new_vars(void)
{
    CUdeviceptr ptr;
    OK(cu.cuMemAlloc(&ptr, VARS * 16));
    return (char *)(uintptr_t)ptr;
}

static void free_vars(char *vars)
{
    OK(cu.cuMemFree((CUdeviceptr)(uintptr_t)vars));
}

static CUresult run(const struct litmus_args *args, unsigned blocks, unsigned threads)
{
    CUlaunchConfig config = {blocks, 1, 1, threads, 1, 1, 0, stream, NULL, 0};
    struct litmus_args copy = *args;
    OK(cu.cuLaunchKernelEx(&config, function, (void *[]){&copy}, NULL));
    return cu.cuStreamSynchronize(stream);
}

/* ---- Litmus tests ---- */

static bool contains(const struct litmus *l, const char *part)
{
    return strstr(l->name, part) != NULL;
}

/* Whether the run shows an old value. */
static bool is_old(const struct litmus *l, const char *vars)
{
    uint64_t x;
    memcpy(&x, vars + 16 * X, sizeof x);
    if (contains(l, "sums of all"))
        return x != l->value;
    if (contains(l, "a store and a load") || contains(l, "between a store and a load"))
        return regs[2] == 0 && regs[3] == 0;
    if (contains(l, "16 bytes"))
        return regs[4] != regs[5];
    ck_assert_msg(x != 0, "%s: the end of the kernel has lost a store", l->name);
    return regs[0] != l->value;
}

TEST_GROUP(litmus, 60);

TEST_LOOP(litmus, litmus, 0, sizeof programs / sizeof *programs)
{
    NEEDS_WEAK();
    const struct litmus *l = &programs[_i];
    struct litmus_args args = {.regs = regs, .program = l->program};
    unsigned old = 0;
    open_weak(DEVICE);
    args.vars = new_vars();
    /* Usually one run in ten shows it; fewer on a busy host. */
    unsigned seeds = l->old == SEEN ? 10 * SEEDS : SEEDS;
    for (uint64_t seed = 1; seed <= seeds && old == 0; seed++) {
        memset(args.vars, 0, VARS * 16);
        memset(regs, 0, sizeof regs);
        set_seed(seed);
        OK(run(&args, l->blocks, l->threads));
        old += is_old(l, args.vars);
    }
    ck_assert_msg((old > 0) == (l->old == SEEN), "%s: %s", l->name,
                  old ? "an old value was seen" : "no old value was ever seen");
    free_vars(args.vars);
    close_weak(DEVICE);
}

/* ---- Seeds and memory ---- */

/* Runs accesses of many kinds by many threads and returns their order. */
static void take_turns(uint64_t seed, uint32_t order[512])
{
    static const struct step busy[THREADS][STEPS] = {
        {W(X, 1), R(0, Y), BAR, ADD(Y, 1), REL, R(0, X), SET(F), BAR},
        {W(Y, 1), ACQ, BAR, R(0, X), R_(0, X, MC), SET(G), ADD(X, 1), BAR},
        {W_(G, 1, MC), R(0, F), BAR, ALIAS, R(0, X), SET(F), R(0, Y), BAR},
        {W_(F, 1, ASYNC), R(0, F), BAR, ALIAS, REL, SET(X), SET(Y), BAR},
    };
    static atomic_uint turn;
    atomic_store(&turn, 0);
    struct litmus_args args = {
        .vars = new_vars(), .regs = regs, .program = busy, .order = order, .turn = &turn};
    set_seed(seed);
    OK(run(&args, 1, 64));
    ck_assert_uint_eq(atomic_load(&turn), 512);
    free_vars(args.vars);
}

TEST_GROUP(rest, 60);

TEST(rest, the_seed_decides)
{
    NEEDS_WEAK();
    static uint32_t first[512], again[512], second[512];
    open_weak(DEVICE);
    take_turns(5, first);
    take_turns(6, second);
    take_turns(5, again);
    ck_assert_mem_eq(first, again, sizeof first);
    ck_assert_mem_ne(first, second, sizeof first);
    close_weak(DEVICE);
}

static uint32_t local_word;

/* Pageable memory of the program has the host's order. */
TEST(rest, own_memory)
{
    NEEDS_WEAK();
    static const struct step program[THREADS][STEPS] = {
        {{WRITE, RAW, 0, 4, 0, 7}, SET(F)}, {AWAIT(F), {READ, RAW, 0, 4, 0, 0}}, {END}, {END}};
    struct litmus_args args = {.raw = (char *)&local_word, .regs = regs, .program = program};
    setenv("SYMM_EMULATED_PAGEABLE", "1", 1);
    open_weak(DEVICE);
    args.vars = new_vars();
    for (uint64_t seed = 1; seed <= 50; seed++) {
        memset(args.vars, 0, VARS * 16);
        local_word = 0;
        memset(regs, 0, sizeof regs);
        set_seed(seed);
        OK(run(&args, 2, 1));
        ck_assert_uint_eq(regs[0], 7);
    }
    free_vars(args.vars);
    close_weak(DEVICE);
}

/* A block begins with values that the last block has read, but not from memory that was freed. */
TEST(rest, memory_that_is_gone)
{
    NEEDS_WEAK();
    static const struct step program[THREADS][STEPS] = {{R(0, X), R(0, Y), R_(0, F, MC)}};
    struct litmus_args args = {.regs = regs, .program = program};
    open_weak(DEVICE);
    char *stays = new_vars();
    for (uint64_t seed = 1; seed <= 20; seed++) {
        char *gone = new_vars();
        set_seed(seed);
        args.vars = gone;
        OK(run(&args, 1, 1));
        free_vars(gone);
        args.vars = stays;
        OK(run(&args, 1, 1));
    }
    free_vars(stays);
    close_weak(DEVICE);
}

/* Each case is a process, since the error sticks. */
static void fault(int access, char *raw, const char *part)
{
    const struct step step = {access ? WRITE : READ, RAW, 0, 8, 0, 0};
    const struct step program[THREADS][STEPS] = {{step}, {step}, {step}, {step}};
    struct litmus_args args = {.raw = raw, .regs = regs, .program = program};
    ck_assert_int_eq(run(&args, 1, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    driver_reported("3", "litmus", part);
}

TEST_GROUP(faults, 60, .uncounted = true);

TEST_LOOP(faults, faults_are_those_of_plain_accesses, 0, 6)
{
    NEEDS_WEAK();
    setenv("SYMM_EMULATED_LEAKS", "off", 1);
    open_weak(DEVICE);
    if (_i < 2) {
        fault(_i, (char *)(uintptr_t)0x10,
              "0x10 is memory of the host, or unmapped: a device cannot access it, by thread "
              "(0,0,0)");
    } else if (_i < 4) {
        fault(_i % 2, (char *)(uintptr_t)memory_reserve(GRANULE), "nothing is mapped at");
    } else {
        CUmemGenericAllocationHandle handle = memory_create(1, GRANULE);
        CUdeviceptr ptr = memory_reserve(GRANULE);
        OK(cu.cuMemMap(ptr, GRANULE, 0, handle, 0));
        if (_i == 5)
            memory_access(ptr, GRANULE, DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READ);
        fault(_i % 2, (char *)(uintptr_t)ptr,
              _i == 5 ? "device 3 may only read" : "device 3 has no access to");
    }
}

/* ---- Between processes ---- */

enum { ROUNDS = 150 };

/* Publishes on device 1, first without release, then with it. */
static void publisher(int socket)
{
    static const struct step program[2][THREADS][STEPS] = {{{W(X, 1), SET(F)}}, {PUBLISH}};
    open_weak(1);
    CUmemGenericAllocationHandle handle = memory_create(1, GRANULE);
    struct litmus_args args = {.regs = regs};
    int fd;
    args.vars = (char *)(uintptr_t)memory_map(handle, GRANULE, 1);
    OK(cu.cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    peer_send(socket, fd);
    close(fd);
    for (uint64_t round = 0; round < 2 * ROUNDS; round++) {
        memset(args.vars, 0, VARS * 16);
        args.program = program[round / ROUNDS];
        set_seed(round);
        peer_send(socket, -1);
        OK(run(&args, 1, 1));
        peer_receive(socket);
    }
    memory_unmap((CUdeviceptr)(uintptr_t)args.vars, GRANULE);
    OK(cu.cuMemRelease(handle));
    close_weak(1);
}

TEST(rest, messages_between_processes)
{
    NEEDS_WEAK();
    static const struct step program[THREADS][STEPS] = {CONSUME};
    struct peer peer = peer_start(publisher);
    open_weak(DEVICE);
    CUmemGenericAllocationHandle handle;
    int fd = peer_receive(peer.socket), old[2] = {0, 0};
    OK(cu.cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    struct litmus_args args = {.regs = regs, .program = program};
    args.vars = (char *)(uintptr_t)memory_map(handle, GRANULE, DEVICE);
    for (uint64_t round = 0; round < 2 * ROUNDS; round++) {
        peer_receive(peer.socket);
        set_seed(round);
        OK(run(&args, 1, 1));
        old[round / ROUNDS] += regs[0] != 1;
        peer_send(peer.socket, -1);
    }
    memory_unmap((CUdeviceptr)(uintptr_t)args.vars, GRANULE);
    OK(cu.cuMemRelease(handle));
    close_weak(DEVICE);
    PEER_OK(&peer);
    ck_assert_int_gt(old[0], 0);
    ck_assert_int_eq(old[1], 0);
}

/* ---- The setting ---- */

TEST(rest, without_the_setting)
{
    hand_open(DEVICE);
    ck_assert_uint_eq(ops->flags, 0);
    hand_close(DEVICE);
}

TEST_LOOP(rest, thread_sanitizer_is_refused, 0, 2)
{
    setenv("SYMM_EMULATED_WEAK", _i ? "2" : "1", 1);
    driver_load();
    ck_assert_int_eq(cu.cuInit(0), TEST_TSAN || _i ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}
