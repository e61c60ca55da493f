/* The real NCCL. */
#ifndef SYMM_NCCL_REAL_H
#define SYMM_NCCL_REAL_H

#include <stdbool.h>
#include "abi/nccl.h"

struct nccl_real {
    bool alone;          /* SYMM_NCCL_LIBRARY=none: the functions are those of alone.c */
    const char *path;    /* of the library; NULL: there is none */
    const char *missing; /* the reason, if there is none */
#define NCCL_POINTER_(type, name, parameters, arguments) type(*name) parameters;
    NCCL_FUNCTIONS(NCCL_POINTER_)
#undef NCCL_POINTER_
};

/*
 * Only in the library that has all names. A preloaded one without them leaves communicators that
 * are symm's alone to functions of the real NCCL. Its address is NULL elsewhere.
 */
extern const char nccl__replaces __attribute__((weak, visibility("hidden")));

/* Opens the library at the first call. A function that it lacks is NULL. */
const struct nccl_real *nccl__real(void);

/* A function of the real library by its name; NULL: it has none. */
void *nccl__real_function(const char *name);

/*
 * Depth of calls of this thread inside the real library. Its own calls of public functions come
 * back to ours, which must pass them on.
 */
extern _Thread_local int nccl__inside;

/* Records that the real library lacks a function. */
ncclResult_t nccl__lacks(const char *name);

/* Calls a function of the real library, which returns a result: NCCL_REAL(ncclGroupEnd, ()). */
#define NCCL_REAL(name, arguments)                                                                 \
    __extension__({                                                                                \
        ncclResult_t result_;                                                                      \
        nccl__inside++;                                                                            \
        result_ = nccl__real()->name ? nccl__real()->name arguments : nccl__lacks(#name);          \
        nccl__inside--;                                                                            \
        result_;                                                                                   \
    })

#endif
