/* Graphs (graph.c). */
#ifndef SYMM_EMULATOR_GRAPH_H
#define SYMM_EMULATOR_GRAPH_H

#include "nodes.h"

/* Makes a graph of these nodes, whose reference it takes over. NULL: no memory. */
CUgraph emu__graph_create(struct emu_nodes *nodes);

#endif
