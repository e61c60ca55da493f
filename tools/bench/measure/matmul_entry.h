/* A variant of a product at one shape: a subject, and the checks of its results. */
#ifndef SYMM_BENCH_MATMUL_ENTRY_H
#define SYMM_BENCH_MATMUL_ENTRY_H

#include "matmul_round.h"
#include "subject.h"
#include "whole_check.h"

struct matmul_entry {
    struct matmul_round *round;
    struct whole_check *whole; /* with --check */
    struct product_call call;
    const struct products *expected;
};

/* Of subjects that are a matmul_entry. */
extern const struct subject_kind matmul_entry_kind;

/* Whether a kernel can compare all of it: it has the data of this rank only. */
bool matmul_is_own(const struct products *expected);

#endif
