/*
 * Exchange by packs that are their own flag (lamport.cuh): in every epoch each rank sends packs into
 * slots of its own in every other rank's memory, and takes those of all others from its slots. NR
 * ranks, CALLS epochs of one block, each of one to PACKS packs, chosen at will but alike on all
 * ranks. A rank is two processes: `mover` sends and takes packs; `teller`, the last warp, tells the
 * others that the epoch has begun, and waits for the same from them.
 *
 * A slot is FREE, FULL, or FREEING: its pack has been taken, but the store that frees the slot may
 * become visible at any time, until a release covers it. To send into a slot that is not FREE is an
 * error, because the pack could become visible at once: it would be lost, or overwrite another one.
 * So packs need no time under way, and stores no order but that of releases.
 *
 * A message has its epoch as a count and as a word. The word must be that of the awaited epoch.
 */
#ifndef NR
#define NR 2
#endif
#ifndef PACKS
#define PACKS 2
#endif
#ifndef CALLS
#define CALLS 7
#endif
#ifndef SETS
#define SETS 2
#endif
#ifndef CHANNELS
#define CHANNELS 2
#endif

#define FREE 0
#define FULL 1
#define FREEING 2

#define SLOT(to, from, set, p) ((((to)*NR + (from)) * SETS + (set)) * PACKS + (p))
#define TOLD(to, from, k) (((to)*NR + (from)) * CHANNELS + (k) % CHANNELS)

byte slot[NR * NR * SETS * PACKS], payload[NR * NR * SETS * PACKS];
byte told[NR * NR * CHANNELS];
byte size[CALLS + 1];    /* 0: no rank has come to this epoch yet */
byte moved[NR], met[NR]; /* epochs that mover and teller have done with */

/* The __syncthreads() of symm_dev_epoch(): all threads have done with the epoch before. */
inline begin(k)
{
#ifndef NO_SYNC
    moved[me] >= k - 1 && met[me] >= k - 1
#else
    skip
#endif
}

inline agree_on_size(k)
{
    if
    :: size[k] == 0 -> size[k] = PACKS
    :: size[k] == 0 -> size[k] = 1
    :: size[k] != 0
    fi
}

proctype mover(byte me)
{
    byte k = 1, r, p;

    do
    :: k > CALLS -> break
    :: else ->
        begin(k);
        atomic {
            agree_on_size(k);
            d_step {
                for (r : 0 .. NR - 1) {
                    for (p : 0 .. size[k] - 1) {
                        if
                        :: r != me ->
                            assert(slot[SLOT(r, me, k % SETS, p)] == FREE);
                            slot[SLOT(r, me, k % SETS, p)] = FULL;
                            payload[SLOT(r, me, k % SETS, p)] = k
                        :: else
                        fi
                    }
                }
                r = 0;
                p = 0
            }
        }
        for (r : 0 .. NR - 1) {
            for (p : 0 .. size[k] - 1) {
                if
                :: r != me ->
                    atomic {
                        slot[SLOT(me, r, k % SETS, p)] == FULL;
                        assert(payload[SLOT(me, r, k % SETS, p)] == k);
                        slot[SLOT(me, r, k % SETS, p)] = FREEING
                    }
                :: else
                fi
            }
        }
        r = 0;
        p = 0;
        moved[me] = k;
        k++
    od
}

/* The slots of the epoch before are free for all others. */
inline release(k)
{
#ifdef NO_RELEASE
    skip
#else
    for (r : 0 .. NR - 1) {
        for (p : 0 .. PACKS - 1) {
            if
            :: slot[SLOT(me, r, (k - 1) % SETS, p)] == FREEING ->
                slot[SLOT(me, r, (k - 1) % SETS, p)] = FREE
            :: else
            fi
        }
    }
#endif
}

proctype teller(byte me)
{
    byte k = 1, r, p;

    do
    :: k > CALLS -> break
    :: else ->
        begin(k);
        d_step {
            release(k);
            for (r : 0 .. NR - 1) {
                told[TOLD(r, me, k)] = k
            }
            r = 0;
            p = 0
        }
#ifndef NO_AWAIT
        for (r : 0 .. NR - 1) {
            told[TOLD(me, r, k)] >= k;
            assert(told[TOLD(me, r, k)] == k)
        }
        r = 0;
#endif
        met[me] = k;
        k++
    od
}

init {
    byte r;

    atomic {
        for (r : 0 .. NR - 1) {
            run mover(r);
            run teller(r)
        }
    }
}
