/*
 * A push all-reduce without barriers, on packets (symm_dev_send16, recv16 and epoch of
 * symm/device.cuh): in every call each rank sends its packets into its own slots in every peer's
 * memory, and receives those of all peers from its own. NR ranks, CALLS calls of one block, each of
 * one to PACKETS packets, chosen at will but alike on all ranks.
 *
 * A packet is two words of {payload, flag}. Each word becomes visible as a whole, the words in any
 * order and at any time. The flag is the epoch, counted cyclically up to LAST, after which comes
 * FIRST; its low bits say which of PHASES sets of slots the call uses. The payload is the number of
 * the call, so it takes the values of flags, too; nothing below looks at it except to check.
 *
 * To keep the states few, a word that has been sent becomes visible only when a receiver would
 * need it. That it might become visible at once is checked when it is sent: what was in the slot has
 * been read by then. If what is visible has the right flag, the receiver may find that, though newer
 * words are under way.
 *
 * The slots belong to this block: with two blocks' epochs in one slot, the same flag could come
 * twice. At the wrap a rank clears its own slots and meets the others in a barrier before it sends.
 *
 * EARLY: a call may begin to send while the one before still receives (programmatic dependent
 * launch without waiting for the grid before). The other macros each take something away.
 */
#ifndef NR
#define NR 2
#endif
#ifndef PACKETS
#define PACKETS 2
#endif
#ifndef CALLS
#define CALLS 6
#endif
#ifndef PHASES
#define PHASES 2
#endif
#ifndef LAST
#define LAST 5 /* odd, as 2^32 - 1 is */
#endif
#ifndef FIRST
#define FIRST 2 /* after the last, so that the phases still alternate */
#endif
#ifndef START
#define START 4 /* the epoch of the first call: the wrap comes with the third */
#endif
#ifndef EARLY
#define EARLY 0
#endif

#define SLOT(to, from, phase, p) ((((to)*NR + (from)) * PHASES + (phase)) * PACKETS + (p))
#define WORD(to, from, phase, p, w) (2 * SLOT(to, from, phase, p) + (w))
#define NWORDS (2 * NR * NR * PHASES * PACKETS)

byte flag[NWORDS], payload[NWORDS]; /* visible */
byte sent_flag[NWORDS], sent_payload[NWORDS]; /* under way; flag 0: nothing is */
bit unread[NWORDS];                           /* sent, and not yet taken by the receiver */

byte size[CALLS + 1];        /* 0: nobody has come to this call yet */
byte sent[NR], received[NR]; /* calls that the rank has done with */
byte cleared[NR];            /* wraps at which it has come to the barrier */

#define ABOUT_TO_WRAP(e) ((e) == LAST)
#define NEXT(e) ((e) == LAST -> FIRST : (e) + 1)

/* The size of call k: whoever comes first chooses. */
inline agree_on_size(k)
{
    if
    :: size[k] == 0 -> size[k] = PACKETS
#ifndef FIXED_SIZE
    :: size[k] == 0 -> size[k] = 1
#endif
    :: size[k] != 0
    fi
}

/* All my slots become as they were before the first call. */
inline clear_slots()
{
    d_step {
        for (i : 2 * SLOT(me, 0, 0, 0) .. 2 * SLOT(me, NR - 1, PHASES - 1, PACKETS - 1) + 1) {
            assert(!unread[i]);
            flag[i] = 0;
            payload[i] = 0
        }
        i = 0
    }
}

inline meet_at_wrap()
{
    cleared[me]++;
#ifndef NO_BARRIER_AFTER_CLEAR
    for (r : 0 .. NR - 1) {
        cleared[r] >= cleared[me]
    }
    r = 0
#endif
}

proctype sender(byte me)
{
    byte k = 1, e = START, r, p, i;
    bit wrapped;

    do
    :: k > CALLS -> break
    :: else ->
        /* The kernel before is done; with EARLY, the one before that. */
        received[me] + 1 + EARLY >= k;
        if
        :: wrapped ->
            received[me] + 1 == k;
#ifndef NO_CLEAR
            clear_slots();
            meet_at_wrap();
#endif
            wrapped = 0
        :: else
        fi;
        atomic {
            agree_on_size(k);
            d_step {
                for (r : 0 .. NR - 1) {
                    for (p : 0 .. size[k] - 1) {
                        for (i : WORD(r, me, e % PHASES, p, 0) .. WORD(r, me, e % PHASES, p, 1)) {
                            if
                            :: r != me ->
                                assert(!unread[i]);
                                unread[i] = 1;
                                sent_flag[i] = e;
                                sent_payload[i] = k
                            :: else
                            fi
                        }
                    }
                }
                r = 0;
                p = 0;
                i = 0;
                sent[me] = k;
                wrapped = ABOUT_TO_WRAP(e);
                e = NEXT(e);
                k++
            }
        }
    od
}

/* The j-th packet that the rank `me` receives in a call. */
#define PEER(j) (((j) / PACKETS) >= me -> (j) / PACKETS + 1 : (j) / PACKETS)
#define AT(j, w) WORD(me, PEER(j), e % PHASES, (j) % PACKETS, w)
#define CAN_BE(j, w) (flag[AT(j, w)] == e || sent_flag[AT(j, w)] == e)
#ifdef ONE_FLAG
#define CAN_BE_HERE(j) CAN_BE(j, 0)
#else
#define CAN_BE_HERE(j) (CAN_BE(j, 0) && CAN_BE(j, 1))
#endif

/* Word w of packet j becomes visible, if what the receiver looks for is not already. */
inline appear(j, w)
{
    i = AT(j, w);
    if
    :: flag[i] != e && sent_flag[i] == e ->
        flag[i] = e;
        payload[i] = sent_payload[i];
        sent_flag[i] = 0;
        sent_payload[i] = 0
    :: else
    fi;
    i = 0
}

inline take(j)
{
    d_step {
        left & (1 << j) && CAN_BE_HERE(j) ->
        appear(j, 0);
#ifndef ONE_FLAG
        appear(j, 1);
#endif
        assert(payload[AT(j, 0)] == k && payload[AT(j, 1)] == k);
        unread[AT(j, 0)] = 0;
        unread[AT(j, 1)] = 0;
        left = left & ~(1 << j)
    }
}

/* In any order. */
proctype receiver(byte me)
{
    byte k = 1, e = START, left, j, i;

    do
    :: k > CALLS -> break
    :: else ->
        /* Its kernel has begun, and any other one is done. */
        sent[me] >= k;
        d_step {
            for (j : 0 .. (NR - 1) * PACKETS - 1) {
                left = left | (j % PACKETS < size[k] -> 1 << j : 0)
            }
            j = 0
        }
        do
        :: left == 0 -> break
        :: take(0)
#if (NR - 1) * PACKETS > 1
        :: take(1)
#endif
#if (NR - 1) * PACKETS > 2
        :: take(2)
        :: take(3)
#endif
        od;
        atomic {
            received[me] = k;
            e = NEXT(e);
            k++
        }
    od
}

init
{
    byte a;
    atomic {
        for (a : 0 .. NR - 1) {
            run sender(a);
            run receiver(a)
        }
        a = 0
    }
}
