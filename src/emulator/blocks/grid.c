/*
 * Starts blocks of all running grids as far as the device's SMs have places for them: greatest
 * priority first, then first come first served. A block that does not fit waits until others end,
 * and so do the blocks queued behind it. A cooperative grid starts when all its blocks fit. Kernels
 * that never have more than a warp a block have places of their own, beside large blocks.
 *
 * The thread that runs a grid runs blocks too, so that a small grid needs no other thread.
 */
#include "grid.h"

#include <stdlib.h>
#include <string.h>
#include "emulator/state/clock.h"
#include "emulator/state/devices.h"
#include "emulator/state/machine.h"
#include "emulator/state/sanitizer.h"
#include "emulator/state/thread.h"
#include "cluster.h"

enum {
    WARP = 32,
    SMALL_PER_SM = 2,
    REGISTERS_MAX = 255,
    REGISTER_STEP = 8, /* a thread has a multiple of it */
    QUARTERS = 4       /* of an SM: each has a quarter of its registers, and of its warps */
};

/* A thread without a block. It stays for the next grid, until the SMs are closed. */
struct block_thread {
    struct block_thread *next;
    pthread_cond_t called_cond;
    bool called;
};

struct emu_sms {
    struct emu_device *device;
    pthread_mutex_t lock; /* guards the rest */
    unsigned references;
    bool closing;
    struct emu_grid *grids; /* in the order of their start */
    struct emu_places places[EMU_PLACE_KINDS];
    unsigned coming;          /* threads called that have not taken a block yet */
    uint64_t launches, seeds; /* launches since emu__seeds had this value */
    struct block_thread *parked;
};

static unsigned ceil_div(unsigned x, unsigned y)
{
    return (x + y - 1) / y;
}

static unsigned least(unsigned x, unsigned y)
{
    return x < y ? x : y;
}

/* The most registers of a thread. */
static unsigned registers_of(const struct symm_emulated_kernel *kernel)
{
    const unsigned nblocks = kernel->min_blocks ? kernel->min_blocks : 1,
                   nwarps = ceil_div(nblocks * ceil_div(kernel->max_threads, WARP), QUARTERS),
                   most =
                       EMU_REGISTERS / QUARTERS / (nwarps * WARP) / REGISTER_STEP * REGISTER_STEP;
    return kernel->registers ? kernel->registers : least(most, REGISTERS_MAX);
}

/* How many blocks the registers of an SM suffice for. */
static unsigned blocks_by_registers(const struct symm_emulated_kernel *kernel, unsigned nthreads)
{
    const unsigned of_thread = ceil_div(registers_of(kernel), REGISTER_STEP) * REGISTER_STEP,
                   of_quarter = EMU_REGISTERS / QUARTERS / (of_thread * WARP);
    return QUARTERS * of_quarter / ceil_div(nthreads, WARP);
}

int emu__blocks_per_sm(const struct symm_emulated_kernel *kernel, unsigned nthreads,
                       size_t shared_nbytes)
{
    if (nthreads == 0 || nthreads > (unsigned)emu__machine.max_block_threads ||
        shared_nbytes > EMU_SHARED_NBYTES)
        return 0;
    const unsigned by_shared = EMU_SHARED_OF_SM / ((unsigned)shared_nbytes + EMU_SHARED_OF_SYSTEM),
                   fit = least(blocks_by_registers(kernel, nthreads), by_shared);
    return (int)least(fit, (unsigned)emu__machine.blocks_per_sm);
}

struct emu_sms *emu__sms_create(struct emu_device *device)
{
    struct emu_sms *sms = calloc(1, sizeof *sms);
    if (!sms)
        return NULL;
    sms->device = device;
    sms->references = 1;
    emu__places_init(&sms->places[EMU_LARGE], (unsigned)emu__machine.sms,
                     (unsigned)emu__machine.blocks_per_sm);
    emu__places_init(&sms->places[EMU_SMALL], (unsigned)emu__machine.sms, SMALL_PER_SM);
    pthread_mutex_init(&sms->lock, NULL);
    return sms;
}

static void release_unlock(struct emu_sms *sms)
{
    bool last = --sms->references == 0;
    pthread_mutex_unlock(&sms->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&sms->lock);
    free(sms);
}

void emu__sms_release(struct emu_sms *sms)
{
    pthread_mutex_lock(&sms->lock);
    release_unlock(sms);
}

/* Blocks of the bundle that starts at the moment: they have their places already. */
static uint64_t begun_bundle(const struct emu_grid *grid)
{
    return (grid->bundle - grid->started % grid->bundle) % grid->bundle;
}

/* Returns how many blocks of the grid can start, in whole bundles. */
static uint64_t startable_of(const struct emu_grid *grid, const struct emu_places *places)
{
    const uint64_t left = grid->nblocks - grid->started,
                   fit = emu__places_fit(&places[grid->kind], grid->size) / grid->bundle *
                             grid->bundle +
                         begun_bundle(grid);
    return left < fit ? left : fit;
}

static uint64_t startable(const struct emu_sms *sms)
{
    struct emu_places places[EMU_PLACE_KINDS];
    memcpy(places, sms->places, sizeof places);
    uint64_t total = 0;
    for (const struct emu_grid *grid = sms->grids; grid; grid = grid->next) {
        const uint64_t n = startable_of(grid, places);
        total += n;
        if (n < grid->nblocks - grid->started)
            break;
        emu__places_take(&places[grid->kind], grid->size, n - begun_bundle(grid), NULL);
    }
    return total;
}

/* Begins a cluster, if the next block is the first one of one. */
static void begin_cluster(struct emu_grid *grid)
{
    if (grid->cluster_blocks == 1 || grid->started % grid->cluster_blocks > 0)
        return;
    grid->cluster = emu__cluster_create();
    if (grid->cluster)
        emu__cluster_begin(grid->cluster, grid->cluster_blocks,
                           grid->cluster_blocks * grid->nthreads);
    else
        emu__device_fail(grid->device, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
}

/* Takes the next block to start, of `only` or of any grid. False: there is none, or no place. */
static bool take(struct emu_sms *sms, const struct emu_grid *only, struct emu_grid **out,
                 struct emu_place *place)
{
    struct emu_grid *grid = sms->grids;
    while (grid && grid->started == grid->nblocks)
        grid = grid->next;
    if (!grid || (only && grid != only) || startable_of(grid, sms->places) == 0)
        return false;
    const uint64_t in_bundle = grid->started % grid->bundle;
    if (in_bundle == 0)
        emu__places_take(&sms->places[grid->kind], grid->size, grid->bundle, grid->sms_of_bundle);
    begin_cluster(grid);
    *out = grid;
    *place = (struct emu_place){grid->started++, grid->cluster, grid->sms_of_bundle[in_bundle]};
    return true;
}

static void give_back(struct emu_sms *sms, struct emu_grid *grid, uint16_t sm)
{
    emu__places_give_back(&sms->places[grid->kind], grid->size, sm);
    if (++grid->ended < grid->nblocks)
        return;
    struct emu_grid **link = &sms->grids;
    while (*link != grid)
        link = &(*link)->next;
    *link = grid->next;
    pthread_cond_signal(&grid->all_ended);
    EMU_RELEASE(grid);
    atomic_store(&grid->over, true);
}

static void *run_block_thread(void *arg);

/* Calls a thread for each block that can start, less the threads that are coming already. */
static void call_threads(struct emu_sms *sms)
{
    for (uint64_t n = startable(sms); n > sms->coming;) {
        struct block_thread *thread = sms->parked;
        if (thread) {
            sms->parked = thread->next;
            thread->called = true;
            pthread_cond_signal(&thread->called_cond);
        } else {
            sms->references++;
            if (!emu__thread_start(run_block_thread, sms)) {
                sms->references--;
                return; /* the threads that exist run these blocks too, later */
            }
        }
        sms->coming++;
    }
}

/* Runs blocks of `only`, or of any grid, while some can start. With the lock. */
static void run_blocks(struct emu_sms *sms, const struct emu_grid *only)
{
    struct emu_grid *grid;
    struct emu_place place;
    while (take(sms, only, &grid, &place)) {
        call_threads(sms);
        pthread_mutex_unlock(&sms->lock);
        emu__block_run(grid, &place);
        pthread_mutex_lock(&sms->lock);
        give_back(sms, grid, place.sm);
    }
    call_threads(sms);
}

static void *run_block_thread(void *arg)
{
    struct emu_sms *sms = arg;
    struct block_thread self = {.called_cond = PTHREAD_COND_INITIALIZER};
    pthread_mutex_lock(&sms->lock);
    while (!sms->closing) {
        sms->coming--;
        run_blocks(sms, NULL);
        self.called = false;
        self.next = sms->parked;
        sms->parked = &self;
        while (!self.called)
            pthread_cond_wait(&self.called_cond, &sms->lock);
    }
    release_unlock(sms);
    emu__block_thread_end();
    return NULL;
}

void emu__sms_close(struct emu_sms *sms)
{
    pthread_mutex_lock(&sms->lock);
    sms->closing = true;
    for (struct block_thread *thread = sms->parked; thread; thread = thread->next) {
        thread->called = true;
        pthread_cond_signal(&thread->called_cond);
    }
    sms->parked = NULL;
    pthread_mutex_unlock(&sms->lock);
}

/* Draws the grid's seed, and adds the grid to the running ones. With the lock. */
static void add_locked(struct emu_sms *sms, struct emu_grid *grid)
{
    if (sms->seeds != emu__seeds) {
        sms->seeds = emu__seeds;
        sms->launches = 0;
    }
    grid->seed = emu__random(emu__machine.seed, ++sms->launches);
    struct emu_grid **link = &sms->grids;
    while (*link && (*link)->priority <= grid->priority)
        link = &(*link)->next;
    grid->next = *link;
    *link = grid;
}

static void prepare(struct emu_sms *sms, struct emu_grid *grid)
{
    grid->sms = sms;
    grid->device = sms->device;
    grid->nthreads = grid->block_dim.x * grid->block_dim.y * grid->block_dim.z;
    grid->nblocks = (uint64_t)grid->grid_dim.x * grid->grid_dim.y * grid->grid_dim.z;
    grid->kind = grid->kernel->max_threads > WARP ? EMU_LARGE : EMU_SMALL;
    grid->size = (unsigned)emu__machine.blocks_per_sm /
                 (unsigned)emu__blocks_per_sm(grid->kernel, grid->nthreads, grid->shared_nbytes);
    grid->cluster_blocks = grid->cluster_dim.x * grid->cluster_dim.y * grid->cluster_dim.z;
    grid->bundle = grid->cooperative ? grid->nblocks : grid->cluster_blocks;
    grid->cluster = NULL;
    grid->next = NULL;
    grid->started = grid->ended = grid->released = 0;
    atomic_init(&grid->over, false);
    emu__cond_init(&grid->all_ended);
}

void emu__grid_run(struct emu_sms *sms, struct emu_grid *grid)
{
    prepare(sms, grid);
    pthread_mutex_lock(&sms->lock);
    add_locked(sms, grid);
    run_blocks(sms, grid);
    while (grid->ended < grid->nblocks)
        pthread_cond_wait(&grid->all_ended, &sms->lock);
    pthread_mutex_unlock(&sms->lock);
    emu__grid_end(grid);
}

/* ---- A grid in steps ---- */

void emu__grid_begin(struct emu_sms *sms, struct emu_grid *grid)
{
    prepare(sms, grid);
    pthread_mutex_lock(&sms->lock);
    add_locked(sms, grid);
    call_threads(sms);
    pthread_mutex_unlock(&sms->lock);
}

bool emu__grid_over(const struct emu_grid *grid)
{
    return !grid || atomic_load(&grid->over);
}

bool emu__grid_await(struct emu_grid *grid)
{
    struct emu_sms *sms = grid->sms;
    struct emu_grid *awaited = emu__grid_over(grid) ? grid->before : grid;
    const struct timespec until = emu__in_ms(1);
    bool late = false;
    pthread_mutex_lock(&sms->lock);
    if (!emu__grid_over(awaited))
        late = pthread_cond_timedwait(&awaited->all_ended, &sms->lock, &until) != 0;
    if (late && sms->coming == 0) /* no thread could be started */
        run_blocks(sms, grid);
    const bool over = emu__grid_over(grid) && emu__grid_over(grid->before);
    pthread_mutex_unlock(&sms->lock);
    return over;
}

void emu__grid_end(struct emu_grid *grid)
{
    pthread_cond_destroy(&grid->all_ended);
}

void emu__grid_release(struct emu_grid *grid)
{
    pthread_mutex_lock(&grid->sms->lock);
    if (++grid->released == grid->nblocks)
        pthread_cond_signal(&grid->all_ended);
    pthread_mutex_unlock(&grid->sms->lock);
}

bool emu__grid_released(const struct emu_grid *grid)
{
    pthread_mutex_lock(&grid->sms->lock);
    const bool all = grid->released == grid->nblocks;
    pthread_mutex_unlock(&grid->sms->lock);
    return all && emu__grid_over(grid->before);
}
