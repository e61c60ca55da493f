/* The table of operations, and what follows from a row of it. */
#include "operation.h"

#include <string.h>

const char operation_names[] = "all-reduce";

static const struct operation *const operations[] = {&operation_all_reduce};

const struct operation *operation_at(size_t index)
{
    return index < sizeof operations / sizeof operations[0] ? operations[index] : NULL;
}

const struct operation *operation_find(const char *name)
{
    size_t i = 0;

    while (operation_at(i) && strcmp(operation_at(i)->name, name) != 0)
        i++;
    return operation_at(i);
}

size_t operation_in_count(const struct operation *op, size_t count, int nranks)
{
    return op->in_is_part ? count / (size_t)nranks : count;
}

size_t operation_out_count(const struct operation *op, size_t count, int nranks)
{
    return op->out_is_part ? count / (size_t)nranks : count;
}

void operation_in_place(const struct operation *op, struct operation_call *call, void *whole)
{
    size_t rank = (size_t)symm_rank(call->group), nranks = (size_t)symm_nranks(call->group);
    char *part = (char *)whole + rank * (call->count / nranks) * call->element->nbytes;

    call->in = op->in_is_part ? part : whole;
    call->out = op->out_is_part ? part : whole;
}

void operation_check(const struct operation *op, const struct operation_call *call, const void *got,
                     uint64_t seed, int links, struct sums_verdict *out)
{
    int rank = symm_rank(call->group), nranks = symm_nranks(call->group);
    size_t part = call->count / (size_t)nranks;
    struct sums_asked asked = {.seed = seed,
                               .nranks = nranks,
                               .first = op->out_is_part ? (size_t)rank * part : 0,
                               .rule = op->rule(call->group, call->variant, call->element),
                               .links = links};
    struct sums_verdict one;

    if (!op->in_is_part) {
        sums_check(call->element, got, operation_out_count(op, call->count, nranks), &asked, out);
        return;
    }
    *out = (struct sums_verdict){0};
    asked.nranks = 1;
    for (int r = 0; r < nranks; r++) {
        asked.rank = r;
        sums_check(call->element, (const char *)got + (size_t)r * part * call->element->nbytes,
                   part, &asked, &one);
        one.first += (size_t)r * part;
        one.wrong += out->wrong;
        if (out->wrong)
            out->wrong = one.wrong;
        else
            *out = one;
    }
}
