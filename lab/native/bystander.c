/* bystander FILE [--name COMM] [--port N] [--pid N] [--ends]: writes down every signal that it gets, and goes on.
 *
 * FILE gets a line "pid N" when it is ready, then a line "SIGNAL SENDER" each (SENDER 0: outside its pid namespace).
 * Only SIGKILL ends it, and SIGSTOP stops it: those two show in the process itself.
 *
 *   --name COMM   what ps shows as its name
 *   --port N      listens there, and hangs up on whoever connects
 *   --pid N       is process N, which must be free; root only
 *   --ends        ends on SIGTERM, once it has written that down: a server
 * build: cc -O2 -Wall -Wextra -o bystander bystander.c */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int book = -1, ends_on_term;

/* One write of one line: whole, whatever else writes there. Safe in a signal handler, as printf is not. */
static void note(int number, siginfo_t *info, void *nothing) {
    char line[32], *end = line + sizeof line, *start = end;
    unsigned sender = info->si_pid > 0 ? (unsigned)info->si_pid : 0, signal = (unsigned)number;
    (void)nothing;
    *--start = '\n';
    do *--start = (char)('0' + sender % 10); while (sender /= 10);
    *--start = ' ';
    do *--start = (char)('0' + signal % 10); while (signal /= 10);
    if (write(book, start, (size_t)(end - start)) < 0 || (ends_on_term && number == SIGTERM)) _exit(0);
}

static void catch_all(void) {
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigfillset(&action.sa_mask);
    for (int number = 1; number <= SIGRTMAX; number++) sigaction(number, &action, NULL);
}

static void become(pid_t pid) {
    struct clone_args arguments = {.exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&pid, .set_tid_size = 1};
    long child = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (child < 0) perror("bystander: that process number cannot be had");
    if (child) _exit(child < 0);
    setsid();
}

static int listen_on(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 16)) {
        perror("bystander: the port cannot be had");
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv) {
    static const struct option OPTIONS[] = {
        {"name", 1, 0, 'n'}, {"port", 1, 0, 'p'}, {"pid", 1, 0, 'i'}, {"ends", 0, 0, 'e'}, {0, 0, 0, 0}};
    const char *name = NULL;
    int option, port = 0, pid = 0;
    while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
        if (option == 'n') name = optarg;
        else if (option == 'p') port = atoi(optarg);
        else if (option == 'i') pid = atoi(optarg);
        else if (option == 'e') ends_on_term = 1;
        else return 2;
    }
    if (optind + 1 != argc) {
        fputs("usage: bystander FILE [--name COMM] [--port N] [--pid N] [--ends]\n", stderr);
        return 2;
    }
    if (pid) become(pid);
    if (name) prctl(PR_SET_NAME, name);
    int server = port ? listen_on(port) : -1;
    book = open(argv[optind], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (book < 0) {
        perror("bystander");
        return 1;
    }
    catch_all();
    dprintf(book, "pid %d\n", (int)getpid());
    for (;;) {
        if (server < 0) pause();
        else close(accept4(server, NULL, NULL, SOCK_CLOEXEC));
    }
}
