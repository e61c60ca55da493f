/* Builds without multicast: there are no objects. */
#include "runtime/memory/state.h"

#if !SYMM_MULTICAST

symm_status symm__multicast_obtain(struct symm_memory *m, struct symm_host_comm *comm,
                                   const char *call, struct symm_multicast **out, const char **off)
{
    (void)comm;
    (void)call;
    *out = NULL;
    *off =
        m->config.multicast_off ? m->config.multicast_off : "this build of symm has no multicast";
    return SYMM_OK;
}

void symm__multicast_put_back(struct symm_memory *m, struct symm_multicast *mc)
{
    (void)m;
    (void)mc;
}

char *symm__multicast_window(const struct symm_multicast *mc)
{
    (void)mc;
    return NULL;
}

bool symm__multicast_covers(const struct symm_multicast *mc, uint64_t off, size_t nbytes)
{
    (void)mc;
    (void)off;
    (void)nbytes;
    return false;
}

symm_status symm__multicast_bind_begin(struct symm_memory *m, struct symm_host_comm *comm,
                                       struct symm_segment *s, struct symm_multicast_bind *bind)
{
    (void)m;
    (void)comm;
    *bind = (struct symm_multicast_bind){.segment = s};
    return SYMM_OK;
}

symm_status symm__multicast_bind_end(struct symm_memory *m, struct symm_host_comm *comm,
                                     const char *what, struct symm_multicast_bind *bind,
                                     struct symm_multicast_report *all)
{
    (void)m;
    (void)comm;
    (void)what;
    (void)bind;
    (void)all;
    return SYMM_OK;
}

void symm__multicast_bind_drop(struct symm_memory *m, struct symm_multicast_bind *bind)
{
    (void)m;
    (void)bind;
}

void symm__multicast_unbind_segment(struct symm_memory *m, struct symm_segment *s)
{
    (void)m;
    (void)s;
}

void symm__multicast_close(struct symm_memory *m)
{
    (void)m;
}

bool symm__multicast_owns(const struct symm_memory *m, CUdeviceptr addr)
{
    (void)m;
    (void)addr;
    return false;
}

#else

typedef int symm_multicast_is_in_this_build; /* ISO C wants a declaration */

#endif
