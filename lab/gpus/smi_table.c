/* What nvidia-smi prints for people: the table, -L, --version, -r. Part of nvidia-smi (flags: see smi.c). */
#define _GNU_SOURCE
#include "smi.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int smi_driver_major(const struct smi_snapshot *look) {
    return look->card_count ? atoi(look->cards[0].driver) : 0;
}

const char *smi_cuda(const struct smi_snapshot *look) {
    static const struct {
        int from;
        const char *cuda;
    } TABLE[] = {{590, "13.1"}, {580, "13.0"}, {575, "12.9"}, {570, "12.8"}, {560, "12.6"}, {550, "12.4"}};
    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++)
        if (smi_driver_major(look) >= TABLE[i].from) return TABLE[i].cuda;
    return "12.2";
}

int smi_list(const struct smi_snapshot *look, FILE *out) {
    for (int i = 0; i < look->shown_count; i++) {
        const struct fg_card *card = &look->cards[look->shown[i]];
        fprintf(out, "GPU %d: %s (UUID: %s)\n", card->index, card->name, card->uuid);
    }
    return 0;
}

int smi_version(const struct smi_snapshot *look, FILE *out) {
    const char *driver = look->card_count ? look->cards[0].driver : "";
    const char *end = strrchr(driver, '.');
    fprintf(out, "NVIDIA-SMI version  : %s\nNVML version        : %.*s\nDRIVER version      : %s\nCUDA Version        : %s\n",
            driver, (int)(end ? end - driver : 0), driver, driver, smi_cuda(look));
    return 0;
}

static const char RULE[] = "+-----------------------------------------+----------------------+----------------------+\n";

static void print_card(const struct smi_snapshot *look, const struct fg_card *card, FILE *out) {
    unsigned long long used = fg_used(card, look->contexts, look->context_count);
    int busy = used > card->baseline;
    char memory[64];
    const char *cell = fg_fault_cell(&look->faults, card, "memory.used");
    if (cell) snprintf(memory, sizeof memory, "%s", strcmp(cell, "[N/A]") ? cell : "Not Supported");
    else snprintf(memory, sizeof memory, "%lluMiB / %5lluMiB", used, card->total);
    fprintf(out, "| %3d  %-30.30s On  | %s Off |                    0 |\n", card->index, card->name, card->bus_id);
    fprintf(out, "| N/A   %2dC    P0             %3dW / 700W | %20.20s |    %3d%%      Default |\n", busy ? 48 : 31,
            busy ? 180 : 77, memory, busy ? 12 : 0);
    fprintf(out, "|                                         |                      |             Disabled |\n%s", RULE);
}

static void print_processes(const struct smi_snapshot *look, FILE *out) {
    static struct smi_process processes[FG_MAX_CONTEXTS];
    int printed = 0;
    for (int c = 0; c < look->shown_count; c++) {
        int index = look->shown[c], count = smi_processes(look, &look->cards[index], processes);
        for (int i = 0; i < count; i++, printed++)
            fprintf(out, "|  %3d   N/A  N/A %9d      C   %-38.38s %8lluMiB |\n", index, (int)processes[i].pid,
                    processes[i].name, processes[i].mib);
    }
    if (!printed) fprintf(out, "|  No running processes found%58s|\n", "");
}

int smi_table(const struct smi_snapshot *look, FILE *out) {
    static const char LINE[] = "+---------------------------------------------------------------------------------------+\n";
    const char *driver = look->card_count ? look->cards[0].driver : "";
    char stamp[64];
    time_t now = time(NULL);
    strftime(stamp, sizeof stamp, "%a %b %e %H:%M:%S %Y", localtime(&now));
    fprintf(out, "%s       \n%s| NVIDIA-SMI %-22s Driver Version: %-12s CUDA Version: %-8s |\n", stamp, LINE, driver, driver,
            smi_cuda(look));
    fputs("|-----------------------------------------+----------------------+----------------------+\n"
          "| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
          "| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |\n"
          "|                                         |                      |               MIG M. |\n"
          "|=========================================+======================+======================|\n", out);
    for (int i = 0; i < look->shown_count; i++) print_card(look, &look->cards[look->shown[i]], out);
    fprintf(out, "%89s\n%s", "", LINE);
    fputs("| Processes:                                                                            |\n"
          "|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |\n"
          "|        ID   ID                                                             Usage      |\n"
          "|=======================================================================================|\n", out);
    print_processes(look, out);
    fputs(LINE, out);
    return 0;
}

static int any_live(const struct smi_snapshot *look, int card) {
    for (int i = 0; i < look->context_count; i++)
        if (look->contexts[i].card == card && look->contexts[i].live) return 1;
    return 0;
}

/* Removes what dead processes left on the shown cards. */
static void drop_leaks(const struct smi_snapshot *look) {
    char path[4096], file[4400], line[8];
    DIR *directory = opendir(fg_path(path, sizeof path, "contexts"));
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        FILE *record = fopen(file, "re");
        if (!record) continue;
        int known = fgets(line, sizeof line, record) != NULL;
        fclose(record);
        for (int i = 0; known && i < look->shown_count; i++)
            if (atoi(line) == look->cards[look->shown[i]].slot) unlink(file);
    }
    if (directory) closedir(directory);
}

int smi_reset(const struct smi_snapshot *look, FILE *out) {
    for (int i = 0; i < look->shown_count; i++) {
        const struct fg_card *card = &look->cards[look->shown[i]];
        if (!any_live(look, card->slot)) continue;
        fprintf(out, "The following GPUs could not be reset:\n  GPU %s: In use by another client\n\n", card->bus_id);
        fputs("1 device is currently being used by one or more other processes (e.g. Fabric Manager, CUDA application, "
              "graphics application such as an X server, or a monitoring application such as another instance of "
              "nvidia-smi). Please first kill all processes using this device and all compute applications running "
              "in the system.\n", out);
        return 255;
    }
    drop_leaks(look);
    for (int i = 0; i < look->shown_count; i++)
        fprintf(out, "GPU %s was successfully reset.\n", look->cards[look->shown[i]].bus_id);
    return 0;
}
