/* NCCL as a peer to be compared with: opened at run time, never linked. */
#ifndef SYMM_TOOLS_NCCL_H
#define SYMM_TOOLS_NCCL_H

#include <stdbool.h>
#include <symm/symm.h>

struct nccl;

/*
 * Opens NCCL (the file SYMM_NCCL_LIBRARY names, else libnccl.so.2) and joins the group's ranks.
 * Where symm has no multicast, NCCL must be told so as well: nothing here changes the environment,
 * so without NCCL_NVLS_ENABLE=0 in it NCCL is not opened.
 *
 * Collective. Returns NULL on all ranks alike, with the reason in why; *st is then not OK if symm
 * itself failed.
 */
struct nccl *nccl_open(symm_group *group, char why[512], symm_status *st);
/* healthy: all ranks come here; else nobody is waited for. NULL is fine. */
void nccl_close(struct nccl *n, bool healthy);

/* "2.28.3" */
const char *nccl_version(const struct nccl *n);

/*
 * Memory that NCCL's symmetric kernels can use: ncclMemAlloc and ncclCommWindowRegister, of 2.27
 * and later. nbytes > 0; it is nccl_close() that frees it. Collective; fails on all ranks alike,
 * with the reason in why and *st as in nccl_open().
 */
void *nccl_symmetric_alloc(struct nccl *n, symm_group *group, size_t nbytes, char why[512],
                           symm_status *st);

/*
 * Stream-ordered. Arguments mean what they mean in symm's functions; what reduces takes the types
 * that symm reduces. ERROR_DRIVER: nccl_error() says what went wrong.
 */
symm_status nccl_all_reduce(struct nccl *n, const void *in, void *out, size_t count,
                            symm_dtype dtype, symm_redop op, symm_stream stream);
symm_status nccl_all_gather(struct nccl *n, const void *in, void *out, size_t count,
                            symm_dtype dtype, symm_stream stream);
symm_status nccl_reduce_scatter(struct nccl *n, const void *in, void *out, size_t count,
                                symm_dtype dtype, symm_redop op, symm_stream stream);

/* What went wrong in NCCL; NULL: nothing has. NULL is fine. */
const char *nccl_error(const struct nccl *n);

#endif
