/*
 * The signal cells of include/symm/detail/wait_record.h and the barriers on them (signal, wait,
 * arrive and wait_all of device_sync.cuh), between NR ranks of one block of two threads each.
 *
 * Each round every thread stores a new payload into every peer's memory; then a barrier, reading
 * all that has come, and a second barrier, because the next round writes to the same places.
 *
 * Memory is weak. A store, payload or signal, waits in a buffer from which it drains at any time and
 * in any order; a released signal drains only after what its block stored before the __syncthreads.
 * A thread may have read any payload before it should have (`stale`), which goes unnoticed unless an
 * acquire, by itself or by a thread that a __syncthreads joins it to, comes between.
 *
 * To keep the states few: all stores of a thread to its peers are one step, and so are all its
 * reads, since each cell is checked by itself. And payload drains only when a signal forces it to;
 * whoever reads while a store to the cell is in a buffer might find it or not, so that is an error
 * like a wrong payload.
 *
 * After an abort a kernel runs to its end, but neither believes what it reads nor writes to peers.
 *
 * Counts are modulo MODULUS and begin below the wrap. AGREE: the first barrier carries a word.
 * ABORT: the host may have ended the group at any time, which any wait may find or not find yet. The
 * other macros each take something away; the checker must find out.
 */
#ifndef NR
#define NR 2
#endif
#ifndef ROUNDS
#define ROUNDS 3
#endif
#ifndef NT
#define NT 2 /* or 1 */
#endif
#define MODULUS 4
#define START 2 /* of the counts: they wrap in the first round */

#ifdef AGREE
#define CHANNELS 2
#ifdef AGREE_SAME_CHANNEL /* breaks the rule that the next barrier be on another channel */
#define SECOND 0
#else
#define SECOND 1
#endif
#else
#define CHANNELS 1
#define SECOND 0
#endif

#define CELL(channel, to, from) (((channel)*NR + (to)) * NR + (from))
#define DATA(to, from, t) (((to)*NR + (from)) * NT + (t))
#define BIT(to, t) (1 << ((to)*NT + (t)))
#define OF_THREAD(t) ((t) -> 42 : 21) /* these bits of all ranks; NT == 2 */
#define TO_RANK(to) (BIT(to, 0) | BIT(to, NT - 1))

/* The cells of all pads, and the payload, the number of the round, in all memories. */
byte arrived[CHANNELS * NR * NR], word[CHANNELS * NR * NR];
byte sent[CHANNELS * NR * NR], taken[CHANNELS * NR * NR];
byte payload[NR * NR * NT];

/* What the buffers hold. */
byte stored[NR * NR * NT];
byte undrained[NR]; /* of the rank's payload stores: a BIT each */
bit signalled[CHANNELS * NR * NR];
byte count_of[CHANNELS * NR * NR], word_of[CHANNELS * NR * NR], follows[CHANNELS * NR * NR];

chan together[NR] = [0] of { bit }; /* __syncthreads */
byte at[NR];                        /* the round the rank is in */
byte vote[NR];                      /* what it brings to the first barrier */
bit differs[NR];                    /* a thread has met another word */
bit poison[NR], aborted[NR];
bit failed[NR]; /* a wait has returned without its signal */

/* ---------------------------------------------------------------------------------- the memories */

/* The stores of rank `from` that a signal follows. */
inline drain_payload(from, set)
{
    for (m : 0 .. NR - 1) {
        for (t : 0 .. NT - 1) {
            if
            :: undrained[from] & (set) & BIT(m, t) ->
                payload[DATA(m, from, t)] = stored[DATA(m, from, t)];
                stored[DATA(m, from, t)] = 0
            :: else
            fi
        }
    }
    undrained[from] = undrained[from] & ~(set);
    m = 0;
    t = 0
}

proctype drain_signal(byte channel, to, from)
{
    byte m, t;
end:
    do
    :: d_step {
        signalled[CELL(channel, to, from)] ->
        drain_payload(from, follows[CELL(channel, to, from)]);
        arrived[CELL(channel, to, from)] = count_of[CELL(channel, to, from)];
        word[CELL(channel, to, from)] = word_of[CELL(channel, to, from)];
        signalled[CELL(channel, to, from)] = 0;
        count_of[CELL(channel, to, from)] = 0;
        word_of[CELL(channel, to, from)] = 0;
        follows[CELL(channel, to, from)] = 0;
        /* No counter overtakes: at most two signals are there that have not been taken. */
        assert((arrived[CELL(channel, to, from)] + MODULUS - taken[CELL(channel, to, from)]) %
               MODULUS <= 2)
    }
    od
}

/* ------------------------------------------------------------------------------------ the device */

/* The thread t of the rank `me`, whose variables these use, and its block mate. */
inline syncthreads()
{
#if NT == 2
    if
    :: t == 0 -> together[me]!0
    :: else -> together[me]?0
    fi;
#endif
    skip
}

inline signal(channel, to, w)
{
    d_step {
#ifdef ABORT
#ifndef SIGNAL_AFTER_ABORT
        if
        :: poison[me] -> skip
        :: else ->
#endif
            assert(!failed_before); /* nothing that follows a failed wait leaves the rank */
#endif
            sent[CELL(channel, me, to)] = (sent[CELL(channel, me, to)] + 1) % MODULUS;
            signalled[CELL(channel, to, me)] = 1;
            count_of[CELL(channel, to, me)] = sent[CELL(channel, me, to)];
            word_of[CELL(channel, to, me)] = w;
#ifdef NO_RELEASE
            follows[CELL(channel, to, me)] = 0;
#else
#ifdef NO_SYNC_BEFORE_SIGNAL
            follows[CELL(channel, to, me)] = undrained[me] & OF_THREAD(t);
#else
            follows[CELL(channel, to, me)] = undrained[me];
#endif
#endif
#if defined(ABORT) && !defined(SIGNAL_AFTER_ABORT)
        fi
#endif
    }
}

#define TAKEN taken[CELL(channel, me, from)]
#define ARRIVED arrived[CELL(channel, me, from)]
#ifdef NO_CYCLIC_COMPARE
#define HAS_COME (ARRIVED >= (TAKEN + 1) % MODULUS)
#else
#define HAS_COME ((ARRIVED + MODULUS - TAKEN - 1) % MODULUS < MODULUS / 2)
#endif

inline wait(channel, from, w)
{
    do
    :: atomic {
        HAS_COME ->
        if
        :: word[CELL(channel, me, from)] != w -> differs[me] = 1
        :: else
        fi;
        TAKEN = (TAKEN + 1) % MODULUS;
        break
    }
#ifdef ABORT
    :: atomic { poison[me] = 1; failed[me] = 1; break } /* it looks at the abort word, or the poison */
#endif
    od
}

/* Signals that go into the buffer one after the other may as well go together; but for aborts. */
#ifdef ABORT
#define ONE_STEP
#else
#define ONE_STEP atomic
#endif

/* The threads share the ranks: t, t + NT, ... */
inline arrive(channel, w)
{
#ifndef NO_SYNC_BEFORE_SIGNAL
    syncthreads();
#endif
    ONE_STEP {
        r = t;
        do
        :: r < NR && r != me -> signal(channel, r, w); r = r + NT
        :: r < NR && r == me -> r = r + NT
        :: r >= NR -> break
        od
    }
}

inline wait_all(channel, w)
{
    r = t;
    do
    :: r < NR && r != me -> wait(channel, r, w); r = r + NT
    :: r < NR && r == me -> r = r + NT
    :: r >= NR -> break
    od
}

inline barrier(channel, w)
{
    arrive(channel, w);
    may_read_early();
    wait_all(channel, w);
#ifndef NO_SYNC_AFTER_WAIT
    syncthreads();
    atomic {
        failed_before = failed[me];
#ifndef NO_ACQUIRE
        stale = 0;
#endif
        skip
    }
#endif
}

/* symm_dev_aborted */
inline look_for_abort()
{
#if defined(ABORT) && !defined(NO_LOOK_AFTER_WAIT)
    if
    :: t == 0 -> aborted[me] = poison[me]
    :: else
    fi;
    syncthreads();
#endif
    skip
}

/* ------------------------------------------------------------------------------------ the kernel */

#define FROM(r, t) payload[DATA(me, r, t)]
#define EACH_PEER(r) for (r : 0 .. NR - 1) { if :: r != me ->
#define END_EACH_PEER :: else fi }

inline store_payload()
{
    d_step {
        EACH_PEER(r)
            stored[DATA(r, me, t)] = round;
            undrained[me] = undrained[me] | BIT(r, t)
        END_EACH_PEER;
        r = 0
    }
}

/* A payload that is not yet this round's may have been read already. */
inline may_read_early()
{
    atomic {
        EACH_PEER(r)
            old = old || FROM(r, 0) != round || FROM(r, NT - 1) != round
        END_EACH_PEER;
        r = 0;
        if
        :: old -> stale = 1
        :: true
        fi;
        old = 0
    }
}

inline read_payload()
{
    d_step {
        assert(!stale);
        EACH_PEER(r)
            assert(FROM(r, 0) == round && FROM(r, NT - 1) == round);
            assert(!(undrained[r] & TO_RANK(me)))
        END_EACH_PEER;
        r = 0
    }
}

inline begin_round()
{
    if
    :: t == 0 ->
        atomic {
            at[me] = round;
#ifdef AGREE
            differs[me] = 0;
            if
            :: vote[me] = 1
            :: vote[me] = 2
            fi;
#endif
            /* Nobody is more than one round ahead. */
            EACH_PEER(r)
                assert(round <= at[r] + 1 || poison[me])
            END_EACH_PEER;
            r = 0
        }
    :: else
    fi
}

/* All ranks have come to the same verdict on the words. */
inline check_agreement()
{
#ifdef AGREE
    d_step {
        EACH_PEER(r)
            old = old || vote[r] != vote[me]
        END_EACH_PEER;
        r = 0;
        assert(differs[me] == old);
        old = 0
    };
#endif
    skip
}

proctype thread(byte me, t)
{
    byte round = 1, r;
    bit stale, old, failed_before;

    do
    :: round > ROUNDS -> break
    :: else ->
        atomic {
            begin_round();
            if
            :: !aborted[me] -> store_payload()
            :: else
            fi
        }
        barrier(0, vote[me]);
        look_for_abort();
        atomic {
            if
            :: !aborted[me] ->
                check_agreement();
                read_payload()
            :: else
            fi
        }
#ifndef NO_SECOND_BARRIER
        barrier(SECOND, 0);
        look_for_abort();
#endif
        round++
    od
}

init
{
    byte a, b, c;
    atomic {
        for (a : 0 .. CHANNELS * NR * NR - 1) {
            arrived[a] = START;
            sent[a] = START;
            taken[a] = START
        }
        for (a : 0 .. NR - 1) {
            for (b : 0 .. NR - 1) {
                if
                :: a != b ->
                    for (c : 0 .. CHANNELS - 1) {
                        run drain_signal(c, a, b)
                    }
                :: else
                fi
            }
            for (c : 0 .. NT - 1) {
                run thread(a, c)
            }
        }
        a = 0;
        b = 0;
        c = 0
    }
}
