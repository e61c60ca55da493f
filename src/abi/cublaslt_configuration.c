/* Reads and sets configurations of cuBLASLt's algorithms. */
#include "cublaslt_configuration.h"

enum { COLUMNS = 8, COLUMNS_MAX = 256 }; /* tiles have multiples of 8 columns */

/* Numbers of tiles with 8, 16, 24 ... columns. */
static const struct {
    int rows;
    int16_t numbers[COLUMNS_MAX / COLUMNS];
} tiles[] = {
    {64, {10,  312, 313, 13,  314, 315, 316, 15,  317, 318, 319, 26,  320, 321, 322, 17,
          323, 324, 325, 326, 327, 328, 329, 116, 330, 331, 332, 333, 334, 335, 336, 19}},
    {128, {393, 394, 395, 16, 396, 397, 398, 18, 399, 400, 401, 33,  402, 403, 404, 20,
           405, 406, 407, 29, 408, 409, 410, 32, 411, 412, 413, 414, 415, 416, 417, 23}},
    {192, {448, 449, 450, 451, 452, 453, 454, 208, 455, 456, 457, 458, 459, 460, 461, 31,
           462, 463, 464, 465, 466, 467, 468, 209, 469, 470, 471, 472, 473, 474, 475, 210}},
    {256, {486, 487, 488, 35,  489, 490, 491, 21,  492, 493, 494, 495, 496, 497, 498, 24,
           499, 500, 501, 502, 503, 504, 505, 232, 506, 507, 508, 509, 510, 511, 512, 513}},
    {384, {537, 538, 539, 540, 541, 542, 543, 263, 544, 545, 546,
           547, 548, 549, 550, 264, 551, 552, 553, 554, 555}},
};

/*
 * Custom options have no names. These are the ones that cuBLASLt's own proposals for Hopper GPUs
 * have with such clusters; tiles that are too large for them have the same plus LARGE.
 */
enum { CUSTOM_DOWN = 1, CUSTOM_ACROSS = 3, CUSTOM_LARGE = 4 };

int symm__cublaslt_tile(int rows, int columns)
{
    if (columns < COLUMNS || columns > COLUMNS_MAX || columns % COLUMNS != 0)
        return 0;
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++)
        if (tiles[i].rows == rows)
            return tiles[i].numbers[columns / COLUMNS - 1];
    return 0;
}

int symm__cublaslt_k_parts(const struct cublaslt *lt, const cublaslt_heuristic *algorithm)
{
    int32_t parts = 0;
    size_t nbytes = 0;

    return lt->config_get(&algorithm->algorithm, CUBLASLT_ALGORITHM_K_PARTS, &parts, sizeof parts,
                          &nbytes)
               ? 0
               : parts;
}

static bool set(const struct cublaslt *lt, cublaslt_heuristic *algorithm, int attribute,
                const void *value, size_t nbytes)
{
    return lt->config_set(&algorithm->algorithm, attribute, value, nbytes) == 0;
}

static bool set_all(const struct cublaslt *lt, const struct cublaslt_configuration *with,
                    uint32_t custom, cublaslt_heuristic *algorithm)
{
    const uint32_t tile = (uint32_t)symm__cublaslt_tile(with->tile_rows, with->tile_columns),
                   reduction = with->k_parts > 1 ? CUBLASLT_REDUCTION_COMPUTE_TYPE : 0;
    const uint16_t cluster = (uint16_t)with->cluster;
    const int32_t parts = with->k_parts;

    return tile && set(lt, algorithm, CUBLASLT_ALGORITHM_TILE, &tile, sizeof tile) &&
           set(lt, algorithm, CUBLASLT_ALGORITHM_K_PARTS, &parts, sizeof parts) &&
           set(lt, algorithm, CUBLASLT_ALGORITHM_REDUCTION, &reduction, sizeof reduction) &&
           set(lt, algorithm, CUBLASLT_ALGORITHM_CUSTOM_OPTION, &custom, sizeof custom) &&
           set(lt, algorithm, CUBLASLT_ALGORITHM_CLUSTER, &cluster, sizeof cluster);
}

/* Whether cuBLASLt takes the algorithm with its workspace. */
static bool check(const struct cublaslt *lt, const struct cublaslt_shape *shape,
                  const struct cublaslt_product *p, cublaslt_heuristic *algorithm)
{
    cublaslt_heuristic result = {.state = 0};

    if (lt->check(lt->handle, p->operation, p->a, p->b, p->d, p->d, &algorithm->algorithm,
                  &result) != 0 ||
        result.state != 0 || result.workspace_nbytes > shape->workspace_nbytes)
        return false;
    algorithm->workspace_nbytes = result.workspace_nbytes;
    return true;
}

bool symm__cublaslt_configure(const struct cublaslt *lt, const struct cublaslt_shape *shape,
                              const struct cublaslt_product *product,
                              const struct cublaslt_configuration *with,
                              cublaslt_heuristic *algorithm)
{
    const uint32_t custom = with->cluster == CUBLASLT_CLUSTER_1X2 ? CUSTOM_ACROSS : CUSTOM_DOWN;

    return (set_all(lt, with, custom, algorithm) && check(lt, shape, product, algorithm)) ||
           (set_all(lt, with, custom + CUSTOM_LARGE, algorithm) &&
            check(lt, shape, product, algorithm));
}
