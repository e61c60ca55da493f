/* Pictures and pages of results: runs plot.py and report.py, installed with symm-bench. */
#ifndef SYMM_TOOLS_PLOT_H
#define SYMM_TOOLS_PLOT_H

#include <jansson.h>
#include <stdbool.h>

struct plot_style {
    const char *command;  /* "plot" for a picture, "report" for a page: the script's name */
    const char *output;   /* the file to make */
    double floor_gbs;     /* 0: the speed of the device, where it is known */
    const char *roofline; /* TFLOP/s or "measured"; NULL: no roofline */
};

/* Makes it of the JSON files of runs. False: failed; the standard error has the reason. */
bool plot_files(char *const *files, int nfiles, const struct plot_style *style);

/* The same of one run that is in memory. */
bool plot_run(const json_t *run, const struct plot_style *style);

#endif
