/* What options are right together. */
#include "options_check.h"

#include <string.h>
#include "p2p.h"
#include "product.h"
#include "text.h"

static const char tool[] = "symm-bench";

static bool is_variant(const struct operation *operation, const char *name)
{
    const struct variant *v = operation->variants;

    while (v->name && strcmp(v->name, name) != 0)
        v++;
    return v->name != NULL;
}

static bool is_any_variant(const char *name)
{
    for (size_t i = 0; operation_at(i); i++) {
        if (is_variant(operation_at(i), name))
            return true;
    }
    return false;
}

static bool is_algo(const struct bench_options *o, const char *item)
{
    return o->operation ? is_variant(o->operation, item) : is_any_variant(item);
}

static bool is_how(const struct bench_options *o, const char *item)
{
    (void)o;
    return p2p_is_how(item);
}

static bool is_pattern(const struct bench_options *o, const char *item)
{
    (void)o;
    return p2p_is_pattern(item);
}

static bool is_operation(const struct bench_options *o, const char *item)
{
    (void)o;
    return operation_find(item) != NULL;
}

static bool is_reduced(const struct bench_options *o, const char *item)
{
    const struct element *e = element_find(item);

    (void)o;
    return e && !e->moved_only;
}

static bool is_strategy(const struct bench_options *o, const char *item)
{
    (void)o;
    for (const struct product_way *w = product_ways(SYMM_ALL_GATHER_MATMUL); w->name; w++) {
        if (w->kind == PRODUCT_GATHERED && strcmp(w->name, item) == 0)
            return true;
    }
    return false;
}

bool options_are_of_product(const struct bench_options *o)
{
    return o->command == BENCH_PRODUCT || o->command == BENCH_GATHERED_PRODUCT;
}

static bool is_peer(const struct bench_options *o, const char *item)
{
    return (strcmp(item, "nccl") == 0 && o->command != BENCH_PRODUCT) ||
           (options_are_of_product(o) &&
            (strcmp(item, "cublas") == 0 || strcmp(item, "none") == 0));
}

static bool is_size(const struct bench_options *o, const char *item)
{
    uint64_t nbytes;

    (void)o;
    return text_bytes(item, &nbytes);
}

static bool is_number(const struct bench_options *o, const char *item)
{
    int n;

    (void)o;
    return text_int(item, 1, 1 << 16, &n);
}

/* Returns -1 when every item of the list is one of what there is. */
static int check_list(const struct bench_options *o, const char *option, const char *list,
                      bool (*is_right)(const struct bench_options *, const char *),
                      const char *what)
{
    char item[64];

    if (!list || (strcmp(list, "all") == 0 && is_right != is_size && is_right != is_number))
        return -1;
    if (!*list)
        return text_usage_error(tool, "--%s: an empty list", option);
    while (text_next(&list, item, sizeof item)) {
        if (!is_right(o, item))
            return text_usage_error(tool, "--%s %s: %s", option, item, what);
    }
    return -1;
}

static int check_product(const struct bench_options *o)
{
    if (o->element->dtype != SYMM_BFLOAT16 && o->element->dtype != SYMM_FLOAT16)
        return text_usage_error(tool, "--dtype %s: products are of bf16 or fp16", o->element->name);
    if (o->suite && (o->m || o->n || o->k))
        return text_usage_error(tool, "--suite llama: it says what m, n and k are");
    if (o->alpha != 0 && (float)o->alpha == 0)
        return text_usage_error(tool, "--alpha %g: it is 0 in fp32", o->alpha);
    if (o->beta != 0 && (float)o->beta == 0)
        return text_usage_error(tool, "--beta %g: it is 0 in fp32", o->beta);
    if (o->nccl && !o->cublas && o->peers)
        return text_usage_error(tool, "--peer nccl: it gathers for cublas: --peer cublas,nccl");
    if (o->eps > 0 && !o->check)
        return text_usage_error(tool, "--eps %g: nothing is compared without --check", o->eps);
    return -1;
}

int options_check(const struct bench_options *o)
{
    const struct {
        const char *option, *list;
        bool (*is_right)(const struct bench_options *, const char *);
        const char *what;
    } lists[] = {
        {"algo", o->algos, is_algo, "there is no variant of that name"},
        {"strategy", o->strategies, is_strategy, "not auto, fused, pipelined or unfused"},
        {"peer", o->peers, is_peer, "there is no such peer here"},
        {"how", o->hows, is_how, "not one of " P2P_HOWS},
        {"pattern", o->patterns, is_pattern, "not one of " P2P_PATTERNS},
        {"operations", o->operations, is_operation, "there is no operation of that name"},
        {"dtypes", o->dtypes, is_reduced, "no type that can be reduced"},
        {"blocks", o->blocks, is_number, "not a number from 1"},
        {"sizes", o->sizes, is_size, "not a number of bytes like 4096, 64K or 1M"},
    };

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        int code = check_list(o, lists[i].option, lists[i].list, lists[i].is_right, lists[i].what);
        if (code >= 0)
            return code;
    }
    if (o->op == SYMM_AVG && o->element->integer)
        return text_usage_error(tool, "--op avg: there are averages of floating types only");
    if (o->operation && o->operation->reduces && o->element->moved_only)
        return text_usage_error(tool, "--dtype %s: nothing reduces it, and %s has to",
                                o->element->name, o->operation->name);
    if (o->operation && !operation_chains(o->operation) && o->timing == TIMING_CHAIN)
        return text_usage_error(tool, "--chain: input and output of %s differ in size",
                                o->operation->name);
    if (options_are_of_product(o))
        return check_product(o);
    if (o->max_bytes && o->max_bytes < o->min_bytes)
        return text_usage_error(tool, "--max-bytes is less than --min-bytes");
    if (o->command == BENCH_PLOT && o->nfiles == 0)
        return text_usage_error(tool, "plot: the JSON file is missing");
    if (o->command == BENCH_PLOT && !o->output)
        return text_usage_error(tool, "plot: -o FILE.svg is missing");
    if (o->command == BENCH_TUNE && !o->output)
        return text_usage_error(tool, "tune: --output FILE is missing");
    return -1;
}
