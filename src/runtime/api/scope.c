#include "scope.h"

#include "runtime/group/call.h"

symm_status symm__scope_begin(struct symm_scope *s, CUstream stream)
{
    CUcontext ctx;
    symm_status st = SYMM_OK;

    s->drv = symm__driver_current();
    if (!s->drv)
        return symm__fail(SYMM_ERROR_STATE, "this process has no context of symm (or was forked)");
    if (stream) {
        TRY_CU(s->drv, cuStreamGetCtx, stream, &ctx);
        TRY_CU(s->drv, cuCtxPushCurrent, ctx);
        s->pushed = true;
    }
out:
    return st;
}

symm_status symm__scope_begin_in(struct symm_scope *s, struct symm_context *ctx)
{
    symm_status st = SYMM_OK;

    if (!ctx)
        return symm__fail(SYMM_ERROR_ARGUMENT, "the context is NULL");
    if (symm__forked(ctx))
        return symm__fail(SYMM_ERROR_STATE, SYMM_GONE("context"));
    s->drv = ctx->drv;
    TRY_CU(s->drv, cuCtxPushCurrent, ctx->primary);
    s->pushed = true;
out:
    return st;
}

symm_status symm__scope_end(struct symm_scope *s, symm_status st, const char *call)
{
    CUcontext popped;

    if (s->pushed)
        s->drv->cuCtxPopCurrent(&popped);
    return st == SYMM_OK ? SYMM_OK : symm__fail_in(st, "%s: ", call);
}

symm_status symm__need(const void *argument, const char *name)
{
    return argument ? SYMM_OK : symm__fail(SYMM_ERROR_ARGUMENT, "%s is NULL", name);
}
