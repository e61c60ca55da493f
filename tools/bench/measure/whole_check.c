#include "whole_check.h"

#include "whole_check_args.h"

extern const symm_image whole_check_kernels;

symm_status whole_check_open(struct session *s, struct whole_check *out)
{
    symm_status st;

    TRY(symm_kernel_load(s->ctx, &whole_check_kernels, "whole_check", &out->kernel));
    TRY(symm_kernel_max_blocks(s->group, out->kernel, WHOLE_CHECK_THREADS, 0, &out->most_blocks));
    st = symm_device_alloc(s->ctx, sizeof *out->wrong, (void **)&out->wrong);
out:
    return st;
}

void whole_check_close(struct session *s, struct whole_check *check)
{
    symm_kernel_unload(check->kernel);
    if (check->wrong)
        symm_device_free(s->ctx, check->wrong);
}

static uint64_t tiles(uint64_t extent)
{
    return (extent + WHOLE_CHECK_TILE - 1) / WHOLE_CHECK_TILE;
}

symm_status whole_check_count(struct session *s, const struct whole_check *check,
                              const struct products *p, const struct product_buffers *on,
                              uint64_t *wrong)
{
    const uint64_t all = (uint64_t)p->l * tiles((uint64_t)p->m) * tiles((uint64_t)p->n);
    const symm_grid grid = {.blocks = all < check->most_blocks ? (uint32_t)all : check->most_blocks,
                            .threads = WHOLE_CHECK_THREADS};
    whole_check_args args = {
        .a = on->a,
        .b = on->b,
        .c = on->c,
        .d = on->d,
        .wrong = check->wrong,
        .alpha = p->alpha,
        .beta = p->beta,
        .eps = p->eps,
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .l = p->l,
        .is_f16 = p->element->dtype == SYMM_FLOAT16,
        .b_by_columns = p->b_by_columns,
        .d_by_columns = p->d_by_columns,
    };
    uint32_t count = 0;
    symm_status st;

    TRY(symm_group_view(s->group, &args.view));
    TRY(symm_fill(check->wrong, 0, sizeof count, s->stream));
    TRY(symm_launch(s->group, check->kernel, &grid, &args, sizeof args, s->stream));
    TRY(symm_copy(&count, check->wrong, sizeof count, s->stream));
    TRY(symm_synchronize(s->group, s->stream));
    *wrong = count;
out:
    return st;
}
