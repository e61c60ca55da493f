/*
 * Runs one block of a grid on one thread of the operating system. Its CUDA threads are fibers, run
 * in passes: each pass resumes every ready thread, in an order drawn from the seed. A thread that
 * waits for others (at a barrier, in a warp exchange) is in no pass until the last of them arrives.
 * A thread that never gives way needs no fiber: the next thread runs on the same stack.
 */
#include "block.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include "emulator/state/clock.h"
#include "emulator/state/devices.h"
#include "emulator/state/machine.h"
#include "emulator/state/sanitizer.h"

/*
 * After a pass in which all threads only polled, the block yields the processor; after some of them
 * in a row it sleeps. Far more blocks may poll than the host has processors. If the block got its
 * processor late after a sleep, the next sleep is longer: the blocks it waits for need one, too.
 */
#define PASSES_BEFORE_SLEEP 50u
#define SLEEP_MIN_NS 5000l
#define SLEEP_MAX_NS 100000l
#define SLEEP_BUSY_NS 5000000l
#define SLEEP_PER_DELAY 4

/* Fibers that a thread keeps from one block to the next. */
#define CARRIERS_KEPT 64u

_Thread_local struct block *emu__this_block;

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

/* Returns the next thread of the pass without taking it. Only while some are left. */
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

/* The body of every fiber: runs its thread, then the threads after it that have not begun. */
EMU_UNCHECKED static void carry(void *arg)
{
    struct carrier *c = arg;
    for (;;) {
        struct block *b = emu__this_block;
        struct cuda_thread *t = c->thread;
        begin_thread(b, t);
        EMU_ACQUIRE(&b->sync_begin);
        b->grid->kernel->run(b->grid->args);
        EMU_RELEASE(&b->sync_end);
        if (b->weak)
            emu__weak_thread_left(b, t);
        t->carrier = NULL;
        emu__block_thread_left(b, t);
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

static unsigned gcd(unsigned a, unsigned b)
{
    while (b) {
        unsigned rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Makes the parked threads ready whose event has come. */
EMU_UNCHECKED static void wake_parked(struct block *b)
{
    unsigned n = 0;
    if (b->nparked == 0)
        return;
    emu__cluster_lock(b->cluster);
    if (b->events != b->cluster->events) {
        b->events = b->cluster->events;
        for (unsigned i = 0; i < b->nparked; i++) {
            const struct cuda_thread *t = &b->threads[b->parked[i]];
            if (t->met(b, t))
                b->next[b->nnext++] = t->index;
            else
                b->parked[n++] = t->index;
        }
        b->nparked = n;
    }
    emu__cluster_unlock(b->cluster);
}

/* Makes next[] the pass to run and draws its order. Seed 0 keeps the natural order. */
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
        uint64_t random = emu__draw(&b->random);
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
        emu__block_report_fault(b);
    b->running = NULL;
    return true;
}

/* Of a block after n sleeps in a row. */
static int64_t sleep_ns(const struct block *b, unsigned n)
{
    const int64_t usual = n < 5 ? SLEEP_MIN_NS << n : SLEEP_MAX_NS,
                  late = SLEEP_PER_DELAY * b->delay_ns;

    if (emu__machine.busy || late > SLEEP_BUSY_NS)
        return SLEEP_BUSY_NS;
    return late > usual ? late : usual;
}

static void back_off(struct block *b)
{
    unsigned n = b->idle_passes++;
    if (n < PASSES_BEFORE_SLEEP) {
        sched_yield();
        return;
    }
    const int64_t ns = sleep_ns(b, n - PASSES_BEFORE_SLEEP), start = emu__now_ns();
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
    b->delay_ns = emu__now_ns() - start - ns;
}

/* No thread of the cluster is ready, and this block has parked threads. */
static void report_endless_wait(struct block *b)
{
    struct cuda_thread *t = &b->threads[b->parked[0]];
    char what[160], rule[320];
    emu__cluster_lock(b->cluster);
    t->describe(b, t, what, sizeof what);
    emu__cluster_unlock(b->cluster);
    snprintf(rule, sizeof rule,
             "a wait that cannot end, since all threads of the cluster wait or have ended: for %s",
             what);
    b->running = t;
    emu__block_fault(b, CUDA_ERROR_LAUNCH_FAILED, rule);
    b->running = NULL;
}

/* All remaining threads wait for each other. */
static void report_stuck(struct block *b)
{
    char rule[160];
    if (b->nparked > 0) {
        report_endless_wait(b);
        return;
    }
    snprintf(rule, sizeof rule,
             "threads wait for each other in different places: %u at __syncthreads, %u in warp "
             "operations of block (%u,%u,%u)",
             b->nwaiting, b->nthreads - b->ended - b->nwaiting, b->index.x, b->index.y, b->index.z);
    emu__block_fault(b, CUDA_ERROR_LAUNCH_FAILED, rule);
}

/* No thread is ready. Lets the asynchronous units work, or other blocks. False: nothing helps. */
static bool wait_for_others(struct block *b)
{
    if (b->nparked == 0)
        return false;
    return (b->units && b->units->work(b)) || emu__cluster_sleep(b);
}

static bool has_failed(const struct block *b)
{
    return atomic_load_explicit(&b->grid->device->sticky, memory_order_relaxed) != CUDA_SUCCESS;
}

/* Runs all threads to their end. False: the device failed, and threads are left. */
EMU_UNCHECKED static bool run_passes(struct block *b)
{
    while (b->ended < b->nthreads) {
        wake_parked(b);
        begin_pass(b);
        if (b->nready == 0 && !wait_for_others(b))
            report_stuck(b);
        while (b->left > 0) {
            if (!run_next(b)) {
                emu__device_fail(b->grid->device, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
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

/* The fault handler must not run on the stack of a fiber, which may have overflowed. */
static void *make_signal_stack(void)
{
    size_t nbytes = (size_t)SIGSTKSZ * 8;
    void *stack = malloc(nbytes);
    if (stack)
        sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = nbytes}, NULL);
    return stack;
}

/* Returns the state of this thread with capacity for nthreads. NULL: no memory. */
static struct block *get_block(unsigned nthreads)
{
    struct block *b = emu__this_block;
    if (!b) {
        b = calloc(1, sizeof *b);
        if (!b)
            return NULL;
        b->alone = emu__cluster_create();
        if (!b->alone) {
            free(b);
            return NULL;
        }
        b->signal_stack = make_signal_stack();
        prctl(PR_SET_TIMERSLACK, 1ul); /* else every short sleep takes 50 microseconds longer */
        emu__this_block = b;
    }
    if (b->capacity >= nthreads)
        return b;
    struct cuda_thread *threads = realloc(b->threads, nthreads * sizeof *threads);
    b->threads = threads ? threads : b->threads;
    unsigned **lists[] = {&b->ready, &b->next, &b->waiting, &b->parked};
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

/* Position n of a grid or block; x changes first. */
static struct symm_emulated_dim position(uint64_t n, struct symm_emulated_dim dim)
{
    return (struct symm_emulated_dim){(uint32_t)(n % dim.x), (uint32_t)(n / dim.x % dim.y),
                                      (uint32_t)(n / dim.x / dim.y)};
}

/* The index of a block, which is the position of its cluster and its own position in that. */
static struct symm_emulated_dim index_of(const struct emu_grid *grid, uint64_t n)
{
    struct symm_emulated_dim of = grid->cluster_dim;
    struct symm_emulated_dim clusters = {grid->grid_dim.x / of.x, grid->grid_dim.y / of.y,
                                         grid->grid_dim.z / of.z};
    struct symm_emulated_dim at = position(n / grid->cluster_blocks, clusters),
                             in = position(n % grid->cluster_blocks, of);
    return (struct symm_emulated_dim){at.x * of.x + in.x, at.y * of.y + in.y, at.z * of.z + in.z};
}

/* Other blocks of the cluster may access its shared memory from now on. False: no memory. */
static bool join_cluster(struct block *b, const struct emu_place *place)
{
    struct emu_grid *grid = b->grid;
    b->shared.at = NULL;
    b->static_shared = grid->static_shared ? grid->static_shared() : NULL;
    if (place->cluster && grid->shared_nbytes > 0 && !emu__shared_get(b))
        return false;
    if (!place->cluster)
        emu__cluster_begin(b->alone, 1, grid->nthreads);
    emu__cluster_join(place->cluster ? place->cluster : b->alone, b,
                      (unsigned)(place->index % grid->cluster_blocks));
    return true;
}

/* False: no memory. */
static bool begin_block(struct block *b, struct emu_grid *grid, const struct emu_place *place)
{
    b->grid = grid;
    b->index = index_of(grid, place->index);
    b->nthreads = grid->nthreads;
    b->ended = b->nwaiting = b->nparked = b->nnext = b->idle_passes = 0;
    b->any = 0;
    b->released = b->met = false;
    b->near_layout = 0;
    b->random = emu__random(grid->seed, place->index) | 1;
    for (unsigned i = 0; i < b->nthreads; i++) {
        b->threads[i].carrier = NULL;
        b->threads[i].index = i;
        b->threads[i].mask = 0;
        b->threads[i].arrived = false;
        b->threads[i].self.block_dim.x = 1; /* not ended */
        b->next[b->nnext++] = i;
    }
    if (b->units)
        b->units->begin(b);
    /* All devices have the same grid seed, so the ordinal tells them apart. */
    return (!emu__machine.weak ||
            emu__weak_begin(b, b->random + (uint64_t)grid->device->ordinal * 2)) &&
           join_cluster(b, place);
}

/* From now on, other blocks must not access the block. Also if it has not begun. */
static void leave_cluster(const struct emu_grid *grid, const struct emu_place *place)
{
    if (place->cluster &&
        emu__cluster_leave(place->cluster, (unsigned)(place->index % grid->cluster_blocks)))
        emu__cluster_free(place->cluster);
}

/* Discards the threads of a block whose device has failed. */
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

/* Leaves the stacks of a large block to other blocks. All fibers are idle. */
static void shrink(struct block *b)
{
    if (b->ncarriers <= CARRIERS_KEPT)
        return;
    while (b->ncarriers > CARRIERS_KEPT) {
        struct carrier *c = b->carriers[--b->ncarriers];
        emu__fiber_destroy(&c->fiber);
        free(c);
    }
    for (b->nidle = 0; b->nidle < b->ncarriers; b->nidle++)
        b->idle[b->nidle] = b->carriers[b->nidle];
}

void emu__block_release(struct block *b)
{
    if (!b->released)
        emu__grid_release(b->grid);
    b->released = true;
}

void emu__block_run(struct emu_grid *grid, const struct emu_place *place)
{
    struct emu_device *before = emu__running;
    emu__running = grid->device;
    struct block *b = get_block(grid->nthreads);
    if (!b || !begin_block(b, grid, place)) {
        emu__device_fail(grid->device, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    } else {
        EMU_RELEASE(&b->sync_begin);
        bool ended = run_passes(b);
        EMU_ACQUIRE(&b->sync_end);
        emu__block_release(b);
        if (!ended)
            abandon(b);
        else if (b->units)
            b->units->end(b);
        shrink(b);
    }
    leave_cluster(grid, place);
    emu__running = before;
}

void emu__block_thread_end(void)
{
    struct block *b = emu__this_block;
    if (!b)
        return;
    emu__this_block = NULL;
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
    free(b->parked);
    emu__cluster_free(b->alone);
    emu__shared_free(&b->shared);
    if (b->units)
        b->units->free(b->units);
    free(b->signal_stack);
    emu__weak_free(b->weak);
    free(b);
}
