/* The processes on a card as the simulated driver reports them: for nvidia-smi and for the NVML mock. */
#ifndef FG_PROCESS_H
#define FG_PROCESS_H

#include "fault.h"
#include "state.h"

enum { FG_MAX_PROCESSES = FG_MAX_CONTEXTS + FG_MAX_FAULTS };

struct fg_process {
    pid_t pid;
    unsigned long long mib;
    int instance;    /* MIG device of the card */
    char kind[4];    /* C, G or C+G */
    char cell[24];   /* stands instead of mib ("[N/A]"), or empty */
    char name[256];  /* only of one that a fault made up, else empty: the reader looks it up */
};

/* Those that are visible from here, contexts of one process on one MIG device summed, and those that faults add.
 * `out` has FG_MAX_PROCESSES places. */
int fg_list_processes(const struct fg_card *card, const struct fg_context *contexts, int context_count,
                      const struct fg_faults *faults, struct fg_process *out);

#endif
