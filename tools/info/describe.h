/* The findings of symm-info as JSON, and that JSON as text. */
#ifndef SYMM_INFO_DESCRIBE_H
#define SYMM_INFO_DESCRIBE_H

#include <jansson.h>
#include "host_info.h"

/* New objects, or NULL when memory is short. */
json_t *describe_host(const struct host_info *m);
json_t *describe_settings(void);
/* Variables that begin with SYMM_ and are not settings: an array of texts. */
json_t *describe_unknown_settings(void);
/* off: symm_multicast_off(), of a world of one rank or of all devices. */
json_t *describe_multicast(const char *off, bool alone);

/* Prints the members that exist: "devices" and so on, "domains", "settings", "verification". */
void describe_print(const json_t *info);

#endif
