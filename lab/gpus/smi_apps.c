/* --query-compute-apps of nvidia-smi. See smi.h. Part of nvidia-smi (flags: see smi.c). */
#define _GNU_SOURCE
#include "smi.h"

#include <stdlib.h>
#include <string.h>

enum app_kind { A_STAMP, A_NAME, A_BUS, A_SERIAL, A_UUID, A_PID, A_PROCESS, A_MEMORY };

static const struct app_field {
    const char *name, *canonical, *unit;
    enum app_kind kind;
} APP_FIELDS[] = {
    {"timestamp", "timestamp", "", A_STAMP},       {"gpu_name", "gpu_name", "", A_NAME},
    {"gpu_bus_id", "gpu_bus_id", "", A_BUS},       {"gpu_serial", "gpu_serial", "", A_SERIAL},
    {"gpu_uuid", "gpu_uuid", "", A_UUID},          {"pid", "pid", "", A_PID},
    {"process_name", "process_name", "", A_PROCESS}, {"name", "process_name", "", A_PROCESS},
    {"used_gpu_memory", "used_gpu_memory", "MiB", A_MEMORY},
    {"used_memory", "used_gpu_memory", "MiB", A_MEMORY},
};

static void print_name(const char *name, FILE *out) {
    for (const char *c = name; *c; c++) fputc(*c == ',' ? '?' : *c, out);
}

void smi_process_name(const struct fg_process *process, char *out, size_t size) {
    if (process->name[0]) snprintf(out, size, "%s", process->name);
    else if (fg_process_name(process->pid, out, size)) snprintf(out, size, "[Not Found]");
}

static void print_app(const struct smi_request *request, const struct smi_snapshot *look, const struct fg_card *card,
                      const struct fg_process *process, const struct app_field *field, FILE *out) {
    const char *refused = fg_fault_apps(&look->faults, card), *text;
    enum app_kind kind = field->kind;
    char name[256];
    if (refused && (kind == A_PID || kind == A_PROCESS || kind == A_MEMORY)) fputs(refused, out);
    else if (kind != A_MEMORY && (text = fg_fault_cell(&look->faults, card, field->canonical))) fputs(text, out);
    else if (kind == A_STAMP) smi_print_stamp(out);
    else if (kind == A_NAME) fputs(card->name, out);
    else if (kind == A_BUS) fputs(card->bus_id, out);
    else if (kind == A_SERIAL) fputs("[N/A]", out);
    else if (kind == A_UUID) fputs(card->uuid, out);
    else if (kind == A_PID) fprintf(out, "%d", (int)process->pid);
    else if (kind == A_MEMORY && process->cell[0]) fputs(process->cell, out);
    else if (kind == A_MEMORY) fprintf(out, request->units ? "%llu MiB" : "%llu", process->mib);
    else {
        smi_process_name(process, name, sizeof name);
        print_name(name, out);
    }
}

static int choose_app_fields(const struct smi_request *request, const struct app_field **chosen, FILE *out) {
    const size_t known = sizeof APP_FIELDS / sizeof *APP_FIELDS;
    char *copy = strdup(request->fields), *rest = copy;
    int count = 0;
    for (char *word; count < 32 && *request->fields && (word = strsep(&rest, ","));) {
        size_t i = 0;
        while (i < known && strcmp(APP_FIELDS[i].name, word)) i++;
        if (i == known) return -smi_refuse_field(word, out);
        chosen[count++] = &APP_FIELDS[i];
    }
    free(copy);
    return count;
}

int smi_query_apps(const struct smi_request *request, const struct smi_snapshot *look, int header, FILE *out) {
    const struct app_field *chosen[32];
    static struct fg_process processes[FG_MAX_PROCESSES];
    int count = choose_app_fields(request, chosen, out);
    if (count < 0) return -count;
    for (int i = 0; header && i < count; i++) smi_print_heading(chosen[i]->canonical, chosen[i]->unit, i == 0, out);
    if (header) fputc('\n', out);
    for (int c = 0; c < look->shown_count; c++) {
        const struct fg_card *card = &look->cards[look->shown[c]];
        int refused = fg_fault_apps(&look->faults, card) != NULL;
        int rows = refused ? 1 : fg_list_processes(card, look->contexts, look->context_count, &look->faults, processes);
        for (int row = 0; row < rows; row++) {
            if (!refused && processes[row].kind[0] == 'G') continue; /* draws only: in the table, not here */
            for (int i = 0; i < count; i++) {
                if (i) fputs(", ", out);
                print_app(request, look, card, &processes[row], chosen[i], out);
            }
            fputc('\n', out);
        }
    }
    return 0;
}
