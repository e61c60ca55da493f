/* What options are right together. */
#include "options_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "bench/measure/p2p.h"
#include "common/text.h"
#include "operations/product.h"
#include "option_table.h"

static const char tool[] = "symm-bench";

static bool is_algo(const struct bench_options *o, const char *item)
{
    char names[SETTING_ALGOS];

    return bench_options_name(setting_algos(o->operation, ",", names), item);
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
        return text_usage_error(tool, "--suite llama sets m, n and k: leave out -m, -n and -k");
    if (o->alpha != 0 && (float)o->alpha == 0)
        return text_usage_error(tool, "--alpha %g: it is 0 in fp32", o->alpha);
    if (o->beta != 0 && (float)o->beta == 0)
        return text_usage_error(tool, "--beta %g: it is 0 in fp32", o->beta);
    if (o->nccl && !o->cublas && o->peers)
        return text_usage_error(tool, "--peer nccl: it only gathers, and multiplies with cublas: "
                                      "--peer cublas,nccl");
    if (o->eps > 0 && !o->check)
        return text_usage_error(tool, "--eps %g: nothing is compared without --check", o->eps);
    return -1;
}

/* Names those that is_peer() takes. */
static const char *peer_names(const struct bench_options *o)
{
    return o->command == BENCH_PRODUCT            ? "not cublas or none"
           : o->command == BENCH_GATHERED_PRODUCT ? "not one of cublas, nccl, none"
                                                  : "the only peer is nccl";
}

int options_check(const struct bench_options *o)
{
    char names[SETTING_ALGOS], algos[SETTING_ALGOS + 16];

    snprintf(algos, sizeof algos, "not one of %s", setting_algos(o->operation, ", ", names));
    const struct {
        const char *option, *list;
        bool (*is_right)(const struct bench_options *, const char *);
        const char *what;
    } lists[] = {
        {"algo", o->algos, is_algo, algos},
        {"strategy", o->strategies, is_strategy, "not auto, fused, pipelined or unfused"},
        {"peer", o->peers, is_peer, peer_names(o)},
        {"how", o->hows, is_how, "not one of " P2P_HOWS},
        {"pattern", o->patterns, is_pattern, "not one of " P2P_PATTERNS},
        {"operations", o->operations, is_operation, "not one of " OPERATION_NAMES},
        {"dtypes", o->dtypes, is_reduced, "not one of " ELEMENT_REDUCED_NAMES},
        {"blocks", o->blocks, is_number, "not a number from 1 to 65536"},
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
        return text_usage_error(tool, "--dtype %s: %s reduces " ELEMENT_REDUCED_NAMES,
                                o->element->name, o->operation->name);
    if (options_are_of_product(o))
        return check_product(o);
    if (o->max_bytes && o->max_bytes < o->min_bytes)
        return text_usage_error(tool, "--max-bytes %" PRIu64 " is less than --min-bytes %" PRIu64,
                                o->max_bytes, o->min_bytes);
    if (o->command == BENCH_PLOT && o->nfiles == 0)
        return text_usage_error(tool, "plot: the JSON file is missing");
    if (o->command == BENCH_PLOT && !o->output)
        return text_usage_error(tool, "plot: -o FILE.svg is missing");
    if (o->command == BENCH_TUNE && !o->output)
        return text_usage_error(tool, "tune: --output FILE is missing");
    return -1;
}
