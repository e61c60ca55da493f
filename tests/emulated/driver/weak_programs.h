/* Programs of loads, stores and fences, and whether a GPU may show an old value (test_weak.c). */
#ifndef TEST_WEAK_PROGRAMS_H
#define TEST_WEAK_PROGRAMS_H

#include <stdint.h>
#include <symm/detail/emulated.h>

enum { VARS = 16, STEPS = 12, THREADS = 4 };

enum operation { STOP, WRITE, READ, UPDATE, SETTLED, FENCE, WAIT, SYNC, SYNCWARP, SHUFFLE, REPEAT };

/* Variables have 16 bytes each; RAW is an address that the test gives. */
enum { X, Y, F, G, H, RAW = VARS };

struct step {
    enum operation operation;
    uint32_t var, how, nbytes, reg;
    uint64_t value;
};

/* clang-format off */
#define W_(var, value, how) {WRITE, var, how, 8, 0, value}
#define W(var, value) W_(var, value, 0)
#define R_(reg, var, how) {READ, var, how, 8, reg, 0}
#define R(reg, var) R_(reg, var, 0)
#define ADD(var, value) {UPDATE, var, 0, 8, 0, value}
#define FENCES(fences) {FENCE, 0, fences, 0, 0, 0}
#define SET(var) W_(var, 1, RELAXED)
#define AWAIT(var) {WAIT, var, 0, 0, 0, 1}
#define REL FENCES(SYMM_EMULATED_RELEASE)
#define ACQ FENCES(SYMM_EMULATED_ACQUIRE)
#define ALIAS FENCES(SYMM_EMULATED_ALIAS_FENCE)
#define BAR {SYNC, 0, 0, 0, 0, 0}
#define MEET_WARP {SYNCWARP, 0, 0, 0, 0, 0}
#define MEET_SHUFFLE {SHUFFLE, 0, 0, 0, 0, 0}
#define END {STOP, 0, 0, 0, 0, 0}
#define MC SYMM_EMULATED_MULTICAST
#define ASYNC SYMM_EMULATED_ASYNC
#define RELAXED SYMM_EMULATED_RELAXED
/* clang-format on */

enum verdict { NEVER, SEEN };

struct litmus {
    const char *name;
    enum verdict old; /* whether register 0 may have another value */
    unsigned blocks, threads;
    uint64_t value; /* the value that register 0 should have */
    struct step program[THREADS][STEPS];
};

/* clang-format off */
#define PUBLISH {W(X, 1), REL, SET(F)}
#define CONSUME {AWAIT(F), ACQ, R(0, X)}
#define ADD_20 {ADD(X, 1), {REPEAT, 0, 0, 0, 0, 20}}

static const struct litmus programs[] = {
    /* Messages between blocks. */
    {"no release", SEEN, 2, 1, 1, {{W(X, 1), SET(F)}, CONSUME}},
    {"release and acquire", NEVER, 2, 1, 1, {PUBLISH, CONSUME}},
    {"the release comes first", SEEN, 2, 1, 1, {{REL, W(X, 1), SET(F)}, CONSUME}},
    {"no acquire, read before", SEEN, 2, 1, 1, {PUBLISH, {R(1, X), AWAIT(F), R(0, X)}}},
    {"acquire, read before", NEVER, 2, 1, 1, {PUBLISH, {R(1, X), AWAIT(F), ACQ, R(0, X)}}},
    {"the acquire comes first", SEEN, 2, 1, 1, {PUBLISH, {ACQ, R(1, X), AWAIT(F), R(0, X)}}},
    {"no acquire, read by the last kernel", SEEN, 2, 1, 1, {PUBLISH, {AWAIT(F), R(0, X)}}},
    {"relaxed loads are never old", NEVER, 2, 1, 1,
     {PUBLISH, {R(1, X), AWAIT(F), R_(0, X, RELAXED)}}},
    {"a chain", NEVER, 3, 1, 1,
     {PUBLISH, {AWAIT(F), ACQ, REL, SET(G)}, {R(1, X), AWAIT(G), ACQ, R(0, X)}}},
    {"a sum without release", SEEN, 2, 1, 1, {{ADD(X, 1), SET(F)}, CONSUME}},
    {"a sum with release", NEVER, 2, 1, 1, {{ADD(X, 1), REL, SET(F)}, CONSUME}},

    /* Another thread of the block releases or acquires. */
    {"another's release", SEEN, 2, 2, 1,
     {{W(X, 1), SET(Y)}, {AWAIT(Y), REL, SET(F)}, CONSUME, {END}}},
    {"another's release after __syncthreads", NEVER, 2, 2, 1,
     {{W(X, 1), BAR}, {BAR, REL, SET(F)}, CONSUME, {END}}},
    {"another's release before __syncthreads", SEEN, 2, 2, 1,
     {{W(X, 1), SET(Y), BAR}, {AWAIT(Y), REL, SET(F), BAR}, CONSUME, {END}}},
    {"another's release after __syncwarp", NEVER, 2, 2, 1,
     {{W(X, 1), MEET_WARP}, {MEET_WARP, REL, SET(F)}, CONSUME, {END}}},
    {"another's release after a shuffle", SEEN, 2, 2, 1,
     {{W(X, 1), MEET_SHUFFLE}, {MEET_SHUFFLE, REL, SET(F)}, CONSUME, {END}}},
    {"another's release after the end of the thread", SEEN, 2, 2, 1,
     {{W(X, 1), SET(Y)}, {AWAIT(Y), BAR, REL, SET(F)}, CONSUME, {END}}},
    {"another's acquire", SEEN, 2, 2, 1,
     {PUBLISH, {END}, {AWAIT(F), ACQ, SET(Y)}, {R(1, X), AWAIT(Y), R(0, X)}}},
    {"another's acquire before __syncthreads", NEVER, 2, 2, 1,
     {PUBLISH, {END}, {AWAIT(F), ACQ, BAR}, {R(1, X), BAR, R(0, X)}}},
    {"another's acquire after __syncthreads", SEEN, 2, 2, 1,
     {PUBLISH, {END}, {AWAIT(F), BAR, ACQ}, {R(1, X), BAR, R(0, X)}}},
    {"another's acquire before __syncwarp", NEVER, 2, 2, 1,
     {PUBLISH, {END}, {AWAIT(F), ACQ, MEET_WARP},
      {R(1, X), MEET_WARP, R(0, X)}}},
    {"another's acquire before a shuffle", SEEN, 2, 2, 1,
     {PUBLISH, {END}, {AWAIT(F), ACQ, MEET_SHUFFLE},
      {R(1, X), MEET_SHUFFLE, R(0, X)}}},

    /* Unicast and multicast. */
    {"multicast store, no alias fence", SEEN, 2, 1, 1, {{W_(X, 1, MC), REL, SET(F)}, CONSUME}},
    {"multicast store, alias fence", NEVER, 2, 1, 1, {{W_(X, 1, MC), ALIAS, REL, SET(F)}, CONSUME}},
    {"multicast store, alias fence of the releasing thread", NEVER, 2, 2, 1,
     {{W_(X, 1, MC), BAR}, {BAR, ALIAS, REL, SET(F)}, CONSUME, {END}}},
    {"multicast store, alias fence before __syncthreads", NEVER, 2, 2, 1,
     {{W_(X, 1, MC), ALIAS, BAR}, {BAR, REL, SET(F)}, CONSUME, {END}}},
    {"multicast store, alias fence of a thread that does not know the store", SEEN, 2, 2, 1,
     {{W_(X, 1, MC), SET(Y), BAR}, {AWAIT(Y), ALIAS, BAR, REL, SET(F)}, CONSUME, {END}}},
    {"multicast load, no alias fence", SEEN, 2, 1, 1,
     {PUBLISH, {R_(1, X, MC), AWAIT(F), ACQ, R_(0, X, MC)}}},
    {"multicast load, alias fence", NEVER, 2, 1, 1,
     {PUBLISH, {R_(1, X, MC), AWAIT(F), ACQ, ALIAS, R_(0, X, MC)}}},
    {"multicast load, alias fence before the acquire", SEEN, 2, 1, 1,
     {PUBLISH, {R_(1, X, MC), AWAIT(F), ALIAS, ACQ, R_(0, X, MC)}}},
    {"multicast load, alias fence of the acquiring thread", NEVER, 2, 2, 1,
     {PUBLISH, {END}, {AWAIT(F), ACQ, ALIAS, BAR}, {R_(1, X, MC), BAR, R_(0, X, MC)}}},
    {"multicast load, no alias fence, read by the last kernel", SEEN, 2, 1, 1,
     {PUBLISH, {AWAIT(F), ACQ, R_(0, X, MC)}}},
    {"own multicast store", SEEN, 1, 1, 1, {{W_(X, 1, MC), R(0, X)}}},
    {"own multicast store, alias fence", NEVER, 1, 1, 1, {{W_(X, 1, MC), ALIAS, R(0, X)}}},
    {"own store, multicast load", SEEN, 1, 1, 1, {{W(X, 1), R_(0, X, MC)}}},
    {"own store, alias fence, multicast load", NEVER, 1, 1, 1,
     {{R_(1, X, MC), W(X, 1), ALIAS, R_(0, X, MC)}}},

    /* The copy unit. */
    {"copy, no wait", SEEN, 2, 1, 1, {{W_(X, 1, ASYNC), REL, SET(F)}, CONSUME}},
    {"copy, wait", NEVER, 2, 1, 1,
     {{W_(X, 1, ASYNC), FENCES(SYMM_EMULATED_BULK_WAIT), REL, SET(F)}, CONSUME}},
    {"copy, wait and release in one call", NEVER, 2, 1, 1,
     {{W_(X, 1, ASYNC), FENCES(SYMM_EMULATED_BULK_WAIT | SYMM_EMULATED_RELEASE), SET(F)}, CONSUME}},
    {"copy, another's wait", SEEN, 2, 2, 1,
     {{W_(X, 1, ASYNC), BAR}, {BAR, FENCES(SYMM_EMULATED_BULK_WAIT), REL, SET(F)}, CONSUME,
      {END}}},
    {"copy, another's wait before __syncthreads", SEEN, 2, 2, 1,
     {{W_(X, 1, ASYNC), SET(Y), BAR},
      {AWAIT(Y), FENCES(SYMM_EMULATED_BULK_WAIT), BAR, REL, SET(F)}, CONSUME, {END}}},
    {"copy, wait after __syncthreads, another's release", SEEN, 2, 2, 1,
     {{W_(X, 1, ASYNC), BAR, FENCES(SYMM_EMULATED_BULK_WAIT), SET(Y)},
      {BAR, AWAIT(Y), REL, SET(F)}, CONSUME, {END}}},
    {"copy, wait before __syncthreads, another's release", NEVER, 2, 2, 1,
     {{W_(X, 1, ASYNC), FENCES(SYMM_EMULATED_BULK_WAIT), BAR}, {BAR, REL, SET(F)}, CONSUME, {END}}},
    {"copy of a stored value", SEEN, 1, 1, 1, {{W(X, 1), R_(0, X, ASYNC)}}},
    {"copy of a stored value, fence", NEVER, 1, 1, 1,
     {{W(X, 1), FENCES(SYMM_EMULATED_ASYNC_FENCE), R_(0, X, ASYNC)}}},
    {"copy of another thread's value, fence", NEVER, 1, 2, 1,
     {{W(X, 1), BAR}, {BAR, FENCES(SYMM_EMULATED_ASYNC_FENCE), R_(0, X, ASYNC)}}},

    /* One address. */
    {"own store", NEVER, 1, 1, 1, {{R(1, X), W(X, 1), R(0, X)}}},
    {"own stores in order", NEVER, 2, 1, 2, {{W(X, 1), W(X, 2), REL, SET(F)}, CONSUME}},
    {"stores of two threads in order", NEVER, 2, 2, 2,
     {{W(X, 1), BAR}, {BAR, W(X, 2), REL, SET(F)}, CONSUME, {END}}},
    {"stores of two threads in order, by both proxies", NEVER, 2, 2, 2,
     {{W_(X, 1, MC), BAR}, {BAR, W(X, 2), REL, SET(F)}, CONSUME, {END}}},
    {"a store after __syncthreads is seen", NEVER, 1, 2, 1,
     {{W(X, 1), BAR}, {R(1, X), BAR, R(0, X)}}},
    {"the bytes beside it are read later", NEVER, 2, 1, 1,
     {PUBLISH, {R(1, X), AWAIT(F), ACQ, {READ, X, 0, 8, 2, 8}, R(0, X)}}},
    {"the bytes beside it are read later, by a thread that has not acquired", NEVER, 2, 2, 1,
     {PUBLISH, {END}, {R(1, X), SET(Y), AWAIT(G), {READ, X, 0, 8, 2, 8}, SET(H)},
      {AWAIT(Y), AWAIT(F), ACQ, SET(G), AWAIT(H), R(0, X)}}},
    {"a part of own store", NEVER, 1, 1, 0x0000000100000000,
     {{R(1, X), {WRITE, X, 0, 8, 0, 0x0000000100000001}, {WRITE, X, 0, 4, 0, 0}, R(0, X)}}},
    {"own sums", NEVER, 1, 1, 8, {{W(X, 5), ADD(X, 1), ADD(X, 2), R(0, X)}}},
    {"an atomic operation after settle", NEVER, 1, 1, 6,
     {{R(1, X), W(X, 5), {SETTLED, X, 0, 8, 0, 1}, R(0, X)}}},
    {"an atomic operation on a value read before", NEVER, 1, 1, 1,
     {{R(1, X), {SETTLED, X, 0, 8, 0, 1}, R(0, X)}}},
    {"sums of all are complete", NEVER, 4, 3, 4 * 3 * 20,
     {ADD_20, ADD_20, ADD_20, ADD_20}},
    {"fences between a store and a load", NEVER, 2, 1, 1,
     {{W(X, 1), FENCES(SYMM_EMULATED_RELEASE | SYMM_EMULATED_ACQUIRE), R(2, Y)},
      {W(Y, 1), FENCES(SYMM_EMULATED_RELEASE | SYMM_EMULATED_ACQUIRE), R(3, X)}}},
    {"a store and a load without fences", SEEN, 2, 1, 1,
     {{W(X, 1), R(2, Y)}, {W(Y, 1), R(3, X)}}},
    {"16 bytes are two halves", SEEN, 2, 1, 1,
     {{{WRITE, X, 0, 16, 0, 1}, SET(F)}, {AWAIT(F), {READ, X, 0, 16, 4, 0}}}},
};
/* clang-format on */

#endif
