/* Lists the algorithms of cuBLASLt that compete in a product's trials. */
#include "candidates.h"

#include <string.h>
#include "abi/cublaslt_configuration.h"

enum { HOPPER = 9 /* compute capability */ };

static struct symm_cublas_extents extents_of(const struct cublaslt_shape *s)
{
    return (struct symm_cublas_extents){.rows = s->d.rows,
                                        .columns = s->d.columns,
                                        .k = s->a.transposed ? s->a.rows : s->a.columns,
                                        .batches = s->batches};
}

/* Appends the configurations of the best tiles that cuBLASLt takes. */
static void add_configurations(const struct symm_cublas *c, const struct cublaslt_shape *shape,
                               const struct cublaslt_product *product, int k_parts,
                               const cublaslt_heuristic *from, struct symm_cublas_candidates *out)
{
    static const int clusters[SYMM_CUBLAS_CLUSTERS] = {CUBLASLT_CLUSTER_2X1, CUBLASLT_CLUSTER_4X1,
                                                       CUBLASLT_CLUSTER_1X2};
    const struct symm_cublas_extents extents = extents_of(shape);
    struct symm_cublas_tile tiles[SYMM_CUBLAS_TILES];
    const int ntiles = symm__cublas_tiles(&extents, c->ctx->agreed.nsms, tiles);

    for (int i = 0; i < ntiles; i++)
        for (int j = 0; j < SYMM_CUBLAS_CLUSTERS; j++) {
            const struct cublaslt_configuration with = {.tile_rows = tiles[i].rows,
                                                        .tile_columns = tiles[i].columns,
                                                        .cluster = clusters[j],
                                                        .k_parts = k_parts};
            out->algorithms[out->n] = *from;
            out->n +=
                symm__cublaslt_configure(&c->lt, shape, product, &with, &out->algorithms[out->n]);
        }
}

/* Keeps the proposals with this number of parts. */
static void keep_parts(const struct cublaslt *lt, int k_parts, struct symm_cublas_candidates *out)
{
    int kept = 0;

    for (int i = 0; i < out->n; i++)
        if (symm__cublaslt_k_parts(lt, &out->algorithms[i]) == k_parts)
            out->algorithms[kept++] = out->algorithms[i];
    out->n = kept;
}

bool symm__cublas_candidates(const struct symm_cublas *c, const struct cublaslt_shape *shape,
                             const struct cublaslt_product *product, bool any_order,
                             struct symm_cublas_candidates *out, char why[CUBLASLT_WHY])
{
    const struct symm_cublas_extents extents = extents_of(shape);
    const int k_parts = symm__cublas_k_parts(&extents, c->ctx->agreed.nsms);
    struct symm_cublas_candidates proposals = {.n = 0};

    proposals.n = symm__cublaslt_algorithms(&c->lt, shape, product, proposals.algorithms,
                                            SYMM_CUBLAS_PROPOSALS, why);
    *out = proposals;
    if (proposals.n == 0)
        strcpy(why, "it has no algorithm");
    if (proposals.n <= 0 || c->ctx->agreed.compute_major != HOPPER)
        return proposals.n > 0;
    if (!any_order)
        keep_parts(&c->lt, k_parts, out);
    add_configurations(c, shape, product, k_parts, &proposals.algorithms[0], out);
    if (out->n == 0)
        *out = proposals;
    return true;
}
