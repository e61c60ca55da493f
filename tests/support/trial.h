/*
 * Collective calls with checks of all memory around them: fresh random data at any address; outputs
 * and the bytes around them filled with a pattern first. Plans make many of them.
 */
#ifndef TEST_TRIAL_H
#define TEST_TRIAL_H

#include "collective.h"
#include "ranks.h"

/* The place of a rank's in and out. The library decides alike on all ranks in each case. */
enum trial_place {
    SYMMETRIC_IN_PLACE,
    SYMMETRIC,
    FOREIGN_IN_PLACE,
    FOREIGN,
    FOREIGN_ON_ODD_RANKS,
    FOREIGN_ON_ONE_RANK,
    OTHER_OFFSET_ON_EACH_RANK,
    UNALIGNED_ALIKE,
    UNALIGNED_ON_EACH_RANK,
    FOREIGN_UNALIGNED,
    ONLY_IN_SYMMETRIC,
    ONLY_OUT_SYMMETRIC,
    TRIAL_PLACES
};

enum { TRIAL_MARGIN = 1024 }; /* around each buffer */

struct trial_buffers {
    symm_context *ctx;
    char *symmetric[2], *foreign[2]; /* in, out */
    char *sent[2], *got;             /* on the host */
    size_t nbytes;                   /* of each, margins included */
    symm_stream stream;
};

/* For calls whose larger buffer has at most `most` bytes. */
symm_status trial_open(symm_context *ctx, size_t most, struct trial_buffers *b);
void trial_close(struct trial_buffers *b); /* empty ones, too */

/* Where this rank's data of the call are. */
void trial_put(const struct trial_buffers *b, const struct collective *c, enum trial_place place,
               int rank, int nranks, char **in, char **out);

/* One call: its result is right, nothing else has changed. Counts calls in value[0]. */
symm_status trial_call(struct rank *self, symm_group *group, const struct trial_buffers *b,
                       enum trial_place place, const struct collective *c);

struct trial_kind {
    symm_dtype dtype;
    symm_redop op;
};

struct trial_plan {
    enum collective_operation operation;
    const symm_algo *algos;
    int nalgos;
    const struct trial_kind *kinds;
    int nkinds;
    size_t most;     /* elements a rank counts */
    int ncounts;     /* how many counts each algorithm gets with each kind */
    bool all_places; /* each count at every place; else at one, drawn */
    bool special;    /* floats have NaNs, infinities and zeros among them */
};

/*
 * Runs the plan in a world; fails the test if something was wrong, or if one of the algorithms did
 * not run with two ranks or more. Prints how many calls there were.
 */
void trial_run(int nranks, enum ranks_mode mode, const struct trial_plan *plan);

/* The last of three ranks aborts instead of calling; the others are told within a second. */
void trial_abort(const struct collective *c);

/* Rank 1 makes another call. All three ranks must be told ERROR_MISMATCH, in a text with this. */
void trial_mismatch(const struct collective *c, const struct collective *other, const char *part);

#endif
