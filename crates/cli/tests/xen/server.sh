#!/bin/busybox sh
# The first process of a PV guest: a server that sleeps for 500 us by chance, then works for 20 us.
/bin/busybox mkdir -p /proc /sys
/bin/busybox mount -t proc none /proc
/bin/busybox mount -t sysfs none /sys
/bin/busybox mount -t devtmpfs none /dev
echo serving >/dev/hvc0
/bin/lowtail-standin --name server --load sleep:~500:20 >/dev/hvc0 2>&1
echo "the server has ended with $?" >/dev/hvc0
while :; do /bin/busybox sleep 1; done
