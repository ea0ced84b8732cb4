/* Loaded into lowtail (LD_PRELOAD): the kernel refuses BPF maps of one name as it does without memory. Anything else goes its way. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

long syscall(long number, ...)
{
	const char *name = getenv("LOWTAIL_TEST_REFUSE");
	long (*next)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	long a[6];
	va_list all;
	int i;

	va_start(all, number);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(all, long);
	va_end(all);
	if (name && number == SYS_bpf && a[0] == BPF_MAP_CREATE &&
	    !strcmp(((union bpf_attr *)a[1])->map_name, name)) {
		errno = ENOMEM;
		return -1;
	}
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
