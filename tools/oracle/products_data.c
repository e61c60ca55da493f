/* The random matrices of products. */
#include "products_data.h"

#include <math.h>
#include "parallel.h"
#include "sums.h"

enum { LEAST_FILLED = 128 * PRODUCTS_BLOCK /* by a thread */ };

int products_process(const struct products *p, int rank)
{
    if (!p->process)
        return rank;
    return rank == 0 ? p->process - 1 : 2 - p->process;
}

uint64_t products_key(const struct products *p, int process, enum matrix matrix)
{
    const uint64_t rest = sums_seed(p->seed, (uint64_t)process + 3);
    const bool shared = matrix == MATRIX_A && p->kind == SYMM_ALL_GATHER_MATMUL && !p->process;

    return sums_seed(shared ? p->seed : rest, matrix);
}

/* Two independent normal numbers, by the method of Box and Muller. */
static void normal_pair(uint64_t h, union element_number out[2])
{
    const double uniform = ((double)(h >> 32) + 1) * 0x1p-32, angle = (double)(uint32_t)h * 0x1p-32,
                 radius = sqrt(-2 * log(uniform));

    out[0].real = radius * cos(2 * 3.14159265358979323846 * angle);
    out[1].real = radius * sin(2 * 3.14159265358979323846 * angle);
}

/* Draws numbers `first` to first + n - 1 of a key: two of each pair. */
static void draw(const struct element *e, uint64_t key, size_t first, size_t n, char *out)
{
    union element_number x[PRODUCTS_BLOCK + 2];

    for (size_t done = 0; done < n;) {
        const size_t at = first + done, odd = at % 2, rest = n - done,
                     count = rest < PRODUCTS_BLOCK ? rest : PRODUCTS_BLOCK;

        for (size_t i = 0; i < odd + count; i += 2)
            normal_pair(sums_seed(key, (at + i) / 2), x + i);
        element_narrow(e, x + odd, out + done * e->nbytes, count);
        done += count;
    }
}

void products_draw(const struct element *e, uint64_t key, size_t first, size_t n, float *out)
{
    union element_number x[PRODUCTS_BLOCK];
    char elements[PRODUCTS_BLOCK * sizeof(uint64_t)];

    draw(e, key, first, n, elements);
    element_widen(e, elements, x, n);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)x[i].real;
}

struct filling {
    const struct element *element;
    char *out;
    uint64_t key;
    size_t first; /* of the key's numbers */
};

/* Items are numbers. */
static void fill_part(void *argument, int part, size_t begin, size_t end)
{
    const struct filling *f = argument;

    (void)part;
    draw(f->element, f->key, f->first + begin, end - begin, f->out + begin * f->element->nbytes);
}

/* `count` numbers of a rank's matrix, from number `first` on. */
static void fill(const struct products *p, char *out, int rank, enum matrix matrix, size_t first,
                 size_t count)
{
    struct filling f = {p->element, out, products_key(p, products_process(p, rank), matrix), first};

    parallel_run(count, LEAST_FILLED, fill_part, &f);
}

/* The gathered A. Each rank's rows are the first of its process's. */
static void fill_played(const struct products *p)
{
    const size_t row = (size_t)p->k;
    char *out = p->a;

    for (int l = 0; l < p->l; l++)
        for (int rank = 0; rank < p->nranks; rank++) {
            const size_t count = (size_t)share_of(p->m, p->nranks, rank) * row;

            fill(p, out, rank, MATRIX_A, (size_t)l * (size_t)share_of(p->m, p->nranks, 0) * row,
                 count);
            out += count * p->element->nbytes;
        }
}

void products_fill(struct products *p, uint64_t seed)
{
    p->seed = seed;
    if (p->process && p->kind == SYMM_ALL_GATHER_MATMUL)
        fill_played(p);
    else
        fill(p, p->a, p->rank, MATRIX_A, 0, products_a_count(p));
    fill(p, p->b, p->rank, MATRIX_B, 0, products_b_count(p));
    if (p->c)
        fill(p, p->c, p->rank, MATRIX_C, 0, products_c_count(p));
}
