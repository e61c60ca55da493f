#include "scales.h"

#include <stdlib.h>

struct nccl_scale_entry {
    struct nccl_scale_entry *next;
    ncclRedOp_t op;
    struct nccl_scale scale;
};

bool nccl__scale_add(struct nccl_binding *b, ncclRedOp_t op, const struct nccl_scale *scale)
{
    struct nccl_scale_entry *entry = malloc(sizeof *entry);

    if (!entry)
        return false;
    *entry = (struct nccl_scale_entry){b->scales, op, *scale};
    b->scales = entry;
    return true;
}

void nccl__scale_remove(struct nccl_binding *b, ncclRedOp_t op)
{
    for (struct nccl_scale_entry **at = &b->scales; *at; at = &(*at)->next)
        if ((*at)->op == op) {
            struct nccl_scale_entry *entry = *at;
            *at = entry->next;
            free(entry);
            return;
        }
}

const struct nccl_scale *nccl__scale_find(const struct nccl_binding *b, ncclRedOp_t op)
{
    for (const struct nccl_scale_entry *entry = b->scales; entry; entry = entry->next)
        if (entry->op == op)
            return &entry->scale;
    return NULL;
}

void nccl__scales_forget(struct nccl_binding *b)
{
    while (b->scales) {
        struct nccl_scale_entry *entry = b->scales;
        b->scales = entry->next;
        free(entry);
    }
}
