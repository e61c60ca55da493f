/*
 * One block of a grid, on one thread of the operating system. Its CUDA threads are fibers, run in
 * passes: each pass resumes every thread that can run, in an order drawn from the seed. Threads
 * that wait for others (a barrier, a warp exchange) are in no pass until the last of those has
 * come. A thread that never gives way needs no fiber of its own: the next one runs after it on the
 * same stack.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <ucontext.h>
#include "fiber.h"
#include "grid.h"

#define WARP 32u
#define EXCHANGE_NBYTES 16u

/*
 * A pass in which every thread only polled gives the processor away, and after some of those in a
 * row sleeps: far more blocks may be polling than the machine has processors.
 */
#define PASSES_BEFORE_SLEEP 50u
#define SLEEP_MIN_NS 5000l
#define SLEEP_MAX_NS 100000l

/* A stack that runs one CUDA thread after another. */
struct carrier {
    struct emu_fiber fiber;
    struct cuda_thread *thread; /* NULL: idle */
};

struct cuda_thread {
    struct symm_emulated_thread self;
    struct carrier *carrier; /* NULL: not begun yet, or ended */
    unsigned index;
    /* What it brought to the warp exchange in which it waits. */
    uint32_t mask; /* 0: it waits in none */
    size_t nbytes;
    const void *mine;
    void *all;
};

struct block {
    struct emu_grid *grid;
    struct symm_emulated_dim index;
    unsigned nthreads, ended;
    struct cuda_thread *threads;

    /* The pass: ready[] is visited from `at` in steps of `step`; next[] is the pass after it. */
    unsigned *ready, *next;
    unsigned nready, nnext, left, at, step;
    bool progress;
    unsigned idle_passes;
    uint64_t random;

    /* __syncthreads_or; two results, since threads may still read one while others wait again. */
    unsigned *waiting;
    unsigned nwaiting, round;
    int any, result[2];

    struct cuda_thread *running; /* NULL: no fiber runs */
    struct carrier **carriers, **idle;
    unsigned ncarriers, nidle, capacity;

    int fault_signal; /* of the fiber that ran; 0: none */
    bool fault_misaligned;
    const void *fault_address;

    char sync_begin, sync_end, sync_round[2]; /* for EMU_RELEASE and EMU_ACQUIRE */
    void *signal_stack;
};

static _Thread_local struct block *this_block;

/* ---- Faults ---- */

EMU_UNCHECKED static void device_fault(struct block *b, CUresult error, const char *rule)
{
    const struct cuda_thread *t = b->running;
    char where[96] = "";
    if (t)
        snprintf(where, sizeof where, ", by thread (%u,%u,%u) of block (%u,%u,%u)",
                 t->self.thread.x, t->self.thread.y, t->self.thread.z, b->index.x, b->index.y,
                 b->index.z);
    emu__rule_at(b->grid->device->ordinal, b->grid->kernel->name, error, "%s%s", rule, where);
    emu__device_fail(b->grid->device, error);
}

/* Ends the thread that runs, for good; the pass sees that the device has failed and ends the block.
 */
__attribute__((noreturn)) EMU_UNCHECKED static void leave(struct block *b)
{
    struct carrier *carrier = b->running->carrier;
    EMU_RELEASE(&b->sync_end);
    for (;;)
        emu__fiber_suspend(&carrier->fiber);
}

/* Where a fiber continues after the signal handler, on its own emptied stack. */
__attribute__((noreturn, no_sanitize("address"))) EMU_UNCHECKED static void after_fault(void)
{
    leave(this_block);
}

static void set_context(ucontext_t *context, void (*pc)(void), void *stack_top)
{
#if defined(__x86_64__)
    /* As after a call: the return address lies below an aligned stack pointer. */
    context->uc_mcontext.gregs[REG_RSP] = (greg_t)(uintptr_t)stack_top - 8;
    context->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)pc;
#else
    context->uc_mcontext.sp = (uintptr_t)stack_top;
    context->uc_mcontext.pc = (uintptr_t)pc;
#endif
}

static struct sigaction previous_segv, previous_bus;

EMU_UNCHECKED static void on_fault(int sig, siginfo_t *info, void *context)
{
    struct block *b = this_block;
    if (b && b->running && b->running->carrier && !b->fault_signal) {
        b->fault_signal = sig;
        b->fault_address = info->si_addr;
        b->fault_misaligned = sig == SIGBUS && info->si_code == BUS_ADRALN;
        set_context(context, after_fault, emu__fiber_top(&b->running->carrier->fiber));
        return;
    }
    const struct sigaction *previous = sig == SIGBUS ? &previous_bus : &previous_segv;
    if (previous->sa_flags & SA_SIGINFO)
        previous->sa_sigaction(sig, info, context);
    else if (previous->sa_handler != SIG_DFL && previous->sa_handler != SIG_IGN)
        previous->sa_handler(sig);
    else
        sigaction(sig, previous, NULL); /* the access runs again and has its default end */
}

static void catch_faults_once(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
}

void emu__block_catch_faults(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, catch_faults_once);
}

/* Reports the fault that made the fiber leave. Runs outside of fibers. */
static void report_fault(struct block *b)
{
    char text[256] = "the stack of a CUDA thread is exhausted";
    if (!emu__fiber_overflowed(&b->running->carrier->fiber, b->fault_address))
        emu__describe(b->grid->device, b->fault_address, text, sizeof text);
    device_fault(
        b, b->fault_misaligned ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_ERROR_ILLEGAL_ADDRESS, text);
    b->fault_signal = 0;
}

/* ---- Waiting for other threads of the block ---- */

EMU_UNCHECKED static void make_ready(struct block *b, struct cuda_thread *t)
{
    b->next[b->nnext++] = t->index;
}

EMU_UNCHECKED static void suspend(struct block *b, struct cuda_thread *t)
{
    EMU_RELEASE(&b->sync_end); /* it may be abandoned here */
    emu__fiber_suspend(&t->carrier->fiber);
}

/* All threads that have not ended are at the barrier: opens it. */
EMU_UNCHECKED static void open_barrier(struct block *b)
{
    b->result[b->round & 1] = b->any;
    b->any = 0;
    b->round++;
    for (unsigned i = 0; i < b->nwaiting; i++)
        b->next[b->nnext++] = b->waiting[i];
    b->nwaiting = 0;
    b->progress = true;
}

EMU_UNCHECKED static int op_sync_threads(int value)
{
    struct block *b = this_block;
    struct cuda_thread *t = b->running;
    unsigned round = b->round;
    b->any |= value != 0;
    b->progress = true;
    EMU_RELEASE(&b->sync_round[round & 1]);
    if (b->nwaiting + 1 + b->ended == b->nthreads) {
        open_barrier(b);
    } else {
        b->waiting[b->nwaiting++] = t->index;
        suspend(b, t);
    }
    EMU_ACQUIRE(&b->sync_round[round & 1]);
    return b->result[round & 1];
}

EMU_UNCHECKED static void op_yield(void)
{
    struct block *b = this_block;
    make_ready(b, b->running);
    suspend(b, b->running);
}

/* The warp of t: its first thread, and how many it has. */
EMU_UNCHECKED static struct cuda_thread *warp_of(struct block *b, const struct cuda_thread *t,
                                                 unsigned *nlanes)
{
    unsigned first = t->index / WARP * WARP;
    *nlanes = b->nthreads - first < WARP ? b->nthreads - first : WARP;
    return &b->threads[first];
}

EMU_UNCHECKED static bool has_ended(const struct cuda_thread *t)
{
    return t->self.block_dim.x == 0;
}

/* Gives every lane of `came` what each of them brought. */
EMU_UNCHECKED static void hand_out(struct cuda_thread *warp, uint32_t came, size_t nbytes)
{
    char gathered[WARP * EXCHANGE_NBYTES];
    for (uint32_t from = came; from; from &= from - 1) {
        unsigned lane = (unsigned)__builtin_ctz(from);
        memcpy(gathered + lane * nbytes, warp[lane].mine, nbytes);
    }
    for (uint32_t rest = came; rest;) {
        unsigned first = (unsigned)__builtin_ctz(rest);
        uint32_t ended = ~(rest >> first);
        unsigned run = ended ? (unsigned)__builtin_ctz(ended) : WARP;
        for (uint32_t to = came; to; to &= to - 1)
            memcpy((char *)warp[__builtin_ctz(to)].all + first * nbytes, gathered + first * nbytes,
                   run * nbytes);
        rest = first + run < WARP ? rest >> (first + run) << (first + run) : 0;
    }
}

/* If every lane of the mask that has not ended waits for just this: hands out, wakes the others. */
EMU_UNCHECKED static bool complete_exchange(struct block *b, struct cuda_thread *warp,
                                            unsigned nlanes, const struct cuda_thread *like,
                                            const struct cuda_thread *last)
{
    uint32_t mask = like->mask, came = 0;
    for (unsigned lane = 0; lane < nlanes; lane++) {
        if (!(mask >> lane & 1) || has_ended(&warp[lane]))
            continue;
        if (warp[lane].mask != mask || warp[lane].nbytes != like->nbytes)
            return false;
        came |= 1u << lane;
    }
    EMU_ACQUIRE(warp);
    hand_out(warp, came, like->nbytes);
    EMU_RELEASE(warp);
    for (uint32_t rest = came; rest; rest &= rest - 1) {
        struct cuda_thread *t = &warp[__builtin_ctz(rest)];
        t->mask = 0;
        if (t != last)
            make_ready(b, t);
    }
    b->progress = true;
    return true;
}

EMU_UNCHECKED static void op_fault(const char *rule, const void *ptr)
{
    struct block *b = this_block;
    bool misaligned = strncmp(rule, "misaligned", strlen("misaligned")) == 0;
    char text[320];
    snprintf(text, sizeof text, ptr ? "%s at %p" : "%s", rule, ptr);
    device_fault(b, misaligned ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_ERROR_ILLEGAL_ADDRESS, text);
    leave(b);
}

EMU_UNCHECKED static void op_warp_exchange(uint32_t mask, const void *mine, size_t nbytes,
                                           void *all)
{
    struct block *b = this_block;
    struct cuda_thread *t = b->running;
    unsigned nlanes;
    struct cuda_thread *warp = warp_of(b, t, &nlanes);
    if (!(mask >> t->index % WARP & 1))
        op_fault("a warp exchange whose mask leaves out the calling thread", NULL);
    if (nbytes > EXCHANGE_NBYTES)
        op_fault("a warp exchange of more than 16 bytes", NULL);
    t->mask = mask;
    t->mine = mine;
    t->nbytes = nbytes;
    t->all = all;
    b->progress = true;
    EMU_RELEASE(warp);
    if (!complete_exchange(b, warp, nlanes, t, t))
        suspend(b, t);
    EMU_ACQUIRE(warp);
}

/* ---- What else kernels ask for ---- */

EMU_UNCHECKED static const struct symm_emulated_thread *op_self(void)
{
    return &this_block->running->self;
}

EMU_UNCHECKED static int op_replicas(const void *multicast, size_t nbytes, void *out[])
{
    char why[256];
    if ((uintptr_t)multicast % nbytes != 0)
        op_fault("misaligned multimem access", multicast);
    EMU_UNCHECKED_BEGIN();
    int n = emu__replicas(multicast, nbytes, out, why, sizeof why);
    EMU_UNCHECKED_END();
    if (n < 0)
        op_fault(why, NULL);
    return n;
}

static void *op_home(const void *ptr)
{
    EMU_UNCHECKED_BEGIN();
    void *home = emu__home(ptr);
    EMU_UNCHECKED_END();
    return home;
}

const struct symm_emulated_ops emu__block_ops = {
    .abi = SYMM_EMULATED_ABI,
    .self = op_self,
    .sync_threads = op_sync_threads,
    .yield = op_yield,
    .warp_exchange = op_warp_exchange,
    .replicas = op_replicas,
    .home = op_home,
    .fault = op_fault,
};

/* ---- The life of a CUDA thread ---- */

EMU_UNCHECKED static void begin_thread(struct block *b, struct cuda_thread *t)
{
    struct symm_emulated_dim dim = b->grid->block_dim;
    t->self = (struct symm_emulated_thread){
        .thread = {t->index % dim.x, t->index / dim.x % dim.y, t->index / dim.x / dim.y},
        .block = b->index,
        .block_dim = dim,
        .grid_dim = b->grid->grid_dim,
    };
    b->running = t;
}

/* An ended thread counts as arrived wherever the others wait for it. */
EMU_UNCHECKED static void end_thread(struct block *b, struct cuda_thread *t)
{
    unsigned nlanes;
    struct cuda_thread *warp = warp_of(b, t, &nlanes);
    t->carrier = NULL;
    t->self.block_dim.x = 0;
    b->ended++;
    b->progress = true;
    if (b->nwaiting > 0 && b->nwaiting + b->ended == b->nthreads)
        open_barrier(b);
    for (unsigned lane = 0; lane < nlanes; lane++)
        if (warp[lane].mask >> t->index % WARP & 1)
            complete_exchange(b, warp, nlanes, &warp[lane], NULL);
}

/* The next thread of the pass, without taking it; only while some are left. */
EMU_UNCHECKED static struct cuda_thread *peek(const struct block *b)
{
    return &b->threads[b->ready[b->at]];
}

EMU_UNCHECKED static void advance(struct block *b)
{
    b->left--;
    b->at += b->step;
    if (b->at >= b->nready)
        b->at -= b->nready;
}

/* The body of every fiber: runs the thread it was given, and those after it that have not begun. */
EMU_UNCHECKED static void carry(void *arg)
{
    struct carrier *c = arg;
    for (;;) {
        struct block *b = this_block;
        struct cuda_thread *t = c->thread;
        begin_thread(b, t);
        EMU_ACQUIRE(&b->sync_begin);
        b->grid->kernel->run(b->grid->args);
        EMU_RELEASE(&b->sync_end);
        end_thread(b, t);
        if (b->left > 0 && !peek(b)->carrier) {
            c->thread = peek(b);
            c->thread->carrier = c;
            advance(b);
            continue;
        }
        c->thread = NULL;
        b->idle[b->nidle++] = c;
        emu__fiber_suspend(&c->fiber);
    }
}

static struct carrier *get_carrier(struct block *b)
{
    if (b->nidle > 0)
        return b->idle[--b->nidle];
    struct carrier *c = calloc(1, sizeof *c);
    if (!c || !emu__fiber_create(&c->fiber, b->ncarriers, carry, c)) {
        free(c);
        return NULL;
    }
    return b->carriers[b->ncarriers++] = c;
}

/* ---- Passes ---- */

static uint64_t draw(struct block *b)
{
    b->random ^= b->random << 13;
    b->random ^= b->random >> 7;
    b->random ^= b->random << 17;
    return b->random;
}

static unsigned gcd(unsigned a, unsigned b)
{
    while (b) {
        unsigned rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Turns next[] into the pass to run, with an order of its own. Seed 0 keeps the natural order. */
static void begin_pass(struct block *b)
{
    unsigned *swap = b->ready;
    b->ready = b->next;
    b->next = swap;
    b->nready = b->left = b->nnext;
    b->nnext = 0;
    b->at = 0;
    b->step = 1;
    b->progress = false;
    if (b->nready > 1 && emu__machine.seed != 0) {
        uint64_t random = draw(b);
        b->at = (unsigned)(random >> 32) % b->nready;
        b->step = 1 + (unsigned)random % (b->nready - 1);
        while (gcd(b->nready, b->step) != 1)
            b->step--;
    }
}

/* Runs the next thread of the pass until it ends, waits or gives way. */
static bool run_next(struct block *b)
{
    struct cuda_thread *t = peek(b);
    advance(b);
    if (!t->carrier) {
        t->carrier = get_carrier(b);
        if (!t->carrier)
            return false;
        t->carrier->thread = t;
    }
    b->running = t;
    emu__fiber_resume(&t->carrier->fiber);
    if (b->fault_signal)
        report_fault(b);
    b->running = NULL;
    return true;
}

static void back_off(struct block *b)
{
    unsigned n = b->idle_passes++;
    if (n < PASSES_BEFORE_SLEEP) {
        sched_yield();
        return;
    }
    n -= PASSES_BEFORE_SLEEP;
    long ns = n < 5 ? SLEEP_MIN_NS << n : SLEEP_MAX_NS;
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* The threads that are left have no one to wait for but each other. */
static void report_stuck(struct block *b)
{
    char rule[160];
    snprintf(rule, sizeof rule,
             "threads wait for each other in different places: %u at __syncthreads, %u in warp "
             "operations of block (%u,%u,%u)",
             b->nwaiting, b->nthreads - b->ended - b->nwaiting, b->index.x, b->index.y, b->index.z);
    device_fault(b, CUDA_ERROR_LAUNCH_FAILED, rule);
}

static bool has_failed(const struct block *b)
{
    return atomic_load_explicit(&b->grid->device->sticky, memory_order_relaxed) != CUDA_SUCCESS;
}

/* Runs all threads to their end. False: the device failed meanwhile, and threads are left. */
EMU_UNCHECKED static bool run_passes(struct block *b)
{
    while (b->ended < b->nthreads) {
        begin_pass(b);
        if (b->nready == 0)
            report_stuck(b);
        while (b->left > 0) {
            if (!run_next(b)) {
                device_fault(b, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "no memory for the stacks");
                return false;
            }
            if (has_failed(b))
                return false;
        }
        if (has_failed(b))
            return false;
        if (b->progress)
            b->idle_passes = 0;
        else if (b->ended < b->nthreads && b->nnext > 0)
            back_off(b);
    }
    return true;
}

/* ---- The block's thread ---- */

/* The handler of faults must not run on the stack of a fiber, which may be what overflowed. */
static void *make_signal_stack(void)
{
    size_t nbytes = (size_t)SIGSTKSZ * 8;
    void *stack = malloc(nbytes);
    if (stack)
        sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = nbytes}, NULL);
    return stack;
}

/* The state of this thread with room for nthreads. NULL: no memory. */
static struct block *get_block(unsigned nthreads)
{
    struct block *b = this_block;
    if (!b) {
        b = calloc(1, sizeof *b);
        if (!b)
            return NULL;
        b->signal_stack = make_signal_stack();
        prctl(PR_SET_TIMERSLACK, 1ul); /* or every short sleep takes 50 microseconds longer */
        this_block = b;
    }
    if (b->capacity >= nthreads)
        return b;
    struct cuda_thread *threads = realloc(b->threads, nthreads * sizeof *threads);
    b->threads = threads ? threads : b->threads;
    unsigned **lists[] = {&b->ready, &b->next, &b->waiting};
    bool ok = threads != NULL;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        unsigned *list = realloc(*lists[i], nthreads * sizeof *list);
        *lists[i] = list ? list : *lists[i];
        ok = ok && list;
    }
    struct carrier **carriers = realloc(b->carriers, nthreads * sizeof *carriers);
    b->carriers = carriers ? carriers : b->carriers;
    struct carrier **idle = realloc(b->idle, nthreads * sizeof *idle);
    b->idle = idle ? idle : b->idle;
    if (!ok || !carriers || !idle)
        return NULL;
    b->capacity = nthreads;
    return b;
}

static void begin_block(struct block *b, struct emu_grid *grid, uint64_t index)
{
    struct symm_emulated_dim dim = grid->grid_dim;
    b->grid = grid;
    b->index =
        (struct symm_emulated_dim){(uint32_t)(index % dim.x), (uint32_t)(index / dim.x % dim.y),
                                   (uint32_t)(index / dim.x / dim.y)};
    b->nthreads = grid->nthreads;
    b->ended = b->nwaiting = b->nnext = b->idle_passes = 0;
    b->any = 0;
    b->random = emu__random(grid->seed, index) | 1;
    for (unsigned i = 0; i < b->nthreads; i++) {
        b->threads[i].carrier = NULL;
        b->threads[i].index = i;
        b->threads[i].mask = 0;
        b->threads[i].self.block_dim.x = 1; /* not ended */
        b->next[b->nnext++] = i;
    }
}

/* The device has failed: what the threads were doing is forgotten, their stacks begin anew. */
static void abandon(struct block *b)
{
    b->nidle = 0;
    for (unsigned i = 0; i < b->ncarriers; i++) {
        if (b->carriers[i]->thread)
            emu__fiber_restart(&b->carriers[i]->fiber);
        b->carriers[i]->thread = NULL;
        b->idle[b->nidle++] = b->carriers[i];
    }
}

void emu__block_run(struct emu_grid *grid, uint64_t index)
{
    struct emu_device *before = emu__running;
    emu__running = grid->device;
    struct block *b = get_block(grid->nthreads);
    if (!b) {
        emu__rule_at(grid->device->ordinal, grid->kernel->name, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                     "no memory for a block of %u threads", grid->nthreads);
        emu__device_fail(grid->device, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    } else {
        begin_block(b, grid, index);
        EMU_RELEASE(&b->sync_begin);
        if (!run_passes(b))
            abandon(b);
        EMU_ACQUIRE(&b->sync_end);
    }
    emu__running = before;
}

void emu__block_thread_end(void)
{
    struct block *b = this_block;
    if (!b)
        return;
    this_block = NULL;
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    for (unsigned i = 0; i < b->ncarriers; i++) {
        emu__fiber_destroy(&b->carriers[i]->fiber);
        free(b->carriers[i]);
    }
    free(b->carriers);
    free(b->idle);
    free(b->threads);
    free(b->ready);
    free(b->next);
    free(b->waiting);
    free(b->signal_stack);
    free(b);
}
