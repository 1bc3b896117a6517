/* nvidia-smi over the simulated GPUs: what its parts share. Every message goes to stdout, as the real one does. */
#ifndef FG_SMI_H
#define FG_SMI_H

#include <stdio.h>

#include "fault.h"
#include "process.h"
#include "state.h"

/* What the command line asked for. */
struct smi_request {
    const char *fields;      /* of --query-gpu or --query-compute-apps */
    const char *format;      /* of --format */
    const char *select;      /* of -i */
    const char *file;        /* of -f */
    int apps, list, reset, persistence, help, version;
    int header, units;
    double every;            /* seconds between two blocks, 0 = once */
};

/* One look at the machine. */
struct smi_snapshot {
    struct fg_faults faults;
    struct fg_card cards[FG_MAX_CARDS];
    struct fg_context contexts[FG_MAX_CONTEXTS];
    int card_count, context_count;
    int shown[FG_MAX_CARDS], shown_count; /* indices of the cards to report on: places in `cards` */
};

/* What is shown as the name of a process. */
void smi_process_name(const struct fg_process *process, char *out, size_t size);

/* Parts of a CSV answer. smi_refuse_field returns the exit status. */
void smi_print_stamp(FILE *out);
void smi_print_heading(const char *canonical, const char *unit, int first, FILE *out);
int smi_refuse_field(const char *name, FILE *out);

/* Each prints to `out` and returns the exit status. */
int smi_query_gpu(const struct smi_request *request, const struct smi_snapshot *look, int header, FILE *out);
int smi_query_apps(const struct smi_request *request, const struct smi_snapshot *look, int header, FILE *out);
int smi_list(const struct smi_snapshot *look, FILE *out);
int smi_table(const struct smi_snapshot *look, FILE *out);
int smi_version(const struct smi_snapshot *look, FILE *out);
int smi_reset(const struct smi_snapshot *look, FILE *out);

/* Fills `shown` from -i; 0, or the exit status after printing why not. `list`: for -L. */
int smi_select(const struct smi_request *request, struct smi_snapshot *look, FILE *out);

/* Parses the command line; 0, or the exit status after printing why not. */
int smi_parse(int argc, char **argv, struct smi_request *request);

/* Major number of the driver, e.g. 550; and the CUDA version that it brings. */
int smi_driver_major(const struct smi_snapshot *look);
const char *smi_cuda(const struct smi_snapshot *look);

#endif
