/* The findings of symm-info as JSON. */
#include "describe.h"

#include <string.h>
#include "common/json_text.h"

static json_t *describe_device(const struct device *d)
{
    char capability[16];

    snprintf(capability, sizeof capability, "%d.%d", d->major, d->minor);
    return json_pack("{s:s, s:s, s:s, s:I, s:s, s:i, s:b, s:b, s:b, s:b, s:I, s:I}", "uuid",
                     d->uuid, "name", d->name, "bus_id", d->bus_id, "memory", (json_int_t)d->memory,
                     "compute_capability", capability, "multiprocessors", d->multiprocessors,
                     "virtual_memory", d->virtual_memory, "fd_handles", d->fd_handles,
                     "fabric_handles", d->fabric_handles, "multicast", d->multicast,
                     "least_granularity", (json_int_t)d->least_granularity,
                     "recommended_granularity", (json_int_t)d->best_granularity);
}

static const char *setting(const char *name)
{
    symm_setting s;

    for (int i = 0; symm_setting_at(i, &s); i++) {
        if (strcmp(s.name, name) == 0)
            return s.value ? s.value : s.fallback;
    }
    return "";
}

static json_int_t limit(rlim_t value)
{
    return value == RLIM_INFINITY ? -1 : (json_int_t)value;
}

json_t *describe_multicast(const char *off, bool alone)
{
    /* A world of one knows only whether multicast is switched off and whether the device has it. */
    bool asked = !alone || !off || !strstr(off, "two ranks or more");

    return json_pack("{s:s, s:s?}", "verdict",
                     !asked ? "not asked"
                     : off  ? "off"
                            : "on",
                     "reason",
                     asked ? off : "nothing is against it so far; --verify asks all devices");
}

json_t *describe_host(const struct host_info *m)
{
    json_t *devices = json_array(), *access = json_array();
    char version[32];

    for (int from = 0; from < m->ndevices; from++) {
        json_t *row = json_array();

        for (int to = 0; to < m->ndevices; to++)
            json_array_append_new(row, json_boolean(m->reaches[from][to]));
        json_array_append_new(access, row);
        json_array_append_new(devices, describe_device(&m->devices[from]));
    }
    const char *staging = setting("SYMM_STAGING_BYTES");
    snprintf(version, sizeof version, "%d.%d", m->driver_version / 1000,
             m->driver_version % 1000 / 10);
    return json_pack("{s:s, s:b, s:s, s:s, s:o, s:o, s:o, s:{s:I, s:I, s:i, s:I, s:I, s:s, s:s}}",
                     "driver", m->driver, "emulated", strcmp(m->driver, "emulated") == 0,
                     "driver_version", version, "why_driver", m->why_driver, "devices", devices,
                     "peer_access", access, "multicast",
                     describe_multicast(m->multicast_off[0] ? m->multicast_off : NULL, true),
                     "limits", "open_files", limit(m->files.rlim_cur), "open_files_at_most",
                     limit(m->files.rlim_max), "ranks", SYMM_MAX_RANKS, "window",
                     (json_int_t)m->usage.window, "group", (json_int_t)m->usage.internal, "staging",
                     strcmp(staging, "0") == 0 ? "by the device memory" : staging, "timeout_ms",
                     setting("SYMM_TIMEOUT_MS"));
}

json_t *describe_unknown_settings(void)
{
    json_t *unknown = json_array();
    const char *variable;

    for (int i = 0; (variable = symm_setting_unknown(i)); i++)
        json_array_append_new(unknown, json_text(variable));
    return unknown;
}

json_t *describe_settings(void)
{
    json_t *settings = json_array();
    symm_setting s;

    for (int i = 0; symm_setting_at(i, &s); i++)
        json_array_append_new(settings, json_pack("{s:s, s:s, s:s, s:o, s:s}", "name", s.name,
                                                  "type", s.type, "default", s.fallback, "value",
                                                  json_text(s.value), "help", s.help));
    return settings;
}
