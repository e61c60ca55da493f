/* What is in a run of products. */
#include "series.h"

#include <stdio.h>
#include <string.h>
#include "picture.h"

void ways_find(const json_t *run, struct ways *out)
{
    size_t i;
    json_t *row;

    out->n = 0;
    json_array_foreach(json_object_get(run, "rows"), i, row)
    {
        const char *algo = picture_text(row, "algo");
        int w = 0;

        while (w < out->n && strcmp(out->names[w], algo) != 0)
            w++;
        if (w == out->n && w < WAYS_MAX && json_is_number(json_object_get(row, "tflops")))
            out->names[out->n++] = algo;
    }
}

void ways_title(const json_t *run, char title[256])
{
    const json_t *options = json_object_get(run, "options");

    snprintf(title, 256, "%.64s, %.0f ranks, %.16s, %s%s", picture_text(run, "operation"),
             picture_number(run, "ranks"), picture_text(options, "dtype"),
             json_is_true(json_object_get(options, "graph")) ? "graphs" : "eager",
             picture_is_emulated(run) ? PICTURE_EMULATED : "");
}
