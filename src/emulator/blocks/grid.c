/*
 * Which blocks run: at most so many at a time as the device's multiprocessors hold, over all grids
 * that run, those of the greatest priority first, and of one priority first come first served.
 * Blocks that find no room wait for others to end, and keep those behind them waiting; a
 * cooperative grid begins when all of its blocks fit. Kernels that never have more than a warp have
 * places of their own: such blocks fit beside large ones.
 *
 * A grid's own stream worker runs blocks too, so that a small grid needs no other thread.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "emulator/streams/execution.h"
#include "emulator/blocks/grid.h"

enum { WARP = 32 };

/* A thread without a block. It stays for the next grid, until the execution closes. */
struct emu_block_thread {
    struct emu_block_thread *next;
    struct emu_execution *execution;
    pthread_cond_t called_cond;
    bool called;
};

int emu__blocks_per_sm(unsigned nthreads, size_t shared_nbytes)
{
    if (nthreads == 0 || nthreads > (unsigned)emu__machine.max_block_threads ||
        shared_nbytes > EMU_SHARED_NBYTES)
        return 0;
    return shared_nbytes > EMU_SHARED_NBYTES / 2 ? 1 : emu__machine.places;
}

bool emu__thread_start(void *(*run)(void *), void *arg)
{
    sigset_t block, before;
    sigfillset(&block);
    sigdelset(&block, SIGSEGV);
    sigdelset(&block, SIGBUS);
    sigdelset(&block, SIGFPE);
    sigdelset(&block, SIGILL);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &block, &before);
    pthread_t thread;
    int error = pthread_create(&thread, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return error == 0;
}

/* How many blocks of the grid can start when so many slots of each kind are free. */
static uint64_t startable_of(const struct emu_grid *grid, const unsigned *free_slots)
{
    uint64_t left = grid->nblocks - grid->started, fit = free_slots[grid->kind] / grid->slots;
    if (grid->cooperative) /* has all its slots from its first block on */
        return grid->started > 0 || left <= fit ? left : 0;
    return left < fit ? left : fit;
}

static uint64_t startable(const struct emu_execution *execution)
{
    unsigned free_slots[EMU_SLOT_KINDS];
    memcpy(free_slots, execution->free_slots, sizeof free_slots);
    uint64_t total = 0;
    for (const struct emu_grid *grid = execution->grids; grid; grid = grid->next) {
        uint64_t n = startable_of(grid, free_slots);
        total += n;
        if (n < grid->nblocks - grid->started)
            break;
        if (!grid->cooperative || grid->started == 0)
            free_slots[grid->kind] -= (unsigned)n * grid->slots;
    }
    return total;
}

/* Takes the next block to start: of `only`, or of any grid. False: there is none, or no room. */
static bool take(struct emu_execution *execution, const struct emu_grid *only,
                 struct emu_grid **out, uint64_t *index)
{
    struct emu_grid *grid = execution->grids;
    while (grid && grid->started == grid->nblocks)
        grid = grid->next;
    if (!grid || (only && grid != only) || startable_of(grid, execution->free_slots) == 0)
        return false;
    if (!grid->cooperative)
        execution->free_slots[grid->kind] -= grid->slots;
    else if (grid->started == 0)
        execution->free_slots[grid->kind] -= (unsigned)grid->nblocks * grid->slots;
    *out = grid;
    *index = grid->started++;
    return true;
}

static void give_back(struct emu_execution *execution, struct emu_grid *grid)
{
    execution->free_slots[grid->kind] += grid->slots;
    if (++grid->ended < grid->nblocks)
        return;
    struct emu_grid **link = &execution->grids;
    while (*link != grid)
        link = &(*link)->next;
    *link = grid->next;
    pthread_cond_signal(&grid->all_ended);
}

static void *block_thread(void *arg);

/* Calls a thread for each block that can start, apart from those that are coming already. */
static void call_threads(struct emu_execution *execution)
{
    for (uint64_t n = startable(execution); n > execution->coming;) {
        struct emu_block_thread *thread = execution->parked;
        if (thread) {
            execution->parked = thread->next;
            thread->called = true;
            pthread_cond_signal(&thread->called_cond);
        } else {
            emu__execution_retain_locked(execution);
            if (!emu__thread_start(block_thread, execution)) {
                execution->references--;
                return; /* the threads that there are run these blocks too, later */
            }
        }
        execution->coming++;
    }
}

/* Runs blocks, of `only` or of any grid, while some can start. With the lock. */
static void run_blocks(struct emu_execution *execution, const struct emu_grid *only)
{
    struct emu_grid *grid;
    uint64_t index;
    while (take(execution, only, &grid, &index)) {
        call_threads(execution);
        pthread_mutex_unlock(&execution->lock);
        emu__block_run(grid, index);
        pthread_mutex_lock(&execution->lock);
        give_back(execution, grid);
    }
    call_threads(execution);
}

static void *block_thread(void *arg)
{
    struct emu_execution *execution = arg;
    struct emu_block_thread self = {.execution = execution,
                                    .called_cond = PTHREAD_COND_INITIALIZER};
    pthread_mutex_lock(&execution->lock);
    while (!execution->closing) {
        execution->coming--;
        run_blocks(execution, NULL);
        self.called = false;
        self.next = execution->parked;
        execution->parked = &self;
        while (!self.called)
            pthread_cond_wait(&self.called_cond, &execution->lock);
    }
    emu__execution_release_unlock(execution);
    emu__block_thread_end();
    return NULL;
}

void emu__grid_close(struct emu_execution *execution)
{
    for (struct emu_block_thread *thread = execution->parked; thread; thread = thread->next) {
        thread->called = true;
        pthread_cond_signal(&thread->called_cond);
    }
    execution->parked = NULL;
}

void emu__grid_run(struct emu_execution *execution, struct emu_grid *grid)
{
    grid->execution = execution;
    grid->device = execution->device;
    grid->nthreads = grid->block_dim.x * grid->block_dim.y * grid->block_dim.z;
    grid->nblocks = (uint64_t)grid->grid_dim.x * grid->grid_dim.y * grid->grid_dim.z;
    grid->kind = grid->kernel->max_threads > WARP ? EMU_LARGE : EMU_SMALL;
    grid->slots = (unsigned)emu__machine.places /
                  (unsigned)emu__blocks_per_sm(grid->nthreads, grid->shared_nbytes);
    grid->next = NULL;
    grid->started = grid->ended = 0;
    pthread_cond_init(&grid->all_ended, NULL);

    pthread_mutex_lock(&execution->lock);
    if (execution->seeds != emu__seeds) {
        execution->seeds = emu__seeds;
        execution->launches = 0;
    }
    grid->seed = emu__random(emu__machine.seed, ++execution->launches);
    struct emu_grid **link = &execution->grids;
    while (*link && (*link)->priority <= grid->priority)
        link = &(*link)->next;
    grid->next = *link;
    *link = grid;
    run_blocks(execution, grid);
    while (grid->ended < grid->nblocks)
        pthread_cond_wait(&grid->all_ended, &execution->lock);
    pthread_mutex_unlock(&execution->lock);
    pthread_cond_destroy(&grid->all_ended);
}
