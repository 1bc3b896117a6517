/* gpu-odd KIND [--gpu N] [--mib N] [--file FILE] [-- CMD...]: processes that hold a card in a way that is easily missed.
 *
 *   stuck           reads FILE, which never answers (lab/stuck.py): in D, also after SIGKILL
 *   vfork           in D as well, but SIGKILL ends it
 *   zombie-leader   its first thread has ended (state Z, no command line, no descriptors); another one holds on
 *   thread-files    only the descriptor table of its second thread has the card open
 *   tmux            a session leader "tmux: server" that holds nothing; CMD runs in a shell of a session of its own
 * build: cc -O2 -Wall -Wextra -pthread -o gpu-odd gpu_odd.c hold.c device.c watcher.c context.c state.c */
#define _GNU_SOURCE
#include "hold.h"

#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *card = "0", *file = "";
static unsigned long long mib = 1000;

static int card_index(void) {
    char uuid[64];
    if (strncmp(card, "GPU-", 4)) return atoi(card);
    for (int index = 0; fg_uuid(index, uuid) == FG_HOLD_OK; index++)
        if (!strcmp(uuid, card)) return index;
    return -1;
}

static void take(void) {
    if (fg_take(card_index(), mib, "normal", 0, 0) >= 0) return;
    fprintf(stderr, "gpu-odd: no %llu MiB of card %s\n", mib, card);
    exit(1);
}

static void wait_for_ever(void) {
    for (;;) pause();
}

static void do_nothing(int number) { (void)number; }

/* A first signal, one that kills nobody, turns the interruptible wait for FILE into the other one. */
static void be_stuck(void) {
    char byte;
    struct sigaction action = {.sa_handler = do_nothing, .sa_flags = SA_RESTART};
    struct itimerval soon = {.it_interval = {0, 50000}, .it_value = {0, 50000}};
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        fprintf(stderr, "gpu-odd: %s cannot be opened\n", file);
        exit(1);
    }
    take();
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    if (read(fd, &byte, 1) < 0) setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    wait_for_ever(); /* the driver came back: an ordinary process again */
}

static void be_a_vfork_parent(void) {
    take();
    if (vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        syscall(SYS_close_range, 0, ~0U, 0);
        for (;;) syscall(SYS_pause);
    }
}

static void *hold_on(void *nothing) {
    wait_for_ever();
    return nothing;
}

static void be_a_zombie_leader(void) {
    pthread_t thread;
    take();
    pthread_create(&thread, NULL, hold_on, NULL);
    syscall(SYS_exit, 0); /* this thread only */
}

static void *take_alone(void *nothing) {
    if (unshare(CLONE_FILES)) exit(1);
    take();
    wait_for_ever();
    return nothing;
}

static void be_a_thread_with_files(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, take_alone, NULL);
    wait_for_ever();
}

/* Runs again under the name that ps is to show, with the words of CMD in the environment. */
static void become_tmux(char **command) {
    char words[4096] = "";
    for (; *command; command++) snprintf(words + strlen(words), sizeof words - strlen(words), "%s ", *command);
    setenv("LAB_PANE", words, 1);
    execl("/proc/self/exe", "tmux", "new-session", "-d", "-s", "main", (char *)NULL);
    exit(1);
}

static void be_tmux(void) {
    char line[4200];
    snprintf(line, sizeof line, "%s & wait", getenv("LAB_PANE"));
    unsetenv("LAB_PANE");
    if (fork()) exit(0);
    setsid();
    prctl(PR_SET_NAME, "tmux: server");
    if (fork() == 0) {
        setsid();
        execl("/bin/bash", "-bash", "--norc", "-c", line, (char *)NULL);
        exit(1);
    }
    while (wait(NULL) > 0) continue;
    exit(0);
}

int main(int argc, char **argv) {
    static const struct option OPTIONS[] = {{"gpu", 1, 0, 'g'}, {"mib", 1, 0, 'm'}, {"file", 1, 0, 'f'}, {0, 0, 0, 0}};
    if (!strcmp(argv[0], "tmux")) be_tmux();
    for (int option; (option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;) {
        if (option == 'g') card = optarg;
        else if (option == 'm') mib = strtoull(optarg, NULL, 10);
        else if (option == 'f') file = optarg;
        else return 2;
    }
    const char *kind = optind < argc ? argv[optind] : "";
    if (!strcmp(kind, "stuck")) be_stuck();
    else if (!strcmp(kind, "vfork")) be_a_vfork_parent();
    else if (!strcmp(kind, "zombie-leader")) be_a_zombie_leader();
    else if (!strcmp(kind, "thread-files")) be_a_thread_with_files();
    else if (!strcmp(kind, "tmux") && optind + 1 < argc) become_tmux(argv + optind + 1);
    fputs("usage: gpu-odd stuck|vfork|zombie-leader|thread-files [--gpu N] [--mib N] [--file FILE]\n"
          "       gpu-odd tmux -- CMD...\n", stderr);
    return 2;
}
