/* NCCL as a peer: opened at run time, never linked. */
#ifndef SYMM_TOOLS_NCCL_H
#define SYMM_TOOLS_NCCL_H

#include <stdbool.h>
#include <symm/symm.h>

struct nccl;

enum { NCCL_VERSION = 32, NCCL_FILE = 512 };

struct nccl_found {
    char version[NCCL_VERSION]; /* "2.28.3" */
    char file[NCCL_FILE];
};

/* Opens the NCCL that symm would open. False: there is none, with the reason in why. Local. */
bool nccl_find(struct nccl_found *found, char why[512]);

/*
 * Opens NCCL (the one that the process has, else the file that SYMM_NCCL_LIBRARY names, else
 * libnccl.so.2) and joins the group's ranks.
 * Where symm has no multicast NCCL is opened only with NCCL_NVLS_ENABLE=0 in the environment, which
 * nothing here changes.
 *
 * Collective. Returns NULL on all ranks alike, with the reason in why; *st is then not OK if symm
 * itself failed.
 */
struct nccl *nccl_open(symm_group *group, char why[512], symm_status *st);
/* healthy: all ranks call it; else it waits for no rank. NULL is fine. */
void nccl_close(struct nccl *n, bool healthy);

/* "2.28.3" */
const char *nccl_version(const struct nccl *n);

/*
 * Memory that NCCL's symmetric kernels can use: ncclMemAlloc and ncclCommWindowRegister, of 2.27
 * and later. nbytes > 0. nccl_close() frees it. Collective; fails on all ranks alike,
 * with the reason in why and *st as in nccl_open().
 */
void *nccl_symmetric_alloc(struct nccl *n, symm_group *group, size_t nbytes, char why[512],
                           symm_status *st);

/*
 * Stream-ordered. Arguments are those of symm's functions; reductions take the types that symm
 * reduces, and an all-gather ignores op. ERROR_DRIVER: nccl_error() has the reason.
 */
symm_status nccl_all_reduce(struct nccl *n, const void *in, void *out, size_t count,
                            symm_dtype dtype, symm_redop op, symm_stream stream);
symm_status nccl_all_gather(struct nccl *n, const void *in, void *out, size_t count,
                            symm_dtype dtype, symm_redop op, symm_stream stream);
symm_status nccl_reduce_scatter(struct nccl *n, const void *in, void *out, size_t count,
                                symm_dtype dtype, symm_redop op, symm_stream stream);

/* in: of the root; NULL on the other ranks. */
symm_status nccl_broadcast(struct nccl *n, const void *in, void *out, size_t count,
                           symm_dtype dtype, int root, symm_stream stream);

/* The error of NCCL; NULL: none. NULL is fine. */
const char *nccl_error(const struct nccl *n);

#endif
