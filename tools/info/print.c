/* Prints the JSON of symm-info as tables and lines that begin with #. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "common/text.h"
#include "describe.h"

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static json_int_t number_at(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static const char *yes_no(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key)) ? "yes" : "no";
}

static const char *bytes_at(const json_t *object, const char *key, char buffer[32])
{
    return text_of_bytes((uint64_t)number_at(object, key), buffer, 32);
}

static void print_devices(const json_t *devices)
{
    size_t i;
    json_t *d;
    char least[32], best[32];

    printf("#%2s %-40s %12s %10s %3s %4s %3s %3s %6s %9s %11s %11s %s\n", "no", "uuid", "bus_id",
           "memory_MiB", "cc", "sms", "vmm", "fd", "fabric", "multicast", "granularity",
           "recommended", "name");
    json_array_foreach(devices, i, d)
    {
        printf("%3zu %-40s %12s %10" JSON_INTEGER_FORMAT " %3s %4" JSON_INTEGER_FORMAT
               " %3s %3s %6s %9s %11s %11s %s\n",
               i, text_at(d, "uuid"), text_at(d, "bus_id"), number_at(d, "memory") >> 20,
               text_at(d, "compute_capability"), number_at(d, "multiprocessors"),
               yes_no(d, "virtual_memory"), yes_no(d, "fd_handles"), yes_no(d, "fabric_handles"),
               yes_no(d, "multicast"), bytes_at(d, "least_granularity", least),
               bytes_at(d, "recommended_granularity", best), text_at(d, "name"));
    }
}

/* A square of booleans: row r, column c is r acting on c. */
static void print_matrix(const json_t *rows, const char *title, const char *good, const char *bad)
{
    size_t from, to, n = json_array_size(rows);
    json_t *row, *value;

    printf("# %s\n#  ", title);
    for (to = 0; to < n; to++)
        printf(" %5zu", to);
    printf("\n");
    json_array_foreach(rows, from, row)
    {
        printf("%3zu", from);
        json_array_foreach(row, to, value) printf(" %5s", json_is_true(value) ? good : bad);
        printf("\n");
    }
}

static void print_multicast(const json_t *info)
{
    const json_t *m = json_object_get(info, "multicast");
    const char *reason = text_at(m, "reason");

    printf("# multicast: %s%s%s\n", text_at(m, "verdict"), *reason ? ": " : "", reason);
}

static void print_host(const json_t *info)
{
    const json_t *limits = json_object_get(info, "limits");
    const char *why = text_at(info, "why_driver");
    char window[32], group[32];

    printf("# driver: %s %s%s%s%s\n", text_at(info, "driver"), text_at(info, "driver_version"),
           *why ? " (" : "", why, *why ? ")" : "");
    if (json_is_true(json_object_get(info, "emulated")))
        printf("# these devices are emulated on CPUs: they are no GPUs of this machine\n");
    print_devices(json_object_get(info, "devices"));
    print_matrix(json_object_get(info, "peer_access"),
                 "peer access: the device of a row to that of a column", "yes", "no");
    print_multicast(info);
    printf("# limits: %" JSON_INTEGER_FORMAT " open files (at most %" JSON_INTEGER_FORMAT
           "), %" JSON_INTEGER_FORMAT
           " ranks, window of %s a rank, %s a group for signals, packets and staging, more "
           "once a call wants it (SYMM_STAGING_BYTES: %s), %s ms of waiting\n",
           number_at(limits, "open_files"), number_at(limits, "open_files_at_most"),
           number_at(limits, "ranks"), bytes_at(limits, "window", window),
           bytes_at(limits, "group", group), text_at(limits, "staging"),
           text_at(limits, "timeout_ms"));
}

static void print_settings(const json_t *settings)
{
    size_t i;
    json_t *s;

    printf("# %-26s %-20s %-10s %-16s %s\n", "setting", "type", "default", "value", "meaning");
    json_array_foreach(settings, i, s)
    {
        const json_t *value = json_object_get(s, "value");
        const char *fallback = text_at(s, "default");

        printf("  %-26s %-20s %-10s %-16s %s\n", text_at(s, "name"), text_at(s, "type"),
               *fallback ? fallback : "-", json_is_string(value) ? json_string_value(value) : "-",
               text_at(s, "help"));
    }
}

static void print_unknown_settings(const json_t *unknown)
{
    size_t i;
    json_t *variable;

    json_array_foreach(unknown, i, variable)
    {
        printf("# no setting of symm: %s\n", json_string_value(variable));
    }
}

static void print_verification(const json_t *v)
{
    size_t i;
    json_t *algorithm;
    const char *before = "";
    const char *error = json_string_value(json_object_get(v, "error"));

    if (json_object_get(v, "seed")) /* absent if the ranks were killed: nothing was verified */
        printf("# verified on %" JSON_INTEGER_FORMAT " ranks, seed %s\n", number_at(v, "ranks"),
               text_at(v, "seed"));
    if (json_object_get(v, "put")) {
        print_matrix(json_object_get(v, "put"), "put: the rank of a row to that of a column", "ok",
                     "WRONG");
        print_matrix(json_object_get(v, "get"), "get: the rank of a row from that of a column",
                     "ok", "WRONG");
    }
    json_array_foreach(json_object_get(v, "algorithms"), i, algorithm)
    {
        const char *operation = text_at(algorithm, "operation");

        if (strcmp(operation, before) != 0)
            printf("# %s:\n", operation);
        before = operation;
        printf("# %s: %s\n", text_at(algorithm, "algo"), text_at(algorithm, "verdict"));
    }
    if (error)
        printf("# verification failed: %s\n", error);
}

/* "0 to 3, 8" */
static void print_ranks(const json_t *ranks)
{
    const size_t n = json_array_size(ranks);

    for (size_t i = 0, last; i < n; i = last + 1) {
        const json_int_t first = json_integer_value(json_array_get(ranks, i));

        for (last = i; last + 1 < n; last++)
            if (json_integer_value(json_array_get(ranks, last + 1)) !=
                first + (json_int_t)(last + 1 - i))
                break;
        printf("%s%" JSON_INTEGER_FORMAT, i ? ", " : "", first);
        if (last > i)
            printf(last > i + 1 ? " to %" JSON_INTEGER_FORMAT : ", %" JSON_INTEGER_FORMAT,
                   first + (json_int_t)(last - i));
    }
    printf("\n");
}

static void print_domains(const json_t *info)
{
    const json_t *domains = json_object_get(info, "domains"), *ranks;
    size_t d, n = json_array_size(domains);
    json_t *domain;

    printf("# ranks: %" JSON_INTEGER_FORMAT "\n", number_at(info, "ranks"));
    if (n == 1)
        printf("# domains: 1: all ranks share memory\n");
    else
        printf("# domains: %zu: ranks share memory only with those of their domain\n", n);
    printf("#%5s %5s %-24s %s\n", "domain", "count", "host", "ranks");
    json_array_foreach(domains, d, domain)
    {
        ranks = json_object_get(domain, "ranks");
        printf("%6zu %5zu %-24s ", d, json_array_size(ranks), text_at(domain, "host"));
        print_ranks(ranks);
    }
}

static void print_rails(const json_t *rails)
{
    size_t i;
    json_t *ranks;

    if (json_array_size(rails) == 0) {
        printf("# rails: none: the domains have different numbers of ranks\n");
        return;
    }
    printf("# rails: %zu: ranks of the same number in their domains\n", json_array_size(rails));
    printf("#%5s %5s %s\n", "rail", "count", "ranks");
    json_array_foreach(rails, i, ranks)
    {
        printf("%6zu %5zu ", i, json_array_size(ranks));
        print_ranks(ranks);
    }
}

static void print_engine(const json_t *engine)
{
    const json_t *others = json_object_get(engine, "other_ranks");

    if (json_is_string(json_object_get(engine, "version")))
        printf("# between domains: NCCL %s, %s\n", text_at(engine, "version"),
               text_at(engine, "file"));
    else
        printf("# between domains: no NCCL: %s\n", text_at(engine, "reason"));
    if (json_array_size(others) > 0) {
        printf("# another version than on rank 0: on rank ");
        print_ranks(others);
    }
}

void describe_print(const json_t *info)
{
    printf("# symm %s\n", text_at(info, "version"));
    if (json_object_get(info, "devices"))
        print_host(info);
    if (json_object_get(info, "domains"))
        print_domains(info);
    if (json_object_get(info, "rails"))
        print_rails(json_object_get(info, "rails"));
    if (json_object_get(info, "engine"))
        print_engine(json_object_get(info, "engine"));
    if (json_object_get(info, "settings"))
        print_settings(json_object_get(info, "settings"));
    print_unknown_settings(json_object_get(info, "unknown_settings"));
    if (json_object_get(info, "verification"))
        print_verification(json_object_get(info, "verification"));
}
