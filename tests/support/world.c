/* Joining and leaving around a rank's function. */
#include "world.h"

void world_run(struct rank *self, void *arg, world_fn fn)
{
    symm_context *ctx = NULL;
    symm_stream s = NULL;

    RANK_TRY(self, rank_join(self, &ctx));
    RANK_TRY(self, symm_stream_create(ctx, &s));
    fn(self, arg, ctx, symm_context_world(ctx), s);
out:
    symm_stream_destroy(s);
    symm_context_destroy(ctx);
}
