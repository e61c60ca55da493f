#include "runtime/api/stream_barrier.h"
#include "spanning.h"

symm_status symm_barrier(symm_group *group, symm_stream stream)
{
    struct symm_call e;
    symm_status st;

    TRY(symm__enter(group, "symm_barrier"));
    if (group->domains)
        TRY(symm__spanning_provide(group, "symm_barrier", stream));
    TRY(symm__call_begin_spanning(&e, group, stream, true, "symm_barrier()"));
    st = symm__call_end(&e, group->domains ? symm__spanning_barrier(&e) : symm__stream_barrier(&e));
out:
    return st;
}
