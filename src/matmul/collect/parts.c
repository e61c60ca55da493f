/* The parts of sums that a product adds, and the tiles that it signals. */
#include "parts.h"

#include "layout.h"
#include "matmul/plan/lines.h"
#include "matmul/plan/model.h"
#include "matmul/plan/order.h"

/* Of tiles that are signalled. */
static const struct symm_tile_shape *shape_of(const struct symm_collect *c)
{
    return &symm__wgmma_shapes[c->plan->shape - 1];
}

uint64_t symm__collect_tiles(const struct symm_collect *c)
{
    const struct symm_tile_shape *shape = shape_of(c);

    return symm__tiles_of_owner(c->problem,
                                symm__collect_has_bands(c) ? SYMM_TO_ALL : c->plan->sink, 0,
                                shape->rows, shape->columns);
}

/* Whether d[i] gets just the sums, in their own type, and the copy unit can add to it. */
static bool is_plain_sum(const struct symm_collect *c, const struct symm_problem *p, int i)
{
    const symm_matrix *d = &p->d[i].matrix;
    const struct symm_lines lines = symm__lines_of(
        d, true, symm__rows_of_owner(p, c->plan->sink, p->collect_rank), p->n[i], p->l);

    return d->dtype == (uint32_t)p->partial[i] && d->dtype != SYMM_FLOAT32 && d->column == 1 &&
           p->n[i] % SYMM_PACK_ELEMENTS == 0 && symm__lines_suit_copies(&lines) &&
           (p->beta == 0 || !p->c[i].matrix.data) && !p->bias[i].matrix.data;
}

static bool are_plain_sums(const struct symm_collect *c, const struct symm_problem *p)
{
    bool all = p->alpha == 1 && p->activation == SYMM_NONE;

    for (int i = 0; i < p->nb && all; i++)
        all = is_plain_sum(c, p, i);
    return all;
}

/* Whether the product can store its results as the way of the sums wants them. */
static bool suits_sums(const struct symm_collect *c, const struct symm_problem *p)
{
    bool narrow = true;

    if (c->plan->sums == SYMM_SUMS_PARTS)
        return are_plain_sums(c, p);
    for (int i = 0; i < p->nb; i++)
        narrow = narrow && p->partial[i] != SYMM_FLOAT32;
    return narrow || c->plan->sums == SYMM_SUMS_PACKS;
}

void symm__collect_parts(const struct symm_collect *c, const struct symm_problem *p, bool can_add,
                         symm_parts *out)
{
    *out = (symm_parts){.pad = NULL};
    if (c->plan->sums == SYMM_SUMS_COLLECTED)
        return;
    const struct symm_collect_layout layout = symm__collect_layout(c, p);

    out->pad = c->pad;
    out->state = c->state;
    out->set_nbytes = symm__collect_has_sets(c) ? layout.set_nbytes : 0;
    out->all_own = c->plan->sink == SYMM_TO_ALL || symm__collect_has_bands(c);
    if (symm__signals_tiles(c->plan)) {
        const struct symm_tile_shape *shape = shape_of(c);
        out->rows = shape->rows;
        out->columns = shape->columns;
        out->band_rows = (int32_t)c->plan->band * shape->rows * shape->cluster;
    }
    out->sums = c->plan->sums;
    out->by_switch = symm__collect_is_bound(c, &layout);
    out->beside = can_add && suits_sums(c, p);
    for (int i = 0; i < p->nb; i++) {
        out->slots[i] = layout.of_rank[i];
        out->slot_nbytes[i] = layout.slot_nbytes[i];
    }
}
