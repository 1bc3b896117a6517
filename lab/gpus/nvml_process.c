/* The NVML calls that list processes. Part of libnvidia-ml.so.1 (flags: see nvml.c).
 * Tables are local to the call: nvitop asks from several threads. */
#define _GNU_SOURCE
#include "nvml.h"

#include <string.h>
#include <time.h>

struct process {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};

#define NO_INSTANCE 0xFFFFFFFFu

/* Those of a card, or of one MIG device, whose kind has this letter; code of why the list is refused, or FG_OK. */
static int list_processes(nvml_device device, char letter, struct process *out, unsigned *count) {
    struct fg_context contexts[FG_MAX_CONTEXTS];
    struct fg_process found[FG_MAX_PROCESSES];
    struct fg_faults faults;
    int code = nvml_check(device), instance = -1;
    *count = 0;
    if (code) return code;
    fg_read_faults(&faults);
    const struct fg_card *parent = nvml_parent(device, &instance), *card = parent ? parent : device;
    const char *refused = fg_fault_apps(&faults, card);
    if (refused) return fg_code_of_cell(refused);
    int total = fg_list_processes(card, contexts, fg_read_contexts(contexts), &faults, found);
    for (int i = 0; i < total; i++) {
        if (!strchr(found[i].kind, letter) || (parent && found[i].instance != instance)) continue;
        struct process *row = &out[(*count)++];
        *row = (struct process){(unsigned)found[i].pid, found[i].mib << 20, NO_INSTANCE, NO_INSTANCE};
        if (found[i].cell[0]) row->memory = ~0ULL; /* "not available" */
        if (!card->instance_count) continue;
        row->gpu_instance = card->instances[found[i].instance].gpu_instance;
        row->compute_instance = 0;
    }
    return FG_OK;
}

/* With too little room the count is set and FG_INSUFFICIENT_SIZE returned; the caller asks again. */
static int answer(nvml_device device, char letter, unsigned *count, struct process *out) {
    struct process found[FG_MAX_PROCESSES];
    unsigned room = out ? *count : 0, total;
    int code = list_processes(device, letter, found, &total);
    if (code) return code;
    *count = total;
    if (total > room) return FG_INSUFFICIENT_SIZE;
    if (total) memcpy(out, found, total * sizeof *found);
    return FG_OK;
}

API int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device device, unsigned *count, struct process *out) {
    return answer(device, 'C', count, out);
}
API int nvmlDeviceGetComputeRunningProcesses_v2(nvml_device device, unsigned *count, struct process *out) {
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, out);
}

API int nvmlDeviceGetGraphicsRunningProcesses_v3(nvml_device device, unsigned *count, struct process *out) {
    return answer(device, 'G', count, out);
}
API int nvmlDeviceGetGraphicsRunningProcesses_v2(nvml_device device, unsigned *count, struct process *out) {
    return answer(device, 'G', count, out);
}
static int list_none(nvml_device device, unsigned *count) {
    int code = nvml_check(device);
    if (!code) *count = 0;
    return code;
}
API int nvmlDeviceGetMPSComputeRunningProcesses_v3(nvml_device device, unsigned *count, struct process *out) {
    (void)out;
    return list_none(device, count);
}

API int nvmlSystemGetProcessName(unsigned pid, char *out, unsigned size) {
    char name[256];
    if (!nvml_ready) return FG_UNINITIALIZED;
    return fg_process_name((pid_t)pid, name, sizeof name) ? FG_NOT_FOUND : nvml_copy(out, size, name);
}

struct sample {
    unsigned pid;
    unsigned long long microseconds;
    unsigned sm, memory, encoder, decoder;
};

API int nvmlDeviceGetProcessUtilization(nvml_device device, struct sample *out, unsigned *count,
                                        unsigned long long since) {
    struct process found[FG_MAX_PROCESSES];
    (void)since;
    unsigned room = out ? *count : 0, total;
    int code = list_processes(device, 'C', found, &total);
    if (code) return code;
    *count = total;
    if (!total) return FG_NOT_FOUND;
    if (total > room) return FG_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < total; i++)
        out[i] = (struct sample){found[i].pid, (unsigned long long)time(NULL) * 1000000ULL, 12, 6, 0, 0};
    return FG_OK;
}
