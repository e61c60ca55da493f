/* Draws the results of an operation with gnuplot, which is a program of its own. */
#include "plot.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_LINES = 32 };

extern char **environ;

/* The variants, in the order in which they appear. */
struct lines {
    const char *names[MAX_LINES];
    int n;
};

static bool complain(const char *what, const char *why)
{
    fprintf(stderr, "# symm-bench: plot: %s: %s\n", what, why);
    return false;
}

static double number(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static void find_lines(const json_t *rows, struct lines *out)
{
    size_t i;
    json_t *row;

    json_array_foreach(rows, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "algo"));
        int l = 0;

        while (name && l < out->n && strcmp(out->names[l], name) != 0)
            l++;
        if (name && l == out->n && l < MAX_LINES)
            out->names[out->n++] = name;
    }
}

/* A block of data for each line: bytes, microseconds, GB/s. */
static void write_data(FILE *to, const json_t *rows, const struct lines *lines)
{
    size_t i;
    json_t *row;

    for (int l = 0; l < lines->n; l++) {
        fprintf(to, "$line%d << EOD\n", l);
        json_array_foreach(rows, i, row)
        {
            const char *name = json_string_value(json_object_get(row, "algo"));

            if (name && strcmp(name, lines->names[l]) == 0 && number(row, "time_us") > 0 &&
                number(row, "bytes") > 0)
                fprintf(to, "%.0f %.6g %.6g\n", number(row, "bytes"), number(row, "time_us"),
                        number(row, "busbw"));
        }
        fprintf(to, "EOD\n");
    }
}

/* One panel; column 2 or 3 of the data, and the floor as a function of the bytes x. */
static void write_panel(FILE *to, const struct lines *lines, const char *title, int column,
                        const char *floor, double floor_gbs)
{
    fprintf(to, "set ylabel '%s'\nplot ", title);
    for (int l = 0; l < lines->n; l++)
        fprintf(to,
                "$line%d using 1:%d with linespoints pointsize 0.5 linewidth %s title '%s', \\\n",
                l, column, strncmp(lines->names[l], "nccl", 4) == 0 ? "1.5 dashtype 2" : "1.5",
                lines->names[l]);
    fprintf(to,
            "  %s with lines linewidth 1 linecolor 'gray40' dashtype 3 title 'floor: %g GB/s'\n",
            floor, floor_gbs);
}

static void write_script(FILE *to, const json_t *run, const struct lines *lines, double floor_gbs)
{
    const json_t *rows = json_object_get(run, "rows");
    const json_t *options = json_object_get(run, "options");
    const char *timing = json_string_value(json_object_get(options, "timing"));
    char floor[64];

    write_data(to, rows, lines);
    fprintf(to, "set terminal svg size 1200,540 dynamic background 'white' font 'sans-serif,12'\n");
    fprintf(to, "set multiplot layout 1,2 title '%s, %.0f ranks, %s, %s%s%s' noenhanced\n",
            json_string_value(json_object_get(run, "operation")), number(run, "ranks"),
            json_string_value(json_object_get(options, "dtype")),
            json_is_true(json_object_get(options, "graph")) ? "graphs" : "eager",
            timing && strcmp(timing, "stream") != 0 ? ", " : "",
            timing && strcmp(timing, "stream") != 0 ? timing : "");
    fprintf(to, "set rmargin 5\nset key top left Left reverse noenhanced\nset grid\nset logscale x "
                "2\nset format x '%%.0b %%B'\n"
                "set xtics rotate by -45\nset xlabel 'bytes'\n");
    fprintf(to, "set logscale y 10\nset format y '%%g'\n");
    /* Without this the floor's line, which begins near 0, would set the range. */
    fprintf(to, "set yrange [1:*]\n");
    snprintf(floor, sizeof floor, "x * %.9g", number(run, "bus_factor") / floor_gbs / 1e3);
    write_panel(to, lines, "latency in microseconds", 2, floor, floor_gbs);
    fprintf(to, "unset logscale y\nset yrange [0:*]\n");
    snprintf(floor, sizeof floor, "%.9g", floor_gbs);
    write_panel(to, lines, "bus bandwidth in GB/s", 3, floor, floor_gbs);
    fprintf(to, "unset multiplot\n");
}

/* Starts gnuplot from one file to the other. Returns an errno. */
static int start(FILE *script, FILE *picture, pid_t *child)
{
    char *argv[] = {"gnuplot", "-", NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);

    if (error)
        return error;
    error = posix_spawn_file_actions_adddup2(&actions, fileno(script), 0);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, fileno(picture), 1);
    if (!error)
        error = posix_spawnp(child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static bool run_gnuplot(FILE *script, FILE *picture, const char *path)
{
    pid_t child;
    int status = 0;

    rewind(script);
    int error = start(script, picture, &child);
    if (error == ENOENT)
        return complain("gnuplot is not there", "install gnuplot-nox or gnuplot");
    if (error)
        return complain("gnuplot", strerror(error));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return complain(path, "gnuplot has failed");
    return true;
}

/* The picture, when it is whole, into the file that was asked for. */
static bool save(FILE *picture, const char *path)
{
    char block[4096];
    size_t n;
    FILE *file = fopen(path, "we");

    if (!file)
        return complain(path, strerror(errno));
    rewind(picture);
    while ((n = fread(block, 1, sizeof block, picture)) > 0)
        fwrite(block, 1, n, file);
    bool saved = !ferror(file) && !ferror(picture);
    saved = fclose(file) == 0 && saved;
    return saved || complain(path, "could not be written");
}

bool plot_draw(const json_t *run, const char *path, double floor_gbs)
{
    struct lines lines = {.n = 0};

    find_lines(json_object_get(run, "rows"), &lines);
    if (lines.n == 0 || number(run, "bus_factor") < 0)
        return complain(path, "there are no results of an operation to draw");
    FILE *script = tmpfile(), *picture = tmpfile();
    bool drawn = script && picture;
    if (drawn) {
        write_script(script, run, &lines, floor_gbs);
        drawn = run_gnuplot(script, picture, path) && save(picture, path);
    } else {
        complain(path, strerror(errno));
    }
    if (script)
        fclose(script);
    if (picture)
        fclose(picture);
    return drawn;
}

int plot_run(const struct bench_options *options)
{
    json_error_t error;
    json_t *run = json_load_file(options->file, 0, &error);
    bool drawn = run ? plot_draw(run, options->plot, options->floor_gbs)
                     : complain(options->file, error.text);

    json_decref(run);
    return !drawn;
}
