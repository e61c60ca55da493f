/* Windows of symmetric memory: ncclCommWindowRegister() as symm_register(). */
#ifndef SYMM_NCCL_WINDOWS_H
#define SYMM_NCCL_WINDOWS_H

#include "comm.h"

/* A window that the real library makes. */
struct nccl_window_request {
    struct nccl_comm *comm;
    void *ptr;
    size_t nbytes;
    ncclWindow_t *window; /* filled in when the real library is done; stays NULL if it makes none */
};

/*
 * Begins to map the memory of a communicator's windows, n of them, in symm's windows, in a thread
 * of the communicator: on all ranks or on none. The real library may still be at work. Without it,
 * calls treat the memory as plain. requests is copied; NULL: this rank has no memory for it.
 */
void nccl__windows_add(struct nccl_comm *comm, const struct nccl_window_request *requests, int n);
/* Before the real library removes a window. Waits for the communicator's calls. */
void nccl__windows_remove(struct nccl_comm *comm, ncclWindow_t real);
/* Forgets all of them; the context frees their memory. */
void nccl__windows_forget(struct nccl_binding *binding);

/* Whether [ptr, ptr + nbytes) lies in a window. */
bool nccl__windows_have(const struct nccl_binding *binding, const void *ptr, size_t nbytes);
/* Changes the addresses of a call's buffers in windows to symm's. */
void nccl__windows_translate(const struct nccl_binding *binding, const void **in, size_t in_nbytes,
                             void **out, size_t out_nbytes);

#endif
