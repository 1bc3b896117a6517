/* Listing processes. See process.h. Compiled into nvidia-smi and the NVML mock: cc -O2 -Wall -Wextra -fPIC. */
#define _GNU_SOURCE
#include "process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Number of a thread as it knows itself: the last one of NSpid; 0 when it is gone. */
static int own_number(pid_t pid, const char *thread) {
    char path[300], line[256];
    int number = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%s/status", (int)pid, thread);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "NSpid:", 6)) number = atoi(strrchr(line, '\t') + 1);
    if (file) fclose(file);
    return number;
}

/* What some drivers store instead of the process: the thread that took the memory, numbered as from here. */
static pid_t thread_of(const struct fg_context *context) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)context->pid);
    DIR *directory = opendir(path);
    struct dirent *entry;
    pid_t found = context->pid;
    while (directory && (entry = readdir(directory)))
        if (entry->d_name[0] != '.' && own_number(context->pid, entry->d_name) == context->thread)
            found = (pid_t)atoi(entry->d_name);
    if (directory) closedir(directory);
    return found;
}

static int add_made_up(const struct fg_card *card, const struct fg_faults *faults, struct fg_process *out, int count) {
    for (int i = 0; i < faults->count; i++) {
        char which[64], size[24];
        struct fg_process row = {.kind = "C"};
        if (strcmp(faults->lines[i].verb, "app") || !fg_fault_names(faults->lines[i].rest, card)) continue;
        if (sscanf(faults->lines[i].rest, "%63s %d %23s %255[^\n]", which, &row.pid, size, row.name) != 4) continue;
        row.mib = strtoull(size, NULL, 10);
        if (size[0] < '0' || size[0] > '9') strcpy(row.cell, size);
        out[count++] = row;
    }
    return count;
}

int fg_list_processes(const struct fg_card *card, const struct fg_context *contexts, int context_count,
                      const struct fg_faults *faults, struct fg_process *out) {
    int count = 0, threads = fg_fault(faults, "thread-ids") != NULL;
    if (fg_fault(faults, "hide")) return 0;
    const char *cell = fg_fault_cell(faults, card, "used_gpu_memory");
    for (int i = 0; i < context_count; i++) {
        const struct fg_context *context = &contexts[i];
        if (context->card != card->slot || !context->live || !context->pid) continue;
        pid_t pid = threads ? thread_of(context) : context->pid;
        int at = 0;
        while (at < count && (out[at].pid != pid || out[at].instance != context->instance)) at++;
        if (at == count) {
            out[count++] = (struct fg_process){.pid = pid, .instance = context->instance};
            strcpy(out[at].kind, context->kind);
            snprintf(out[at].cell, sizeof out[at].cell, "%s", cell ? cell : "");
        } else if (strcmp(out[at].kind, context->kind)) {
            strcpy(out[at].kind, "C+G");
        }
        out[at].mib += context->mib;
    }
    return add_made_up(card, faults, out, count);
}
